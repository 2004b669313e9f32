// The three tasks of the source tree, and finding and loading tasks from a folder.
#include "seeds/task.h"

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
    EXPECT_THAT(task.reference.source, HasSubstr("__global__"));
    EXPECT_THAT(task.reference.plan, HasSubstr("\"version\": 1"));
    EXPECT_THAT(task.seed.source, HasSubstr("__global__"));
    EXPECT_THAT(task.seed.plan, HasSubstr("\"version\": 1"));
  }
}

TEST(Tasks, EveryOneHasCasesOfEveryRole) {
  for (const char* name : {"softmax", "layernorm", "matmul"}) {
    SCOPED_TRACE(name);
    const Task task = Load(name);
    for (const CaseRole role : {CaseRole::kSmoke, CaseRole::kSweep, CaseRole::kStability,
                                CaseRole::kEdge, CaseRole::kScored}) {
      EXPECT_TRUE(std::any_of(task.cases.begin(), task.cases.end(), [&](const Case& c) {
        return c.role == role;
      })) << Name(role);
    }
  }
}

TEST(Tasks, CheckCasesStaySmallEnoughForTheEmulator) {
  for (const char* name : {"softmax", "layernorm", "matmul"}) {
    const Task task = Load(name);
    for (const Case& c : task.cases) {
      if (c.role == CaseRole::kScored) continue;
      EXPECT_LE(c.flops, 1e7) << name << " " << c.name;
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
  EXPECT_THAT(task.suites, ElementsAre("crfm"));
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
