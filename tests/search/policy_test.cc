#include "search/policy.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/selection.h"
#include "tests/search/run_builder.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::FrontierKind;
using ::testing::HasSubstr;
using testing::RunBuilder;
using ::testing::StartsWith;

std::unique_ptr<Policy> Make(const std::string& name, int frontier, int reserve) {
  SearchConfig config;
  config.policy = name;
  config.frontier = frontier;
  config.reserve = reserve;
  auto policy = MakePolicy(config);
  EXPECT_TRUE(policy);
  return std::move(*policy);
}

void Interval(CandidateRow& row, double half) {
  auto& time = row.evaluation->case_times[0];
  time.low = time.time - Nanoseconds(half);
  time.high = time.time + Nanoseconds(half);
}

TEST(PolicyTest, AnUnknownNameIsRefusedWithTheNearest) {
  SearchConfig config;
  config.policy = "baem";
  const auto policy = MakePolicy(config);
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().message, HasSubstr("did you mean 'beam'"));
}

TEST(PolicyTest, EveryPolicyKeepsTheSeedWhenNothingPassed) {
  for (const std::string& name : PolicyNames()) {
    RunBuilder run;
    run.Round(1);
    run.Add("a", "seed", "one", 0);
    EXPECT_EQ(run.Names(run.Run(*Make(name, 3, 1))), "seed") << name;
  }
}

TEST(PolicyTest, EveryPolicyIsAPureFunctionOfTheRecords) {
  for (const std::string& name : PolicyNames()) {
    RunBuilder run;
    const auto policy = Make(name, 2, 1);
    for (int round = 1; round <= 4; ++round) {
      run.Round(round);
      const std::string parent =
          round == 1 ? "seed" : run.data().Find(run.data().frontier.back().candidate)->name;
      for (int i = 0; i < 6; ++i) {
        run.Add(fmt::format("r{}.{}", round, i), parent, fmt::format("idea {} {}", round, i % 4),
                900.0 - 70 * round + (i * 37 % 11) * 20);
      }
      run.Run(*policy);
    }
    // Asked again about each round, with the later rounds there, and by another object.
    for (int round = 1; round <= 4; ++round) {
      const auto again = Make(name, 2, 1)->Choose(run.data(), round);
      const auto stored = FrontierAfter(run.data(), round);
      ASSERT_EQ(again.frontier.size(), stored.size()) << name << round;
      for (std::size_t i = 0; i < stored.size(); ++i) {
        EXPECT_EQ(again.frontier[i].candidate, stored[i]->candidate) << name << round;
        EXPECT_EQ(again.frontier[i].why, stored[i]->why) << name << round;
      }
    }
  }
}

TEST(BeamTest, TakesTheFastestThatPassed) {
  RunBuilder run;
  run.Round(1);
  run.Add("a", "seed", "one", 300);
  run.Add("b", "seed", "two", 100);
  run.Add("c", "seed", "three", 0);
  run.Add("d", "seed", "four", 200);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 2, 0))), "b d");
}

TEST(BeamTest, AParentStaysUntilItIsBeaten) {
  RunBuilder run;
  const auto beam = Make("beam", 1, 0);
  run.Round(1);
  run.Add("a", "seed", "one", 500);
  run.Run(*beam);
  run.Round(2);
  run.Add("b", "a", "two", 600);
  EXPECT_EQ(run.Names(run.Run(*beam)), "a");
  run.Round(3);
  run.Add("c", "a", "three", 400);
  EXPECT_EQ(run.Names(run.Run(*beam)), "c");
}

TEST(BeamTest, SiblingsDoNotFillTheFrontier) {
  RunBuilder run;
  run.Round(1);
  run.Add("a1", "seed", "one", 100);
  run.Add("a2", "seed", "one", 101);
  run.Add("a3", "seed", "one", 102);
  run.Add("b1", "seed", "two", 400);
  run.Add("c1", "seed", "three", 500);
  const auto choice = run.Run(*Make("beam", 3, 0));
  EXPECT_EQ(run.Names(choice), "a1 b1 c1");
  EXPECT_EQ(run.WhyPruned(choice, "a2"), "a1 is made of the same ideas and is faster");
}

