#include "base/share.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace grove {
namespace {

class ShareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "share_test";
    std::filesystem::create_directories(folder_ / "prompts" / "ideas");
  }
  void TearDown() override {
    ::unsetenv("GROVE_SHARE");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(ShareTest, TheVariableComesFirst) {
  ::setenv("GROVE_SHARE", folder_.c_str(), 1);
  EXPECT_EQ(ShareFolder("prompts/ideas"), folder_ / "prompts/ideas");
}

TEST_F(ShareTest, AKindThatTheVariablesFolderLacksIsLookedForElsewhere) {
  ::setenv("GROVE_SHARE", folder_.c_str(), 1);
  EXPECT_TRUE(std::filesystem::is_directory(ShareFolder("tasks")));
  EXPECT_NE(ShareFolder("tasks"), folder_ / "tasks");
}

TEST_F(ShareTest, EveryKindIsFoundWithoutTheVariable) {
  for (const char* kind : {"tasks", "prompts/ideas", "prompts/codegen", "playbook"}) {
    EXPECT_TRUE(std::filesystem::is_directory(ShareFolder(kind))) << kind;
  }
}

TEST_F(ShareTest, AnUnknownKindIsThePlaceWhereItShouldBe) {
  EXPECT_TRUE(ShareFolder("nothing").string().ends_with("share/grove/nothing"));
}

}  // namespace
}  // namespace grove
