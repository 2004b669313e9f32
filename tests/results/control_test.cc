#include "results/control.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ControlTest : public RunsFolder {
 protected:
  void SetUp() override {
    RunsFolder::SetUp();
    store_ = Create("run");
    run_ = runs_ / "run";
  }
  ControlMessage Hint(std::string text) {
    ControlMessage message;
    message.text = std::move(text);
    return message;
  }
  void Drop(const std::string& name, const std::string& content) {
    fs::create_directories(run_ / "control");
    std::ofstream(run_ / "control" / name) << content;
  }
  std::unique_ptr<Store> store_;
  fs::path run_;
};

TEST_F(ControlTest, AMessageIsReadAsItWasPosted) {
  ControlMessage hint = Hint("try \"split-K\"\nand ümlauts");
  hint.branch = "r2.i3.b1";
  hint.rounds = 4;
  const auto key = PostControl(run_, hint, clock_);
  ASSERT_TRUE(key) << key.error().message;
  const auto inbox = ReadControl(run_);
  ASSERT_TRUE(inbox);
  ASSERT_EQ(inbox->messages.size(), 1U);
  EXPECT_EQ(inbox->messages[0].text, hint.text);
  EXPECT_EQ(inbox->messages[0].branch, "r2.i3.b1");
  EXPECT_EQ(inbox->messages[0].rounds, 4);
  EXPECT_EQ(inbox->messages[0].key, *key);
  EXPECT_GT(inbox->messages[0].time.time_since_epoch().count(), 0);
}

TEST_F(ControlTest, MessagesComeInTheOrderOfPosting) {
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(PostControl(run_, Hint(text), clock_));
  const auto inbox = ReadControl(run_);
  ASSERT_EQ(inbox->messages.size(), 3U);
  EXPECT_EQ(inbox->messages[0].text, "one");
  EXPECT_EQ(inbox->messages[2].text, "three");
}

TEST_F(ControlTest, TwoMessagesOfOneMomentAreTwo) {
  class Still final : public Clock {
   public:
    std::chrono::steady_clock::time_point Now() const override { return {}; }
    std::chrono::system_clock::time_point WallTime() const override { return {}; }
  } still;
  ASSERT_TRUE(PostControl(run_, Hint("one"), still));
  ASSERT_TRUE(PostControl(run_, Hint("two"), still));
  EXPECT_EQ(ReadControl(run_)->messages.size(), 2U);
}

TEST_F(ControlTest, WhatIsRemovedIsGoneAndMayBeRemovedAgain) {
  const auto key = PostControl(run_, Hint("one"), clock_);
  EXPECT_TRUE(RemoveControl(run_, *key));
  EXPECT_TRUE(RemoveControl(run_, *key));
  EXPECT_TRUE(ReadControl(run_)->messages.empty());
}

TEST_F(ControlTest, AHalfWrittenFileBesideIsNoMessage) {
  Drop("0001.json.tmp123", "{\"kind\": \"st");
  const auto inbox = ReadControl(run_);
  EXPECT_TRUE(inbox->messages.empty());
  EXPECT_TRUE(inbox->problems.empty());
}

TEST_F(ControlTest, GarbageIsReportedSetAsideAndHidesNothing) {
  Drop("0001.json", "{\"kind\": \"st");
  Drop("0002.json", "{\"kind\": \"explode\"}");
  Drop("0003.json", "{\"kind\": \"hint\", \"text\": \"\"}");
  Drop("0004.json", "{\"kind\": \"hint\", \"text\": \"x\", \"branch\": \"../../etc\"}");
  Drop("0005.json", "{\"kind\": \"hint\", \"text\": \"x\", \"rounds\": -3}");
  Drop("0006.json", std::string(100000, 'x'));
  ASSERT_TRUE(PostControl(run_, Hint("good"), clock_));
  const auto inbox = ReadControl(run_);
  ASSERT_TRUE(inbox);
  EXPECT_EQ(inbox->problems.size(), 6U);
  ASSERT_EQ(inbox->messages.size(), 1U);
  SetAsideBadControl(run_);
  const auto again = ReadControl(run_);
  EXPECT_TRUE(again->problems.empty());
  EXPECT_EQ(again->messages.size(), 1U);
  EXPECT_TRUE(fs::exists(run_ / "control" / "0001.json.bad"));
}

