#include "results/tree.h"

#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "results/format.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

CandidateRow MakeCandidate(int id, const std::string& name, int round, int idea, int parent,
                           double score_ns) {
  CandidateRow row;
  row.id = CandidateId(id);
  row.name = name;
  row.round = RoundId(round);
  row.idea = IdeaId(idea);
  row.parent = CandidateId(parent);
  row.branch = id;
  row.status = CandidateStatus::kEvaluated;
  row.evaluation = SampleEvaluation(score_ns);
  return row;
}

// seed 400 us; round 0: r0.i1 with b1 200 us and b2 wrong; round 1: r1.i1 from r0.i1.b1 100 us, and
// r1.i2 with a requested one.
RunData SampleTree() {
  RunData data;
  data.run.name = "softmax-1";
  data.run.live = true;
  data.task.name = "softmax";
  data.rounds = {{RoundId(1), 0, RoundStatus::kFinished, {}, WallTime()},
                 {RoundId(2), 1, RoundStatus::kRunning, {}, {}}};
  data.ideas = {{IdeaId(1), RoundId(1), CandidateId(1), 1, 1, "r0.i1", "Vectorised loads", "memory",
                 "Loads are narrow.", 1.5},
                {IdeaId(2), RoundId(2), CandidateId(2), 1, 1, "r1.i1", "Warp per row", "layout"},
                {IdeaId(3), RoundId(2), CandidateId(2), 2, 2, "r1.i2", "Online maximum", "math"}};
  data.candidates = {
      MakeCandidate(1, "seed", 0, 0, 0, 400e3), MakeCandidate(2, "r0.i1.b1", 1, 1, 1, 200e3),
      MakeCandidate(3, "r0.i1.b2", 1, 1, 1, 0), MakeCandidate(4, "r1.i1.b1", 2, 2, 2, 100e3)};
  CandidateRow requested;
  requested.id = CandidateId(5);
  requested.name = "r1.i2.b1";
  requested.round = RoundId(2);
  requested.idea = IdeaId(3);
  requested.parent = CandidateId(2);
  requested.branch = 1;
  data.candidates.push_back(requested);
  data.frontier = {{RoundId(1), CandidateId(2), 1, FrontierKind::kFastest, "least time"}};
  return data;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string LineWith(const std::string& text, const std::string& part) {
  for (const std::string& line : LinesOf(text)) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

std::string WithoutColors(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out += text[i];
    }
  }
  return out;
}

TEST(TreeTest, ShowsTheWholeTreeAtFullWidth) {
  EXPECT_EQ(RenderTree(SampleTree(), {.width = 120}),
            "run softmax-1 softmax running 2 rounds, 3 ideas, 4 candidates\n"
            "best r1.i1.b1 100.0 us modelled 4.00x seed\n"
            "seed pass 400.0 us modelled\n"
            "round 0 finished 2 candidates, 2 compiled, 1 correct best 200.0 us modelled\n"
            "└─ r0.i1 Vectorised loads [memory] from seed 2/2 compiled, 1/2 correct best 200.0 us "
            "modelled\n"
            "   ├─ r0.i1.b1 pass 200.0 us modelled 2.00x seed * fastest\n"
            "   └─ r0.i1.b2 wrong_result (smoke n512) row 7 is wrong\n"
            "round 1 running 2 candidates, 1 compiled, 1 correct, 1 open best 100.0 us modelled\n"
            "├─ r1.i1 Warp per row [layout] from r0.i1.b1 1/1 compiled, 1/1 correct best 100.0 us "
            "modelled\n"
            "│  └─ r1.i1.b1 pass 100.0 us modelled 4.00x seed 2.00x parent\n"
            "└─ r1.i2 Online maximum [math] from r0.i1.b1 nothing yet, 1 open\n"
            "   └─ r1.i2.b1 requested\n");
}

TEST(TreeTest, AnotherClassThanTheTasksIsSaidAboveTheTree) {
  RunData data = SampleTree();
  data.environment.push_back(
      {std::string(kDemandKey), "class tf32 is demanded, not the task's fp32"});
  EXPECT_EQ(LinesOf(RenderTree(data, {.width = 120})).at(1),
            "class tf32 is demanded, not the task's fp32");
}

