// A task folder appears whole or not at all.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "seeds/importers/task_folder.h"
#include "tests/support/task_text.h"

namespace grove::importers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TaskFolderTest : public ::testing::Test {
 protected:
  TaskFolderTest()
      : tasks_(fs::path(::testing::TempDir()) / fmt::format("grove-folder-{}", getpid())) {
    fs::remove_all(tasks_);
  }
  ~TaskFolderTest() override { fs::remove_all(tasks_); }

  static void Fill(const fs::path& folder, const std::string& name, const std::string& title) {
    const std::string text = testing::TaskText({.name = name, .title = title, .stored = ""});
    EXPECT_TRUE(WriteFileAtomic(folder / "task.toml", text));
    for (const char* file : {"reference.cu", "reference.json", "seed.cu", "seed.json"}) {
      EXPECT_TRUE(WriteFileAtomic(folder / file, "x"));
    }
  }
  std::size_t Entries() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(tasks_)) ++count;
    return count;
  }

  fs::path tasks_;
};

TEST_F(TaskFolderTest, AWholeTaskIsPutIntoPlaceAndNothingElseStays) {
  {
    auto folder = TaskFolder::Make(tasks_, "one", false);
    ASSERT_TRUE(folder) << folder.error().message;
    Fill(folder->path(), "one", "first");
    EXPECT_FALSE(fs::exists(tasks_ / "one"));
    const auto placed = folder->Place();
    EXPECT_TRUE(placed) << placed.error().message;
  }
  EXPECT_TRUE(fs::exists(tasks_ / "one/task.toml"));
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(TaskFolderTest, OneThatIsNotFilledLeavesNothing) {
  { ASSERT_TRUE(TaskFolder::Make(tasks_, "one", false)); }
  EXPECT_EQ(Entries(), 0U);
}

TEST_F(TaskFolderTest, OneThatDoesNotLoadIsNotPlaced) {
  auto folder = TaskFolder::Make(tasks_, "one", false);
  ASSERT_TRUE(folder) << folder.error().message;
  Fill(folder->path(), "other", "first");
  const auto placed = folder->Place();
  ASSERT_FALSE(placed);
  EXPECT_THAT(placed.error().message, HasSubstr("does not load"));
  EXPECT_FALSE(fs::exists(tasks_ / "one"));
}

TEST_F(TaskFolderTest, AnExistingTaskIsReplacedOnlyWhenAsked) {
  auto first = TaskFolder::Make(tasks_, "one", false);
  ASSERT_TRUE(first) << first.error().message;
  Fill(first->path(), "one", "first");
  ASSERT_TRUE(first->Place());
  EXPECT_FALSE(TaskFolder::Make(tasks_, "one", false));
  auto second = TaskFolder::Make(tasks_, "one", true);
  ASSERT_TRUE(second) << second.error().message;
  Fill(second->path(), "one", "second");
  const auto placed = second->Place();
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_THAT(*ReadFile(tasks_ / "one/task.toml"), HasSubstr("second"));
}

TEST(TaskName, OfAnyTextIsALabel) {
  EXPECT_EQ(TaskNameOf("12_Gemm Max"), "12_Gemm_Max");
  EXPECT_EQ(TaskNameOf(""), "t");
  EXPECT_EQ(TaskNameOf(".."), "_.");
  EXPECT_EQ(TaskNameOf("-x"), "t-x");
  EXPECT_EQ(TaskNameOf(std::string(200, 'a')).size(), 60U);
}

}  // namespace
}  // namespace grove::importers