TEST_F(ControlTest, WhatCannotBeAHintIsRefusedBeforeItIsWritten) {
  EXPECT_THAT(PostControl(run_, Hint(" \n"), clock_).error().message, HasSubstr("empty"));
  EXPECT_THAT(PostControl(run_, Hint(std::string(4001, 'a')), clock_).error().message,
              HasSubstr("4000"));
  EXPECT_THAT(PostControl(run_, Hint("\xff\xfe"), clock_).error().message, HasSubstr("UTF-8"));
  ControlMessage hint = Hint("x");
  hint.branch = "a b";
  EXPECT_FALSE(PostControl(run_, hint, clock_));
  EXPECT_FALSE(fs::exists(run_ / "control"));
}

TEST_F(ControlTest, ARunThatIsNotThereTakesNoMessage) {
  const auto key = PostControl(runs_ / "nothing", Hint("x"), clock_);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, ErrorCode::kNotFound);
}

TEST(HintScopeTest, TravelsInTheKey) {
  for (const auto& [branch, rounds] :
       {std::pair<std::string, int>{"", 0}, {"r2.i3", 0}, {"", 5}, {"r2.i3.b1", 7}}) {
    ControlMessage message;
    message.key = "123-4-5";
    message.branch = branch;
    message.rounds = rounds;
    HintRow row;
    row.key = HintKey(message);
    EXPECT_EQ(ScopeOf(row).branch, branch) << row.key;
    EXPECT_EQ(ScopeOf(row).rounds, rounds) << row.key;
  }
}

class HintsInForceTest : public ::testing::Test {
 protected:
  // Rounds 1 to 5; the seed, r1.i1.b1 from it, r2.i4.b2 from that, and r1.i2.b1 beside them.
  void SetUp() override {
    for (int i = 1; i <= 5; ++i) data_.rounds.push_back({RoundId(i), i, {}, {}, {}});
    Idea(1, "r1.i1");
    Idea(2, "r1.i2");
    Idea(3, "r2.i4");
    Candidate(1, "seed", 0, 0);
    Candidate(2, "r1.i1.b1", 1, 1);
    Candidate(3, "r1.i2.b1", 2, 1);
    Candidate(4, "r2.i4.b2", 3, 2);
  }
  void Idea(int id, const char* name) {
    IdeaRow row;
    row.id = IdeaId(id);
    row.name = name;
    data_.ideas.push_back(row);
  }
  void Candidate(int id, const char* name, int idea, int parent) {
    CandidateRow row;
    row.id = CandidateId(id);
    row.name = name;
    row.idea = IdeaId(idea);
    row.parent = CandidateId(parent);
    data_.candidates.push_back(row);
  }
  void Hint(const char* key, int round, const char* kind = "hint") {
    HintRow row;
    row.id = static_cast<std::int64_t>(data_.hints.size()) + 1;
    row.key = key;
    row.kind = kind;
    row.round = RoundId(round);
    data_.hints.push_back(row);
  }
  std::size_t Count(const char* parent, int round) {
    return HintsInForce(data_, *data_.FindCandidate(parent), round).size();
  }
  RunData data_;
};

TEST_F(HintsInForceTest, AHintHoldsFromItsRoundOn) {
  Hint("k", 2);
  EXPECT_EQ(Count("seed", 1), 0U);
  EXPECT_EQ(Count("seed", 2), 1U);
  EXPECT_EQ(Count("seed", 5), 1U);
}

TEST_F(HintsInForceTest, RoundsLimitIt) {
  Hint("k?rounds=2", 2);
  EXPECT_EQ(Count("seed", 2), 1U);
  EXPECT_EQ(Count("seed", 3), 1U);
  EXPECT_EQ(Count("seed", 4), 0U);
}

TEST_F(HintsInForceTest, ABranchIsAKernelOrIdeaAndItsDescendants) {
  Hint("k?branch=r1.i1", 1);
  EXPECT_EQ(Count("seed", 2), 0U);
  EXPECT_EQ(Count("r1.i2.b1", 2), 0U);
  EXPECT_EQ(Count("r1.i1.b1", 2), 1U);
  EXPECT_EQ(Count("r2.i4.b2", 3), 1U);
}

TEST_F(HintsInForceTest, WhatNobodyTookYetAndGoalsAreNoHints) {
  Hint("a", 0);
  Hint("b", 1, "goal");
  EXPECT_EQ(Count("seed", 3), 0U);
}

TEST_F(HintsInForceTest, ACircleOfParentsEnds) {
  data_.candidates[1].parent = CandidateId(4);
  Hint("k?branch=r9.i9", 1);
  EXPECT_EQ(Count("r2.i4.b2", 2), 0U);
}

}  // namespace
}  // namespace grove::results
