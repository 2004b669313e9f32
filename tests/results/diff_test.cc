#include "results/diff.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DiffTest, EqualTextsHaveNoDifference) {
  EXPECT_EQ(UnifiedDiff("a\nb\n", "a\nb\n", "x", "y", 3, false), "");
}

TEST(DiffTest, AddedAndRemovedLinesHaveTheirSignsAndPlaces) {
  EXPECT_EQ(UnifiedDiff("a\nb\nc\n", "a\nB\nc\nd\n", "x", "y", 3, false),
            "--- x\n+++ y\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
}

TEST(DiffTest, FarChangesAreHunksOfTheirOwn) {
  std::string before, after;
  for (int i = 0; i < 40; ++i) {
    before += "line " + std::to_string(i) + "\n";
    after += (i == 2 || i == 35 ? "changed " : "line ") + std::to_string(i) + "\n";
  }
  const std::string diff = UnifiedDiff(before, after, "x", "y", 1, false);
  EXPECT_THAT(diff, HasSubstr("@@ -2,3 +2,3 @@\n line 1\n-line 2\n+changed 2\n line 3\n"));
  EXPECT_THAT(diff, HasSubstr("@@ -35,3 +35,3 @@\n line 34\n-line 35\n+changed 35\n line 36\n"));
  EXPECT_THAT(diff, Not(HasSubstr("line 20")));
}

TEST(DiffTest, FromNothingEverythingIsAdded) {
  EXPECT_EQ(UnifiedDiff("", "a\n", "x", "y", 3, false), "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n");
}

TEST(DiffTest, ATerminalObeysNothingOfTheText) {
  const std::string diff = UnifiedDiff("a\n", "\x1b[31m\xe2\x80\xae\n", "x\n", "y", 3, false);
  EXPECT_THAT(diff, HasSubstr("+\\x1b[31m\\u202e\n"));
  EXPECT_THAT(diff, HasSubstr("--- x\\n\n"));
}

class DiffRunTest : public RunsFolder {};

TEST_F(DiffRunTest, NumbersSayTheGainPerCaseAndThePlanIsComparedToo) {
  auto store = Create("a");
  ASSERT_TRUE(RunSampleSearch(*store, {}));
  const RunData data = Load("a");
  const CandidateRow* best = data.Best();
  const CandidateRow* parent = data.Find(best->parent);
  const DiffSide before{&data, parent, {"// old\n", R"({"version":1,"a":1})"}};
  const DiffSide after{&data, best, {"// new\n", R"({"version":1,"a":2})"}};
  const std::string text = RenderDiff(before, after, {});
  EXPECT_THAT(text, HasSubstr("n512 cold"));
  EXPECT_THAT(text, HasSubstr("-// old\n+// new\n"));
  EXPECT_THAT(text, HasSubstr("-  \"a\": 1\n+  \"a\": 2\n"));
  EXPECT_THAT(text, HasSubstr("idea " + data.Find(best->idea)->name));
  const auto json = nlohmann::json::parse(DiffJson(before, after));
  EXPECT_NEAR(json["gain"].get<double>(), *SpeedUp(*parent, *best), 1e-12);
}

TEST_F(DiffRunTest, ModelledAndMeasuredTimesHaveNoGain) {
  auto store = Create("a");
  ASSERT_TRUE(RunSampleSearch(*store, {}));
  RunData data = Load("a");
  CandidateRow measured = *data.Best();
  measured.evaluation->score_kind = TimeKind::kMeasured;
  for (CaseTimeRow& time : measured.evaluation->case_times) time.kind = TimeKind::kMeasured;
  const DiffSide before{&data, data.Seed(), {}}, after{&data, &measured, {}};
  EXPECT_TRUE(nlohmann::json::parse(DiffJson(before, after))["gain"].is_null());
}

}  // namespace
}  // namespace grove::results
