// Screening: a second device looks at every candidate before the first one does.
#include <algorithm>

#include <gtest/gtest.h>

#include "eval/evaluator.h"
#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

using testing::TinyPlan;
using testing::TinySource;

class ScreenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EvaluatorOptions options;
    options.screen = &screen_;
    evaluator_ = Evaluator::Create(task_, compiler_, gpu_, options).value();
  }
  Evaluation Evaluate(const std::string& directives) {
    auto evaluation =
        evaluator_->Evaluate(codegen::MakeProgram(TinySource(directives), TinyPlan()).value());
    EXPECT_TRUE(evaluation) << evaluation.error().message;
    return *evaluation;
  }
  static const StageRecord* Screened(const Evaluation& evaluation) {
    const auto at = std::find_if(evaluation.stages.begin(), evaluation.stages.end(),
                                 [](const StageRecord& r) { return r.stage == Stage::kScreen; });
    return at == evaluation.stages.end() ? nullptr : &*at;
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice gpu_, screen_;
  std::unique_ptr<Evaluator> evaluator_;
};

TEST_F(ScreenTest, ACleanCandidateIsScreenedOnTheSmallestCaseAndGoesOn) {
  const Evaluation evaluation = Evaluate("");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kPass);
  EXPECT_EQ(screen_.checked(), std::vector<std::string>{"smoke"});
  const StageRecord* record = Screened(evaluation);
  ASSERT_NE(record, nullptr);
  EXPECT_TRUE(record->passed);
  EXPECT_FALSE(record->undecided);
  EXPECT_EQ(record->case_name, "smoke");
}

TEST_F(ScreenTest, TheSmallestCaseIsTakenWhateverItsPlace) {
  for (seeds::Case& task_case : task_.cases) {
    if (task_case.name != "edge") continue;
    for (seeds::Tensor& tensor : task_case.tensors) tensor.shape = {2};
  }
  Evaluate("");
  EXPECT_EQ(screen_.checked(), std::vector<std::string>{"edge"});
}

TEST_F(ScreenTest, ARaceEndsTheEvaluationBeforeTheGpuSeesTheCandidate) {
  const Evaluation evaluation = Evaluate("// @fail smoke race\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kRace);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kScreen);
  EXPECT_EQ(evaluation.verdict.case_name, "smoke");
  EXPECT_TRUE(gpu_.checked().empty());
  EXPECT_NE(evaluation.verdict.seed, 0U);
}

TEST_F(ScreenTest, WhatTheEmulatorCannotExecutePassesAndItsStageSaysSo) {
  // Both devices refuse it, so that the evaluation ends at the GPU: with the GPU's verdict.
  const Evaluation evaluation = Evaluate("// @fail smoke unsupported\n");
  EXPECT_EQ(evaluation.verdict.stage, Stage::kSmoke);
  EXPECT_EQ(gpu_.checked(), std::vector<std::string>{"smoke"});
  const StageRecord* record = Screened(evaluation);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->undecided, VerdictKind::kUnsupported);
  EXPECT_TRUE(record->passed);
}

TEST_F(ScreenTest, ValuesAreNotJudgedByTheScreen) {
  const Evaluation evaluation = Evaluate("// @error smoke 0.5\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kWrongResult);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kSmoke);
}

TEST_F(ScreenTest, ACompileErrorKeepsItsOwnStage) {
  const Evaluation evaluation = Evaluate("// @compile error\n");
  EXPECT_EQ(evaluation.verdict.stage, Stage::kCompile);
  EXPECT_EQ(Screened(evaluation), nullptr);
  EXPECT_TRUE(screen_.checked().empty());
}

TEST_F(ScreenTest, ADeadScreenIsOurFailure) {
  screen_.gone = true;
  const auto evaluation =
      evaluator_->Evaluate(codegen::MakeProgram(TinySource(""), TinyPlan()).value());
  ASSERT_FALSE(evaluation);
  EXPECT_NE(evaluation.error().message.find("screening"), std::string::npos);
}

}  // namespace
}  // namespace grove::eval
