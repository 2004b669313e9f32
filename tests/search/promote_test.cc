// Who has the first place on a device that measures: whoever wins side by side, not whoever was
// timed in a lucky moment.
#include "search/promote.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/store.h"
#include "search/candidate.h"
#include "search/search.h"
#include "search/selection.h"
#include "tests/search/run_builder.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::PromotionRow;
using results::RunData;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TinyPlan;
using testing::TinySource;

class PromoteWinnersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.task = "tiny";
    config_.rounds = 1;
    config_.ideas = 2;
    config_.branches = 1;
    config_.frontier = 2;
    config_.reserve = 0;
    config_.repairs = 0;
    device_.measures = true;
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator) << evaluator.error().message;
    evaluator_ = std::move(*evaluator);
  }

  // A run whose ideas are "alpha" and "beta" and whose programs behave as `first` and `second` say.
  RunData Run(const std::string& first, const std::string& second = "// @time 2000\n") {
    testing::ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
      const int round = rounds_;
      if (request.role == llm::Role::kIdea) {
        ++rounds_;
        return fmt::format(
            R"({{"ideas": [{{"title": "alpha{0}", "category": "memory access", "rationale": "r"}},
                {{"title": "beta{0}", "category": "data type and precision", "rationale": "r"}}]}})",
            round);
      }
      const bool alpha = request.messages[0].text.find("title: alpha") != std::string::npos;
      return "```cuda\n" + TinySource(alpha ? first : second) + "```\n```json\n" + TinyPlan() +
             "\n```\n";
    });
    const bool fresh = !std::filesystem::exists(folder_.path() / "run" / "run.db");
    auto store = fresh ? results::Store::Create(folder_.path(),
                                                MakeRunStart("run", task_, config_, "test"), clock_)
                       : results::Store::Open(folder_.path(), "run", clock_);
    EXPECT_TRUE(store) << store.error().message;
    const SearchParts parts{task_,   *evaluator_, device_, client,
                            **store, observer_,   nullptr, profiler_};
    auto summary = RunSearch(parts, config_, {});
    requests_ = client.requests();
    EXPECT_TRUE(summary) << summary.error().message;
    summary_ = summary.value_or(SearchSummary());
    auto data = (*store)->Load();
    EXPECT_TRUE(data);
    return data.value_or(RunData());
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  std::unique_ptr<eval::Evaluator> evaluator_;
  SearchConfig config_;
  SearchSummary summary_;
  Profiler profiler_;
  std::vector<llm::Request> requests_;
  std::atomic<int> rounds_{0};
};

TEST_F(PromoteWinnersTest, AWinnerIsMeasuredBesideTheBestBeforeIt) {
  const RunData data = Run("// @time 800\n");
  ASSERT_THAT(data.promotions, SizeIs(1));
  const PromotionRow& contest = data.promotions[0];
  EXPECT_EQ(data.Find(contest.challenger)->name, "r1.i1.b1");
  EXPECT_EQ(data.Find(contest.incumbent)->name, "seed");
  EXPECT_TRUE(contest.promoted);
  EXPECT_EQ(contest.gpu_uuid, "GPU-fake");
  EXPECT_EQ(device_.pairs_taken(), 1);
  EXPECT_EQ(summary_.best, "r1.i1.b1");
  EXPECT_THAT(data.frontier[0].why, HasSubstr("beat seed side by side: 20.00% faster"));
  EXPECT_TRUE(results::CheckStore(folder_.path() / "run"));
}

TEST_F(PromoteWinnersTest, ALuckyTimeDoesNotTakeTheFirstPlace) {
  // Timed alone it looked faster than the seed's 1000 ns; side by side it is not.
  const RunData data = Run("// @time 900\n// @pairtime 1100\n");
  ASSERT_THAT(data.promotions, SizeIs(1));
  EXPECT_FALSE(data.promotions[0].promoted);
  EXPECT_EQ(data.promotions[0].outcome, eval::Contest::kSlower);
  EXPECT_EQ(summary_.best, "seed");
  EXPECT_EQ(data.Best()->name, "seed");
  // It goes on behind its winner.
  ASSERT_THAT(data.frontier, SizeIs(2));
  EXPECT_EQ(data.Find(data.frontier[0].candidate)->name, "seed");
  EXPECT_EQ(data.Find(data.frontier[1].candidate)->name, "r1.i1.b1");
  EXPECT_THAT(data.frontier[1].why, HasSubstr("did not beat seed side by side"));
}

