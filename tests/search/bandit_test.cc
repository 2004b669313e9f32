#include "search/bandit.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "search/selection.h"

namespace grove::search {
namespace {

std::string Key(const results::CallKey& key) { return results::ToString(key); }
std::string Key(int n) { return Key({llm::Role::kCode, n / 100 + 1, 1, n % 10 + 1, n % 7 + 1, 0}); }

// Shares of `n` questions that each model gets.
std::vector<double> Shares(const std::vector<ArmRecord>& records, int n,
                           const std::vector<double>& weights = {}) {
  std::vector<double> shares(records.size());
  for (int i = 0; i < n; ++i) {
    shares[ChooseByGain(records, weights, 42, Key({llm::Role::kCode, i, 1, 1, 1, 0}))] += 1.0 / n;
  }
  return shares;
}

ArmRecord Record(int results, double gain, std::int64_t tokens) {
  ArmRecord record;
  record.calls = record.results = results;
  record.gain = gain * results;
  record.gain_squares = (gain * gain + 0.01) * results;
  record.tokens = tokens * results;
  return record;
}

TEST(DrawTest, DependsOnSeedKeyAndSaltAlone) {
  EXPECT_EQ(Draw(1, Key(5), 0), Draw(1, Key(5), 0));
  EXPECT_NE(Draw(1, Key(5), 0), Draw(2, Key(5), 0));
  EXPECT_NE(Draw(1, Key(5), 0), Draw(1, Key(6), 0));
  EXPECT_NE(Draw(1, Key(5), 0), Draw(1, Key(5), 1));
}

TEST(DrawTest, IsEven) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = Draw(7, Key({llm::Role::kIdea, i, 0, 0, 0, 0}), 0);
    ASSERT_GE(draw, 0);
    ASSERT_LT(draw, 1);
    sum += draw;
    squares += draw * draw;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.01);
}

TEST(WeightsTest, AreKeptToOverManyQuestions) {
  const std::vector<double> weights = {3, 0, 1};
  std::vector<int> count(3);
  for (int i = 0; i < 4000; ++i) {
    ++count[ChooseByWeight(weights, 1, Key({llm::Role::kCode, i, 1, 1, 1, 0}))];
  }
  EXPECT_NEAR(count[0], 3000, 150);
  EXPECT_EQ(count[1], 0);
  EXPECT_NEAR(count[2], 1000, 150);
}

TEST(WeightsTest, NoneAtAllMeansEqually) {
  const std::vector<double> weights = {0, 0};
  int first = 0;
  for (int i = 0; i < 1000; ++i) {
    first += ChooseByWeight(weights, 1, Key({llm::Role::kCode, i, 1, 1, 1, 0})) == 0 ? 1 : 0;
  }
  EXPECT_NEAR(first, 500, 80);
}

TEST(GainTest, UnknownModelsAreTriedEqually) {
  const auto shares = Shares({Record(0, 0, 0), Record(0, 0, 0)}, 2000);
  EXPECT_NEAR(shares[0], 0.5, 0.05);
}

TEST(GainTest, TheModelThatGainsMoreIsAskedMore) {
  const auto shares = Shares({Record(50, 0.30, 4000), Record(50, 0.05, 4000)}, 1000);
  EXPECT_GT(shares[0], 0.9);
}

TEST(GainTest, ACheapModelWinsWithLessGain) {
  // Half the gain for a tenth of the tokens.
  const auto shares = Shares({Record(50, 0.20, 20000), Record(50, 0.10, 2000)}, 1000);
  EXPECT_GT(shares[1], 0.9);
}

TEST(GainTest, AModelThatWasTriedLittleIsNotGivenUp) {
  const auto shares = Shares({Record(100, 0.15, 4000), Record(2, 0.0, 4000)}, 1000);
  EXPECT_GT(shares[1], 0.02);
  EXPECT_LT(shares[1], 0.5);
}

TEST(GainTest, AWeightIsAPreference) {
  const auto shares = Shares({Record(50, 0.2, 4000), Record(50, 0.2, 4000)}, 1000, {10, 1});
  EXPECT_GT(shares[0], 0.95);
}

TEST(GainTest, LearnsWhichModelIsBetter) {
  // Model 1 gains twice as much for the same tokens; 300 questions.
  std::vector<ArmRecord> records = {Record(0, 0, 0), Record(0, 0, 0)};
  int second = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string key = Key({llm::Role::kCode, i, 1, 1, 1, 0});
    const std::size_t chosen = ChooseByGain(records, {}, 3, key);
    const double gain = (chosen == 1 ? 0.3 : 0.15) * 2 * Draw(99, key, 0);
    ArmRecord& record = records[chosen];
    ++record.results;
    record.gain += gain;
    record.gain_squares += gain * gain;
    record.tokens += 4000;
    if (i >= 200 && chosen == 1) ++second;
  }
  EXPECT_GT(second, 85);
}

