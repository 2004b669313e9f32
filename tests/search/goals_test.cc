#include "search/goals.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::search {
namespace {

using results::CandidateRow;
using results::RunData;
using results::TimeKind;
using ::testing::HasSubstr;

TEST(ParseGoalTest, ATimeOfACase) {
  const auto goal = ParseGoal("case n512 < 5000us");
  ASSERT_TRUE(goal) << goal.error().message;
  EXPECT_EQ(goal->kind, Goal::Kind::kTime);
  EXPECT_EQ(goal->case_name, "n512");
  EXPECT_DOUBLE_EQ(goal->time.count(), 5e6);
}

TEST(ParseGoalTest, EveryWayToWriteATime) {
  for (const char* text : {"< 1.5 ms", "<=1.5ms", "below 1500us", "under 0.0015s",
                           "time < 1500000ns", "  <  1.5e3 us  "}) {
    const auto goal = ParseGoal(text);
    ASSERT_TRUE(goal) << goal.error().message;
    EXPECT_DOUBLE_EQ(goal->time.count(), 1.5e6) << text;
    EXPECT_EQ(goal->case_name, "") << text;
  }
}

TEST(ParseGoalTest, ARatioOverABaseline) {
  const auto goal = ParseGoal("2.0x over cublas_fp32");
  ASSERT_TRUE(goal) << goal.error().message;
  EXPECT_EQ(goal->kind, Goal::Kind::kRatio);
  EXPECT_DOUBLE_EQ(goal->ratio, 2);
  EXPECT_EQ(goal->baseline, "cublas_fp32");
  EXPECT_EQ(ParseGoal("case a-1.b 1.25 x over seed")->case_name, "a-1.b");
}

TEST(ParseGoalTest, AShareOfAFloor) {
  const auto floor = ParseGoal("90% of floor");
  ASSERT_TRUE(floor) << floor.error().message;
  EXPECT_DOUBLE_EQ(floor->share, 0.9);
  EXPECT_TRUE(floor->class_floor);
  EXPECT_FALSE(ParseGoal("case c 42.5 % of sol")->class_floor);
}

TEST(ParseGoalTest, ErrorsNameTheirColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "column 1: expected '<'"},
      {"case", "column 5: expected the name of a case"},
      {"case n512 < 5000", "column 17: expected a unit"},
      {"case n512 < 5000 minutes", "column 18: expected a unit"},
      {"case n512 5000us", "column 15: expected 'x over"},
      {"< fast", "column 3: expected a time"},
      {"< -3us", "column 3: expected a number above 0"},
      {"< 0us", "column 3: expected a number above 0"},
      {"< infus", "column 3: expected a time"},
      {"2x", "column 3: expected 'over'"},
      {"2x over", "column 8: expected the name of a baseline"},
      {"2x over cublas please", "column 16: expected the end"},
      {"101% of floor", "column 1: nothing is faster"},
      {"90%", "column 4: expected 'of floor'"},
      {"90% of cublas", "column 8: expected 'floor' or 'sol'"},
  };
  for (const auto& [text, expected] : cases) {
    const auto goal = ParseGoal(text);
    ASSERT_FALSE(goal) << text;
    EXPECT_EQ(goal.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(goal.error().message, HasSubstr(expected)) << text;
  }
}

TEST(ParseGoalTest, HostileTextIsRefusedAndMadeVisible) {
  EXPECT_FALSE(ParseGoal(std::string(100000, '<')));
  const auto goal = ParseGoal("\x1b[2J< 1us");
  ASSERT_FALSE(goal);
  EXPECT_EQ(goal.error().message.find('\x1b'), std::string::npos);
}

TEST(CheckGoalTest, AnUnknownCaseIsNamedWithTheNearest) {
  const std::vector<std::string> cases = {"n512", "n2048"};
  EXPECT_TRUE(CheckGoal(*ParseGoal("case n512 < 1us"), cases));
  EXPECT_TRUE(CheckGoal(*ParseGoal("< 1us"), cases));
  const auto status = CheckGoal(*ParseGoal("case n521 < 1us"), cases);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("n512"));
}

class JudgeTest : public ::testing::Test {
 protected:
  // Times of the cases a and b; floors are 100 and 200 ns, class floors twice that.
  void Add(const char* name, double a, double b, TimeKind kind = TimeKind::kMeasured) {
    CandidateRow row;
    row.id = CandidateId(static_cast<std::int64_t>(data_.candidates.size()) + 1);
    row.name = name;
    row.status = results::CandidateStatus::kEvaluated;
    auto& e = row.evaluation.emplace();
    e.verdict.kind = eval::VerdictKind::kPass;
    e.score = Nanoseconds(std::sqrt(a * b));
    e.score_kind = kind;
    for (const auto& [case_name, time, floor] :
         {std::tuple{"a", a, 100.0}, std::tuple{"b", b, 200.0}}) {
      results::CaseTimeRow t;
      t.case_name = case_name;
      t.kind = kind;
      t.time = Nanoseconds(time);
      t.floor = Nanoseconds(floor);
      t.class_floor = Nanoseconds(2 * floor);
      e.case_times.push_back(t);
    }
    data_.candidates.push_back(std::move(row));
  }
  GoalProgress Of(const char* text, std::vector<NamedTime> baselines = {}) {
    const auto goal = ParseGoal(text);
    EXPECT_TRUE(goal) << goal.error().message;
    return Judge(*goal, data_, baselines);
  }
  RunData data_;
};

TEST_F(JudgeTest, NothingIsMetBeforeThereIsATime) {
  EXPECT_FALSE(Of("< 1s").met);
  EXPECT_THAT(Of("case a < 1s").text, HasSubstr("no kernel"));
}

