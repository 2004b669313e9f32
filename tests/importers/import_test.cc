// Problems in other people's formats become tasks, or are refused with their own reason. The whole
// of tests/data/problems is imported once, in one helper; a few of the tasks are then linted (seed
// passes, zeros and constants fail, golden outputs agree). GROVE_IMPORT_ALL=1 lints every one.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "codegen/compile_farm.h"
#include "eval/lint.h"
#include "seeds/importers/problem_import.h"
#include "seeds/importers/torch_python.h"
#include "seeds/task.h"

namespace grove::importers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path Data() { return fs::path(GROVE_SOURCE_DIR) / "tests/data"; }

std::vector<fs::path> FilesOf(const std::string& folder) {
  auto files = ProblemFiles(Data() / "problems" / folder);
  EXPECT_TRUE(files) << (files ? "" : files.error().message);
  return files ? std::move(*files) : std::vector<fs::path>();
}

fs::path Fresh(const std::string& name) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / fmt::format("grove-{}-{}", name, getpid());
  fs::remove_all(folder);
  return folder;
}

ProblemImport Options(const fs::path& tasks) {
  ProblemImport options;
  options.tasks = tasks;
  options.jobs = 2;
  return options;
}

ImportOutcome One(const fs::path& file, const fs::path& tasks, std::chrono::seconds deadline) {
  ProblemImport options = Options(tasks);
  options.files = {file};
  options.deadline = deadline;
  const auto outcomes = ImportProblems(options);
  EXPECT_TRUE(outcomes) << (outcomes ? "" : outcomes.error().message);
  return outcomes ? outcomes->front() : ImportOutcome();
}

std::unique_ptr<codegen::Compiler> MakeCompiler() {
  codegen::FarmOptions options;
  options.deadline = std::chrono::minutes(5);
  options.cache_folder =
      fs::path(GROVE_BINARY_DIR).parent_path() / "test-results/task_kernels_cache";
  auto farm = codegen::MakeCompileFarm(options);
  EXPECT_TRUE(farm) << (farm ? "" : farm.error().message);
  return farm ? std::move(*farm) : nullptr;
}

void ExpectFit(const fs::path& tasks, const std::string& name, codegen::Compiler& compiler) {
  SCOPED_TRACE(name);
  const auto task = seeds::LoadTask(tasks, name);
  ASSERT_TRUE(task) << task.error().message;
  eval::LintOptions options;
  options.small = true;
  const auto report = eval::Lint(*task, compiler, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->cases, 0);
  for (const auto& finding : report->findings) {
    ADD_FAILURE() << finding.check << ", case " << finding.case_name << ": " << finding.message;
  }
}

class Problems : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tasks_ = new fs::path(Fresh("import"));
    outcomes_ = new std::map<std::string, ImportOutcome>;
    ProblemImport options = Options(*tasks_);
    for (const char* folder : {"fair", "refused"}) {
      for (const fs::path& file : FilesOf(folder)) {
        if (file.stem() != "hangs") options.files.push_back(file);
      }
    }
    auto outcomes = ImportProblems(options);
    ASSERT_TRUE(outcomes) << outcomes.error().message;
    for (ImportOutcome& outcome : *outcomes) (*outcomes_)[outcome.name] = std::move(outcome);
  }
  static void TearDownTestSuite() {
    std::error_code ignored;
    fs::remove_all(*tasks_, ignored);
    delete tasks_;
    delete outcomes_;
  }
  static const ImportOutcome& Outcome(const std::string& name) { return (*outcomes_)[name]; }

  static fs::path* tasks_;
  static std::map<std::string, ImportOutcome>* outcomes_;
};
fs::path* Problems::tasks_ = nullptr;
std::map<std::string, ImportOutcome>* Problems::outcomes_ = nullptr;

TEST_F(Problems, EveryFairOneBecomesATaskThatLoads) {
  const auto files = FilesOf("fair");
  EXPECT_GE(files.size(), 30U);
  for (const fs::path& file : files) {
    const ImportOutcome& outcome = Outcome(file.stem().string());
    EXPECT_EQ(outcome.status, ImportStatus::kImported) << file << ": " << outcome.reason;
    const auto task = seeds::LoadTask(*tasks_, outcome.name);
    ASSERT_TRUE(task) << task.error().message;
    EXPECT_GT(task->cases.front().flops, 0) << outcome.name;
  }
}