// Two rounds: in the first the model "a" had the idea and wrote branch 1, "b" wrote branch 2.
class RecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 2; ++i) data_.rounds.push_back({RoundId(i), i, {}, {}, {}});
    Call(1, {llm::Role::kIdea, 1, 1, 0, 0, 0}, "a", 100);
    Call(2, {llm::Role::kCode, 1, 1, 1, 1, 0}, "a", 1000);
    Call(3, {llm::Role::kCode, 1, 1, 1, 2, 0}, "b", 2000);
    Call(4, {llm::Role::kCode, 2, 1, 1, 1, 0}, "b", 5000);
    results::IdeaRow idea;
    idea.id = IdeaId(1);
    idea.round = RoundId(1);
    idea.number = 1;
    idea.call = CallId(1);
    data_.ideas.push_back(idea);
    Candidate(1, 0, 0, 1000);
    Candidate(2, 1, 1, 500);
    Candidate(3, 1, 2, 2000);
  }
  void Call(int id, results::CallKey key, const char* model, int tokens) {
    results::CallRow row;
    row.id = CallId(id);
    row.key = key;
    row.model = model;
    row.status = results::CallStatus::kAnswered;
    row.usage.completion = Tokens(tokens);
    data_.calls.push_back(row);
  }
  void Candidate(int id, int round, int branch, double ns) {
    results::CandidateRow row;
    row.id = CandidateId(id);
    row.round = RoundId(round);
    row.idea = IdeaId(round);
    row.parent = CandidateId(round);
    row.branch = branch;
    auto& e = row.evaluation.emplace();
    e.verdict.kind = eval::VerdictKind::kPass;
    e.score = Nanoseconds(ns);
    data_.candidates.push_back(row);
  }
  RoundResults Round(int index) {
    calls_.clear();
    for (const results::CallRow& call : data_.calls) {
      if (call.key.round == index) calls_.push_back(call);
    }
    return {index, calls_, CandidatesOf(data_, index)};
  }
  // Of the first `rounds` rounds.
  std::vector<ArmRecord> Records(llm::Role role, int rounds) {
    std::vector<ArmRecord> records;
    for (const char* model : {"a", "b", "c"}) records.emplace_back().model = model;
    for (int index = 1; index <= rounds; ++index) AddRound(Round(index), data_, role, records);
    return records;
  }
  results::RunData data_;
  std::vector<results::CallRow> calls_;  // of the round last asked for
};

TEST_F(RecordsTest, WritersAreCreditedWithTheirCandidates) {
  const auto records = Records(llm::Role::kCode, 1);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].results, 1);
  EXPECT_NEAR(records[0].gain, std::log(2.0), 1e-12);
  EXPECT_EQ(records[0].tokens, 1000);
  EXPECT_EQ(records[1].results, 1);
  EXPECT_EQ(records[1].gain, 0);  // slower than its parent: no gain, no debt
  EXPECT_EQ(records[2].results, 0);
}

TEST_F(RecordsTest, WhoHadTheIdeaIsCreditedWithAllItsCandidates) {
  const auto records = Records(llm::Role::kIdea, 1);
  EXPECT_EQ(records[0].results, 2);
  EXPECT_EQ(records[0].tokens, 100);
  EXPECT_EQ(records[1].results, 0);
}

TEST_F(RecordsTest, TheRoundThatRunsIsNotLookedAt) {
  EXPECT_EQ(Records(llm::Role::kCode, 1)[1].tokens, 2000);
  EXPECT_EQ(Records(llm::Role::kCode, 2)[1].tokens, 7000);
  EXPECT_EQ(Records(llm::Role::kCode, 0)[0].calls, 0);
}

TEST_F(RecordsTest, TheEnsembleAsksAmongThoseThatTakeTheRoleAndLearns) {
  Bandit bandit({{"a", {llm::Role::kCode, llm::Role::kRepair}, 1}, {"b", {}, 1}}, 5);
  EXPECT_EQ(bandit.Choose(llm::Role::kIdea, "idea r1.p1.i0.b0.t0"), "b");
  const auto share_of_a = [&] {
    int a = 0;
    for (int i = 0; i < 500; ++i) {
      a += bandit.Choose(llm::Role::kCode, Key({llm::Role::kCode, i, 1, 1, 1, 0})) == "a" ? 1 : 0;
    }
    return a;
  };
  EXPECT_NEAR(share_of_a(), 250, 60);
  // "a" doubled the speed of its candidate for half the tokens.
  bandit.Learn(Round(1), data_);
  EXPECT_GT(share_of_a(), 320);
}

TEST_F(RecordsTest, AQuestionAskedEarlyIsAskedTheSameAfterAResume) {
  const std::vector<llm::EnsembleMember> members = {{"a", {}, 1}, {"b", {}, 1}};
  // Round 2 shows that ideas of "a" cost much.
  Call(9, {llm::Role::kIdea, 2, 1, 0, 0, 0}, "a", 500000);
  Bandit first(members, 5), resumed(members, 5);
  first.Learn(Round(1), data_);               // round 2 runs and asks early for round 3
  for (int index = 1; index <= 2; ++index) {  // round 3 asks again after a kill
    resumed.Learn(Round(index), data_);
  }
  int differ = 0;
  for (int parent = 1; parent <= 400; ++parent) {
    const std::string early = Key({llm::Role::kIdea, 3, parent, 0, 1, 0});
    EXPECT_EQ(first.Choose(llm::Role::kIdea, early), resumed.Choose(llm::Role::kIdea, early));
    const std::string late = Key({llm::Role::kIdea, 3, parent, 0, 0, 0});
    differ += first.Choose(llm::Role::kIdea, late) != resumed.Choose(llm::Role::kIdea, late);
  }
  // What round 2 showed does count for those asked in their own time.
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace grove::search
