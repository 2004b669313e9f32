#include "eval/evaluator.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "seeds/live.h"
#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

using testing::FakeCompiler;
using testing::FakeDevice;
using testing::TinyPlan;
using testing::TinySource;

class EvaluatorTest : public ::testing::Test {
 protected:
  void SetUp() override { Make({}); }

  void Make(EvaluatorOptions options) {
    auto made = Evaluator::Create(task_, compiler_, device_, std::move(options));
    ASSERT_TRUE(made) << made.error().message;
    evaluator_ = std::move(*made);
  }

  Evaluation Evaluate(const std::string& directives) {
    auto program = codegen::MakeProgram(TinySource(directives), TinyPlan());
    EXPECT_TRUE(program) << program.error().message;
    auto evaluation = evaluator_->Evaluate(*program);
    EXPECT_TRUE(evaluation) << evaluation.error().message;
    return *evaluation;
  }

  seeds::Task task_ = testing::TinyTask();
  FakeCompiler compiler_;
  FakeDevice device_;
  std::unique_ptr<Evaluator> evaluator_;
};

TEST_F(EvaluatorTest, ACorrectKernelPassesEveryStageAndGetsAScore) {
  const Evaluation evaluation = Evaluate("// @time 500\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kPass);
  ASSERT_TRUE(evaluation.score);
  EXPECT_DOUBLE_EQ(evaluation.score->count(), 500);
  EXPECT_TRUE(evaluation.modelled);
  ASSERT_TRUE(evaluation.measured_class);
  EXPECT_EQ(*evaluation.measured_class, seeds::PrecisionClass::kFp32);
  for (const Stage stage :
       {Stage::kParse, Stage::kCompile, Stage::kSmoke, Stage::kSweep, Stage::kStability,
        Stage::kDeterminism, Stage::kEdge, Stage::kIntegrity, Stage::kTiming, Stage::kRecheck}) {
    EXPECT_TRUE(std::any_of(evaluation.stages.begin(), evaluation.stages.end(),
                            [&](const StageRecord& s) { return s.stage == stage && s.passed; }))
        << Name(stage);
  }
}

TEST_F(EvaluatorTest, EdgesOfTheCandidatesOwnTilesAreChecked) {
  const std::string plan = R"json({"version": 1, "launches": [{"kernel": "copy",
      "grid": ["ceil_div(N, 48)"], "block": [48], "args": ["x", "y"]}]})json";
  const auto right = codegen::MakeProgram(TinySource("// @time 500\n"), plan).value();
  EXPECT_EQ(evaluator_->Evaluate(right).value().verdict.kind, VerdictKind::kPass);
  const auto checked = device_.checked();
  for (const char* name : {"tile_edge_N47", "tile_edge_N48", "tile_edge_N49"}) {
    EXPECT_NE(std::find(checked.begin(), checked.end(), name), checked.end()) << name;
  }
  // Wrong there and nowhere else.
  const auto wrong =
      codegen::MakeProgram(TinySource("// @error tile_edge_N49 0.5\n"), plan).value();
  const Evaluation evaluation = evaluator_->Evaluate(wrong).value();
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kWrongResult);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kEdge);
  EXPECT_EQ(evaluation.verdict.case_name, "tile_edge_N49");
}

