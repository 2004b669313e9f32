#include "base/text_diff.h"

#include <string>

#include <gtest/gtest.h>

namespace grove {
namespace {

TEST(TextDiff, ApplyingTheLinesGivesTheOtherText) {
  const std::string before = "a\nb\nc\nd\ne\n", after = "b\nx\nc\ne\nf\n";
  std::string from, to;
  for (const DiffLine& line : DiffLines(before, after)) {
    if (line.kind != DiffLine::Kind::kAdded) from += line.text + "\n";
    if (line.kind != DiffLine::Kind::kRemoved) to += line.text + "\n";
  }
  EXPECT_EQ(from, before);
  EXPECT_EQ(to, after);
}

TEST(TextDiff, HunksAreThoseOfDiffU) {
  EXPECT_EQ(DiffHunks("a\nb\nc\n", "a\nB\nc\nd\n", 3), "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
  EXPECT_EQ(DiffHunks("a\n", "a\n", 3), "");
  EXPECT_EQ(DiffHunks("", "a\n", 3), "@@ -0,0 +1,1 @@\n+a\n");
}

TEST(TextDiff, UnchangedLinesAroundAChangeAreAsManyAsAsked) {
  EXPECT_EQ(DiffHunks("a\nb\nc\nd\ne\n", "a\nb\nC\nd\ne\n", 0), "@@ -3,1 +3,1 @@\n-c\n+C\n");
}

TEST(TextDiff, HunksCanBeUndone) {
  const std::string before = "a\nb\nc\nd\ne\nf\ng\nh\n";
  for (const char* after : {"a\nb\nc\nd\ne\nf\ng\nh\n", "b\nc\nd\ne\nf\ng\n", "",
                            "x\na\nb\nC\nd\ne\nf\ng\nh\ny\n", "h\ng\nf\n"}) {
    for (const int context : {0, 1, 3}) {
      EXPECT_EQ(UndoHunks(after, DiffHunks(before, after, context)), before) << after << context;
    }
  }
}

TEST(TextDiff, HunksOfAnotherTextAreNotUndone) {
  for (const char* hunks : {"@@ -1,1 +1,1 @@\n-a\n+B\n", "@@ -9,1 +9,1 @@\n-a\n+b\n",
                            "@@ -1 +1 @@\n", "@@ @@\n", "@@ -1,1 +0,1 @@\n", "@@ -1,1 +x,1 @@\n",
                            "words\n", "@@ -1,0 +99999999999999999999,0 @@\n"}) {
    EXPECT_FALSE(UndoHunks("b\nc\n", hunks)) << hunks;
  }
}

}  // namespace
}  // namespace grove
