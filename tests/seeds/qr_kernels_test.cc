// Task qr in the emulator: programs of the playbook pass the strict checker on structured inputs,
// and kernels that are wrong in the ways that published entries were wrong are refused.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/share.h"
#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/emulator_device.h"
#include "eval/evaluator.h"
#include "eval/model/device_spec.h"
#include "llm/playbook/catalogue.h"
#include "seeds/task.h"

namespace grove {
namespace {

using eval::VerdictKind;
using ::testing::HasSubstr;

class QrKernels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    codegen::FarmOptions options;
    options.cache_folder =
        std::filesystem::path(GROVE_BINARY_DIR).parent_path() / "test-results/qr_kernels_cache";
    auto farm = codegen::MakeCompileFarm(options);
    ASSERT_TRUE(farm) << farm.error().message;
    farm_ = std::move(*farm);
    auto task = seeds::LoadTask(std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks", "qr");
    ASSERT_TRUE(task) << task.error().message;
    task_ = std::move(*task);
  }
  static void TearDownTestSuite() { farm_.reset(); }

  // The task with these cases only; scored ones keep their role.
  static seeds::Task With(const std::vector<std::string>& cases) {
    seeds::Task part = task_;
    part.cases.clear();
    part.reduction.clear();
    part.reference_elements_per_block.clear();
    for (const std::string& name : cases) {
      const seeds::Case* found = task_.FindCase(name);
      EXPECT_NE(found, nullptr) << name;
      if (found == nullptr) continue;
      part.cases.push_back(*found);
      part.reduction.push_back(*found->dim("n"));
      part.reference_elements_per_block.push_back(0);
    }
    return part;
  }

  static eval::Evaluation Evaluate(const seeds::Task& task, const std::string& source,
                                   const std::string& plan) {
    const auto device = eval::MakeEmulatorDevice(*eval::FindDevice("H200"), {});
    eval::EvaluatorOptions options;
    options.arch = device->spec().arch;
    options.determinism_runs = 2;
    auto evaluator = eval::Evaluator::Create(task, *farm_, *device, options);
    EXPECT_TRUE(evaluator) << (evaluator ? "" : evaluator.error().message);
    const auto program = codegen::MakeProgram(source, plan);
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    if (!evaluator || !program) return {};
    auto evaluation = (*evaluator)->Evaluate(*program);
    EXPECT_TRUE(evaluation) << (evaluation ? "" : evaluation.error().message);
    return evaluation ? std::move(*evaluation) : eval::Evaluation{};
  }

  // The seed with `from` replaced by `to`.
  static eval::Evaluation Edited(const std::vector<std::string>& cases, const std::string& from,
                                 const std::string& to) {
    std::string source = task_.seed.source;
    const std::size_t at = source.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) source.replace(at, from.size(), to);
    return Evaluate(With(cases), source, task_.seed.plan);
  }

  static void ExpectRefused(const eval::Evaluation& evaluation, const std::string& what,
                            VerdictKind kind = VerdictKind::kWrongResult) {
    EXPECT_EQ(eval::Name(evaluation.verdict.kind), eval::Name(kind)) << evaluation.verdict.message;
    EXPECT_THAT(evaluation.verdict.message, HasSubstr(what));
  }

  static std::unique_ptr<codegen::Compiler> farm_;
  static seeds::Task task_;
};
std::unique_ptr<codegen::Compiler> QrKernels::farm_;
seeds::Task QrKernels::task_;

// One thread for each matrix, with n^2 doubles of workspace where a test wants them.
const char kOneThread[] =
    R"({"workspace": [{"name": "w", "dtype": "f64", "shape": ["batch", "n", "n"]},
    {"name": "g", "dtype": "f64", "shape": ["batch", "n", "n"]}],
  "launches": [{"kernel": "k", "grid": ["batch"], "block": [1], "args": ["a", "h", "tau", "w", "g"]}]})";

std::string OneThread(const std::string& body) {
  return "extern \"C\" __global__ void k(const float* a, float* h, float* tau, double* w, double* "
         "g) {\n"
         "  constexpr int n = dim::n;\n"
         "  a += blockIdx.x * n * n; h += blockIdx.x * n * n; tau += blockIdx.x * n;\n"
         "  w += blockIdx.x * n * n; g += blockIdx.x * n * n;\n" +
         body + "}\n";
}