TEST_F(PromoteWinnersTest, AGainInsideTheNoiseIsNoGainOfTheSearch) {
  device_.pair_noise = 0.2;
  config_.rounds = 20;
  config_.patience = 1;
  const RunData data = Run("// @time 900\n// many words more than the seed has to say\n");
  ASSERT_FALSE(data.promotions.empty());
  EXPECT_EQ(data.promotions[0].outcome, eval::Contest::kTie);
  EXPECT_FALSE(data.promotions[0].promoted);
  EXPECT_THAT(summary_.reason, HasSubstr("converged: no gain in 2 rounds"));
}

TEST_F(PromoteWinnersTest, AChallengerThatFailsBesideTheIncumbentStaysBehindIt) {
  const RunData data = Run("// @time 500\n// @pair trap\n");
  ASSERT_THAT(data.promotions, SizeIs(1));
  EXPECT_EQ(data.promotions[0].outcome, eval::Contest::kFault);
  EXPECT_EQ(summary_.best, "seed");
}

TEST_F(PromoteWinnersTest, WhenTheFastestLosesTheNextOneHasItsChance) {
  const RunData data = Run("// @time 700\n// @pairtime 1200\n", "// @time 800\n");
  ASSERT_THAT(data.promotions, SizeIs(2));
  EXPECT_FALSE(data.promotions[0].promoted);
  EXPECT_TRUE(data.promotions[1].promoted);
  EXPECT_EQ(summary_.best, "r1.i2.b1");
}

TEST_F(PromoteWinnersTest, WhoIsClearlySlowerThanTheNewFirstDoesNotChallengeIt) {
  const RunData data = Run("// @time 700\n", "// @time 800\n");
  ASSERT_THAT(data.promotions, SizeIs(1));
  EXPECT_EQ(device_.pairs_taken(), 1);
  EXPECT_EQ(summary_.best, "r1.i1.b1");
}

TEST_F(PromoteWinnersTest, NothingFasterNoContest) {
  const RunData data = Run("// @time 1500\n");
  EXPECT_THAT(data.promotions, IsEmpty());
  EXPECT_EQ(device_.pairs_taken(), 0);
}

TEST_F(PromoteWinnersTest, ModelledTimesHaveNoContests) {
  device_.measures = false;
  const RunData data = Run("// @time 500\n");
  EXPECT_THAT(data.promotions, IsEmpty());
  EXPECT_EQ(summary_.best, "r1.i1.b1");
}

TEST_F(PromoteWinnersTest, ContestsTakeGpuSecondsOfTheLedger) {
  config_.limits = {{results::LedgerKind::kGpuSeconds, results::LedgerSpan::kRun, 10000}};
  const RunData data = Run("// @time 800\n");
  const auto entry = std::find_if(data.ledger.begin(), data.ledger.end(), [](const auto& row) {
    return row.key.starts_with("contest r1.i1.b1 seed");
  });
  ASSERT_NE(entry, data.ledger.end());
  EXPECT_EQ(entry->kind, results::LedgerKind::kGpuSeconds);
  EXPECT_GT(entry->reserved, 0);
  ASSERT_TRUE(entry->settled);
  EXPECT_LT(*entry->settled, entry->reserved);
}

