#include "eval/promotion.h"

#include <gtest/gtest.h>

#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

using testing::TinyPlan;
using testing::TinySource;

CasePair PairOf(const std::string& name, double delta, double error,
                PairOutcome::Result result = PairOutcome::Result::kFaster) {
  CasePair pair;
  pair.case_name = name;
  pair.outcome.base = {Nanoseconds(990), Nanoseconds(1000), Nanoseconds(1010)};
  for (const Nanoseconds base : pair.outcome.base) {
    pair.outcome.challenger.push_back(base * (1 + delta));
  }
  pair.outcome.median_delta = delta;
  pair.outcome.delta_stderr = error;
  pair.outcome.ratio = 1 + delta;
  pair.outcome.result = result;
  pair.outcome.gpu_uuid = "GPU-1";
  return pair;
}

TEST(Decide, AGainBeyondTheNoiseIsFasterWithItsInterval) {
  const CasePair pairs[] = {PairOf("a", -0.05, 0.002)};
  const Promotion p = Decide(pairs);
  EXPECT_EQ(p.outcome, Contest::kFaster);
  EXPECT_NEAR(p.ratio, 0.95, 1e-12);
  EXPECT_LT(p.low, 0.947);
  EXPECT_GT(p.low, 0.945);
  EXPECT_GT(p.high, 0.953);
  EXPECT_LT(p.high, 0.955);
  ASSERT_EQ(p.cases.size(), 1U);
  EXPECT_EQ(p.cases[0].incumbent, Nanoseconds(1000));
  EXPECT_NEAR(p.cases[0].challenger.count(), 950, 1e-9);
  EXPECT_EQ(p.cases[0].incumbent_samples.size(), 3U);
  EXPECT_EQ(p.gpu_uuid, "GPU-1");
}

TEST(Decide, ALossBeyondTheNoiseIsSlower) {
  const CasePair pairs[] = {PairOf("a", 0.03, 0.002, PairOutcome::Result::kSlower)};
  EXPECT_EQ(Decide(pairs).outcome, Contest::kSlower);
}

TEST(Decide, AGainInsideTwoStandardErrorsIsATie) {
  const CasePair pairs[] = {PairOf("a", -0.05, 0.03), PairOf("b", -0.04, 0.04)};
  EXPECT_EQ(Decide(pairs).outcome, Contest::kTie);
}

TEST(Decide, AGainBelowHalfAPercentIsATieHoweverWellItIsKnown) {
  const CasePair pairs[] = {PairOf("a", -0.004, 1e-6), PairOf("b", -0.004, 1e-6)};
  EXPECT_EQ(Decide(pairs).outcome, Contest::kTie);
}

TEST(Decide, ASingleCaseThatTheTimerCallsATieIsOne) {
  const CasePair pairs[] = {PairOf("a", -0.05, 0.002, PairOutcome::Result::kTie)};
  EXPECT_EQ(Decide(pairs).outcome, Contest::kTie);
}

TEST(Decide, CasesWeighAlikeInTheGeometricMean) {
  const CasePair balanced[] = {PairOf("a", -0.20, 0.001),
                               PairOf("b", 0.25, 0.001, PairOutcome::Result::kSlower)};
  const Promotion tie = Decide(balanced);
  EXPECT_EQ(tie.outcome, Contest::kTie);
  EXPECT_NEAR(tie.ratio, 1, 1e-12);
  const CasePair better[] = {PairOf("a", -0.20, 0.001),
                             PairOf("b", 0.05, 0.001, PairOutcome::Result::kSlower)};
  EXPECT_EQ(Decide(better).outcome, Contest::kFaster);
}

TEST(Decide, ManyNoisyCasesTogetherDecideWhatOneCannot) {
  std::vector<CasePair> pairs(1, PairOf("a", -0.02, 0.012, PairOutcome::Result::kTie));
  EXPECT_EQ(Decide(pairs).outcome, Contest::kTie);
  pairs.resize(16, pairs[0]);
  EXPECT_EQ(Decide(pairs).outcome, Contest::kFaster);
}

TEST(Decide, AFaultNamesTheCaseAndPromotesNothing) {
  CasePair pairs[] = {PairOf("a", -0.5, 0.001), PairOf("b", -0.5, 0.001)};
  pairs[1].outcome.fault = ExecutionFault{VerdictKind::kTimeout, "no end"};
  const Promotion p = Decide(pairs);
  EXPECT_EQ(p.outcome, Contest::kFault);
  EXPECT_FALSE(p.promoted);
  EXPECT_NE(p.why.find("case b"), std::string::npos);
  EXPECT_NE(p.why.find("timeout"), std::string::npos);
}

TEST(Decide, NoSamplesAndNoCasesAreFaults) {
  EXPECT_EQ(Decide({}).outcome, Contest::kFault);
  CasePair pairs[] = {PairOf("a", -0.5, 0.001)};
  pairs[0].outcome.base.clear();
  EXPECT_EQ(Decide(pairs).outcome, Contest::kFault);
}

class PromoteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_.measures = true;
    auto made = Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(made) << made.error().message;
    evaluator_ = std::move(*made);
  }

  Promotion Contest(const std::string& incumbent, const std::string& challenger,
                    bool modelled = false) {
    const auto parse = [](const std::string& directives) {
      return codegen::MakeProgram(TinySource(directives), TinyPlan()).value();
    };
    const auto old_program = parse(incumbent);
    const auto new_program = parse(challenger);
    const auto score = [&](const codegen::KernelProgram& program) {
      return evaluator_->Evaluate(program).value().score.value();
    };
    auto p = Promote(*evaluator_, {"old", &old_program, score(old_program), modelled},
                     {"new", &new_program, score(new_program), modelled});
    EXPECT_TRUE(p) << p.error().message;
    return p.value_or(Promotion{});
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  std::unique_ptr<Evaluator> evaluator_;
};

TEST_F(PromoteTest, AFasterChallengerIsPromotedByAMeasurementOnOneGpu) {
  const Promotion p = Contest("// @time 1000\n", "// @time 900\n");
  EXPECT_TRUE(p.promoted);
  EXPECT_FALSE(p.modelled);
  EXPECT_EQ(p.outcome, eval::Contest::kFaster);
  EXPECT_EQ(p.gpu_uuid, "GPU-fake");
  EXPECT_EQ(device_.pairs_taken(), 1);
  EXPECT_NE(p.why.find("10.00% faster"), std::string::npos) << p.why;
}

TEST_F(PromoteTest, ASlowerChallengerIsNot) {
  const Promotion p = Contest("// @time 1000\n", "// @time 1200\n");
  EXPECT_FALSE(p.promoted);
  EXPECT_EQ(p.outcome, eval::Contest::kSlower);
}

TEST_F(PromoteTest, ATieGoesToTheSimplerOfTheTwo) {
  const std::string longer =
      "// @time 999\nstatic __device__ int unused(int x) { return x + 1; }\n";
  const Promotion up = Contest(longer, "// @time 998\n");
  EXPECT_EQ(up.outcome, eval::Contest::kTie);
  EXPECT_TRUE(up.promoted);
  EXPECT_NE(up.why.find("new is simpler"), std::string::npos) << up.why;
  const Promotion down = Contest("// @time 998\n", longer);
  EXPECT_EQ(down.outcome, eval::Contest::kTie);
  EXPECT_FALSE(down.promoted);
  EXPECT_NE(down.why.find("old stays"), std::string::npos) << down.why;
}

TEST_F(PromoteTest, NoiseMakesATieOfAGain) {
  device_.pair_noise = 0.1;
  EXPECT_EQ(Contest("// @time 1000\n", "// @time 900\n").outcome, eval::Contest::kTie);
}

TEST_F(PromoteTest, AChallengerThatFailsBesideTheIncumbentIsNotPromoted) {
  const Promotion p = Contest("// @time 1000\n", "// @time 500\n// @pair trap\n");
  EXPECT_EQ(p.outcome, eval::Contest::kFault);
  EXPECT_FALSE(p.promoted);
  EXPECT_NE(p.why.find("trap"), std::string::npos);
}

TEST_F(PromoteTest, ModelledScoresAnswerWithoutTheDeviceAndWithoutNoise) {
  device_.pair_noise = 0.5;
  const Promotion p = Contest("// @time 1000\n", "// @time 999\n", true);
  EXPECT_TRUE(p.promoted);
  EXPECT_TRUE(p.modelled);
  EXPECT_EQ(p.outcome, eval::Contest::kFaster);
  EXPECT_EQ(p.low, p.high);
  EXPECT_TRUE(p.gpu_uuid.empty());
  EXPECT_EQ(device_.pairs_taken(), 0);
}

TEST_F(PromoteTest, EqualModelledScoresTie) {
  EXPECT_EQ(Contest("// @time 700\n", "// @time 700\n// x\n", true).outcome, eval::Contest::kTie);
}

TEST_F(PromoteTest, AModelledTimeIsNotComparedWithAMeasuredOne) {
  const auto program = codegen::MakeProgram(TinySource(""), TinyPlan()).value();
  const auto p = Promote(*evaluator_, {"old", &program, Nanoseconds(1), true},
                         {"new", &program, Nanoseconds(1), false});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ErrorCode::kInvalidInput);
}

TEST_F(PromoteTest, ADeviceThatOnlyModelsSaysSoWhenAskedToMeasure) {
  device_.measures = false;
  const auto program = codegen::MakeProgram(TinySource(""), TinyPlan()).value();
  const auto p = Promote(*evaluator_, {"old", &program, Nanoseconds(1), false},
                         {"new", &program, Nanoseconds(1), false});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace grove::eval
