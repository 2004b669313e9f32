#include "search/portfolio.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::search {
namespace {

using results::CandidateRow;
using results::RunData;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlanPortfolioTest : public ::testing::Test {
 protected:
  void Case(const char* name, std::vector<seeds::Dim> dims, const char* role = "scored") {
    results::CaseRow row;
    row.name = name;
    row.role = role;
    row.dims = std::move(dims);
    if (row.role == "scored") scored_.emplace_back(name);
    data_.cases.push_back(std::move(row));
  }
  void Kernel(const char* name, const std::vector<double>& times) {
    CandidateRow row;
    row.id = CandidateId(static_cast<std::int64_t>(data_.candidates.size()) + 1);
    row.name = name;
    auto& e = row.evaluation.emplace();
    e.verdict.kind = eval::VerdictKind::kPass;
    double sum = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      results::CaseTimeRow time;
      time.case_name = scored_[i];
      time.time = Nanoseconds(times[i]);
      e.case_times.push_back(time);
      sum += std::log(times[i]);
    }
    e.score = Nanoseconds(std::exp(sum / static_cast<double>(times.size())));
    data_.candidates.push_back(std::move(row));
  }
  RunData data_;
  std::vector<std::string> scored_;
};

TEST_F(PlanPortfolioTest, DifferentWinnersAreCombined) {
  Case("small", {{"N", 512}});
  Case("large", {{"N", 2048}});
  Case("edge", {{"N", 7}}, "edge");
  Kernel("a", {100, 1000});
  Kernel("b", {200, 400});
  const auto portfolio = PlanPortfolio(data_);
  ASSERT_TRUE(portfolio);
  ASSERT_EQ(portfolio->parts.size(), 2U);
  EXPECT_EQ(portfolio->parts[0].kernel->name, "a");
  EXPECT_EQ(portfolio->parts[0].when, "N <= 1280");
  EXPECT_THAT(portfolio->parts[0].cases, ElementsAre("small"));
  EXPECT_EQ(portfolio->parts[1].kernel->name, "b");
  EXPECT_EQ(portfolio->parts[1].when, "");
  EXPECT_NEAR(portfolio->gain, std::sqrt(200.0 * 400) / std::sqrt(100.0 * 400), 1e-9);
  EXPECT_THAT(portfolio->title, HasSubstr("a for small, b for the rest"));
}

TEST_F(PlanPortfolioTest, OneWinnerOfAllNeedsNoCombination) {
  Case("small", {{"N", 512}});
  Case("large", {{"N", 2048}});
  Kernel("a", {100, 300});
  Kernel("b", {200, 400});
  EXPECT_FALSE(PlanPortfolio(data_));
}

TEST_F(PlanPortfolioTest, AGainInsideTheNoiseIsNone) {
  Case("small", {{"N", 512}});
  Case("large", {{"N", 2048}});
  Kernel("a", {100, 1000});
  Kernel("b", {110, 400});
  EXPECT_TRUE(PlanPortfolio(data_));
  for (CandidateRow& row : data_.candidates) {
    auto& time = row.evaluation->case_times[0];
    time.low = time.time * 0.9;
    time.high = time.time * 1.1;
  }
  EXPECT_FALSE(PlanPortfolio(data_));
}

TEST_F(PlanPortfolioTest, CasesThatNoDimTellsApartGoTogether) {
  Case("dense", {{"N", 512}});
  Case("rank", {{"N", 512}});
  Kernel("a", {100, 1000});
  Kernel("b", {200, 400});
  EXPECT_FALSE(PlanPortfolio(data_));
}

TEST_F(PlanPortfolioTest, ARangeInTheMiddleHasTwoBounds) {
  Case("s", {{"N", 100}});
  Case("m", {{"N", 200}});
  Case("l", {{"N", 400}});
  Kernel("common", {100, 500, 100});
  Kernel("middle", {300, 100, 300});
  const auto portfolio = PlanPortfolio(data_);
  ASSERT_TRUE(portfolio);
  EXPECT_EQ(portfolio->parts[0].when, "N > 150 && N <= 300");
}

TEST_F(PlanPortfolioTest, WinnersThatNoThresholdSeparatesAreNamedExactly) {
  Case("a", {{"M", 8}, {"N", 100}, {"K", 5}});
  Case("b", {{"M", 8}, {"N", 200}, {"K", 5}});
  Case("c", {{"M", 8}, {"N", 300}, {"K", 5}});
  Kernel("common", {500, 100, 500});
  Kernel("outer", {100, 900, 100});
  const auto portfolio = PlanPortfolio(data_);
  ASSERT_TRUE(portfolio);
  // The faster of the two over all is the common one, whichever it is; the other is in parts[0].
  const auto& part = portfolio->parts[0];
  if (part.kernel->name == "outer") {
    EXPECT_EQ(part.when, "N == 100 || N == 300");
  } else {
    EXPECT_EQ(part.when, "N > 150 && N <= 250");
  }
}

TEST_F(PlanPortfolioTest, AFailedKernelWinsNothing) {
  Case("small", {{"N", 512}});
  Case("large", {{"N", 2048}});
  Kernel("a", {100, 1000});
  Kernel("b", {200, 400});
  data_.candidates[0].evaluation->verdict.kind = eval::VerdictKind::kWrongResult;
  EXPECT_FALSE(PlanPortfolio(data_));
}

TEST_F(PlanPortfolioTest, ACombinationIsNotCombinedAgain) {
  Case("small", {{"N", 512}});
  Case("large", {{"N", 2048}});
  Kernel("a", {100, 1000});
  Kernel("b", {200, 400});
  Kernel("ab", {100, 400});
  results::IdeaRow idea;
  idea.id = IdeaId(1);
  idea.title = "Combine by case: a for small, b for the rest";
  data_.ideas.push_back(idea);
  data_.candidates[2].idea = IdeaId(1);
  EXPECT_FALSE(PlanPortfolio(data_));  // nothing beats the combination that is there
}

}  // namespace
}  // namespace grove::search