// A seed of 1000 ns and one candidate of the first round, both with their verdicts.
class OneCandidateTest : public PromoteWinnersTest {
 protected:
  void Make(const std::string& directives, double ns) {
    auto store =
        results::Store::Create(folder_.path(), MakeRunStart("run", task_, config_, "t"), clock_);
    ASSERT_TRUE(store);
    store_ = std::move(*store);
    auto tree = RunTree::Open(*store_);
    ASSERT_TRUE(tree);
    tree_ = std::move(*tree);
    const auto seed = tree_->RecordSeed(Draft(""));
    ASSERT_TRUE(seed);
    ASSERT_TRUE(tree_->Conclude(*seed, Evaluated(1000)));
    const auto round = tree_->BeginRound(1);
    ASSERT_TRUE(round);
    round_ = *round;
    results::IdeaDraft idea;
    idea.title = "alpha";
    idea.category = "memory access";
    idea.number = idea.ordinal = 1;
    const auto added = tree_->AddIdea(round_, *seed, idea);
    ASSERT_TRUE(added);
    const auto asked = tree_->Request(*added, 1);
    ASSERT_TRUE(asked);
    ASSERT_TRUE(tree_->Receive(asked->front().id, Draft(directives)));
    ASSERT_TRUE(tree_->Conclude(asked->front().id, Evaluated(ns)));
  }

  eval::ComparePrograms Compare() {
    return [this](const auto& incumbent, const auto& challenger) {
      return evaluator_->ComparePair(incumbent, challenger);
    };
  }

  static results::ProgramDraft Draft(const std::string& directives) {
    const auto program = codegen::MakeProgram(TinySource(directives), TinyPlan()).value();
    results::ProgramDraft made;
    made.source = program.source;
    made.plan = program.plan_json;
    made.identity = program.identity();
    return made;
  }
  static results::EvaluationRow Evaluated(double ns) {
    results::EvaluationRow row;
    row.verdict.kind = eval::VerdictKind::kPass;
    row.score = Nanoseconds(ns);
    row.score_kind = results::TimeKind::kMeasured;
    return row;
  }

  std::unique_ptr<results::Store> store_;
  std::unique_ptr<RunTree> tree_;
  RoundId round_;
};

TEST_F(OneCandidateTest, AContestThatTheBudgetRefusesIsSaid) {
  config_.limits = {{results::LedgerKind::kGpuSeconds, results::LedgerSpan::kRun, 10000}};
  Make("// @time 800\n", 800);
  Ledger ledger(*store_, {{results::LedgerKind::kGpuSeconds, results::LedgerSpan::kRun, 1}}, {});
  const PromoteParts parts{*tree_, Compare(), ledger, observer_, true};
  ASSERT_TRUE(PromoteWinners(parts, round_, {}));
  EXPECT_EQ(device_.pairs_taken(), 0);
  EXPECT_THAT(tree_->data().promotions, IsEmpty());
  ASSERT_THAT(observer_.lines(), SizeIs(1));
  EXPECT_THAT(observer_.lines()[0], HasSubstr("r1.i1.b1 was not measured beside seed"));
  EXPECT_TRUE(ledger.exhausted());

  // With room for it, it is held, and a second call finds it held.
  Ledger larger(*store_, {{results::LedgerKind::kGpuSeconds, results::LedgerSpan::kRun, 1000}}, {});
  const PromoteParts more{*tree_, Compare(), larger, observer_, true};
  ASSERT_TRUE(PromoteWinners(more, round_, {}));
  ASSERT_TRUE(PromoteWinners(more, round_, {}));
  EXPECT_EQ(device_.pairs_taken(), 1);
  ASSERT_THAT(tree_->data().promotions, SizeIs(1));
  EXPECT_EQ(tree_->Best()->name, "r1.i1.b1");
}