TEST_F(Problems, EveryUnfairOneIsRefusedForItsOwnReason) {
  const std::map<std::string, std::string> reasons = {
      {"constant_output", "the output is constant"},
      {"depends_on_values", "depends on the values of its inputs"},
      {"forks", "tried to fork"},
      {"ignores_input", "no output depends on input 1"},
      {"missing_package", "needs the Python package a_package_that_is_nowhere"},
      {"near_zero", "so near to zero"},
      {"needs_gpu", "needs a GPU where there is none"},
      {"no_tensor", "returns no tensor"},
      {"not_finite", "not finite"},
      {"prints_much", "printed more than 1024 KiB"},
      {"raises", "raises.py:10: forward raised ValueError: the shapes do not fit"},
      {"random_dropout", "draws random numbers"},
      {"reads_file", "tried to read the file passwd"},
      {"wrong_type", "an input is a list"},
  };
  for (const auto& [name, reason] : reasons) {
    EXPECT_NE(Outcome(name).status, ImportStatus::kImported) << name;
    EXPECT_THAT(Outcome(name).reason, HasSubstr(reason)) << name;
    EXPECT_FALSE(fs::exists(*tasks_ / name)) << name;
  }
}

TEST_F(Problems, NothingIsLeftBesideTheTasks) {
  for (const auto& entry : fs::directory_iterator(*tasks_)) {
    EXPECT_TRUE(fs::exists(entry.path() / "task.toml")) << entry.path();
  }
}

TEST_F(Problems, IntegerTargetsStayIntegers) {
  const auto task = seeds::LoadTask(*tasks_, "cross_entropy");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->cases.front().tensors[1].dtype, DType::kI64);
  EXPECT_EQ(task->cases.front().tensors[1].distribution.kind, seeds::Distribution::Kind::kUniform);
}

TEST_F(Problems, ParametersAreAFileThatReferenceAndCandidateShare) {
  const auto task = seeds::LoadTask(*tasks_, "linear_chain");
  ASSERT_TRUE(task) << task.error().message;
  int stored = 0;
  for (const seeds::Tensor& tensor : task->cases.front().tensors) {
    if (tensor.distribution.kind != seeds::Distribution::Kind::kFile) continue;
    ++stored;
    EXPECT_TRUE(fs::exists(tensor.distribution.stored.file));
  }
  EXPECT_GE(stored, 2);
}

TEST_F(Problems, TwoOutputsAreTwoTensors) {
  const auto task = seeds::LoadTask(*tasks_, "mean_variance");
  ASSERT_TRUE(task) << task.error().message;
  int outputs = 0;
  for (const seeds::Tensor& tensor : task->cases.front().tensors) {
    outputs += tensor.role == seeds::TensorRole::kOutput ? 1 : 0;
  }
  EXPECT_EQ(outputs, 2);
}

TEST_F(Problems, ViewsBecomeContiguousCopiesWhichTheContractSays) {
  for (const char* name : {"strided_slices", "expanded_bias", "sliding_windows", "view_outputs"}) {
    const auto task = seeds::LoadTask(*tasks_, name);
    ASSERT_TRUE(task) << task.error().message;
    EXPECT_THAT(task->contract, HasSubstr("arrive as contiguous copies")) << name;
  }
  const auto whole = seeds::LoadTask(*tasks_, "compare_rows");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_THAT(whole->contract, ::testing::Not(HasSubstr("copies")));
}

// A slice or a transpose of draws is drawn afresh for every check, in its own distribution.
TEST_F(Problems, ViewsOfDrawsAreDrawnAgain) {
  using Kind = seeds::Distribution::Kind;
  const auto task = seeds::LoadTask(*tasks_, "strided_slices");
  ASSERT_TRUE(task) << task.error().message;
  const seeds::Case& c = *task->FindCase("full");
  EXPECT_EQ(c.tensor("x")->distribution.kind, Kind::kNormal);
  EXPECT_EQ(c.tensor("y")->distribution.kind, Kind::kUniform);
  EXPECT_EQ(c.tensor("x")->shape, (std::vector<std::int64_t>{256, 384}));
  EXPECT_EQ(c.tensor("y")->shape, (std::vector<std::int64_t>{256, 385}));
}