TEST(BeamTest, TheSameStepsInAnotherOrderAreOneKernel) {
  RunBuilder run;
  const auto beam = Make("beam", 2, 0);
  run.Round(1);
  run.Add("a", "seed", "Use float4", 500);
  run.Add("b", "seed", "one warp per row", 510);
  run.Run(*beam);
  run.Round(2);
  run.Add("ab", "a", "One warp per row", 300);
  run.Add("ba", "b", "use float4", 301);
  run.Add("c", "b", "something else", 450);
  EXPECT_EQ(run.Names(run.Run(*beam)), "ab c");
}

TEST(BeamTest, PlacesThatNobodyElseTakesGoToSiblings) {
  RunBuilder run;
  run.Round(1);
  run.Add("a1", "seed", "one", 100);
  run.Add("a2", "seed", "one", 101);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 3, 0))), "a1 seed a2");
}

TEST(BeamTest, AProgramHasOnePlace) {
  RunBuilder run;
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 101).identity = run.data().FindCandidate("a")->identity;
  run.Add("c", "seed", "three", 102);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 2, 0))), "a c");
}

TEST(BeamTest, OtherKindsOfTimeAreNotCompared) {
  RunBuilder run;
  run.Round(1);
  run.Add("a", "seed", "one", 100).evaluation->score_kind = results::TimeKind::kModelled;
  run.Add("b", "seed", "two", 200);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 1, 0))), "b");
}

TEST(TieTest, InsideTheNoiseTheSimplerWins) {
  RunBuilder run;
  run.Round(1);
  auto& a = run.Add("a", "seed", "one", 100);
  a.evaluation->case_times[0].launches = 3;
  Interval(a, 2);
  auto& b = run.Add("b", "seed", "two", 101);
  b.evaluation->case_times[0].launches = 1;
  Interval(b, 2);
  const auto choice = run.Run(*Make("beam", 1, 0));
  EXPECT_EQ(run.Names(choice), "b");
  EXPECT_THAT(choice.frontier[0].why, HasSubstr("a tie with a"));
}

TEST(TieTest, OutsideTheNoiseTheFasterWins) {
  RunBuilder run;
  run.Round(1);
  auto& a = run.Add("a", "seed", "one", 100);
  a.evaluation->case_times[0].launches = 3;
  Interval(a, 0.2);
  auto& b = run.Add("b", "seed", "two", 101);
  b.evaluation->case_times[0].launches = 1;
  Interval(b, 0.2);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 1, 0))), "a");
}

TEST(TieTest, WithAsManyLaunchesTheShorterSourceIsSimplerAndThenTheOlder) {
  RunBuilder run;
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 100);
  run.Add("c", "seed", "three", 100);
  const SourceSize size = [](const CandidateRow& row) { return row.name == "a" ? 900 : 800; };
  const auto& data = run.data();
  EXPECT_TRUE(IsSimpler(*data.FindCandidate("b"), *data.FindCandidate("a"), size));
  EXPECT_TRUE(IsSimpler(*data.FindCandidate("b"), *data.FindCandidate("c"), size));
  SearchConfig config;
  config.frontier = 1;
  config.reserve = 0;
  EXPECT_EQ(run.Names(run.Run(**MakePolicy(config, size))), "b");
  EXPECT_EQ(run.Names(Make("beam", 1, 0)->Choose(data, 1)), "a");  // not known: the older
}

TEST(TieTest, NoiseOfAMeanOfCasesIsThatOfIndependentErrors) {
  RunBuilder run;
  run.Round(1);
  auto& a = run.Add("a", "seed", "one", 100);
  Interval(a, 2);
  EXPECT_NEAR(NoiseOf(a), 0.02, 1e-12);
  a.evaluation->case_times.push_back(a.evaluation->case_times[0]);
  EXPECT_NEAR(NoiseOf(a), 0.02 * std::sqrt(2.0) / 2, 1e-12);
  a.evaluation->score_kind = results::TimeKind::kModelled;
  EXPECT_EQ(NoiseOf(a), 0);
}

