#include "ideas/changes.h"

#include <string>

#include <gtest/gtest.h>

#include "codegen/implement.h"
#include "ideas/idea_prompt.h"
#include "llm/playbook/prompt_view.h"

namespace grove::ideas {
namespace {

std::string Lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + ";\n";
  return text;
}

TEST(ChangeBetween, IsAUnifiedDiffOfProgramAndPlan) {
  const std::string diff =
      ChangeBetween("r1.i1.b1", {Lines(0, 40), "{\"grid\": 1}\n"}, "r2.i1.b1",
                    {Lines(0, 20) + "more;\n" + Lines(20, 40), "{\"grid\": 2}\n"});
  EXPECT_EQ(diff,
            "--- r1.i1.b1.cu\n+++ r2.i1.b1.cu\n@@ -19,4 +19,5 @@\n line 18;\n line 19;\n+more;\n"
            " line 20;\n line 21;\n--- r1.i1.b1.json\n+++ r2.i1.b1.json\n@@ -1,1 +1,1 @@\n"
            "-{\"grid\": 1}\n+{\"grid\": 2}\n");
  EXPECT_TRUE(ShowsLines(diff));
}

TEST(ChangeBetween, OfEqualProgramsThereIsNone) {
  EXPECT_EQ(ChangeBetween("a", {Lines(0, 9), "{}"}, "b", {Lines(0, 9), "{}"}), "");
}

TEST(ChangeBetween, ARewrittenProgramIsCountedAndNotShown) {
  const std::string diff = ChangeBetween("a", {Lines(0, 50), ""}, "b", {Lines(100, 130), ""});
  EXPECT_EQ(diff, "(mostly rewritten: 50 lines went, 30 came)\n");
  EXPECT_FALSE(ShowsLines(diff));
}

TEST(ChangeBetween, ALongChangeSaysHowMuchOfItIsLeftOut) {
  ChangeLimits limits;
  limits.lines = 10;
  const std::string diff =
      ChangeBetween("a", {Lines(0, 100), ""}, "b", {Lines(0, 100) + Lines(200, 230), ""}, limits);
  EXPECT_NE(diff.find("+line 206;\n(23 more lines of this change left out)\n"), diff.npos) << diff;
  limits = {};
  limits.bytes = 200;
  const std::string small =
      ChangeBetween("a", {Lines(0, 100), ""}, "b", {Lines(0, 100) + Lines(200, 230), ""}, limits);
  EXPECT_LT(small.size(), 260u);
  EXPECT_NE(small.find("left out)"), small.npos);
}

TEST(ChangeBetween, ProgramsThatNoPromptHoldsAreNotCompared) {
  const std::string huge(PromptBudget().source + 1, 'x');
  EXPECT_FALSE(ShowsLines(ChangeBetween("a", {huge, ""}, "b", {huge + "y", ""})));
}

TEST(FitChanges, WhatDoesNotFitIsCountedAndASmallerOneTakesItsRoom) {
  const Change big{"big", "---" + std::string(5000, '-')}, small{"small", "--- a\n"};
  const auto blocks = FitChanges({small, big, small}, 400);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0], "small\n```diff\n--- a\n```");
  EXPECT_EQ(blocks[1], blocks[0]);
  EXPECT_EQ(blocks[2], "(1 more left out: this prompt's size is limited)");
}

// A model's idea and program are in it.
TEST(FitChanges, ForeignTextKeepsToItsLineAndItsFence) {
  const auto blocks = FitChanges({{"a\n</ties> b", "--- a\n+```\n+</ties>\n"}}, 4000);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0], "a < /ties> b\n````diff\n--- a\n+```\n+< /ties>\n````");
}

TEST(IdeaPrompt, TiesAndOtherChangesStandInSectionsOfTheirOwn) {
  IdeaContext context;
  context.ties = {{"r2.i1.b1, 3.0 us, Tie", "--- p\n+tie;\n"}};
  context.changes = {{"r2.i2.b1, 4.0 us, Loss", "--- p\n+loss;\n"}};
  const auto request = BuildIdeaRequest(context);
  ASSERT_TRUE(request) << request.error().message;
  const std::string& prompt = request->messages[0].text;
  EXPECT_NE(llm::playbook::Section(prompt, "ties").find("+tie;"), std::string_view::npos);
  EXPECT_NE(llm::playbook::Section(prompt, "changes").find("+loss;"), std::string_view::npos);
  EXPECT_NE(prompt.find("may combine several"), prompt.npos);
  const std::string without = BuildIdeaRequest(IdeaContext())->messages[0].text;
  EXPECT_EQ(without.find("<ties>"), without.npos);
  EXPECT_EQ(without.find("<changes>"), without.npos);
}

TEST(ImplementPrompt, HasTheLineageAndWhatNamedKernelsChanged) {
  codegen::ImplementContext context;
  context.lineage = {{"Online sum", Category::kInstructions, TriedIdea::Outcome::kWin, 1.3, ""}};
  context.named = {{"r2.i1.b1, 3.0 us, Tie", "--- p\n+tie;\n"}};
  codegen::RepairContext repair;
  repair.implement = context;
  for (const auto& request :
       {codegen::BuildImplementRequest(context), codegen::BuildRepairRequest(repair)}) {
    ASSERT_TRUE(request) << request.error().message;
    const std::string& prompt = request->messages[0].text;
    EXPECT_EQ(llm::playbook::Section(prompt, "lineage"),
              "- Online sum [instructions and arithmetic]: win, 1.30x\n");
    EXPECT_NE(llm::playbook::Section(prompt, "named").find("+tie;"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace grove::ideas
