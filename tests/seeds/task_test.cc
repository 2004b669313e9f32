// The tasks of the source tree, and finding and loading tasks from a folder.
#include "seeds/task.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"

namespace grove::seeds {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::filesystem::path Tasks() { return std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks"; }

Task Load(std::string_view name) {
  auto task = LoadTask(Tasks(), name);
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  return task ? *task : Task{};
}

TEST(Tasks, AreListedSorted) {
  const auto names = ListTasks(Tasks());
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, IsSupersetOf({"layernorm", "matmul", "softmax"}));
  EXPECT_TRUE(std::is_sorted(names->begin(), names->end()));
}

TEST(Tasks, EveryOneLoadsWithProgramsAndOneEntryPerCase) {
  const auto names = ListTasks(Tasks());
  ASSERT_TRUE(names);
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const Task task = Load(name);
    EXPECT_EQ(task.name, name);
    EXPECT_FALSE(task.title.empty());
    EXPECT_FALSE(task.contract.empty());
    EXPECT_EQ(task.reduction.size(), task.cases.size());
    EXPECT_EQ(task.reference_elements_per_block.size(), task.cases.size());
    if (task.checker == Checker::kReference) {
      EXPECT_THAT(task.reference.source, HasSubstr("__global__"));
      EXPECT_THAT(task.reference.plan, HasSubstr("\"version\": 1"));
    } else {
      EXPECT_TRUE(task.reference.source.empty()) << "a checker decides, not a reference";
    }
    EXPECT_THAT(task.seed.source, HasSubstr("__global__"));
    EXPECT_THAT(task.seed.plan, HasSubstr("\"version\": 1"));
  }
}

// Every task and suite of it.
template <typename Visit>
void EachSuite(Visit visit) {
  const auto names = ListTasks(Tasks());
  ASSERT_TRUE(names);
  for (const std::string& name : *names) {
    const Task task = Load(name);
    EXPECT_FALSE(task.suites.empty()) << name;
    for (const std::string& suite : task.suites) {
      SCOPED_TRACE(name + ", " + suite);
      const auto part = SelectCases(task, suite, {});
      ASSERT_TRUE(part) << part.error().message;
      visit(*part);
    }
  }
}

TEST(Tasks, EverySuiteHasCasesOfEveryRole) {
  EachSuite([](const Task& task) {
    for (const CaseRole role : {CaseRole::kSmoke, CaseRole::kSweep, CaseRole::kStability,
                                CaseRole::kEdge, CaseRole::kScored}) {
      EXPECT_TRUE(std::any_of(task.cases.begin(), task.cases.end(), [&](const Case& c) {
        return c.role == role;
      })) << Name(role);
    }
  });
}

TEST(Tasks, EverySuiteScoresOneCaseButBatchedQrAllOfItsRankedOnes) {
  EachSuite([](const Task& task) {
    const auto scored = std::count_if(task.cases.begin(), task.cases.end(),
                                      [](const Case& c) { return c.role == CaseRole::kScored; });
    if (task.name == "qr") {
      EXPECT_TRUE(scored == 12 || scored == 22) << scored;
    } else {
      EXPECT_EQ(scored, 1);
    }
  });
}

TEST(Tasks, SuiteAutokernelIsScoredInFp16) {
  int tasks = 0;
  EachSuite([&](const Task& task) {
    if (task.suites.front() != "autokernel") return;
    ++tasks;
    for (const Case& c : task.cases) {
      if (c.role != CaseRole::kScored) continue;
      EXPECT_EQ(c.tensors[0].dtype, DType::kF16);
    }
  });
  EXPECT_EQ(tasks, 9);
}

TEST(Tasks, SuiteCrfmIsInFp32ButForAttention) {
  EachSuite([](const Task& task) {
    if (task.suites.front() != "crfm" || task.name == "attention") return;
    EXPECT_EQ(task.demanded, PrecisionClass::kFp32);
    for (const Case& c : task.cases) EXPECT_EQ(c.tensors[0].dtype, DType::kF32) << c.name;
  });
}

TEST(Tasks, TargetsOfCrossEntropyCoverTheClassesAndNoMore) {
  for (const Case& c : Load("cross_entropy").cases) {
    const Distribution& target = c.tensor("target")->distribution;
    EXPECT_EQ(target.kind, Distribution::Kind::kUniform) << c.name;
    EXPECT_EQ(target.a, 0) << c.name;
    EXPECT_EQ(target.b, static_cast<double>(*c.dim("V"))) << c.name;
  }
}