TEST_F(QrKernels, TheSeedsVerdictNamesTheMarginsOfEveryGate) {
  const auto evaluation =
      Evaluate(With({"smoke", "n48_nearrank"}), task_.seed.source, task_.seed.plan);
  EXPECT_TRUE(evaluation.verdict.passed()) << evaluation.verdict.message;
  for (const char* gate : {"QtA=R", "QtQ=I", "A=QR", "tau", "tau=0"}) {
    EXPECT_THAT(evaluation.verdict.message, HasSubstr(gate));
  }
  ASSERT_EQ(evaluation.gates.size(), 12U);  // six of each case, "finite" among them
  for (const auto& record : evaluation.gates) EXPECT_TRUE(record.gate.passed());
}

TEST_F(QrKernels, CopiedInputIsRefused) {
  ExpectRefused(Evaluate(With({"smoke"}),
                         OneThread("for (int i = 0; i < n * n; ++i) h[i] = a[i];\n"
                                   "for (int i = 0; i < n; ++i) tau[i] = 0;\n"),
                         kOneThread),
                "QtA=R");
}

TEST_F(QrKernels, TauAllZeroIsRefused) {
  ExpectRefused(
      Edited({"smoke"}, "if (threadIdx.x == 0) tau[k] = t;", "if (threadIdx.x == 0) tau[k] = 0;"),
      "QtA=R");
}

TEST_F(QrKernels, AColumnOfZerosWithoutItsGuardIsRefused) {
  const auto evaluation = Edited({"smoke", "n48_rankdef"}, "if (square == 0) return 0;", "");
  ExpectRefused(evaluation, "not finite");
  EXPECT_EQ(evaluation.verdict.case_name, "n48_rankdef");
}

// Columns behind three quarters of the matrix left alone: their share of the 1-norm is small.
TEST_F(QrKernels, TruncatedColumnsPassTheCompetitionAndNotTheStrictProfile) {
  const std::string from = "if (square == 0) return 0;";
  const std::string to =
      "if (k >= 26) {\n"
      "    for (int i = k + 1 + threadIdx.x; i < n; i += kThreads) h[(size_t)i * n + k] = 0;\n"
      "    return 0;\n  }\n  if (square == 0) return 0;";
  ExpectRefused(Edited({"n48_clustered"}, from, to), "A=QR is");
  for (seeds::Case& c : task_.cases) c.profile = seeds::CheckerProfile::kCompetition;
  const auto published = Edited({"n48_clustered"}, from, to);
  for (seeds::Case& c : task_.cases) c.profile = seeds::CheckerProfile::kStrict;
  EXPECT_TRUE(published.verdict.passed()) << published.verdict.message;
  EXPECT_THAT(published.verdict.message, HasSubstr("(shown only)"));
}

// Gram matrix and Cholesky in fp64, reflectors rebuilt from Q (LU of Q - S): right for full rank.
TEST_F(QrKernels, CholeskyWithoutAGuardIsRefusedOnDeficientInputsOnly) {
  const std::string source = OneThread(R"(
  for (int i = 0; i < n; ++i) {
    for (int j = i; j < n; ++j) {
      double s = 0;
      for (int r = 0; r < n; ++r) s += (double)a[r * n + i] * (double)a[r * n + j];
      for (int r = 0; r < i; ++r) s -= g[r * n + i] * g[r * n + j];
      g[i * n + j] = i == j ? sqrt(s) : s / g[i * n + i];
    }
  }
  for (int r = 0; r < n; ++r) {
    for (int j = 0; j < n; ++j) {
      double s = a[r * n + j];
      for (int i = 0; i < j; ++i) s -= w[r * n + i] * g[i * n + j];
      w[r * n + j] = s / g[j * n + j];
    }
  }
  for (int j = 0; j < n; ++j) {
    const double sign = w[j * n + j] >= 0 ? -1 : 1;
    const double u = w[j * n + j] - sign;
    tau[j] = (float)(-u * sign);
    for (int i = j + 1; i < n; ++i) {
      const double l = w[i * n + j] / u;
      h[i * n + j] = (float)l;
      for (int c = j + 1; c < n; ++c) w[i * n + c] -= l * w[j * n + c];
    }
    for (int c = j; c < n; ++c) h[j * n + c] = (float)(sign * g[j * n + c]);
  }
)");
  const auto dense = Evaluate(With({"n31"}), source, kOneThread);
  EXPECT_TRUE(dense.verdict.passed()) << dense.verdict.message;
  ExpectRefused(Evaluate(With({"n48_rankdef"}), source, kOneThread), "not finite");
}

TEST_F(QrKernels, AnOutputThatIsNotWrittenIsFoundBeforeTheChecker) {
  ExpectRefused(Edited({"smoke"}, "if (threadIdx.x == 0) tau[k] = t;",
                       "if (threadIdx.x == 0 && k < n - 1) tau[k] = t;"),
                "tau[31] was never written", VerdictKind::kUnwritten);
}

