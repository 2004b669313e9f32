#include "ideas/changes.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/implement.h"
#include "ideas/idea_prompt.h"
#include "ideas/regions.h"
#include "llm/playbook/prompt_view.h"

namespace grove::ideas {
namespace {

std::string Lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + ";\n";
  return text;
}

// As a section shows it, without the fence.
std::string Shown(const Difference& difference) {
  std::string block = FitChanges({{"", difference}}, 1 << 20).at(0);
  const std::string open = "\n```diff\n", close = "```";
  if (!block.starts_with(open)) return block;
  return block.substr(open.size(), block.size() - open.size() - close.size());
}

TEST(ChangeBetween, IsAUnifiedDiffOfPlanAndProgram) {
  EXPECT_EQ(Shown(ChangeBetween("r1.i1.b1", {Lines(0, 40), "{\"grid\": 1}\n"}, "r2.i1.b1",
                                {Lines(0, 20) + "more;\n" + Lines(20, 40), "{\"grid\": 2}\n"})),
            "--- r1.i1.b1.json\n+++ r2.i1.b1.json\n@@ -1,1 +1,1 @@\n"
            "-{\"grid\": 1}\n+{\"grid\": 2}\n"
            "--- r1.i1.b1.cu\n+++ r2.i1.b1.cu\n@@ -19,4 +19,5 @@\n line 18;\n line 19;\n+more;\n"
            " line 20;\n line 21;\n");
}

TEST(ChangeBetween, OfEqualProgramsThereIsNone) {
  const Difference none = ChangeBetween("a", {Lines(0, 9), "{}"}, "b", {Lines(0, 9), "{}"});
  EXPECT_TRUE(none.hunks.empty());
  EXPECT_EQ(Shown(none), "");
}

TEST(ChangeBetween, ARewrittenProgramIsCountedAndNotShown) {
  const Difference all = ChangeBetween("a", {Lines(0, 50), ""}, "b", {Lines(100, 130), ""});
  EXPECT_TRUE(all.hunks.empty());
  EXPECT_EQ(Shown(all), " (mostly rewritten: 50 lines went, 30 came)");
}

TEST(ChangeBetween, ProgramsThatNoPromptHoldsAreNotCompared) {
  const std::string huge(PromptBudget().source + 1, 'x');
  EXPECT_TRUE(ChangeBetween("a", {huge, ""}, "b", {huge + "y", ""}).hunks.empty());
}

// A helper that the hot kernel calls, one that it does not, a kernel that is not launched, and two
// that are; `mark` stands in each.
std::string Program(const std::string& mark) {
  const std::string body = " {\n  a();\n  b();\n  c();\n" + mark + "  d();\n  e();\n  f();\n}\n";
  return "#include <x>\n" + mark + "\n\n\n\n__device__ float Far(int x)" + body +
         "__device__ float Near(int x)" + body +
         "extern \"C\" __global__ void __launch_bounds__(256)\nspare(int x)" + body +
         "extern \"C\" __global__ void cold(int x)" + body +
         "extern \"C\" __global__ void hot(int x) {\n  Near(1);  // Far(2);\n  b();\n  c();\n" +
         mark + "  d();\n  e();\n  f();\n}\n";
}

TEST(ChangeBetween, HunksOfTheKernelThatTakesTheTimeComeBeforeHelpers) {
  const Difference change = ChangeBetween("a", {Program(""), "{}\n"}, "b",
                                          {Program("  new();\n"), "{1}\n"}, {{"hot", "cold"}});
  ASSERT_EQ(change.hunks.size(), 7u);
  EXPECT_TRUE(change.hunks[0].plan);
  EXPECT_NE(change.hunks[1].text.find(" b();\n   c();\n+  new();"), std::string::npos);
  std::vector<int> ranks;
  for (const Hunk& hunk : change.hunks) ranks.push_back(hunk.rank);
  EXPECT_EQ(ranks, (std::vector<int>{0, 0, 1, 1000, 1001, 1001, 1002}));
}

TEST(ChangeBetween, WithinALimitTheHotKernelsShortHunksAreShownAndAHelpersLongOneIsCounted) {
  const std::string before = Lines(0, 6) + "__device__ int Helper(int x) {\n" + Lines(10, 20) +
                             "}\n__global__ void hot(int x) {\n" + Lines(30, 60) + "}\n";
  const std::string after = Lines(0, 6) + "__device__ int Helper(int x) {\n" + Lines(10, 12) +
                            Lines(100, 140) + Lines(12, 20) + "}\n__global__ void hot(int x) {\n" +
                            Lines(30, 35) + "one;\n" + Lines(35, 45) + Lines(200, 220) +
                            Lines(45, 55) + "two;\n" + Lines(55, 60) + "}\n";
  ChangeLimits limits;
  limits.lines = 24;
  const std::string shown =
      Shown(ChangeBetween("a", {before, ""}, "b", {after, ""}, {{"hot"}}, limits));
  EXPECT_NE(shown.find("+one;\n"), shown.npos) << shown;
  EXPECT_NE(shown.find("+two;\n"), shown.npos) << shown;
  EXPECT_NE(shown.find("+line 200;\n"), shown.npos) << shown;
  EXPECT_NE(shown.find("more lines of this hunk left out)\n"), shown.npos) << shown;
  EXPECT_LT(shown.find("+line 200;\n"), shown.find("+two;\n")) << "in the order of the text";
  EXPECT_EQ(shown.find("+line 100;"), shown.npos) << shown;
  EXPECT_NE(shown.find("(1 more hunk of 45 lines left out)\n"), shown.npos) << shown;
  EXPECT_LE(std::count(shown.begin(), shown.end(), '\n'), 28);
  limits = {};
  limits.bytes = 200;
  EXPECT_LT(Shown(ChangeBetween("a", {before, ""}, "b", {after, ""}, {{"hot"}}, limits)).size(),
            330u);
}

TEST(ChangeBetween, WhatTheKernelShownHasIsLeftOutAndCounted) {
  const seeds::ProgramText base{Lines(0, 60), "{}\n"};
  const seeds::ProgramText tried{
      Lines(0, 10) + "both;\n" + Lines(10, 30) + "alone;\n" + Lines(30, 60), "{1}\n"};
  const seeds::ProgramText shown{Lines(0, 10) + "  both;\n" + Lines(10, 60) + "other;\n", "{1}\n"};
  ChangeFocus focus;
  focus.shown = &shown;
  const Difference change = ChangeBetween("a", base, "b", tried, focus);
  ASSERT_EQ(change.hunks.size(), 1u);
  EXPECT_NE(change.hunks[0].text.find("+alone;\n"), std::string::npos);
  EXPECT_EQ(change.in_shown, 2u);
  EXPECT_NE(Shown(change).find("(2 more hunks left out that the parent above has as well)\n"),
            std::string::npos);
  focus.shown = &tried;
  EXPECT_EQ(Shown(ChangeBetween("a", base, "b", tried, focus)),
            " (the parent above has all of it)");
}

// Both lines are in the kernel shown, but not in this order.
TEST(ChangeBetween, LinesThatChangedPlacesAreNoPartOfTheKernelShown) {
  const seeds::ProgramText base{Lines(0, 20) + "one;\ntwo;\n" + Lines(20, 40), ""};
  const seeds::ProgramText tried{Lines(0, 20) + "two;\none;\n" + Lines(20, 40), ""};
  ChangeFocus focus;
  focus.shown = &base;
  EXPECT_EQ(ChangeBetween("a", base, "b", tried, focus).hunks.size(), 1u);
}

Difference Of(const std::string& to, const std::string& text) {
  return {"p", to, {{text, false, 0}}, 0, "", {}};
}

TEST(FitChanges, AHunkThatAnEarlierKernelShowedIsOneLine) {
  const std::string hunk = "@@ -1,2 +1,3 @@\n a;\n+same;\n b;\n";
  const auto blocks = FitChanges({{"first", Of("r6.i2.b2", hunk)},
                                  {"second", Of("r6.i3.b1", "@@ -8,2 +9,3 @@\n c;\n+same;\n d;\n")},
                                  {"third", Of("r6.i4.b1", "@@ -8,2 +9,3 @@\n c;\n+new;\n d;\n")}},
                                 4000);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_NE(blocks[0].find("+same;"), std::string::npos);
  EXPECT_EQ(blocks[1],
            "second\n```diff\n--- p.cu\n+++ r6.i3.b1.cu\n@@ -8,2 +9,3 @@ as in r6.i2.b2\n```");
  EXPECT_NE(blocks[2].find("+new;"), std::string::npos);
}

TEST(FitChanges, AHunkOfAKernelThatDidNotFitIsShownByTheNext) {
  const std::string hunk = "@@ -1,2 +1,3 @@\n a;\n+same;\n b;\n";
  const auto blocks = FitChanges(
      {{std::string(500, 'x'), Of("r6.i2.b2", hunk)}, {"second", Of("r6.i3.b1", hunk)}}, 400);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_NE(blocks[0].find("+same;"), std::string::npos);
}

TEST(FitChanges, WhatDoesNotFitIsCountedAndASmallerOneTakesItsRoom) {
  const Change big{std::string(5000, '-'), {}}, small{"small", Of("a", "@@ -0,0 +1,1 @@\n+a\n")};
  const auto blocks = FitChanges({small, big, {"again", {}}}, 400);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0], "small\n```diff\n--- p.cu\n+++ a.cu\n@@ -0,0 +1,1 @@\n+a\n```");
  EXPECT_EQ(blocks[1], "again");
  EXPECT_EQ(blocks[2], "(1 more left out: this prompt's size is limited)");
}

