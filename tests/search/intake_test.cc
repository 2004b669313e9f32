#include <gtest/gtest.h>

#include "search/idea_intake.h"
#include "search/stagnation.h"

namespace grove::search {
namespace {

using Decision = IdeaIntake::Decision;

ideas::Idea Make(const std::string& title, ideas::Category category) {
  ideas::Idea idea;
  idea.title = title;
  idea.category = category;
  return idea;
}

TEST(IdeaIntakeTest, TakesUpToWhatIsWantedAndNothingTwice) {
  IdeaIntake intake({}, 2, 2);
  const auto a = Make("alpha", ideas::Category::kMemoryAccess);
  EXPECT_EQ(intake.Offer(a), Decision::kTaken);
  EXPECT_EQ(intake.Offer(a), Decision::kSeen);
  EXPECT_EQ(intake.missing(), 1U);
  EXPECT_EQ(intake.Offer(Make("beta", ideas::Category::kPrecision)), Decision::kTaken);
  EXPECT_TRUE(intake.full());
  EXPECT_EQ(intake.Offer(Make("gamma", ideas::Category::kPrecision)), Decision::kFull);
  EXPECT_TRUE(intake.refusals().empty());
}

TEST(IdeaIntakeTest, WhatWasTriedIsRefusedWithItsName) {
  const ideas::Gist tried = ideas::GistOf(Make("Warp per row", ideas::Category::kParallelism));
  IdeaIntake intake({&tried}, 3, 3);
  EXPECT_EQ(intake.Offer(Make("one warp per row", ideas::Category::kMemoryAccess)),
            Decision::kClash);
  ASSERT_EQ(intake.refusals().size(), 1U);
  EXPECT_NE(intake.refusals()[0].find("\"Warp per row\", which was tried"), std::string::npos)
      << intake.refusals()[0];
}

TEST(IdeaIntakeTest, ARoundOfAnyShapeHasAtMostHalfOfOneCategory) {
  for (std::size_t wanted = 2; wanted <= 9; ++wanted) {
    std::size_t all = 0, one_kind = 0;
    for (int place = 1; place <= 8; ++place) {
      all += wanted;
      one_kind += MostOfCategory(wanted, place);
      EXPECT_LE(2 * one_kind, all + (place % 2 == 0 ? 0 : 1)) << wanted << " " << place;
    }
  }
  EXPECT_EQ(MostOfCategory(1, 1), 1U);  // one idea has to have some category
}

TEST(IdeaIntakeTest, AStoredIdeaTakesThePlaceOfTheOneOffered) {
  IdeaIntake intake({}, 2, 1);
  EXPECT_EQ(intake.Offer(Make("alpha", ideas::Category::kMemoryAccess)), Decision::kTaken);
  intake.Replace(Make("omega", ideas::Category::kPrecision));
  EXPECT_EQ(intake.taken()[0].title, "omega");
  EXPECT_EQ(intake.Offer(Make("beta", ideas::Category::kPrecision)), Decision::kCategory);
  EXPECT_EQ(intake.Offer(Make("gamma", ideas::Category::kMemoryAccess)), Decision::kTaken);
}

TEST(WholeIdeasTest, GivesTheIdeasThatAreWhole) {
  const std::string first = R"({"ideas": [{"title": "alpha", "category": "memory access"},)";
  EXPECT_EQ(WholeIdeas(first + R"( {"title": "be)", 8).size(), 1U);
  EXPECT_EQ(WholeIdeas("```json\n" + first, 8).size(), 1U);
  EXPECT_TRUE(WholeIdeas("Let me think: " + first, 8).empty());
  EXPECT_TRUE(WholeIdeas("", 8).empty());
}

TEST(StagnationTest, TheAdviserComesAfterPatienceAndTheEndAfterTheAdviser) {
  Stagnation stagnation(4);
  stagnation.Start(1000);
  stagnation.Round(900);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(stagnation.radical());
    stagnation.Round(i == 1 ? std::optional<double>(890) : std::nullopt);  // inside the noise
  }
  EXPECT_TRUE(stagnation.radical());
  EXPECT_FALSE(stagnation.converged());
  stagnation.Round(std::nullopt);
  EXPECT_FALSE(stagnation.radical());
  stagnation.Round(std::nullopt);
  EXPECT_FALSE(stagnation.converged());
  stagnation.Round(std::nullopt);
  EXPECT_TRUE(stagnation.converged());
}

TEST(StagnationTest, SmallGainsCountWhenTheyAddUp) {
  Stagnation stagnation(4);
  stagnation.Start(1000);
  stagnation.Round(985);
  EXPECT_EQ(stagnation.stale(), 1);
  stagnation.Round(975);
  EXPECT_EQ(stagnation.stale(), 0);
}

TEST(IntakeTest, WhatMakesAnotherKernelIsRefusedWithItsReason) {
  IdeaIntake intake({}, 2, 2, [](const ideas::Idea& idea) {
    return idea.title == "alpha" ? std::string("makes what r1.i2.b1 is") : std::string();
  });
  ideas::Idea alpha, beta;
  alpha.title = "alpha";
  beta.title = "beta";
  beta.category = ideas::Category::kPrecision;
  EXPECT_EQ(intake.Offer(alpha), IdeaIntake::Decision::kClash);
  EXPECT_EQ(intake.Offer(beta), IdeaIntake::Decision::kTaken);
  ASSERT_EQ(intake.refusals().size(), 1U);
  EXPECT_EQ(intake.refusals()[0], "\"alpha\" makes what r1.i2.b1 is");
}

}  // namespace
}  // namespace grove::search
