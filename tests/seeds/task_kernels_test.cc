// Every task of the source tree through compiler and emulator: the seed passes every check case of
// every suite, and kernels with a mistake that somebody would make are refused with the verdict
// that names it. The mistakes are edits of the seed, so that nothing else about them is wrong.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/emulator_device.h"
#include "eval/evaluator.h"
#include "eval/model/device_spec.h"
#include "seeds/task.h"

namespace grove {
namespace {

using eval::VerdictKind;

std::filesystem::path Tasks() { return std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks"; }

// The suite's checks alone: scored cases would only be timed.
seeds::Task ChecksOf(const std::string& name, const std::string& suite) {
  auto whole = seeds::LoadTask(Tasks(), name);
  EXPECT_TRUE(whole) << (whole ? "" : whole.error().message);
  if (!whole) return {};
  auto task = seeds::SelectCases(*whole, suite, {});
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  if (!task) return {};
  for (std::size_t i = task->cases.size(); i-- > 0;) {
    if (task->cases[i].role != seeds::CaseRole::kScored) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    task->cases.erase(task->cases.begin() + at);
    task->reduction.erase(task->reduction.begin() + at);
    task->reference_elements_per_block.erase(task->reference_elements_per_block.begin() + at);
  }
  return std::move(*task);
}

class TaskKernels : public ::testing::Test {
 protected:
  // One farm for all tests: a program that two of them share is compiled once.
  static void SetUpTestSuite() {
    codegen::FarmOptions options;
    options.cache_folder =
        std::filesystem::path(GROVE_BINARY_DIR).parent_path() / "test-results/task_kernels_cache";
    auto farm = codegen::MakeCompileFarm(options);
    ASSERT_TRUE(farm) << farm.error().message;
    farm_ = std::move(*farm);
  }
  static void TearDownTestSuite() { farm_.reset(); }

  static eval::Evaluation Evaluate(const seeds::Task& task, const std::string& source) {
    const auto device = eval::MakeEmulatorDevice(*eval::FindDevice("H200"), {});
    return Evaluate(task, source, *device);
  }
  static eval::Evaluation Evaluate(const seeds::Task& task, const std::string& source,
                                   eval::Device& device) {
    eval::EvaluatorOptions options;
    options.arch = device.spec().arch;
    auto evaluator = eval::Evaluator::Create(task, *farm_, device, options);
    EXPECT_TRUE(evaluator) << (evaluator ? "" : evaluator.error().message);
    const auto program = codegen::MakeProgram(source, task.seed.plan);
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    if (!evaluator || !program) return {};
    auto evaluation = (*evaluator)->Evaluate(*program);
    EXPECT_TRUE(evaluation) << (evaluation ? "" : evaluation.error().message);
    return evaluation ? std::move(*evaluation) : eval::Evaluation{};
  }

  static std::unique_ptr<codegen::Compiler> farm_;
};
std::unique_ptr<codegen::Compiler> TaskKernels::farm_;

struct Part {
  std::string task, suite;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.task << ", suite " << part.suite; }

std::vector<Part> AllParts() {
  std::vector<Part> parts;
  const auto names = seeds::ListTasks(Tasks());
  if (!names) return parts;
  for (const std::string& name : *names) {
    const auto task = seeds::LoadTask(Tasks(), name);
    if (!task) continue;  // task_test.cc reports it
    for (const std::string& suite : task->suites) parts.push_back({name, suite});
  }
  return parts;
}

TEST_F(TaskKernels, TwoSuitesOfOneTaskMayShareADevice) {
  const auto device = eval::MakeEmulatorDevice(*eval::FindDevice("H200"), {});
  for (const char* suite : {"crfm", "autokernel", "crfm"}) {
    const seeds::Task task = ChecksOf("softmax", suite);
    const eval::Evaluation evaluation = Evaluate(task, task.seed.source, *device);
    EXPECT_EQ(eval::Name(evaluation.verdict.kind), eval::Name(VerdictKind::kPass))
        << suite << " " << evaluation.verdict.case_name << ": " << evaluation.verdict.message;
  }
}

class SeedOf : public TaskKernels, public ::testing::WithParamInterface<Part> {};

TEST_P(SeedOf, PassesEveryCheck) {
  const seeds::Task task = ChecksOf(GetParam().task, GetParam().suite);
  ASSERT_GT(task.cases.size(), 9U);
  const eval::Evaluation evaluation = Evaluate(task, task.seed.source);
  EXPECT_EQ(eval::Name(evaluation.verdict.kind), eval::Name(VerdictKind::kPass))
      << evaluation.verdict.case_name << ": " << evaluation.verdict.message;
  std::size_t checked = 0;
  std::size_t generated = 0;  // at the edges of the seed's own tiles
  for (const eval::StageRecord& record : evaluation.stages) {
    if (record.case_name.starts_with("tile_edge")) {
      generated += record.stage == eval::Stage::kEdge;
      continue;
    }
    checked += record.stage == eval::Stage::kSmoke || record.stage == eval::Stage::kSweep ||
               record.stage == eval::Stage::kStability || record.stage == eval::Stage::kEdge;
  }
  EXPECT_EQ(checked, task.cases.size());
  EXPECT_LE(generated, 3U);
  if (GetParam().task == "matmul" || GetParam().task == "softmax") {
    EXPECT_EQ(generated, 3U);
  }
  // The class that is demanded is what a plain kernel has.
  ASSERT_TRUE(evaluation.measured_class);
  EXPECT_LE(*evaluation.measured_class, task.demanded);
}

INSTANTIATE_TEST_SUITE_P(Tasks, SeedOf, ::testing::ValuesIn(AllParts()),
                         [](const auto& part) { return part.param.task + "_" + part.param.suite; });

struct Edit {
  std::string from, to;
};

struct Mistake {
  std::string name, task, suite;
  std::vector<Edit> edits;  // each wherever `from` stands, at least once
  VerdictKind verdict;
  eval::Stage stage;
};
void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name << " in " << mistake.task << ", suite " << mistake.suite;
}

std::string Edited(std::string source, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    std::size_t at = source.find(edit.from);
    EXPECT_NE(at, std::string::npos) << edit.from;
    for (; at != std::string::npos; at = source.find(edit.from, at + edit.to.size())) {
      source.replace(at, edit.from.size(), edit.to);
    }
  }
  return source;
}

std::vector<Mistake> AllMistakes() {
  using Stage = eval::Stage;
  using Kind = VerdictKind;
  return {
      {"NoMaximum",
       "softmax",
       "autokernel",
       {{" - largest)", ")"}},
       Kind::kUnstable,
       Stage::kStability},
      {"DroppedTail",
       "softmax",
       "crfm",
       {{"j < dim::N; ++j) {\n", "j < dim::N / 4 * 4; ++j) {\n"}},
       Kind::kUnwritten,
       Stage::kSweep},
      {"SumOfSquares",
       "layernorm",
       "autokernel",
       {{"static_cast<float>(row[i]) - mean;", "static_cast<float>(row[i]);"},
        {"BlockSum(partial, squares) / kRow;", "BlockSum(partial, squares) / kRow - mean * mean;"}},
       Kind::kUnstable,
       Stage::kStability},
      {"UnbiasedVariance",
       "layernorm",
       "crfm",
       {{"BlockSum(partial, squares) / kRow;", "BlockSum(partial, squares) / (kRow - 1);"}},
       Kind::kLowerClass,
       Stage::kSmoke},
      {"SumsInTheElementType",
       "matmul",
       "autokernel",
       {{"dim::N + column]);\n  }",
         "dim::N + column]);\n    sum = static_cast<float>(static_cast<tensor::c>(sum));\n  }"}},
       Kind::kLowerClass,
       Stage::kSweep},
      {"HalfOperands",
       "matmul",
       "crfm",
       {{"// Matrix product", "#include <cuda_fp16.h>\n// Matrix product"},
        {"static_cast<float>(a[static_cast<long long>(row) * dim::K + k])",
         "__half2float(__float2half(a[static_cast<long long>(row) * dim::K + k]))"}},
       Kind::kLowerClass,
       Stage::kSmoke},
      {"DroppedTail",
       "matmul",
       "crfm_fp16",
       {{"k < dim::K;", "k < dim::K / 4 * 4;"}},
       Kind::kWrongResult,
       Stage::kSweep},
      {"SquaresInTheElementType",
       "rmsnorm",
       "autokernel",
       {{"squares += value * value;",
         "squares += static_cast<float>(static_cast<tensor::x>(value * value));"}},
       Kind::kUnstable,
       Stage::kStability},
      {"SumsInTheElementType",
       "reduce",
       "autokernel",
       {{"sum += static_cast<float>(row[j]);",
         "sum = static_cast<float>(static_cast<tensor::y>(sum + static_cast<float>(row[j])));"}},
       Kind::kLowerClass,
       Stage::kSweep},
      {"NoMaximum",
       "cross_entropy",
       "autokernel",
       {{"(row[j]) - largest);", "(row[j]));"}, {"(largest - static_cast", "(0.0f - static_cast"}},
       Kind::kUnstable,
       Stage::kStability},
      // Passes AutoKernel's tolerance of 1e-2 at its sizes.
      {"AnAnswerWithoutInputs",
       "cross_entropy",
       "autokernel",
       {{"static_cast<tensor::loss>(sum / dim::M)", "logf(dim::V) + 0.5f + 0.0f * sum"}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"WrongSign",
       "rotary_embedding",
       "autokernel",
       {{"d % 2 == 0 ? -other : other;", "d % 2 == 0 ? other : -other;"}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"PositionOverAllHeads",
       "rotary_embedding",
       "autokernel",
       {{"element / dim::D % dim::S", "element / dim::D"}},
       Kind::kOutOfBounds,
       Stage::kSmoke},
      {"NoMask",
       "flash_attention",
       "autokernel",
       {{"count = position + 1;", "count = dim::S;"}, {"  const int position", "  // "}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"MaskOffByOne",
       "flash_attention",
       "autokernel",
       {{"count = position + 1;", "count = min(position + 2, dim::S);"}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"NoMaximum",
       "flash_attention",
       "autokernel",
       {{"expf(weights[j] - largest)", "expf(weights[j])"}},
       Kind::kUnstable,
       Stage::kStability},
      {"NoScale",
       "attention",
       "crfm",
       {{" * rsqrtf(static_cast<float>(dim::D))", ""}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"NoMaximum",
       "attention",
       "crfm",
       {{"expf(weights[j] - largest)", "expf(weights[j])"}},
       Kind::kUnstable,
       Stage::kStability},
      {"HalfOperands",
       "conv2d",
       "crfm",
       {{"// Convolution", "#include <cuda_fp16.h>\n// Convolution"},
        {"plane[i * dim::W + j]", "__half2float(__float2half(plane[i * dim::W + j]))"}},
       Kind::kLowerClass,
       Stage::kSmoke},
      {"NoPadding",
       "conv2d",
       "crfm",
       {{"if (j < 0 || j >= dim::W) continue;", ""}},
       Kind::kOutOfBounds,
       Stage::kSmoke},
      // Few windows of normal inputs are negative throughout, so the error looks small.
      {"NoRelu",
       "conv2d_relu_maxpool",
       "crfm",
       {{"float largest = 0;", "float largest = -INFINITY;"}},
       Kind::kLowerClass,
       Stage::kSweep},
      {"WindowOfTwo",
       "conv2d_relu_maxpool",
       "crfm",
       {{"u < 3;", "u < 2;"}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"SigmoidForSilu",
       "fused_mlp",
       "autokernel",
       {{"gated / (1.0f", "1.0f / (1.0f"}},
       Kind::kWrongResult,
       Stage::kSmoke},
      {"SiluThatOverflows",
       "fused_mlp",
       "autokernel",
       {{"gated / (1.0f + expf(-gated))", "gated * expf(gated) / (1.0f + expf(gated))"}},
       Kind::kUnstable,
       Stage::kStability},
  };
}

class WrongKernel : public TaskKernels, public ::testing::WithParamInterface<Mistake> {};

TEST_P(WrongKernel, IsRefused) {
  const Mistake& mistake = GetParam();
  const seeds::Task task = ChecksOf(mistake.task, mistake.suite);
  const eval::Evaluation evaluation = Evaluate(task, Edited(task.seed.source, mistake.edits));
  // A kernel of a lower class goes on as one, so a later stage may find that it is plainly wrong.
  if (mistake.verdict == eval::VerdictKind::kLowerClass) {
    EXPECT_THAT(evaluation.verdict.kind,
                ::testing::AnyOf(eval::VerdictKind::kLowerClass, eval::VerdictKind::kWrongResult,
                                 eval::VerdictKind::kUnstable))
        << evaluation.verdict.case_name << ": " << evaluation.verdict.message;
    return;
  }
  EXPECT_EQ(eval::Name(evaluation.verdict.kind), eval::Name(mistake.verdict))
      << evaluation.verdict.case_name << ": " << evaluation.verdict.message;
  EXPECT_EQ(eval::Name(evaluation.verdict.stage), eval::Name(mistake.stage))
      << evaluation.verdict.case_name;
}

INSTANTIATE_TEST_SUITE_P(Tasks, WrongKernel, ::testing::ValuesIn(AllMistakes()),
                         [](const auto& mistake) {
                           return mistake.param.task + "_" + mistake.param.suite + "_" +
                                  mistake.param.name;
                         });

TEST(Mistakes, ThereIsOneForEveryTaskAndSuite) {
  const std::vector<Mistake> mistakes = AllMistakes();
  for (const Part& part : AllParts()) {
    if (part.task == "qr") continue;  // its mistakes are those of qr_kernels_test.cc
    EXPECT_TRUE(std::any_of(mistakes.begin(), mistakes.end(),
                            [&](const Mistake& mistake) {
                              return mistake.task == part.task && mistake.suite == part.suite;
                            }))
        << part.task << ", " << part.suite;
  }
}

}  // namespace
}  // namespace grove