// A model's idea and program are in it.
TEST(FitChanges, ForeignTextKeepsToItsLineAndItsFence) {
  const auto blocks =
      FitChanges({{"a\n</ties> b", Of("c", "@@ -0,0 +1,2 @@\n+```\n+</ties>\n")}}, 4000);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0],
            "a < /ties> b\n````diff\n--- p.cu\n+++ c.cu\n@@ -0,0 +1,2 @@\n+```\n+< /ties>\n````");
}

TEST(RegionsOf, FindsFunctionsByTheirHeadsAndBraces) {
  const std::string source =
      "// f() {\n#define M(x) { x\nnamespace a {\nstruct S { int Get() { return 1; } };\n"
      "template <int N = 4>\n__device__ void F(int x) {\n  if (x) { g(\"}\"); }\n}\n}\n"
      "__constant__ int table[] = {1, 2};\nextern \"C\" __global__\n"
      "__launch_bounds__(8 * 32, 1) void k(const float* x) {\n  char c = '}'; /* } */\n}\n";
  const std::vector<Region> regions = RegionsOf(source);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].name, "F");
  EXPECT_EQ(regions[0].first, 4u);
  EXPECT_EQ(regions[0].last, 7u);
  EXPECT_FALSE(regions[0].kernel);
  EXPECT_EQ(regions[1].name, "k");
  EXPECT_EQ(regions[1].first, 10u);
  EXPECT_EQ(regions[1].last, 13u);
  EXPECT_TRUE(regions[1].kernel);
}

TEST(RegionsOf, BrokenSourcesHaveFewerRegionsAndDoNoHarm) {
  for (const char* source : {"", "{", "}}}", "void f() {", "R\"(", "\"", "/*", "#\\", "'", "((("}) {
    EXPECT_TRUE(RegionsOf(source).empty()) << source;
  }
}

TEST(IdeaPrompt, TiesAndOtherChangesStandInSectionsOfTheirOwn) {
  IdeaContext context;
  context.ties = {{"r2.i1.b1, 3.0 us, Tie", Of("r2.i1.b1", "@@ -0,0 +1,1 @@\n+tie;\n")}};
  context.changes = {{"r2.i2.b1, 4.0 us, Loss", Of("r2.i2.b1", "@@ -0,0 +1,1 @@\n+loss;\n")}};
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
  context.lineage = {
      DescribeTried({"Online sum", Category::kInstructions, TriedIdea::Outcome::kWin, 1.3, ""})};
  context.named = {{"r2.i1.b1, 3.0 us, Tie", Of("r2.i1.b1", "@@ -0,0 +1,1 @@\n+tie;\n")}};
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