TEST_F(JudgeTest, TheScoreIsTheBestKernels) {
  Add("seed", 4000, 4000);
  Add("r1.i1.b1", 1000, 1000);
  EXPECT_TRUE(Of("< 1001ns").met);
  const auto progress = Of("< 500ns");
  EXPECT_FALSE(progress.met);
  EXPECT_DOUBLE_EQ(progress.reached, 0.5);
  EXPECT_EQ(progress.kernel, "r1.i1.b1");
}

TEST_F(JudgeTest, ACaseIsMetByItsOwnFastestKernel) {
  Add("seed", 1000, 1000);
  Add("r1.i1.b1", 500, 4000);
  EXPECT_TRUE(Of("case a < 600ns").met);
  EXPECT_EQ(Of("case a < 600ns").kernel, "r1.i1.b1");
  EXPECT_FALSE(Of("case b < 600ns").met);
  EXPECT_EQ(Of("case b < 600ns").kernel, "seed");
}

TEST_F(JudgeTest, AFailedKernelMeetsNothing) {
  Add("seed", 1000, 1000);
  Add("r1.i1.b1", 10, 10);
  data_.candidates[1].evaluation->verdict.kind = eval::VerdictKind::kWrongResult;
  EXPECT_FALSE(Of("case a < 600ns").met);
  EXPECT_FALSE(Of("< 600ns").met);
}

TEST_F(JudgeTest, ARatioIsOverEveryCaseOfTheBaseline) {
  Add("seed", 1000, 1000);
  Add("r1.i1.b1", 250, 250);
  EXPECT_TRUE(Of("4x over seed").met);
  EXPECT_FALSE(Of("4.1x over seed").met);
  const std::vector<NamedTime> cublas = {{"cublas", "a", Nanoseconds(500), TimeKind::kMeasured},
                                         {"cublas", "b", Nanoseconds(500), TimeKind::kMeasured}};
  EXPECT_TRUE(Of("2x over cublas", cublas).met);
  EXPECT_FALSE(Of("2.1x over cublas", cublas).met);
  EXPECT_THAT(Of("2x over cublas", {cublas[0]}).text, HasSubstr("no time for every case"));
  // The library's name means its variant of the demanded class, else the fastest of its variants.
  data_.task.demanded = "fp32";
  std::vector<NamedTime> variants;
  for (const char* name : {"a", "b"}) {
    variants.push_back({"cublas_fp32", name, Nanoseconds(500), TimeKind::kMeasured});
    variants.push_back({"cublas_tf32", name, Nanoseconds(100), TimeKind::kMeasured});
  }
  EXPECT_TRUE(Of("2x over cublas", variants).met);
  EXPECT_THAT(Of("2x over cublas", variants).text, HasSubstr("cublas_fp32"));
  EXPECT_FALSE(Of("2x over cublas_tf32", variants).met);
  data_.task.demanded = "fp16";
  EXPECT_FALSE(Of("2x over cublas", variants).met);
  EXPECT_TRUE(Of("0.39x over cublas", variants).met);
  EXPECT_THAT(Of("2x over cublsa", cublas).text, HasSubstr("did you mean 'cublas'"));
}

TEST_F(JudgeTest, OfSeveralTimesOfABaselineTheHardestCounts) {
  Add("seed", 1000, 1000);
  const std::vector<NamedTime> two = {{"lib", "a", Nanoseconds(5000), TimeKind::kMeasured},
                                      {"lib", "a", Nanoseconds(1500), TimeKind::kMeasured}};
  EXPECT_FALSE(Of("case a 2x over lib", two).met);
}

TEST_F(JudgeTest, ModelledAndMeasuredAreNotCompared) {
  Add("seed", 1000, 1000, TimeKind::kModelled);
  const std::vector<NamedTime> cublas = {{"cublas", "a", Nanoseconds(50000), TimeKind::kMeasured}};
  const auto progress = Of("case a 2x over cublas", cublas);
  EXPECT_FALSE(progress.met);
  EXPECT_THAT(progress.text, HasSubstr("not comparable"));
}

TEST_F(JudgeTest, AShareIsOfTheFloorThatIsNamed) {
  Add("seed", 250, 500);
  EXPECT_TRUE(Of("80% of floor").met);  // 200 / 250 and 400 / 500
  EXPECT_FALSE(Of("81% of floor").met);
  EXPECT_TRUE(Of("40% of sol").met);
  EXPECT_FALSE(Of("41% of sol").met);
  data_.candidates[0].evaluation->case_times[0].class_floor = Nanoseconds(0);
  EXPECT_THAT(Of("80% of floor").text, HasSubstr("not known"));
}

TEST_F(JudgeTest, AllGoalsMustBeMetAndThereMustBeOne) {
  Add("seed", 1000, 1000);
  const std::vector<std::string> none, one = {"< 2us"}, two = {"< 2us", "< 1us"};
  EXPECT_FALSE(JudgeAll(none, data_).all_met);
  EXPECT_TRUE(JudgeAll(one, data_).all_met);
  EXPECT_FALSE(JudgeAll(two, data_).all_met);
}

TEST_F(JudgeTest, GoalsAddedLaterCountAsWell) {
  Add("seed", 1000, 1000);
  const std::vector<std::string> one = {"< 2us"};
  results::HintRow goal;
  goal.kind = "goal";
  goal.text = "< 1us";
  data_.hints.push_back(goal);
  goal.text = "nonsense";
  data_.hints.push_back(goal);
  const auto state = JudgeAll(one, data_);
  EXPECT_EQ(state.goals.size(), 2U);
  EXPECT_FALSE(state.all_met);
}

}  // namespace
}  // namespace grove::search
