// What a prompt says about an evaluated kernel.
#include "search/describe.h"

#include <gmock/gmock.h>

#include "eval/evaluator.h"
#include "search/convert.h"

namespace grove::search {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Nanoseconds Us(double us) { return Nanoseconds(us * 1e3); }

eval::LaunchReport Launch(const char* kernel, double us, const char* bound = "", double bytes = 0) {
  eval::LaunchReport launch;
  launch.kernel = kernel;
  launch.time = Us(us);
  launch.bound = bound;
  launch.dram_bytes = bytes;
  launch.occupancy.warps_share = us > 50 ? 0.25 : 0.5;
  launch.occupancy.limiter = "registers";
  return launch;
}

// What the compiler says of the panel in the scored case.
eval::KernelRecord Panel() {
  eval::KernelRecord record;
  record.case_name = "n512";
  record.entry.name = "panel";
  record.entry.registers = 128;
  record.entry.spill_stores = 208;
  return record;
}

// Two panels and two updates, a third of the time in the panels.
eval::Evaluation Blocked() {
  eval::Evaluation evaluation;
  evaluation.verdict.kind = eval::VerdictKind::kPass;
  evaluation.score = Us(300);
  eval::StageRecord smoke;
  smoke.stage = eval::Stage::kSmoke;
  smoke.case_name = "small";
  smoke.passed = true;
  smoke.error = 1e-7;
  smoke.tolerance = 1e-6;
  eval::StageRecord edge = smoke;
  edge.stage = eval::Stage::kEdge;
  edge.case_name = "thin";
  edge.error = 6e-7;
  eval::StageRecord compile;
  compile.stage = eval::Stage::kCompile;
  compile.case_name = "small";
  compile.passed = true;
  evaluation.stages = {compile, smoke, edge};
  eval::CaseTime time;
  time.case_name = "n512";
  time.time = Us(300);
  time.min = Us(290);
  time.q3 = Us(310);
  time.class_floor = Us(60);
  time.empty_kernel = Us(2);
  time.launches = {Launch("panel", 40), Launch("update", 120, "memory", 4e6), Launch("panel", 60),
                   Launch("update", 80, "latency", 2e6)};
  eval::ModeTime graph;
  graph.mode = "graph";
  graph.median = Us(301);
  graph.samples = {Us(301)};
  eval::ModeTime hot = graph;
  hot.mode = "hot";
  hot.median = Us(200);
  time.modes = {graph, hot};
  evaluation.times = {time};
  return evaluation;
}

ideas::KernelFacts FactsOf(const results::EvaluationRow& row) {
  ideas::KernelFacts facts;
  AddEvaluation(facts, row);
  return facts;
}

TEST(Describe, LaunchesOfAPlanAreSummedForEachKernelInTheOrderOfThePlan) {
  const results::EvaluationRow row = ToRow(Blocked());
  ASSERT_EQ(row.launches.size(), 2U);
  EXPECT_EQ(row.launches[0].entry, "panel");
  EXPECT_EQ(row.launches[0].launches, 2);
  EXPECT_EQ(row.launches[0].time, Us(100));
  EXPECT_EQ(row.launches[1].entry, "update");
  EXPECT_EQ(row.launches[1].time, Us(200));
  EXPECT_EQ(row.launches[1].dram_bytes, 6e6);
  EXPECT_EQ(row.launches[1].bound, "memory") << "of the slowest";
  EXPECT_EQ(row.launches[1].occupancy, 0.25);
}

TEST(Describe, OneLaunchIsNotToldTwice) {
  eval::Evaluation evaluation = Blocked();
  evaluation.times[0].launches.resize(1);
  EXPECT_TRUE(ToRow(evaluation).launches.empty());
}

TEST(Describe, ThePromptSaysWhereTheTimeGoes) {
  const auto facts = FactsOf(ToRow(Blocked()));
  ASSERT_EQ(facts.cases.size(), 4U);
  EXPECT_THAT(facts.cases[0],
              HasSubstr("300.000 us (fastest sample 290.000, three quarters within 310.000)"));
  EXPECT_THAT(facts.cases[0], HasSubstr("4 launches"));
  EXPECT_EQ(facts.cases[1],
            "case n512, kernel panel: 2 launches, 100.000 us together (33%), occupancy 25% (limit: "
            "registers)");
  EXPECT_EQ(facts.cases[2],
            "case n512, kernel update: 2 launches, 200.000 us together (67%), 6.00 MB of memory "
            "traffic, bound by memory, occupancy 25% (limit: registers)");
  EXPECT_EQ(WhereTheTimeIs(ToRow(Blocked())), "mostly in update (67%, bound by memory)");
}

TEST(Describe, AModeThatTellsNothingNewIsLeftOut) {
  const auto facts = FactsOf(ToRow(Blocked()));
  EXPECT_THAT(facts.cases, Contains(HasSubstr("200.000 us with what its L2 keeps")));
  EXPECT_THAT(facts.cases, Not(Contains(HasSubstr("graph"))));
}

TEST(Describe, TheErrorIsThatOfTheCheckNearestToItsLimit) {
  const auto facts = FactsOf(ToRow(Blocked()));
  EXPECT_THAT(facts.error, HasSubstr("at most 60% of what is allowed"));
  EXPECT_THAT(facts.error, HasSubstr("6e-07 of 1e-06 in edge thin"));
  EXPECT_EQ(facts.empty_kernel, Us(2));
}

TEST(Describe, TheErrorOfTheScoredCaseStandsBesideIt) {
  eval::Evaluation evaluation = Blocked();
  eval::StageRecord scored = evaluation.stages[1];
  scored.stage = eval::Stage::kRecheck;
  scored.case_name = "n512";
  scored.error = 2e-8;
  evaluation.stages.push_back(scored);
  EXPECT_THAT(FactsOf(ToRow(evaluation)).error,
              HasSubstr("6e-07 of 1e-06 in edge thin); in scored case n512 2e-08 of 1e-06 (2%)"));
}

TEST(Describe, ImplementationsHaveALineEach) {
  results::CandidateRow parent, kernel;
  parent.evaluation = kernel.evaluation = ToRow(Blocked());
  parent.evaluation->score = Us(240);
  kernel.name = "r2.i1.b1";
  EXPECT_EQ(DescribeImplementation(kernel, &parent), "r2.i1.b1: 300.0 us, 0.80x its parent");
  eval::Evaluation evaluation = Blocked();
  evaluation.kernels = {Panel()};
  kernel.evaluation = ToRow(evaluation);
  EXPECT_EQ(DescribeImplementation(kernel, &parent),
            "r2.i1.b1: 300.0 us, 0.80x its parent; registers 128, spills 208, occupancy 25%, "
            "4 launches");
  kernel.evaluation->verdict.kind = eval::VerdictKind::kWrongResult;
  kernel.evaluation->verdict.case_name = "small";
  kernel.evaluation->verdict.message = std::string(500, 'x') + "\nmore";
  EXPECT_EQ(DescribeImplementation(kernel, &parent),
            "r2.i1.b1: wrong_result in small, " + std::string(160, 'x') + " ...");
  kernel.evaluation.reset();
  EXPECT_EQ(DescribeImplementation(kernel, &parent), "");
}

TEST(Describe, AKernelFromElsewhereIsComparedWithTheParentShown) {
  results::CandidateRow parent, kernel;
  parent.evaluation = kernel.evaluation = ToRow(Blocked());
  EXPECT_EQ(BesideParent(kernel, parent), "now as fast as the parent");
  kernel.evaluation->score = Us(306);
  EXPECT_EQ(BesideParent(kernel, parent), "now 1.020x slower than the parent");
  kernel.evaluation->score = Us(100);
  EXPECT_EQ(BesideParent(kernel, parent), "now 3.00x faster than the parent");
  kernel.evaluation.reset();
  EXPECT_EQ(BesideParent(kernel, parent), "");
}

TEST(Describe, LaunchedKernelsStandInTheOrderOfTheirTime) {
  EXPECT_EQ(LaunchedKernels(ToRow(Blocked())), (std::vector<std::string>{"update", "panel"}));
  eval::Evaluation one = Blocked();
  one.times[0].launches.resize(1);
  one.kernels = {Panel()};
  EXPECT_EQ(LaunchedKernels(ToRow(one)), std::vector<std::string>{"panel"});
}

TEST(Describe, WhereACheckerDecidesItsMarginsAreSaid) {
  eval::Evaluation evaluation = Blocked();
  evaluation.verdict.message = "least margins to the gates: QtQ=I 648x (n7), A=QR 3x (n512)";
  EXPECT_EQ(FactsOf(ToRow(evaluation)).error,
            "least margins to the gates: QtQ=I 648x (n7), A=QR 3x (n512)");
}

TEST(Describe, ARepairIsToldWhatPassedAndWhatTheKernelsTake) {
  eval::Evaluation evaluation = Blocked();
  evaluation.verdict.kind = eval::VerdictKind::kWrongResult;
  evaluation.stages[2].passed = false;
  evaluation.kernels = {Panel()};
  EXPECT_EQ(RepairReport(ToRow(evaluation)),
            "passed before: smoke small\n"
            "kernel panel: 128 registers, 208 bytes spilled, 0 bytes shared");
}

}  // namespace
}  // namespace grove::search