TEST(Tasks, AnFp16CaseOfAnFp32TaskDemandsFp16) {
  const Task task = Load("matmul");
  EXPECT_EQ(task.demanded, PrecisionClass::kFp32);
  EXPECT_EQ(task.FindCase("2048x2048x2048_f16")->demanded, PrecisionClass::kFp16);
  EXPECT_EQ(task.FindCase("2048x2048x2048_bf16")->demanded, PrecisionClass::kBf16);
  EXPECT_EQ(task.FindCase("2048x2048x2048_f32")->demanded, PrecisionClass::kFp32);
  EXPECT_EQ(task.FindCase("crfm")->demanded, PrecisionClass::kFp32);
}

TEST(Tasks, ConvolutionCostsAreResolved) {
  const Task conv = Load("conv2d");
  const Case* scored = conv.FindCase("crfm");
  EXPECT_THAT(scored->tensor("y")->shape, ElementsAre(100, 96, 55, 55));
  EXPECT_EQ(scored->flops, 2.0 * 100 * 96 * 55 * 55 * 3 * 11 * 11);
  const Task pooled = Load("conv2d_relu_maxpool");
  EXPECT_THAT(pooled.FindCase("crfm")->tensor("y")->shape, ElementsAre(100, 96, 27, 27));
  EXPECT_EQ(pooled.FindCase("crfm")->flops, scored->flops + 9.0 * 100 * 96 * 27 * 27);
}

TEST(SelectCases, TakesTheFirstSuiteByDefault) {
  const auto part = SelectCases(Load("softmax"), "", {});
  ASSERT_TRUE(part);
  EXPECT_THAT(part->suites, ElementsAre("crfm"));
  EXPECT_EQ(part->cases.size(), 18U);
  EXPECT_EQ(part->reduction.size(), part->cases.size());
  EXPECT_EQ(part->reference_elements_per_block.size(), part->cases.size());
  EXPECT_EQ(part->demanded, PrecisionClass::kFp32);
  for (std::size_t i = 0; i < part->cases.size(); ++i) {
    EXPECT_EQ(part->reduction[i], part->cases[i].dim("N"));
  }
}

TEST(SelectCases, ANamedExtraCaseIsScoredInsteadOfThePrimaryOne) {
  const auto part = SelectCases(Load("softmax"), "autokernel", {"1024x1024_bf16", "32x128_f16"});
  ASSERT_TRUE(part);
  std::vector<std::string> scored;
  for (const Case& c : part->cases) {
    if (c.role == CaseRole::kScored) scored.push_back(c.name);
    EXPECT_NE(c.role, CaseRole::kExtra);
  }
  EXPECT_THAT(scored, ::testing::UnorderedElementsAre("1024x1024_bf16", "32x128_f16"));
  EXPECT_EQ(part->demanded, PrecisionClass::kBf16) << "the least precise of them";
}

TEST(SelectCases, ACaseFindsItsSuite) {
  const auto part = SelectCases(Load("matmul"), "", {"4096x4096x4096_f16"});
  ASSERT_TRUE(part);
  EXPECT_THAT(part->suites, ElementsAre("autokernel"));
  EXPECT_EQ(part->demanded, PrecisionClass::kFp16);
}

TEST(DemandClass, AnotherClassIsDemandedOfEveryCaseAndSaid) {
  const auto task = DemandClass(*SelectCases(Load("matmul"), "", {}), "tf32");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->demanded, PrecisionClass::kTf32);
  for (const Case& c : task->cases) EXPECT_GE(*c.demanded, PrecisionClass::kTf32) << c.name;
  EXPECT_EQ(DescribeDemand(*task), "class tf32 is demanded, not the task's fp32");
}

TEST(DemandClass, NoBetterThanTheOutputsTypeCanShow) {
  const auto task =
      DemandClass(*SelectCases(Load("softmax"), "autokernel", {"32x128_f16"}), "fp32");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->FindCase("32x128_f16")->demanded, PrecisionClass::kFp16);
  EXPECT_EQ(task->demanded, PrecisionClass::kFp16);
  EXPECT_EQ(DescribeDemand(*task), "") << "nothing changed for what is scored";
}