TEST_F(Problems, BoolAndIntegerTensorsKeepTheirTypesOnBothSides) {
  const auto types = [](const std::string& name) {
    std::vector<DType> found;
    const auto task = seeds::LoadTask(*tasks_, name);
    EXPECT_TRUE(task) << (task ? "" : task.error().message);
    if (!task) return found;
    for (const seeds::Tensor& t : task->cases.front().tensors) found.push_back(t.dtype);
    return found;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(types("bool_masks"), ElementsAre(DType::kF32, DType::kBool, DType::kBool, DType::kF32,
                                               DType::kBool, DType::kI64));
  EXPECT_THAT(types("compare_rows"),
              ElementsAre(DType::kF32, DType::kF32, DType::kBool, DType::kBool));
  EXPECT_THAT(types("integer_codes"),
              ElementsAre(DType::kI8, DType::kI32, DType::kI32, DType::kI64));
}

TEST_F(Problems, SeedsPassTheirChecksAndConstantsFail) {
  const auto compiler = MakeCompiler();
  ASSERT_NE(compiler, nullptr);
  const char* all = std::getenv("GROVE_IMPORT_ALL");
  std::vector<std::string> names = {"cross_entropy", "mean_variance",   "strided_slices",
                                    "bool_masks",    "sliding_windows", "view_outputs",
                                    "compare_rows",  "integer_codes"};
  if (all != nullptr && *all != '\0') {
    names.clear();
    for (const fs::path& file : FilesOf("fair")) {
      names.push_back(file.stem().string());
    }
  }
  for (const std::string& name : names) ExpectFit(*tasks_, name, *compiler);
}

TEST_F(Problems, ATaskThatIsThereIsNotReplacedUnasked) {
  const fs::path file = Data() / "problems/fair/softmax_rows.py";
  const ImportOutcome again = One(file, *tasks_, std::chrono::seconds(300));
  EXPECT_NE(again.status, ImportStatus::kImported);
  EXPECT_THAT(again.reason, HasSubstr("exists already"));
  EXPECT_TRUE(seeds::LoadTask(*tasks_, "softmax_rows"));
}

TEST(Import, AModuleThatHangsIsKilledAtItsDeadline) {
  const fs::path tasks = Fresh("hangs");
  const ImportOutcome outcome =
      One(Data() / "problems/refused/hangs.py", tasks, std::chrono::seconds(3));
  EXPECT_EQ(outcome.status, ImportStatus::kBroken);
  EXPECT_THAT(outcome.reason, HasSubstr("ran longer than 3 s"));
  EXPECT_FALSE(fs::exists(tasks / "hangs"));
  fs::remove_all(tasks);
}

TEST(Import, ScaleDividesTheScoredSizesAndSaysSo) {
  const fs::path tasks = Fresh("scale");
  ProblemImport options = Options(tasks);
  options.files = {Data() / "problems/fair/softmax_rows.py"};
  options.scale = 4;
  const auto outcomes = ImportProblems(options);
  ASSERT_TRUE(outcomes) << outcomes.error().message;
  ASSERT_EQ(outcomes->front().status, ImportStatus::kImported) << outcomes->front().reason;
  const auto task = seeds::LoadTask(tasks, "softmax_rows");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_THAT(task->title, HasSubstr("divided by 4"));
  fs::remove_all(tasks);
}

// Competition folders and definitions: one helper for each format.
class Formats : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tasks_ = new fs::path(Fresh("formats"));
    outcomes_ = new std::map<std::string, ImportOutcome>;
    ProblemImport options = Options(*tasks_);
    options.format = ProblemFormat::kGpuMode;
    for (const char* name : {"row_scale", "last_only", "in_place", "broken"}) {
      options.files.push_back(Data() / "gpumode" / name);
    }
    Import(options);
    options.format = ProblemFormat::kFlashInfer;
    options.files = {Data() / "flashinfer/scaled_rows.json", Data() / "flashinfer/eight_bits.json"};
    options.workloads = Data() / "flashinfer/scaled_rows.jsonl";
    Import(options);
  }
  static void TearDownTestSuite() {
    std::error_code ignored;
    fs::remove_all(*tasks_, ignored);
    delete tasks_;
    delete outcomes_;
  }
  static void Import(const ProblemImport& options) {
    auto outcomes = ImportProblems(options);
    ASSERT_TRUE(outcomes) << outcomes.error().message;
    for (ImportOutcome& outcome : *outcomes) (*outcomes_)[outcome.name] = std::move(outcome);
  }
  static const ImportOutcome& Outcome(const std::string& name) { return (*outcomes_)[name]; }
  // Fails the test when there is none.
  static seeds::Task Loaded(const std::string& name) {
    EXPECT_EQ(Outcome(name).status, ImportStatus::kImported) << Outcome(name).reason;
    auto task = seeds::LoadTask(*tasks_, name);
    EXPECT_TRUE(task) << (task ? "" : task.error().message);
    return task ? std::move(*task) : seeds::Task();
  }

  static fs::path* tasks_;
  static std::map<std::string, ImportOutcome>* outcomes_;
};
fs::path* Formats::tasks_ = nullptr;
std::map<std::string, ImportOutcome>* Formats::outcomes_ = nullptr;

