#include "base/temporary_folder.h"

#include <stdlib.h>

#include <optional>

#include <gtest/gtest.h>

#include "base/files.h"

namespace grove {
namespace {

TEST(TemporaryFolder, IsGoneWithWhatIsInIt) {
  std::filesystem::path path;
  {
    auto folder = TemporaryFolder::Make("grove-test");
    ASSERT_TRUE(folder) << folder.error().message;
    path = folder->path();
    EXPECT_TRUE(path.filename().string().starts_with("grove-test-"));
    ASSERT_TRUE(WriteFileAtomic(path / "file", "text"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, BelongsToWhomItWasMovedTo) {
  std::optional<TemporaryFolder> last;
  {
    auto folder = TemporaryFolder::Make("grove-test");
    ASSERT_TRUE(folder);
    last.emplace(std::move(*folder));
  }
  EXPECT_TRUE(std::filesystem::is_directory(last->path()));
}

TEST(TemporaryFolder, TwoOfOnePrefixAreApart) {
  auto a = TemporaryFolder::Make("grove-test");
  auto b = TemporaryFolder::Make("grove-test");
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->path(), b->path());
}

TEST(TemporaryFolder, SaysWhereItCouldNotBeMade) {
  const char* old = getenv("TMPDIR");
  const std::optional<std::string> before = old != nullptr ? std::optional(old) : std::nullopt;
  setenv("TMPDIR", "/nowhere/at/all", 1);
  auto folder = TemporaryFolder::Make("grove-test");
  if (before) {
    setenv("TMPDIR", before->c_str(), 1);
  } else {
    unsetenv("TMPDIR");
  }
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kResource);
}

}  // namespace
}  // namespace grove