// Another machine's GPU of the round is 3% slower than that of the seed's time.
TEST_F(OneCandidateTest, WhoAnotherMachineFoundFasterBesideTheFirstChallengesItWhateverItsTime) {
  Make("// @time 1020\n// @pairtime 985\n", 1020);
  Ledger ledger(*store_, {}, {});
  PromoteParts parts{*tree_, Compare(), ledger, observer_};
  // By its own time it challenges nobody.
  ASSERT_TRUE(PromoteWinners(parts, round_, {}));
  EXPECT_THAT(tree_->data().promotions, IsEmpty());
  int looked = 0;
  parts.beside = [&](const Hash& incumbent,
                     const Hash& challenger) -> std::optional<std::vector<eval::CasePair>> {
    ++looked;
    EXPECT_EQ(incumbent, *tree_->data().Seed()->identity);
    const auto* row = tree_->data().FindCandidate("r1.i1.b1");
    EXPECT_EQ(challenger, *row->identity);
    const auto pairs = evaluator_->ComparePair(*ProgramOf(*tree_, *tree_->data().Seed()),
                                               *ProgramOf(*tree_, *row));
    EXPECT_TRUE(pairs);
    return *pairs;
  };
  ASSERT_TRUE(PromoteWinners(parts, round_, {}));
  EXPECT_EQ(looked, 1);
  ASSERT_THAT(tree_->data().promotions, SizeIs(1));
  EXPECT_TRUE(tree_->data().promotions[0].promoted);
  EXPECT_EQ(tree_->Best()->name, "r1.i1.b1");
}

// It is slower by its time and by the contest, or no faster: nothing to look at.
TEST_F(OneCandidateTest, WhoWasNotFasterThereEitherChallengesNobody) {
  Make("// @time 1020\n// @pairtime 999\n", 1020);
  Ledger ledger(*store_, {}, {});
  PromoteParts parts{*tree_, Compare(), ledger, observer_};
  parts.beside = [&](const Hash&, const Hash&) {
    const auto pairs =
        evaluator_->ComparePair(*ProgramOf(*tree_, *tree_->data().Seed()),
                                *ProgramOf(*tree_, *tree_->data().FindCandidate("r1.i1.b1")));
    return std::optional(*pairs);
  };
  ASSERT_TRUE(PromoteWinners(parts, round_, {}));
  EXPECT_THAT(tree_->data().promotions, IsEmpty());
  EXPECT_EQ(tree_->Best()->name, "seed");
}

TEST_F(PromoteWinnersTest, AResumedRunRemembersWhoWon) {
  config_.rounds = 1;
  RunData data = Run("// @time 900\n// @pairtime 1100\n");
  config_.rounds = 2;
  data = Run("// @time 950\n// @pairtime 980\n");
  // The second round's challenger met the seed, not the one that had lost to it.
  ASSERT_THAT(data.promotions, SizeIs(2));
  EXPECT_EQ(data.Find(data.promotions[1].incumbent)->name, "seed");
  EXPECT_TRUE(data.promotions[1].promoted);
  EXPECT_EQ(data.Find(data.promotions[1].challenger)->name, summary_.best);
}

TEST_F(PromoteWinnersTest, WhatAProfilerSaysOfTheFrontierStandsInTheNextPrompts) {
  config_.rounds = 2;
  std::atomic<int> profiled{0};
  profiler_ = [&](const codegen::KernelProgram& program) -> Result<KernelProfile> {
    ++profiled;
    if (program.source.find("2000") != std::string::npos) {
      return Fail(ErrorCode::kUnavailable, "counters are not permitted");
    }
    return KernelProfile{"DRAM 84% of peak\n", "all of it"};
  };
  const RunData data = Run("// @time 800\n");
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->profile, "DRAM 84% of peak\n");
  int told = 0;
  for (const llm::Request& request : requests_) {
    if (request.role != llm::Role::kIdea) continue;
    if (request.messages[0].text.find("DRAM 84% of peak") != std::string::npos) ++told;
  }
  EXPECT_EQ(told, 2);  // the winner's and the seed's; the seed's of round 1 had none
  // Only where a round follows: the last frontier seeds nothing.
  EXPECT_EQ(profiled, static_cast<int>(std::count_if(
                          data.frontier.begin(), data.frontier.end(),
                          [&](const auto& row) { return data.Find(row.round)->index == 1; })));
  EXPECT_TRUE(results::CheckStore(folder_.path() / "run"));
}