TEST(DemandClass, TheTasksOwnChangesNothing) {
  const auto task = DemandClass(*SelectCases(Load("matmul"), "", {}), "fp32");
  ASSERT_TRUE(task);
  EXPECT_FALSE(task->instead_of);
  EXPECT_EQ(DescribeDemand(*task), "");
}

TEST(DemandClass, UnknownClassesAndTasksWithACheckerAreRefused) {
  const auto unknown = DemandClass(Load("matmul"), "fp23");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("fp32"));
  const auto gates = DemandClass(*SelectCases(Load("qr"), "", {}), "fp16");
  ASSERT_FALSE(gates);
  EXPECT_EQ(gates.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(gates.error().message, HasSubstr("--profile"));
}

TEST(SelectCases, UnknownNamesAreNotFoundWithTheNearest) {
  const Task task = Load("softmax");
  const auto suite = SelectCases(task, "autokernl", {});
  ASSERT_FALSE(suite);
  EXPECT_EQ(suite.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(suite.error().message, HasSubstr("did you mean 'autokernel'?"));
  const auto named = SelectCases(task, "autokernel", {"1024x1024_f61"});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(named.error().message, HasSubstr("did you mean '1024x1024_f16'?"));
}

TEST(SelectCases, AnotherSuitesCaseAndACheckCannotBeScored) {
  const Task task = Load("softmax");
  EXPECT_FALSE(SelectCases(task, "crfm", {"1024x1024_f16"}));
  EXPECT_FALSE(SelectCases(task, "crfm", {"smoke"}));
}

TEST(Tasks, CheckCasesStaySmallEnoughForTheEmulator) {
  const auto names = ListTasks(Tasks());
  ASSERT_TRUE(names);
  for (const std::string& name : *names) {
    const Task task = Load(name);
    for (const Case& c : task.cases) {
      if (c.role == CaseRole::kScored || c.role == CaseRole::kExtra) continue;
      // A fifth of a second there at most: qr's n = 320.
      EXPECT_LE(c.flops, 5e7) << name << " " << c.name;
      EXPECT_LE(c.min_bytes.value, std::int64_t{4} << 20) << name << " " << c.name;
    }
  }
}

TEST(Tasks, SoftmaxCostsAreResolved) {
  const Task task = Load("softmax");
  const Case* scored = task.FindCase("crfm");
  ASSERT_NE(scored, nullptr);
  EXPECT_EQ(scored->role, CaseRole::kScored);
  EXPECT_EQ(scored->dim("M"), 4096);
  EXPECT_EQ(scored->dim("N"), 65536);
  EXPECT_EQ(scored->flops, 5.0 * 4096 * 65536);
  EXPECT_EQ(scored->min_bytes, Bytes(std::int64_t{2} * 4 * 4096 * 65536));
  EXPECT_EQ(task.reduction[0], 65536);
  EXPECT_EQ(task.reference_elements_per_block[0], 65536);
  EXPECT_EQ(task.demanded, PrecisionClass::kFp32);
  EXPECT_THAT(task.suites, ElementsAre("crfm", "autokernel"));
  EXPECT_EQ(task.FindCase("4096x50257_f16")->role, CaseRole::kExtra);
  EXPECT_EQ(task.FindCase("4096x50257_f16")->min_bytes, Bytes(std::int64_t{2} * 2 * 4096 * 50257));
}

TEST(Tasks, LayernormCostsAndScalarsAreResolved) {
  const Task task = Load("layernorm");
  const Case* scored = task.FindCase("crfm");
  ASSERT_NE(scored, nullptr);
  const std::int64_t row = 64 * 256 * 256;
  EXPECT_THAT(scored->tensor("x")->shape, ElementsAre(16, 64, 256, 256));
  EXPECT_EQ(scored->tensor("gamma")->elements(), row);
  EXPECT_EQ(scored->min_bytes, Bytes(4 * (2 * 16 * row + 2 * row)));
  EXPECT_EQ(scored->row_elements, row);
  EXPECT_EQ(task.reduction[0], row);
  ASSERT_EQ(scored->scalars.size(), 1U);
  EXPECT_EQ(scored->scalars[0].name, "eps");
  EXPECT_EQ(scored->scalars[0].dtype, DType::kF32);
  EXPECT_EQ(scored->scalars[0].value, 1e-5);
}

TEST(Tasks, MatmulCostsAreResolved) {
  const Task task = Load("matmul");
  const Case* scored = task.FindCase("crfm");
  ASSERT_NE(scored, nullptr);
  EXPECT_EQ(scored->flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(scored->min_bytes, Bytes(std::int64_t{3} * 4 * 4096 * 4096));
  EXPECT_EQ(scored->row_elements, 4096);
  EXPECT_EQ(task.FindCase("m257_n1_k63")->row_elements, 257);
  EXPECT_EQ(task.reference_elements_per_block[0], 256);
}

TEST(Tasks, OnlyIllConditionedCasesOverrideTheTolerance) {
  const Task task = Load("layernorm");
  EXPECT_EQ(task.FindCase("large_mean")->tolerance, 3e-2);
  EXPECT_EQ(task.FindCase("crfm")->tolerance, std::nullopt);
  EXPECT_EQ(task.FindCase("large_mean")->tensor("x")->distribution.a, 1000);
  EXPECT_EQ(task.FindCase("large_mean")->tensor("gamma")->distribution.kind,
            Distribution::Kind::kUniform);
}

TEST(Tasks, AnUnknownNameIsNotFoundWithTheNearest) {
  const auto task = LoadTask(Tasks(), "sofmax");
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(task.error().message, HasSubstr("did you mean 'softmax'?"));
}

TEST(Tasks, ANameCannotLeaveTheFolder) {
  EXPECT_EQ(LoadTask(Tasks() / "softmax", "../matmul").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(LoadTask(Tasks(), "").error().code, ErrorCode::kNotFound);
}

class TaskFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("task_folder_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy(Tasks() / "softmax", folder_ / "softmax");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(TaskFolder, ACopyLoads) { EXPECT_TRUE(LoadTask(folder_, "softmax")); }

TEST_F(TaskFolder, AMissingProgramFileIsNamed) {
  for (const char* file : {"reference.cu", "reference.json", "seed.cu", "seed.json"}) {
    const auto path = folder_ / "softmax" / file;
    std::filesystem::rename(path, folder_ / "aside");
    const auto task = LoadTask(folder_, "softmax");
    ASSERT_FALSE(task) << file;
    EXPECT_EQ(task.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(task.error().message, HasSubstr("missing file " + path.string()));
    std::filesystem::rename(folder_ / "aside", path);
  }
}

TEST_F(TaskFolder, AnOversizedProgramFileIsRefused) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "softmax" / "seed.cu", std::string((1 << 20) + 1, ' ')));
  const auto task = LoadTask(folder_, "softmax");
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("larger than the limit"));
}

TEST_F(TaskFolder, TheFolderAndTheNameMustAgree) {
  std::filesystem::rename(folder_ / "softmax", folder_ / "other");
  const auto task = LoadTask(folder_, "other");
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("name is 'softmax', but the folder is 'other'"));
}