TEST_F(Formats, GpuModeTestsAreChecksAndBenchmarksAreScored) {
  std::map<seeds::CaseRole, int> roles;
  for (const seeds::Case& c : Loaded("row_scale").cases) {
    if (c.golden.empty()) ++roles[c.role];
  }
  EXPECT_EQ(roles[seeds::CaseRole::kScored], 2);
  EXPECT_EQ(roles[seeds::CaseRole::kSmoke], 1);
  EXPECT_EQ(roles[seeds::CaseRole::kSweep], 1);
}

TEST_F(Formats, RankedByTheLastBenchmarkIsScoredByThatAlone) {
  const seeds::Task task = Loaded("last_only");
  const seeds::Case* last = task.FindCase("bench_128_1024");
  const seeds::Case* first = task.FindCase("bench_64_512");
  ASSERT_TRUE(last != nullptr && first != nullptr);
  EXPECT_EQ(last->role, seeds::CaseRole::kScored);
  EXPECT_EQ(first->role, seeds::CaseRole::kExtra);
}

TEST_F(Formats, AnArgumentThatIsOnlyWrittenToIsNoInput) {
  const seeds::Task task = Loaded("in_place");
  ASSERT_FALSE(task.cases.empty());
  EXPECT_EQ(task.cases.front().tensors.size(), 3U);  // two inputs, one output
}

TEST_F(Formats, ACheckThatRefusesItsReferenceIsRefused) {
  EXPECT_EQ(Outcome("broken").status, ImportStatus::kRefused);
  EXPECT_THAT(Outcome("broken").reason,
              HasSubstr("check_implementation refuses the reference's own outputs"));
}

TEST_F(Formats, AFlashInferDefinitionHasAScoredCaseForEachWorkload) {
  const seeds::Task task = Loaded("scaled_rows");
  const seeds::Case* b32 = task.FindCase("b32");
  const seeds::Case* b200 = task.FindCase("b200");
  ASSERT_TRUE(b32 != nullptr && b200 != nullptr);
  EXPECT_EQ(b200->tensor("x")->shape.front(), 200);
  EXPECT_EQ(b200->tensor("weight")->distribution.kind, seeds::Distribution::Kind::kFile);
  EXPECT_NE(b32->tensor("y"), nullptr);
}

TEST_F(Formats, AFlashInferTypeThatTasksDoNotHaveIsRefused) {
  EXPECT_EQ(Outcome("eight_bits").status, ImportStatus::kRefused);
  EXPECT_THAT(Outcome("eight_bits").reason, HasSubstr("float8_e4m3fn"));
}

TEST_F(Formats, TheirSeedsPassAndConstantsFail) {
  const auto compiler = MakeCompiler();
  ASSERT_NE(compiler, nullptr);
  ExpectFit(*tasks_, "row_scale", *compiler);
  ExpectFit(*tasks_, "scaled_rows", *compiler);
}

TEST(Import, AnInterpreterWithoutTorchIsNamed) {
  const auto python = FindTorchPython("/bin/false");
  ASSERT_FALSE(python);
  EXPECT_EQ(python.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(python.error().message, HasSubstr("/bin/false"));
}

TEST(Import, AFolderWithoutProblemsIsNotFound) {
  const auto files = ProblemFiles(Data() / "flashinfer");
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace grove::importers
