#include "results/compare.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CompareTest : public RunsFolder {
 protected:
  RunData Make(const std::string& name, int rounds) {
    auto store = Create(name);
    EXPECT_TRUE(RunSampleSearch(*store, {.rounds = rounds}));
    store.reset();
    return Load(name);
  }
};

TEST_F(CompareTest, TheTargetIsWhatAllRunsReachedAndTokensCountToIt) {
  const RunData shorter = Make("a", 1), longer = Make("b", 3);
  const std::vector<const RunData*> runs = {&shorter, &longer};
  const auto target = TargetOf(runs, {});
  ASSERT_TRUE(target);
  EXPECT_DOUBLE_EQ(*target, *FiguresOf(shorter, std::nullopt).over_seed);
  const RunFigures figures = FiguresOf(longer, target);
  ASSERT_TRUE(figures.tokens_to_target);
  EXPECT_LT(*figures.tokens_to_target, figures.tokens);
  EXPECT_GT(figures.tokens_to_target->value, 0);
}

TEST_F(CompareTest, ATargetThatNobodyReachedIsNever) {
  const RunData run = Make("a", 1);
  EXPECT_FALSE(FiguresOf(run, 1e6).tokens_to_target);
  EXPECT_THAT(RenderComparison({&run}, {.target = 1e6}), HasSubstr("never"));
}

TEST_F(CompareTest, RunsThatDifferInTheirSeedAreSummed) {
  RunData a = Make("a", 1), b = Make("b", 2), c = Make("c", 1);
  a.run.config = R"({"task":"softmax","seed":1})";
  b.run.config = R"({"task":"softmax","seed":2})";
  c.run.config = R"({"task":"softmax","seed":1,"ideas":9})";
  const std::string text = RenderComparison({&a, &b, &c}, {});
  EXPECT_THAT(text, HasSubstr("2 runs of softmax that differ in their seed"));
  const auto json = nlohmann::json::parse(ComparisonJson({&a, &b, &c}, {}));
  ASSERT_EQ(json["repetitions"].size(), 1U);
  EXPECT_EQ(json["repetitions"][0]["runs"], nlohmann::json({"a", "b"}));
}

TEST_F(CompareTest, TheBestOfEachCaseHasAColumnPerRun) {
  const RunData a = Make("a", 1), b = Make("b", 3);
  const auto json = nlohmann::json::parse(ComparisonJson({&a, &b}, {}));
  EXPECT_GT(json["runs"][0]["cases"]["n512"], json["runs"][1]["cases"]["n512"]);
  EXPECT_THAT(RenderComparison({&a, &b}, {}), HasSubstr("best of case"));
}

TEST_F(CompareTest, ARunWithoutAnyKernelIsNoTarget) {
  const RunData done = Make("a", 1);
  Create("b").reset();
  const RunData empty = Load("b");
  EXPECT_FALSE(TargetOf({&done, &empty}, {}));
  EXPECT_THAT(RenderComparison({&done, &empty}, {}), Not(HasSubstr("target:")));
}

}  // namespace
}  // namespace grove::results
