#include "eval/tile_edges.h"

#include <gtest/gtest.h>

namespace grove::eval {
namespace {

seeds::Case CaseOf(std::vector<seeds::Dim> dims) {
  seeds::Case c;
  c.name = "smoke";
  c.dims = std::move(dims);
  return c;
}

std::vector<DimTile> Tiles(const std::string& launches, std::vector<FreeDim> free_dims,
                           const std::string& before = "") {
  const auto plan =
      codegen::ParsePlan("{\"version\": 1, " + before + "\"launches\": [" + launches + "]}");
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  return FindTiles(*plan, CaseOf({{"M", 4}, {"N", 128}}), codegen::DeviceLimits{}, free_dims);
}

const std::vector<FreeDim> kBoth = {{"M", 1, 4096}, {"N", 1, 65536}};

TEST(FindTiles, ACeilingDivisionInTheGridIsATile) {
  const auto tiles = Tiles(
      R"j({"kernel": "k", "grid": ["ceil_div(N, 64)", "ceil_div(M, 128)"], "block": [256], "args": []})j",
      kBoth);
  ASSERT_EQ(tiles.size(), 2U);
  EXPECT_EQ(tiles[0].dim, "M");
  EXPECT_EQ(tiles[0].tile, 128);
  EXPECT_EQ(tiles[1].dim, "N");
  EXPECT_EQ(tiles[1].tile, 64);
}

TEST(FindTiles, HoweverTheDivisionIsWritten) {
  for (const char* grid : {"(N + 95) / 96", "N / 96 + 1", "(N - 1) / 96 + 1",
                           "ceil_div(M, 16) * ((N + 95) / 96)", "min(ceil_div(N, 96), sm_count)"}) {
    const auto tiles = Tiles(R"j({"kernel": "k", "grid": [")j" + std::string(grid) +
                                 R"j("], "block": [256], "args": []})j",
                             {{"N", 1, 65536}});
    ASSERT_EQ(tiles.size(), 1U) << grid;
    EXPECT_EQ(tiles[0].tile, 96) << grid;
  }
}

TEST(FindTiles, ADimThatNothingCutsIsWalkedByTheThreadsOfABlock) {
  const auto tiles =
      Tiles(R"j({"kernel": "k", "grid": ["M"], "block": [32, 6], "args": []})j", kBoth);
  // One block for each row: M is not cut into anything.
  ASSERT_EQ(tiles.size(), 1U);
  EXPECT_EQ(tiles[0].dim, "N");
  EXPECT_EQ(tiles[0].tile, 192);
}

TEST(FindTiles, TheStepsOfARepeatAreTiles) {
  const auto tiles = Tiles(
      R"j({"repeat": {"var": "p", "from": 0, "to": "N", "step": 48, "launches": [
           {"kernel": "k", "grid": [1], "block": [128], "args": ["p"]}]}})j",
      {{"N", 1, 65536}});
  ASSERT_EQ(tiles.size(), 1U);
  EXPECT_EQ(tiles[0].tile, 48);
}

TEST(FindTiles, OfSeveralTheLargestCounts) {
  const auto tiles = Tiles(
      R"j({"kernel": "k", "grid": ["ceil_div(N, 32)"], "block": [64], "args": []},
         {"kernel": "k", "grid": ["ceil_div(N, 256)"], "block": [64], "args": []})j",
      {{"N", 1, 65536}});
  ASSERT_EQ(tiles.size(), 1U);
  EXPECT_EQ(tiles[0].tile, 256);
}

TEST(FindTiles, ATileBeyondTheDimsRangeIsNone) {
  EXPECT_TRUE(Tiles(R"j({"kernel": "k", "grid": ["ceil_div(N, 64)"], "block": [256], "args": []})j",
                    {{"N", 1, 64}})
                  .empty());
}

TEST(FindTiles, WhatOverflowsOrDividesByZeroIsPassedOver) {
  EXPECT_TRUE(
      Tiles(
          R"j({"kernel": "k", "grid": ["N * 9223372036854775807 / (N - N)"], "block": [1], "args": []})j",
          {{"N", 1, 65536}})
          .empty());
}

TEST(EdgeDims, AreOneBelowAtAndOneAbove) {
  const auto cases = EdgeDims({{"M", 128}, {"N", 64}}, kBoth);
  ASSERT_EQ(cases.size(), 3U);
  const std::int64_t expected[3][2] = {{127, 63}, {128, 64}, {129, 65}};
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(cases[i].size(), 2U);
    EXPECT_EQ(cases[i][0].value, expected[i][0]);
    EXPECT_EQ(cases[i][1].value, expected[i][1]);
  }
}

TEST(EdgeDims, StayInsideTheRangeOfTheDim) {
  const auto cases = EdgeDims({{"N", 64}}, {{"N", 64, 64}});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0][0].value, 64);
  EXPECT_TRUE(EdgeDims({}, kBoth).empty());
}

}  // namespace
}  // namespace grove::eval
