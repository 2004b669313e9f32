#include "results/show.h"

#include <sstream>

#include <nlohmann/json.hpp>

#include "results/format.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

class ShowTest : public RunsFolder {
 protected:
  void SetUp() override {
    RunsFolder::SetUp();
    ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
    reader_ = Reader::Open(runs_ / "a").value();
    data_ = reader_->Load().value();
  }
  const CandidateRow& Row(const std::string& name) {
    const CandidateRow* row = data_.FindCandidate(name);
    EXPECT_NE(row, nullptr) << name;
    return row != nullptr ? *row : data_.candidates[0];
  }
  std::string Render(const std::string& name, const ShowOptions& options = {.width = 160}) {
    const CandidateRow& row = Row(name);
    return RenderCandidate(data_, row, LoadTexts(*reader_, row).value(), options);
  }

  std::unique_ptr<Reader> reader_;
  RunData data_;
};

TEST_F(ShowTest, ShowsVerdictTimesAndTheShareOfBothFloors) {
  const std::string text = Render("r0.i1.b1");
  EXPECT_EQ(text.substr(0, text.find('\n')), "r0.i1.b1  pass  fp32  14.99 us modelled  1.33x seed");
  EXPECT_NE(text.find("3.500 us  23.4%"), std::string::npos) << text;  // 3500 / 14989 ns
  EXPECT_NE(text.find("4.000 us  26.7%"), std::string::npos) << text;
  EXPECT_NE(text.find("16.0 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("75.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("registers"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0 KiB"), std::string::npos) << text;  // dynamic shared memory
}

TEST_F(ShowTest, ShowsTheIdeaAndWhereItWasOnTheFrontier) {
  const std::string text = Render("r0.i1.b1");
  EXPECT_NE(text.find("idea      r0.i1 Idea 1 of"), std::string::npos) << text;
  EXPECT_NE(text.find("[memory], expected 1.25x"), std::string::npos) << text;
  EXPECT_NE(text.find("Because the loads are narrow."), std::string::npos) << text;
  EXPECT_NE(text.find("after round 0, place 1, fastest: chosen in round 0"), std::string::npos);
}

TEST_F(ShowTest, ShowsTheWorstElementOfAWrongResult) {
  const std::string text = Render("r0.i2.b2");
  EXPECT_NE(text.find("verdict   wrong_result at smoke, case n512: row 7 is wrong"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("y[3585]: expected 0.25, got nan; error inf, tolerance 1e-05"),
            std::string::npos)
      << text;
}

TEST_F(ShowTest, ShowsAttemptsBeforeARepair) {
  EXPECT_NE(Render("r0.i1.b2").find("attempt 0 compile_error at compile: line 3: expected a ';'"),
            std::string::npos);
}

TEST_F(ShowTest, ShowsSourceAndPlanWhenAsked) {
  EXPECT_NE(Render("r0.i1.b1").find("\nsource\n// Answer to code r0.p1.i1.b1.t0\n\nplan\n{}\n"),
            std::string::npos);
  EXPECT_EQ(Render("r0.i1.b1", {.width = 160, .program = false}).find("\nsource\n"),
            std::string::npos);
}

TEST_F(ShowTest, ProseAndTablesKeepToTheWidth) {
  data_.ideas[0].rationale =
      std::string(300, 'w') + " and many words " + std::string(90, ' ') + "核";
  for (const int width : {40, 80, 120}) {
    std::istringstream lines(Render("r0.i1.b1", {.width = width, .program = false}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

TEST_F(ShowTest, CodeAndMessagesCannotCommandTheTerminal) {
  CandidateRow row = Row("r0.i2.b2");
  row.evaluation->verdict.message = "\x1b[2J\xe2\x80\xae";
  const std::string text =
      RenderCandidate(data_, row, {"int a;\x1b]52;c;x\a\n\tint b;", "{\xff}"}, {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\a'), std::string::npos);
  EXPECT_NE(text.find("int a;\\x1b]52;c;x\\x07\n\tint b;\n"), std::string::npos) << text;
  EXPECT_NE(text.find("{\\xff}"), std::string::npos);
}

TEST_F(ShowTest, ACandidateThatIsStillRequestedIsShown) {
  CandidateRow row = Row("r0.i1.b1");
  row.evaluation.reset();
  row.status = CandidateStatus::kRequested;
  const std::string text = RenderCandidate(data_, row, {}, {});
  EXPECT_NE(text.find("r0.i1.b1  requested"), std::string::npos);
  EXPECT_NE(text.find("\nsource\n(none)\n"), std::string::npos);
}

TEST_F(ShowTest, JsonHoldsTheSameWithUnits) {
  const CandidateRow& row = Row("r0.i1.b1");
  const auto json =
      nlohmann::json::parse(CandidateJson(data_, row, LoadTexts(*reader_, row).value()));
  EXPECT_EQ(json["name"], "r0.i1.b1");
  EXPECT_EQ(json["score_ns"], 14989);
  EXPECT_EQ(json["score_kind"], "modelled");
  EXPECT_EQ(json["idea"]["expected_gain"], 1.25);
  EXPECT_EQ(json["cases"][0]["floor_ns"], 3500);
  EXPECT_DOUBLE_EQ(json["cases"][0]["share_of_floor"], 3500 / 14989.0);
  EXPECT_EQ(json["kernels"][0]["spill_load_bytes"], 8);
  EXPECT_EQ(json["launches"][0]["entry"], "rows");
  EXPECT_EQ(json["launches"][1]["time_ns"], 900);
  EXPECT_EQ(json["stages"][1]["duration_ms"], 120);
  EXPECT_EQ(json["source"], "// Answer to code r0.p1.i1.b1.t0");
  const CandidateRow& failed = Row("r0.i2.b2");
  const auto other = nlohmann::json::parse(CandidateJson(data_, failed, {}));
  EXPECT_EQ(other["score_ns"], nullptr);
  EXPECT_EQ(other["verdict"]["input_seed"], 0xffffffffffffffffu);
  EXPECT_EQ(other["verdict"]["element"], 3585);
}

TEST_F(ShowTest, ATextThatIsGoneIsAnErrorThatNamesTheCandidate) {
  CandidateRow row = Row("r0.i1.b1");
  row.source = HashText("never stored");
  const auto texts = LoadTexts(*reader_, row);
  ASSERT_FALSE(texts);
  EXPECT_NE(texts.error().message.find("r0.i1.b1"), std::string::npos);
}

}  // namespace
}  // namespace grove::results