TEST_F(QrKernels, APlanThatReadsWhatNobodyWroteThroughTheLibraryIsFound) {
  const auto evaluation =
      Evaluate(With({"smoke"}), OneThread("h[0] = 0;"),
               R"({"workspace": [{"name": "v", "dtype": "f32", "shape": ["batch", "n", "n"]}],
          "launches": [{"library": "gemm", "m": "n", "n": "n", "k": "n", "batch": "batch",
            "a": {"buffer": "v", "ld": "n", "stride": "n * n"},
            "b": {"buffer": "a", "ld": "n", "stride": "n * n"},
            "c": {"buffer": "h", "ld": "n", "stride": "n * n"}}]})");
  ExpectRefused(evaluation, "a reads element 0 of buffer v, which nobody wrote",
                VerdictKind::kUninitialised);
}

// --- the playbook -------------------------------------------------------------------------------

using llm::playbook::Catalogue;
using llm::playbook::Traits;

struct Made {
  std::string name;
  Traits traits;
  std::vector<std::string> cases;
};

TEST_F(QrKernels, ProgramsOfThePlaybookPassOnStructuredInputs) {
  const auto catalogue = Catalogue::Load(ShareFolder("playbook"));
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const std::vector<Made> programs = {
      {"own products, panel in global memory, narrow panels",
       {{"nb", "16"}},
       {"smoke", "n64", "n97", "n48_rankdef", "n48_clustered", "n7", "n1"}},
      {"own products, panel in shared memory, two columns a thread",
       {{"nb", "32"}, {"panel", "1"}, {"cols", "2"}, {"threads", "128"}},
       {"smoke", "n97", "n200", "n48_nearrank", "n80_mixed", "n33_mixed"}},
      {"products of the library",
       {{"nb", "32"}, {"panel", "1"}, {"product", "library"}},
       {"smoke", "n64", "n97", "n48_rankdef", "n48_nearrank", "n80_mixed", "n2"}},
      {"products of the library, wide panels, tensor cores where n is large",
       {{"nb", "64"}, {"product", "library"}, {"tensor", "1"}},
       {"n97", "n48_clustered"}},
      {"whole matrix in shared memory",
       {{"small", "1"}, {"threads", "128"}},
       {"smoke", "n97", "n48_rankdef", "n48_clustered", "n40_nearcollinear", "n33_mixed", "n1"}},
      {"a warp a matrix",
       {{"small", "2"}, {"warps", "2"}},
       {"smoke", "n31", "n7", "n1", "n32_zero", "n32_ones", "n32_large", "n32_small"}},
  };
  for (const Made& made : programs) {
    Traits traits = made.traits;
    traits["op"] = "qr";
    traits["strategy"] = "blocked";
    const auto program = catalogue->Render(traits, {});
    ASSERT_TRUE(program) << program.error().message;
    const auto evaluation = Evaluate(With(made.cases), program->source, program->plan);
    EXPECT_TRUE(evaluation.verdict.passed())
        << made.name << ", " << evaluation.verdict.case_name << ": " << evaluation.verdict.message;
    for (const auto& record : evaluation.gates) {
      if (record.gate.name == "finite" || record.gate.name == "tau=0") continue;
      EXPECT_GT(record.gate.margin(), 5)
          << made.name << " " << record.case_name << " " << record.gate.name;
    }
  }
}

TEST_F(QrKernels, LibraryStepsAreModelledAndShownAsLaunches) {
  const auto catalogue = Catalogue::Load(ShareFolder("playbook"));
  ASSERT_TRUE(catalogue);
  const auto program = catalogue->Render(
      {{"op", "qr"}, {"strategy", "blocked"}, {"product", "library"}, {"panel", "1"}}, {});
  ASSERT_TRUE(program);
  seeds::Task task = With({"n97"});
  task.cases[0].role = seeds::CaseRole::kScored;
  const auto evaluation = Evaluate(task, program->source, program->plan);
  ASSERT_EQ(evaluation.times.size(), 1U) << evaluation.verdict.message;
  EXPECT_TRUE(evaluation.times[0].modelled);
  EXPECT_EQ(evaluation.times[0].checked_share, 1) << evaluation.times[0].note;
  const auto& launches = evaluation.times[0].launches;
  EXPECT_EQ(std::count_if(launches.begin(), launches.end(),
                          [](const auto& l) { return l.kernel == codegen::kGemmStep; }),
            9);  // three for each of three panels that have something behind them
  for (const auto& launch : launches) EXPECT_GT(launch.time.count(), 0) << launch.kernel;
}

}  // namespace
}  // namespace grove