TEST(TreeTest, EveryTimeSaysWhetherItIsModelled) {
  RunData data = SampleTree();
  for (const int width : {40, 80, 120}) {
    for (const std::string& line : LinesOf(RenderTree(data, {.width = width}))) {
      if (line.find(" us") != std::string::npos) {
        EXPECT_NE(line.find(" us modelled"), std::string::npos) << line;
      }
    }
  }
}

TEST(TreeTest, ModelledAndMeasuredTimesAreNotCompared) {
  RunData data = SampleTree();
  data.candidates[1].evaluation->score_kind = TimeKind::kMeasured;
  const std::string tree = RenderTree(data, {.width = 120});
  EXPECT_EQ(LineWith(tree, "r0.i1.b1 pass").find('x'), std::string::npos);
  EXPECT_NE(LineWith(tree, "r0.i1.b1 pass").find("200.0 us measured"), std::string::npos);
  EXPECT_EQ(LineWith(tree, "r1.i1.b1 pass").find("parent"), std::string::npos);
}

TEST(TreeTest, NoLineIsWiderThanTheTerminal) {
  RunData data = SampleTree();
  data.ideas[0].title = "核函数 mit ganz langem Titel 🚀 " + std::string(300, 'w');
  data.ideas[1].title = std::string("e\xcc\x81") + std::string(200, 'e');
  data.candidates[2].evaluation->verdict.message = std::string(5000, 'm') + "\x1b[2J\n";
  data.task.name = std::string(200, 't');
  for (int width = 20; width <= 140; ++width) {
    for (const bool color : {false, true}) {
      const std::string tree = RenderTree(data, {.width = width, .color = color});
      for (const std::string& line : LinesOf(WithoutColors(tree))) {
        EXPECT_LE(DisplayWidth(line), width) << line;
        EXPECT_EQ(Visible(line), line);  // valid UTF-8, no control characters
      }
    }
  }
}

TEST(TreeTest, AtFortyColumnsNamesTimesAndTitlesAreStillThere) {
  const std::string tree = RenderTree(SampleTree(), {.width = 40});
  EXPECT_NE(LineWith(tree, "r1.i1.b1 ").find("100.0 us modelled"), std::string::npos) << tree;
  EXPECT_NE(LineWith(tree, "r1.i1 ").find("Warp per row"), std::string::npos) << tree;
  EXPECT_NE(LineWith(tree, "r0.i1.b2").find("wrong_result"), std::string::npos) << tree;
}

TEST(TreeTest, ALongTitleIsCutBeforeAnythingElse) {
  RunData data = SampleTree();
  data.ideas[0].title = std::string(200, 'w');
  const std::string line = LineWith(RenderTree(data, {.width = 120}), "r0.i1 ");
  EXPECT_NE(line.find("w…"), std::string::npos) << line;
  EXPECT_NE(line.find("[memory]"), std::string::npos) << line;
  EXPECT_NE(line.find("2/2 compiled, 1/2 correct"), std::string::npos) << line;
  EXPECT_EQ(DisplayWidth(line), 120);
}

TEST(TreeTest, TextOfModelsCannotCommandTheTerminal) {
  RunData data = SampleTree();
  data.ideas[0].title =
      "\x1b]0;owned\a\xe2\x80\xae"
      "evil\nround 9 finished";
  data.ideas[0].category = "\x1b[2J";
  const std::string tree = RenderTree(data, {.width = 120});
  EXPECT_EQ(tree.find('\x1b'), std::string::npos);
  EXPECT_EQ(tree.find('\a'), std::string::npos);
  EXPECT_NE(tree.find("\\x1b]0;owned\\x07\\u202eevil\\nround 9"), std::string::npos) << tree;
  EXPECT_EQ(LinesOf(tree).size(), 12u);
}

TEST(TreeTest, ColoursChangeNoText) {
  const RunData data = SampleTree();
  const std::string colored = RenderTree(data, {.width = 80, .color = true});
  EXPECT_NE(colored, RenderTree(data, {.width = 80}));
  EXPECT_EQ(WithoutColors(colored), RenderTree(data, {.width = 80}));
}