TEST_F(EvaluatorTest, ExtraCasesAreNeitherCheckedNorTimed) {
  for (seeds::Case& task_case : task_.cases) {
    if (task_case.name == "edge") task_case.role = seeds::CaseRole::kExtra;
  }
  Make({});
  const Evaluation evaluation = Evaluate("// @fail edge trap\n// @time 500\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kPass);
  EXPECT_EQ(evaluation.times.size(), 1U);
}

TEST_F(EvaluatorTest, TheMeasuredClassIsThatOfTheCasesOfTheDemandedClass) {
  for (seeds::Case& task_case : task_.cases) {
    if (task_case.name == "sweep") task_case.demanded = seeds::PrecisionClass::kBf16;
  }
  Make({});
  const Evaluation evaluation = Evaluate("// @error sweep 5e-3\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kPass) << evaluation.verdict.message;
  EXPECT_EQ(evaluation.measured_class, seeds::PrecisionClass::kFp32);
  EXPECT_LT(evaluation.worst_error, 1e-6);
}

TEST_F(EvaluatorTest, ACompileErrorIsAVerdictWithTheLog) {
  const Evaluation evaluation = Evaluate("// @compile error\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kCompileError);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kCompile);
  EXPECT_NE(evaluation.verdict.message.find("as asked"), std::string::npos);
  EXPECT_FALSE(evaluation.score);
}

TEST_F(EvaluatorTest, TheCompilersOtherEndsHaveVerdictsOfTheirOwn) {
  EXPECT_EQ(Evaluate("// @compile timeout\n").verdict.kind, VerdictKind::kCompileTimeout);
  EXPECT_EQ(Evaluate("// @compile memory\n").verdict.kind, VerdictKind::kCompileMemory);
  EXPECT_EQ(Evaluate("// @compile crashed\n").verdict.kind, VerdictKind::kCompileError);
}

TEST_F(EvaluatorTest, AFailureInSmokeStopsBeforeAnyOtherCase) {
  const Evaluation evaluation = Evaluate("// @fail smoke out_of_bounds\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kOutOfBounds);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kSmoke);
  EXPECT_EQ(evaluation.verdict.case_name, "smoke");
  EXPECT_EQ(device_.checked(), std::vector<std::string>{"smoke"});
}

TEST_F(EvaluatorTest, TheFirstFailureInStageOrderIsReportedWhateverFinishedFirst) {
  for (int i = 0; i < 20; ++i) {
    const Evaluation evaluation =
        Evaluate("// @fail edge trap\n// @fail sweep misaligned\n// @fail stability race\n");
    EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kMisaligned);
    EXPECT_EQ(evaluation.verdict.stage, Stage::kSweep);
  }
}

TEST_F(EvaluatorTest, AWrongValueNamesTheElement) {
  const Evaluation evaluation = Evaluate("// @error edge 0.5\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kWrongResult);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kEdge);
  EXPECT_EQ(evaluation.verdict.tensor, "y");
  EXPECT_EQ(evaluation.verdict.element, 0);
  EXPECT_DOUBLE_EQ(evaluation.verdict.error, 0.5);
  EXPECT_GT(evaluation.verdict.error, evaluation.verdict.tolerance);
}

TEST_F(EvaluatorTest, AWrongValueOnAdversarialInputsOnlyIsUnstable) {
  EXPECT_EQ(Evaluate("// @error stability 0.5\n").verdict.kind, VerdictKind::kUnstable);
}

TEST_F(EvaluatorTest, AnErrorOfALowerClassIsLabelledSo) {
  const Evaluation evaluation = Evaluate("// @error sweep 3e-4\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kLowerClass);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kSweep);
  EXPECT_EQ(evaluation.verdict.case_name, "sweep");
  EXPECT_FALSE(evaluation.verdict.passed());
}

TEST_F(EvaluatorTest, AKernelOfALowerClassIsTimedAsWhatItIs) {
  const Evaluation evaluation = Evaluate("// @error sweep 3e-4\n// @time 700\n");
  ASSERT_TRUE(evaluation.score);
  EXPECT_DOUBLE_EQ(evaluation.score->count(), 700);
  EXPECT_EQ(evaluation.measured_class, seeds::PrecisionClass::kTf32);
}

TEST_F(EvaluatorTest, TheLowestClassOfAllCasesCounts) {
  const Evaluation evaluation = Evaluate("// @error sweep 3e-4\n// @error edge 1e-2\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kLowerClass);
  EXPECT_EQ(evaluation.verdict.case_name, "sweep");  // where it first showed
  EXPECT_EQ(evaluation.measured_class, seeds::PrecisionClass::kBf16);
}

TEST_F(EvaluatorTest, ALowerClassExcusesNothingElse) {
  EXPECT_EQ(Evaluate("// @error sweep 3e-4\n// @error edge 0.5\n").verdict.kind,
            VerdictKind::kWrongResult);
  EXPECT_EQ(Evaluate("// @error sweep 3e-4\n// @fail edge trap\n").verdict.kind,
            VerdictKind::kTrap);
  EXPECT_EQ(Evaluate("// @error smoke 3e-4\n// @random smoke\n").verdict.kind,
            VerdictKind::kNondeterministic);
  EXPECT_EQ(Evaluate("// @error sweep 3e-4\n// @error stability 0.1\n").verdict.kind,
            VerdictKind::kUnstable);
}

TEST_F(EvaluatorTest, ALowerClassThatShowsOnlyWhenTimedIsLabelledToo) {
  const Evaluation evaluation = Evaluate("// @error scored 3e-4\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kLowerClass);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kRecheck);
  EXPECT_EQ(evaluation.measured_class, seeds::PrecisionClass::kTf32);
}

TEST_F(EvaluatorTest, AnUnwrittenElementIsNamed) {
  const Evaluation evaluation = Evaluate("// @unwritten sweep\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kUnwritten);
  EXPECT_EQ(evaluation.verdict.tensor, "y");
  EXPECT_EQ(evaluation.verdict.element, 3);
}

TEST_F(EvaluatorTest, RunsThatDifferAreNondeterministicUnlessTheTaskAllowsIt) {
  EXPECT_EQ(Evaluate("// @random smoke\n").verdict.kind, VerdictKind::kNondeterministic);
  task_.allow_nondeterminism = true;
  EXPECT_EQ(Evaluate("// @random smoke\n").verdict.kind, VerdictKind::kPass);
}

TEST_F(EvaluatorTest, AWrongResultSaysWhetherRunsAgree) {
  const auto says = [&](const std::string& directives, const char* words) {
    const std::string message = Evaluate(directives).verdict.message;
    EXPECT_NE(message.find(words), std::string::npos) << directives << message;
  };
  // The smoke case is run several times as it is, the others once more.
  says("// @error smoke 0.5\n", "; other runs on the same inputs give the same bits");
  says("// @error smoke 0.5\n// @random smoke\n", "differ in their bits: a race");
  says("// @error edge 0.5\n", "; other runs on the same inputs give the same bits");
  says("// @error edge 0.5\n// @random edge\n", "differ in their bits: a race");
  says("// @error stability 0.5\n// @random stability\n", "differ in their bits: a race");
  task_.allow_nondeterminism = true;
  EXPECT_EQ(Evaluate("// @error edge 0.5\n").verdict.message.find("same inputs"),
            std::string::npos);
}

TEST_F(EvaluatorTest, ATimeBelowTheFloorIsImpossible) {
  const Evaluation evaluation = Evaluate("// @time 0.001\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kImpossible);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kTiming);
}

TEST_F(EvaluatorTest, WrongTimedOutputsFailTheRecheck) {
  const Evaluation evaluation = Evaluate("// @error scored 0.5\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kWrongResult);
  EXPECT_EQ(evaluation.verdict.stage, Stage::kRecheck);
  EXPECT_FALSE(evaluation.score);
}

TEST_F(EvaluatorTest, APlanThatDoesNotFitTheKernelIsAPlanError) {
  auto program = codegen::MakeProgram(
      TinySource(""),
      R"({"version": 1, "launches": [{"kernel": "copy", "grid": [1], "block": [32], "args": ["x"]}]})");
  ASSERT_TRUE(program) << program.error().message;
  const auto evaluation = evaluator_->Evaluate(*program);
  ASSERT_TRUE(evaluation);
  EXPECT_EQ(evaluation->verdict.kind, VerdictKind::kPlanError);
}

TEST_F(EvaluatorTest, NoCompilerIsOurErrorNotTheCandidates) {
  auto program = codegen::MakeProgram(TinySource(""), TinyPlan());
  ASSERT_TRUE(program);
  compiler_.FailFrom(compiler_.calls() + 3);
  const auto evaluation = evaluator_->Evaluate(*program);
  ASSERT_FALSE(evaluation);
  EXPECT_EQ(evaluation.error().code, ErrorCode::kUnavailable);
}

TEST_F(EvaluatorTest, AnUnknownScoredCaseNamesTheValidOnes) {
  EvaluatorOptions options;
  options.cases = {"scord"};
  const auto made = Evaluator::Create(task_, compiler_, device_, options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kNotFound);
  EXPECT_NE(made.error().message.find("'scored'"), std::string::npos);
}

TEST_F(EvaluatorTest, ABrokenReferenceIsReportedBeforeAnyCandidate) {
  task_.reference.source = testing::TinySource("// @compile error\n");
  const auto made = Evaluator::Create(task_, compiler_, device_, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(made.error().message.find("reference of task tiny"), std::string::npos);
}

// What measures compares all outputs of a scored case with those of the module, before it times
// them.
class LiveEvaluatorTest : public EvaluatorTest {
 protected:
  void SetUp() override {
    for (seeds::Case& c : task_.cases) c.golden = {{"y", "/a/task", seeds::kLiveOffset}};
    device_.measures = true;
    Make({});
  }
};

TEST_F(LiveEvaluatorTest, AScoredCaseIsCheckedAndThenTimed) {
  const Evaluation evaluation = Evaluate("// @time 500\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kPass) << evaluation.verdict.message;
  const auto checked = device_.checked();
  EXPECT_EQ(std::count(checked.begin(), checked.end(), "scored"), 1);
  EXPECT_DOUBLE_EQ(evaluation.score->count(), 500);
}

TEST_F(LiveEvaluatorTest, WhatIsWrongThereIsNotTimed) {
  const Evaluation evaluation = Evaluate("// @fail scored out_of_bounds\n");
  EXPECT_EQ(evaluation.verdict.kind, VerdictKind::kOutOfBounds);
  EXPECT_EQ(evaluation.verdict.case_name, "scored");
  EXPECT_TRUE(evaluation.times.empty());
}

TEST_F(LiveEvaluatorTest, ADeviceThatModelsDoesNotExecuteItWhole) {
  device_.measures = false;
  Make({});
  EXPECT_EQ(Evaluate("// @time 500\n").verdict.kind, VerdictKind::kPass);
  const auto checked = device_.checked();
  EXPECT_EQ(std::count(checked.begin(), checked.end(), "scored"), 0);
}

}  // namespace
}  // namespace grove::eval