TEST_F(PromoteWinnersTest, WhatCannotBeProfiledGoesOnWithout) {
  config_.rounds = 2;
  profiler_ = [](const codegen::KernelProgram&) -> Result<KernelProfile> {
    return Fail(ErrorCode::kUnavailable, "counters are not permitted");
  };
  const RunData data = Run("// @time 800\n");
  EXPECT_EQ(summary_.rounds, 2);
  EXPECT_TRUE(std::any_of(data.events.begin(), data.events.end(), [](const auto& event) {
    return event.kind == "profile" &&
           event.text.find("counters are not permitted") != std::string::npos;
  }));
}

// A package must carry it, or the other machine cannot measure a winner beside it.
TEST(ContestOrderTest, TheFastestIsChallengedAlsoWhereASimplerOneHasItsPlaceInTheFrontier) {
  testing::RunBuilder run(1000);
  run.Round(1);
  run.Add("simple", "seed", "one", 505);
  run.Add("fast", "seed", "two", 500);
  run.data().frontier.push_back({RoundId(1), run.data().FindCandidate("simple")->id, 1,
                                 results::FrontierKind::kFastest, "ties with fast"});
  run.Round(2);
  run.Add("late", "simple", "three", 400);
  for (CandidateRow& row : run.data().candidates) {
    row.evaluation->score_kind = results::TimeKind::kMeasured;
  }
  ASSERT_NE(ChampionBefore(run.data(), RoundId(2)), nullptr);
  EXPECT_EQ(ChampionBefore(run.data(), RoundId(2))->name, "fast");
}

TEST(ContestOrderTest, TheLoserStandsBehindItsWinnerWhateverTheScoresSay) {
  testing::RunBuilder run(1000);
  run.Round(1);
  run.Add("a", "seed", "one", 500);
  run.Add("b", "seed", "two", 490);
  run.Add("c", "seed", "three", 480);
  RunData& data = run.data();
  const auto contest = [&](const std::string& challenger, const std::string& incumbent,
                           bool promoted) {
    PromotionRow row;
    row.challenger = data.FindCandidate(challenger)->id;
    row.incumbent = data.FindCandidate(incumbent)->id;
    row.promoted = promoted;
    data.promotions.push_back(row);
  };
  EXPECT_EQ(data.Best()->name, "c");
  contest("c", "seed", true);
  contest("b", "c", true);
  EXPECT_EQ(data.Best()->name, "b");
  contest("a", "b", false);
  EXPECT_EQ(data.Best()->name, "b");
  Kernels kernels;
  for (const CandidateRow& row : data.candidates) kernels.push_back(&row);
  std::string order;
  for (const CandidateRow* kernel : InOrder(data, kernels)) order += kernel->name + " ";
  EXPECT_EQ(order, "b c a seed ");
}

TEST(ContestOrderTest, WhoWonTheFirstPlaceIsNotPassedByASimplerKernelThatItNeverMet) {
  testing::RunBuilder run(1000);
  run.Round(1);
  run.Add("old", "seed", "one", 500);
  run.Add("winner", "seed", "two", 490);
  run.Add("simple", "seed", "three", 495);
  RunData& data = run.data();
  for (CandidateRow& row : data.candidates) {
    for (auto& time : row.evaluation->case_times) {
      time.low = time.time * 0.98;
      time.high = time.time * 1.02;
      time.launches = row.name == "simple" ? 1 : 2;
    }
  }
  const auto order = [&] {
    Kernels kernels;
    for (const CandidateRow& row : data.candidates) kernels.push_back(&row);
    std::string names;
    for (const CandidateRow* kernel : InOrder(data, kernels)) names += kernel->name + " ";
    return names;
  };
  EXPECT_EQ(order(), "simple old winner seed ");
  PromotionRow contest;
  contest.challenger = data.FindCandidate("winner")->id;
  contest.incumbent = data.FindCandidate("old")->id;
  contest.promoted = true;
  data.promotions.push_back(contest);
  EXPECT_EQ(order(), "winner simple old seed ");
}

}  // namespace
}  // namespace grove::search