TEST(TreeTest, AsciiTreesHaveNoOtherCharacters) {
  const std::string tree = RenderTree(SampleTree(), {.width = 120, .ascii = true});
  EXPECT_NE(tree.find("`-- r0.i1 "), std::string::npos);
  for (const char c : tree) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << tree;
}

TEST(TreeTest, OneRoundCanBeChosen) {
  const std::string tree = RenderTree(SampleTree(), {.width = 120, .round = 1});
  EXPECT_EQ(tree.find("round 0"), std::string::npos);
  EXPECT_NE(tree.find("r1.i2"), std::string::npos);
  EXPECT_NE(RenderTree(SampleTree(), {.round = 7}).find("no round 7"), std::string::npos);
}

TEST(TreeTest, DepthHidesWhatIsBelow) {
  EXPECT_EQ(RenderTree(SampleTree(), {.width = 120, .depth = 1}).find("r0.i1 "), std::string::npos);
  const std::string ideas = RenderTree(SampleTree(), {.width = 120, .depth = 2});
  EXPECT_NE(ideas.find("r0.i1 "), std::string::npos);
  EXPECT_EQ(ideas.find("r0.i1.b2"), std::string::npos);
}

TEST(TreeTest, TheBestPathLeadsFromTheSeedToTheBest) {
  const std::string tree = RenderTree(SampleTree(), {.width = 120, .best_path = true});
  EXPECT_NE(tree.find("seed pass"), std::string::npos);
  EXPECT_NE(tree.find("r0.i1.b1 pass"), std::string::npos);
  EXPECT_NE(tree.find("r1.i1.b1 pass"), std::string::npos);
  EXPECT_EQ(tree.find("r0.i1.b2"), std::string::npos);
  EXPECT_EQ(tree.find("r1.i2"), std::string::npos);
}

TEST(TreeTest, ParentsInACircleDoNotHangTheBestPath) {
  RunData data = SampleTree();
  data.candidates[1].parent = CandidateId(4);
  EXPECT_NE(RenderTree(data, {.best_path = true}).find("r1.i1.b1"), std::string::npos);
}

TEST(TreeTest, AnEmptyRunSaysSo) {
  EXPECT_NE(RenderTree({}, {}).find("no rounds yet"), std::string::npos);
}

TEST(CreditTest, CountsBestAndMedianOfSiblings) {
  RunData data = SampleTree();
  data.candidates.push_back(MakeCandidate(6, "r0.i1.b3", 1, 1, 1, 300e3));
  data.candidates.push_back(MakeCandidate(7, "r0.i1.b4", 1, 1, 1, 0));
  data.candidates.back().evaluation->verdict.stage = eval::Stage::kCompile;
  const IdeaCredit credit = CreditOf(
      {&data.candidates[1], &data.candidates[2], &data.candidates[5], &data.candidates[6]});
  EXPECT_EQ(credit.candidates, 4);
  EXPECT_EQ(credit.evaluated, 4);
  EXPECT_EQ(credit.compiled, 3);
  EXPECT_EQ(credit.correct, 2);
  EXPECT_EQ(credit.best, &data.candidates[1]);
  EXPECT_EQ(credit.median, Nanoseconds(250e3));
  EXPECT_EQ(CreditOf({}).best, nullptr);
}

void MakeDuplicate(CandidateRow& row) {
  row.evaluation->verdict.kind = eval::VerdictKind::kDuplicate;
  row.evaluation->verdict.stage = eval::Stage::kParse;
  row.evaluation->score.reset();
}

TEST(CreditTest, DuplicatesCountNeitherForAnIdeaNorAgainstIt) {
  RunData data = SampleTree();
  MakeDuplicate(data.candidates[2]);
  EXPECT_EQ(CreditOf({&data.candidates[1], &data.candidates[2]}).duplicates, 1);
  EXPECT_EQ(CreditOf({&data.candidates[1], &data.candidates[2]}).tries(), 1);
  EXPECT_NE(RenderTree(data, {}).find("1/1 compiled, 1/1 correct, 1 duplicate"), std::string::npos)
      << RenderTree(data, {});
  MakeDuplicate(data.candidates[1]);
  EXPECT_NE(RenderTree(data, {}).find("nothing new, 2 duplicates"), std::string::npos);
  EXPECT_NE(TreeJson(data).find("\"duplicates\": 2"), std::string::npos) << TreeJson(data);
}