// The best moves each byte three times and is at its own limit; the other moves it once and is not.
TEST(ReserveTest, HeadroomIsWhatTheBottleneckWouldLeave) {
  RunBuilder run;
  run.Round(1);
  const double bytes_of_100ns = 100 * 4200.0;  // the H200 copies about 4.2 bytes a picosecond
  auto& best = run.Add("best", "seed", "one", 310);
  best.evaluation->case_times[0].dram_bytes = 3 * bytes_of_100ns;
  auto& other = run.Add("other", "seed", "two", 400);
  other.evaluation->case_times[0].dram_bytes = bytes_of_100ns;
  const auto& data = run.data();
  const CandidateRow& b = *data.FindCandidate("best");
  const CategoryShares shares = SharesOf(data, {&b});
  const double of_best = PromiseOf(data, b, b, shares).headroom;
  const double of_other = PromiseOf(data, *data.FindCandidate("other"), b, shares).headroom;
  EXPECT_GT(of_other, of_best + 1);
}

TEST(ReserveTest, HoldsTheMostPromisingOfTheSlower) {
  RunBuilder run;
  run.Round(1);
  run.Add("fast", "seed", "one", 300, "memory access");
  run.Add("near", "seed", "two", 500, "memory access");
  run.Add("rare", "seed", "three", 510, "asynchrony and latency hiding");
  const auto choice = run.Run(*Make("beam", 1, 1));
  EXPECT_EQ(run.Names(choice), "fast | rare");
  EXPECT_THAT(choice.frontier[1].why, StartsWith("reserve: promise"));
  EXPECT_THAT(run.WhyPruned(choice, "near"), HasSubstr("promise"));
}

TEST(ReserveTest, APlaceLastsThreeRoundsAndIsNotTakenTwice) {
  RunBuilder run;
  const auto beam = Make("beam", 1, 1);
  run.Round(1);
  run.Add("fast", "seed", "one", 300);
  run.Add("slow", "seed", "two", 400);
  EXPECT_EQ(run.Names(run.Run(*beam)), "fast | slow");
  // Better-looking ones come every round, and do not take the place.
  for (int round = 2; round <= 3; ++round) {
    run.Round(round);
    run.Add(fmt::format("new{}", round), "fast", fmt::format("new {}", round), 310,
            "control flow and indexing");
    run.Add(fmt::format("child{}", round), "slow", fmt::format("child {}", round), 450);
    EXPECT_EQ(run.Names(run.Run(*beam)), "fast | slow") << round;
  }
  run.Round(4);
  run.Add("new4", "fast", "new 4", 310, "control flow and indexing");
  const auto choice = run.Run(*beam);
  EXPECT_EQ(run.Names(choice), "fast | new4");
  EXPECT_THAT(run.WhyPruned(choice, "slow"), HasSubstr("held a reserve place"));
  run.Round(5);
  EXPECT_EQ(run.Names(run.Run(*beam)), "fast | new4");
}

TEST(ReserveTest, AChildThatGainsTakesOverThePlaceAndItsTimeBeginsAnew) {
  RunBuilder run;
  const auto beam = Make("beam", 1, 1);
  run.Round(1);
  run.Add("fast", "seed", "one", 300);
  run.Add("slow", "seed", "two", 600);
  run.Run(*beam);
  run.Round(2);
  run.Add("better", "slow", "three", 450);
  const auto choice = run.Run(*beam);
  EXPECT_EQ(run.Names(choice), "fast | better");
  EXPECT_THAT(choice.frontier[1].why, HasSubstr("takes the place of slow"));
  for (int round = 3; round <= 4; ++round) {
    run.Round(round);
    run.Add(fmt::format("n{}", round), "fast", fmt::format("n {}", round), 310);
    EXPECT_EQ(run.Names(run.Run(*beam)), "fast | better") << round;
  }
}

TEST(ReserveTest, ADetourThatPaysOffWins) {
  RunBuilder run;
  const auto beam = Make("beam", 1, 1);
  run.Round(1);
  run.Add("fast", "seed", "one", 300);
  run.Add("detour", "seed", "two", 500);
  run.Run(*beam);
  run.Round(2);
  run.Add("payoff", "detour", "three", 200);
  run.Add("other", "fast", "four", 320);
  EXPECT_EQ(run.Names(run.Run(*beam)), "payoff | fast");
}

TEST(ReserveTest, WithoutAReserveTheDetourIsLost) {
  RunBuilder run;
  run.Round(1);
  run.Add("fast", "seed", "one", 300);
  run.Add("detour", "seed", "two", 500);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 1, 0))), "fast");
}

