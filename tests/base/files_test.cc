#include "base/files.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace grove {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "files_test";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FilesTest, WhatIsWrittenIsReadBack) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomic(folder_ / "x", content));
  EXPECT_EQ(ReadFile(folder_ / "x").value(), content);
}

TEST_F(FilesTest, NoTemporaryFileIsLeftBehind) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "x", "1"));
  ASSERT_TRUE(WriteFileAtomic(folder_ / "x", "2"));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1);
}

TEST_F(FilesTest, AMissingFileSaysWhichAndWhy) {
  const auto result = ReadFile(folder_ / "nothing");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("nothing"), std::string::npos);
}

TEST_F(FilesTest, AFileOverTheLimitIsRefused) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "x", "12345"));
  EXPECT_EQ(ReadFile(folder_ / "x", 4).error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(ReadFile(folder_ / "x", 5));
}

TEST_F(FilesTest, AFolderThatDoesNotExistIsAFailureNotACrash) {
  EXPECT_FALSE(WriteFileAtomic(folder_ / "no" / "x", "1"));
}

}  // namespace
}  // namespace grove