TEST(CreditTest, WhatNobodyEvaluatedCountsNeitherForAnIdeaNorAgainstIt) {
  RunData data = SampleTree();
  const auto spend = [&](CandidateRow& row) {
    row.evaluation->verdict = {};
    row.evaluation->verdict.kind = eval::VerdictKind::kInfrastructure;
    row.evaluation->verdict.stage = eval::Stage::kParse;
    row.evaluation->verdict.message = "not evaluated: the round's limit is reached";
    row.evaluation->score.reset();
  };
  spend(data.candidates[2]);
  const IdeaCredit credit = CreditOf({&data.candidates[1], &data.candidates[2]});
  EXPECT_EQ(credit.undecided, 1);
  EXPECT_EQ(credit.tries(), 1);
  EXPECT_EQ(credit.compiled, 1);
  EXPECT_NE(RenderTree(data, {}).find("1/1 compiled, 1/1 correct, 1 undecided"), std::string::npos)
      << RenderTree(data, {});
  spend(data.candidates[1]);
  EXPECT_NE(RenderTree(data, {}).find("nothing tried, 2 undecided"), std::string::npos);
  EXPECT_NE(TreeJson(data).find("\"undecided\": 2"), std::string::npos) << TreeJson(data);
}

TEST(BestTest, AFailedCandidatesScoreDoesNotCount) {
  RunData data = SampleTree();
  data.candidates[3].evaluation->verdict.kind = eval::VerdictKind::kImpossible;
  EXPECT_EQ(data.Best()->name, "r0.i1.b1");
}

TEST(BestTest, TheKindIsThatOfTheSeed) {
  RunData data = SampleTree();
  data.candidates[3].evaluation->score_kind = TimeKind::kMeasured;
  EXPECT_EQ(data.Best()->name, "r0.i1.b1");
  EXPECT_EQ(data.Best(TimeKind::kMeasured)->name, "r1.i1.b1");
  data.candidates[0].evaluation.reset();
  EXPECT_EQ(data.Best()->name, "r1.i1.b1");
}

TEST(TreeJsonTest, HoldsTheTreeWithUnitsInItsNames) {
  const auto json = nlohmann::json::parse(TreeJson(SampleTree()));
  EXPECT_EQ(json["run"], "softmax-1");
  EXPECT_EQ(json["best"], "r1.i1.b1");
  EXPECT_EQ(json["seed"]["score_ns"], 400e3);
  ASSERT_EQ(json["rounds"].size(), 2u);
  const auto& idea = json["rounds"][0]["ideas"][0];
  EXPECT_EQ(idea["name"], "r0.i1");
  EXPECT_EQ(idea["credit"]["correct"], 1);
  EXPECT_EQ(idea["credit"]["best_ns"], 200e3);
  EXPECT_EQ(idea["candidates"][0]["speed_up_over_seed"], 2.0);
  EXPECT_EQ(idea["candidates"][0]["frontier"][0]["kind"], "fastest");
  EXPECT_EQ(idea["candidates"][1]["verdict"]["kind"], "wrong_result");
  EXPECT_EQ(idea["candidates"][1]["verdict"]["got"], nullptr);  // it was NaN
  EXPECT_EQ(json["rounds"][1]["ideas"][1]["candidates"][0]["verdict"], nullptr);
}

TEST(TreeJsonTest, TextThatIsNoUtf8IsStillJson) {
  RunData data = SampleTree();
  data.ideas[0].title = "\xff\xfe\x1b \"quoted\"";
  const auto json = nlohmann::json::parse(TreeJson(data));
  EXPECT_NE(json["rounds"][0]["ideas"][0]["title"].get<std::string>().find("\"quoted\""),
            std::string::npos);
}

}  // namespace
}  // namespace grove::results