TEST(ReserveTest, NothingThatIsFarTooSlowIsKept) {
  RunBuilder run;
  run.Round(1);
  run.Add("fast", "seed", "one", 10);
  run.Add("slow", "seed", "two", 500);
  EXPECT_EQ(run.Names(run.Run(*Make("beam", 1, 1))), "fast");
}

TEST(GreedyTest, TakesTheOneFastest) {
  RunBuilder run;
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 200);
  EXPECT_EQ(run.Names(run.Run(*Make("greedy", 3, 0))), "a");
}

TEST(IslandsTest, EachKeepsItsOwnFastest) {
  RunBuilder run;
  const auto islands = Make("islands", 2, 0);
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 300);
  run.Add("c", "seed", "three", 400);
  EXPECT_EQ(run.Names(run.Run(*islands)), "a b");
  run.Round(2);
  run.Add("a1", "a", "four", 90);
  run.Add("a2", "a", "five", 95);
  run.Add("b1", "b", "six", 250);
  EXPECT_EQ(run.Names(run.Run(*islands)), "a1 b1");
}

TEST(IslandsTest, TheWeakestGoesOnFromTheStrongestsSecondLineage) {
  RunBuilder run;
  const auto islands = Make("islands", 2, 0);
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 300);
  run.Run(*islands);
  for (int round = 2; round <= 3; ++round) {
    run.Round(round);
    EXPECT_EQ(run.Names(run.Run(*islands)), "a b");
  }
  run.Round(4);
  run.Add("a1", "a", "four", 80);
  run.Add("a2", "a", "five", 85);
  const auto choice = run.Run(*islands);
  EXPECT_EQ(run.Names(choice), "a1 a2");
  EXPECT_THAT(choice.frontier[1].why, HasSubstr("moved to island 2 in place of b"));
}

TEST(PuctTest, ComesBackToAKernelThatWasTriedLess) {
  RunBuilder run;
  const auto puct = Make("puct", 1, 0);
  run.Round(1);
  run.Add("a", "seed", "one", 100);
  run.Add("b", "seed", "two", 110);
  EXPECT_EQ(run.Names(run.Run(*puct)), "a");
  std::set<std::string> tried;
  for (int round = 2; round <= 8; ++round) {
    run.Round(round);
    run.Add(fmt::format("c{}", round), "a", fmt::format("idea {}", round), 500);
    tried.insert(run.Names(run.Run(*puct)));
  }
  EXPECT_TRUE(tried.contains("b"));
}

TEST(PuctTest, WhatCameOfAKernelCountsForIt) {
  RunBuilder run;
  const auto puct = Make("puct", 2, 0);
  run.Round(1);
  run.Add("a", "seed", "one", 200);
  run.Add("b", "seed", "two", 210);
  run.Add("c", "seed", "three", 220);
  run.Run(*puct);
  run.Round(2);
  run.Add("b1", "b", "four", 50);
  const auto choice = run.Run(*puct);
  EXPECT_THAT(run.Names(choice), HasSubstr("b1"));
}

TEST(ExplainTest, SaysWhyAKernelWasKeptOrNot) {
  RunBuilder run;
  const auto beam = Make("beam", 1, 1);
  run.Round(1);
  run.Add("fast", "seed", "one", 300);
  run.Add("twin", "seed", "one", 330);
  run.Add("slow", "seed", "two", 400);
  run.Add("bad", "seed", "three", 0);
  run.Add("slower", "seed", "four", 700);
  run.Run(*beam);
  const auto why = [&](const char* name) {
    return Explain(run.data(), *run.data().FindCandidate(name), *beam);
  };
  EXPECT_THAT(why("fast"), StartsWith("kept after round 1, number 1 by time"));
  EXPECT_THAT(why("slow"), HasSubstr("reserve: promise"));
  EXPECT_THAT(why("twin"), HasSubstr("pruned: fast is made of the same ideas"));
  EXPECT_THAT(why("bad"), StartsWith("dropped: "));
  EXPECT_THAT(why("slower"), StartsWith("pruned: 2.33x the time of fast"));
  run.data().rounds[0].status = results::RoundStatus::kRunning;
  run.data().frontier.clear();
  EXPECT_EQ(why("slower"), "");
}

}  // namespace
}  // namespace grove::search
