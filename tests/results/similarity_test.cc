#include "results/harvest/similarity.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/program.h"

namespace grove::results {
namespace {

using ::testing::ElementsAre;

std::string Program(int salt, int lines = 60) {
  std::string out = "extern \"C\" __global__ void f(float* y) {\n";
  for (int i = 0; i < lines; ++i) {
    out += "  y[" + std::to_string(i * salt) + "] += " + std::to_string(i + salt) + ";\n";
  }
  return out + "}\n";
}

TEST(SimilarityTest, WordsLeaveOutCommentsAndSpace) {
  EXPECT_THAT(Words("a = b2; // c\n/* d\n e */ f_g"), ElementsAre("a", "=", "b2", ";", "f_g"));
  EXPECT_THAT(Words("# python\nx"), ElementsAre("x"));
  EXPECT_THAT(Words("#include <x>"), ElementsAre("#", "include", "<", "x", ">"));
  EXPECT_THAT(Words("/* never closed"), ElementsAre());
}

TEST(SimilarityTest, JaccardIsTheShareOfCommonRuns) {
  EXPECT_DOUBLE_EQ(Jaccard({1, 2, 3}, {2, 3, 4}), 0.5);
  EXPECT_DOUBLE_EQ(Jaccard({}, {}), 1);
  EXPECT_DOUBLE_EQ(Jaccard({1}, {}), 0);
}

TEST(SimilarityTest, AProgramWithOtherCommentsIsANearDuplicate) {
  NearDuplicates finder(0.95);
  EXPECT_EQ(finder.FindOrAdd(Program(3)), std::nullopt);
  EXPECT_EQ(finder.FindOrAdd("// another comment\n" + Program(3)), 0U);
}

TEST(SimilarityTest, OneChangedLineOfManyIsFoundAndAnotherProgramIsNot) {
  NearDuplicates finder(0.9);
  EXPECT_EQ(finder.FindOrAdd(Program(3, 200)), std::nullopt);
  EXPECT_EQ(finder.FindOrAdd(Program(7, 200)), std::nullopt);
  std::string changed = Program(7, 200);
  changed.replace(changed.find("+= 9"), 4, "-= 9");
  EXPECT_EQ(finder.FindOrAdd(changed), 1U);
}

TEST(SimilarityTest, OverlapNamesTheFileWithMostInCommon) {
  const testing::ScratchFolder scratch;
  std::filesystem::create_directories(scratch.path() / "level1");
  std::ofstream(scratch.path() / "level1" / "a.py") << Program(3);
  std::ofstream(scratch.path() / "b.cu") << Program(11);
  const auto benchmarks = Benchmarks::Read(scratch.path(), 8);
  ASSERT_TRUE(benchmarks);
  const auto same = benchmarks->Of(Program(11));
  EXPECT_DOUBLE_EQ(same.share, 1);
  EXPECT_EQ(same.file, "b.cu");
  EXPECT_EQ(benchmarks->Of(Program(3)).file, "level1/a.py");
  EXPECT_LT(benchmarks->Of("something else altogether, with nothing in common at all").share, 0.1);
}

TEST(SimilarityTest, AFolderWithoutTextIsSaidSo) {
  const testing::ScratchFolder scratch;
  EXPECT_EQ(Benchmarks::Read(scratch.path(), 8).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Benchmarks::Read(scratch.path() / "none", 8).error().code, ErrorCode::kNotFound);
  std::ofstream(scratch.path() / "binary") << std::string("a\0b", 3);
  EXPECT_FALSE(Benchmarks::Read(scratch.path(), 8));
}

}  // namespace
}  // namespace grove::results