TEST_F(TaskFolder, FoldersWithoutATaskFileAreNotListed) {
  std::filesystem::create_directories(folder_ / "notes");
  EXPECT_THAT(*ListTasks(folder_), ElementsAre("softmax"));
}

TEST_F(TaskFolder, AMissingFolderIsNotFound) {
  const auto names = ListTasks(folder_ / "nowhere");
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(names.error().message, HasSubstr("nowhere"));
}

TEST_F(TaskFolder, TheEnvironmentChoosesTheFolder) {
  ::setenv("GROVE_TASKS", folder_.c_str(), 1);
  EXPECT_EQ(DefaultTasksFolder(), folder_);
  ::setenv("GROVE_TASKS", "", 1);
  EXPECT_TRUE(std::filesystem::exists(DefaultTasksFolder() / "softmax" / "task.toml"));
  ::unsetenv("GROVE_TASKS");
  EXPECT_TRUE(std::filesystem::exists(DefaultTasksFolder() / "softmax" / "task.toml"));
}

TEST(Names, OfClassesGoBothWays) {
  for (const auto c : {PrecisionClass::kFp64, PrecisionClass::kFp32, PrecisionClass::kTf32,
                       PrecisionClass::kFp16, PrecisionClass::kBf16, PrecisionClass::kFp8}) {
    EXPECT_EQ(PrecisionClassFromName(Name(c)), c);
  }
  EXPECT_EQ(PrecisionClassFromName("fp4"), std::nullopt);
}

}  // namespace
}  // namespace grove::seeds
