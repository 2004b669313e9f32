#include "eval/cuda/protocol.h"

#include <bit>
#include <random>

#include <gtest/gtest.h>

namespace grove::cuda {
namespace {

seeds::Tensor MakeTensor(std::string name, seeds::TensorRole role, DType dtype,
                         std::vector<std::int64_t> shape) {
  seeds::Tensor tensor;
  tensor.name = std::move(name);
  tensor.role = role;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.distribution = {seeds::Distribution::Kind::kMixed, 1e3, 1e-3};
  return tensor;
}

Program MakeProgramText(const std::string& cubin) {
  Program program;
  program.cubin = cubin;
  program.plan.workspaces.push_back({"partial", DType::kF64, 77, true});
  codegen::ResolvedTensorMap map;
  map.name = "map_x";
  map.tensor = "x";
  map.dtype = DType::kBF16;
  map.shape = {128, 64};
  map.box = {16, 64};
  map.element_strides = {1, 1};
  map.swizzle = "128B";
  map.interleave = "none";
  map.l2_promotion = "256B";
  program.plan.tensor_maps.push_back(map);
  codegen::ResolvedLaunch launch;
  launch.kernel = "row_kernel";
  launch.grid = {10, 20, 30};
  launch.block = {32, 8, 1};
  launch.shared_bytes = 100000;
  launch.cluster = std::array<std::int64_t, 3>{2, 1, 1};
  launch.cooperative = true;
  launch.dependent = true;
  launch.place = "launches[0]";
  codegen::ResolvedArg scalar;
  scalar.kind = codegen::ResolvedArg::Kind::kScalar;
  scalar.bytes = std::bit_cast<std::array<std::byte, 8>>(0x1122334455667788ULL);
  scalar.size = 4;
  codegen::ResolvedArg tensor;
  tensor.kind = codegen::ResolvedArg::Kind::kTensor;
  tensor.index = 1;
  codegen::ResolvedArg workspace;
  workspace.kind = codegen::ResolvedArg::Kind::kWorkspace;
  codegen::ResolvedArg tensor_map;
  tensor_map.kind = codegen::ResolvedArg::Kind::kTensorMap;
  tensor_map.size = 128;
  launch.args = {tensor, scalar, workspace, tensor_map};
  program.plan.launches.push_back(launch);
  return program;
}

CheckJob MakeCheckJob() {
  CheckJob job;
  job.task_case.name = "crfm";
  job.task_case.row_elements = 12;
  job.task_case.tensors = {MakeTensor("x", seeds::TensorRole::kInput, DType::kBF16, {128, 64}),
                           MakeTensor("y", seeds::TensorRole::kOutput, DType::kF32, {128})};
  job.reference =
      MakeProgramText(std::string("\x7f"
                                  "ELF\0reference",
                                  14));
  job.candidate = MakeProgramText("candidate");
  job.seed = 0xfedcba9876543210ULL;
  job.deadline = std::chrono::milliseconds(1234);
  job.runs = 3;
  return job;
}

TEST(Protocol, ACheckJobArrivesAsItWasSent) {
  const CheckJob sent = MakeCheckJob();
  const auto got = DecodeCheckJob(Encode(sent));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(Encode(*got), Encode(sent));
  EXPECT_EQ(got->runs, 3);
  EXPECT_EQ(got->seed, sent.seed);
  EXPECT_EQ(got->deadline.count(), 1234);
  EXPECT_EQ(got->reference.cubin, sent.reference.cubin);
  EXPECT_EQ(got->task_case.row_elements, 12);
  EXPECT_EQ(got->task_case.tensors[0].distribution.b, 1e-3);
  const codegen::ResolvedLaunch& launch = got->candidate.plan.launches[0];
  EXPECT_EQ(launch.grid, (std::array<std::int64_t, 3>{10, 20, 30}));
  EXPECT_EQ((*launch.cluster)[0], 2);
  EXPECT_TRUE(launch.cooperative);
  EXPECT_EQ(launch.args[1].bytes, sent.candidate.plan.launches[0].args[1].bytes);
  EXPECT_EQ(launch.args[3].size, 128U);
  EXPECT_EQ(got->candidate.plan.tensor_maps[0].swizzle, "128B");
  EXPECT_TRUE(got->candidate.plan.workspaces[0].zero);
}

TEST(Protocol, ATimeJobArrivesWithItsBase) {
  TimeJob sent;
  static_cast<Job&>(sent) = MakeCheckJob();
  sent.base = MakeProgramText("parent");
  sent.limits.max_samples = 77;
  sent.all_modes = false;
  const auto got = DecodeTimeJob(Encode(sent));
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_TRUE(got->base);
  EXPECT_EQ(got->base->cubin, "parent");
  EXPECT_EQ(got->limits.max_samples, 77);
  EXPECT_FALSE(got->all_modes);
  sent.base.reset();
  EXPECT_FALSE(DecodeTimeJob(Encode(sent))->base);
}

TEST(Protocol, OutcomesArriveAsTheyWereSent) {
  CheckDone check;
  check.outcome.fault = eval::ExecutionFault{eval::VerdictKind::kInputModified, "bytes of x"};
  check.outcome.deterministic = false;
  check.outcome.unwritten_tensor = 1;
  check.outcome.unwritten_element = 99;
  eval::ErrorReport report;
  report.elements = 5;
  report.worst_row_l2 = 0.25;
  report.worst_element = 3;
  report.non_finite_mismatches = 2;
  check.outcome.errors = {report};
  check.reference_time = Nanoseconds(1.5);
  const auto got = DecodeCheckDone(Encode(check));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->outcome.fault->kind, eval::VerdictKind::kInputModified);
  EXPECT_EQ(got->outcome.fault->message, "bytes of x");
  EXPECT_FALSE(got->outcome.deterministic);
  EXPECT_EQ(got->outcome.unwritten_tensor, 1U);
  EXPECT_EQ(got->outcome.errors[0].worst_row_l2, 0.25);
  EXPECT_EQ(got->outcome.errors[0].non_finite_mismatches, 2);
  EXPECT_EQ(got->reference_time.count(), 1.5);

  TimeDone time;
  time.outcome.time = Nanoseconds(1000);
  time.outcome.modes.push_back({"cold",
                                {Nanoseconds(1), Nanoseconds(2)},
                                Nanoseconds(1),
                                Nanoseconds(1.5),
                                Nanoseconds(2),
                                0.01,
                                "precise",
                                ""});
  time.outcome.throttled = 4;
  time.outcome.empty_kernel = Nanoseconds(2222);
  time.pair.emplace();
  time.pair->base = {Nanoseconds(3)};
  time.pair->result = eval::PairOutcome::Result::kSlower;
  const auto timed = DecodeTimeDone(Encode(time));
  ASSERT_TRUE(timed) << timed.error().message;
  EXPECT_EQ(timed->outcome.modes[0].samples.size(), 2U);
  EXPECT_EQ(timed->outcome.modes[0].stopped, "precise");
  EXPECT_EQ(timed->outcome.throttled, 4);
  EXPECT_EQ(timed->outcome.empty_kernel.count(), 2222);
  EXPECT_EQ(timed->pair->result, eval::PairOutcome::Result::kSlower);
}

TEST(Protocol, FactsAndTheOpeningArriveAsTheyWereSent) {
  DeviceFacts facts;
  facts.name = "NVIDIA H200";
  facts.uuid = "GPU-1";
  facts.compute_major = 9;
  facts.sm_count = 132;
  facts.virtual_memory = true;
  facts.memory_bytes = 140LL << 30;
  const auto got = DecodeFacts(Encode(facts));
  ASSERT_TRUE(got);
  EXPECT_EQ(Encode(*got), Encode(facts));
  EXPECT_EQ(got->arch(), "sm_90a");
  OpenMessage open;
  open.ordinal = 3;
  open.lanes = 7;
  EXPECT_EQ(DecodeOpen(Encode(open))->ordinal, 3);
  open.lanes = 1000;
  EXPECT_FALSE(DecodeOpen(Encode(open))) << "a thousand lanes are no sane request";
}

TEST(Protocol, EveryPrefixOfAMessageIsRefused) {
  const std::string whole = Encode(MakeCheckJob());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeCheckJob(std::string_view(whole).substr(0, size))) << size;
  }
  EXPECT_FALSE(DecodeCheckJob(whole + "x")) << "trailing bytes";
}

TEST(Protocol, RandomDamageNeverCrashesTheDecoders) {
  const std::string check = Encode(MakeCheckJob());
  std::mt19937 random(20240917);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = check;
    for (int k = 0; k < 4; ++k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!DecodeCheckJob(bytes)) ++refused;
    (void)DecodeTimeDone(bytes);
    (void)DecodeCheckDone(bytes);
    (void)DecodeFacts(bytes);
    (void)DecodeFatal(bytes);
  }
  EXPECT_GT(refused, 100);
}

TEST(Protocol, AnArgumentThatPointsOutsideItsListIsRefused) {
  CheckJob job = MakeCheckJob();
  job.candidate.plan.launches[0].args[0].index = 2;  // there are two tensors
  EXPECT_FALSE(DecodeCheckJob(Encode(job)));
  job = MakeCheckJob();
  job.reference.plan.launches[0].args[2].index = 1;  // and one workspace
  EXPECT_FALSE(DecodeCheckJob(Encode(job)));
}

// A step c = a b of workspace 0 (all three operands apart in it).
codegen::ResolvedLaunch LibraryStep() {
  auto gemm = std::make_shared<codegen::ResolvedGemm>();
  gemm->m = 3, gemm->n = 4, gemm->k = 5, gemm->batch = 6;
  gemm->alpha = -1, gemm->beta = 0.5;
  gemm->compute = codegen::GemmCompute::kTf32;
  gemm->a = {codegen::ResolvedArg::Kind::kTensor, 0, DType::kF32, 7, 8, 9, true};
  gemm->b = {codegen::ResolvedArg::Kind::kTensor, 1, DType::kF32, 1, 2, 3, false};
  gemm->c = {codegen::ResolvedArg::Kind::kWorkspace, 0, DType::kF32, 4, 5, 6, false};
  codegen::ResolvedLaunch step;
  step.kernel = codegen::kGemmStep;
  step.gemm = std::move(gemm);
  step.place = "launches[1]";
  return step;
}

TEST(Protocol, ALibraryStepAndACheckerArriveAsTheyWereSent) {
  CheckJob sent = MakeCheckJob();
  sent.candidate.plan.launches.push_back(LibraryStep());
  sent.task_case.checker = seeds::Checker::kHouseholderQr;
  sent.task_case.profile = seeds::CheckerProfile::kCompetition;
  sent.task_case.tensors[0].distribution.structure = seeds::Distribution::Structure::kMixed;
  const auto got = DecodeCheckJob(Encode(sent));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(Encode(*got), Encode(sent));
  EXPECT_EQ(got->task_case.checker, seeds::Checker::kHouseholderQr);
  EXPECT_EQ(got->task_case.profile, seeds::CheckerProfile::kCompetition);
  EXPECT_EQ(got->candidate.plan.launches[0].gemm, nullptr);
  const auto& gemm = got->candidate.plan.launches[1].gemm;
  ASSERT_TRUE(gemm);
  EXPECT_EQ(gemm->batch, 6);
  EXPECT_EQ(gemm->beta, 0.5);
  EXPECT_EQ(gemm->compute, codegen::GemmCompute::kTf32);
  EXPECT_EQ(gemm->a.stride, 9);
  EXPECT_TRUE(gemm->a.transpose);
  EXPECT_EQ(gemm->c.kind, codegen::ResolvedArg::Kind::kWorkspace);
}

TEST(Protocol, AnOperandThatPointsOutsideItsListIsRefused) {
  CheckJob job = MakeCheckJob();
  codegen::ResolvedLaunch step = LibraryStep();
  auto gemm = std::make_shared<codegen::ResolvedGemm>(*step.gemm);
  gemm->c.index = 1;  // there is one workspace
  step.gemm = gemm;
  job.candidate.plan.launches.push_back(step);
  EXPECT_FALSE(DecodeCheckJob(Encode(job)));
}

TEST(Protocol, GatesArriveAsTheyWereSent) {
  CheckDone sent;
  sent.outcome.gates = {{"QtA=R", 1e-7, 1e-3, true, 5, 17}, {"A=QR", 2, 3, false, 0, -1}};
  const auto got = DecodeCheckDone(Encode(sent));
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->outcome.gates.size(), 2U);
  EXPECT_EQ(got->outcome.gates[0].name, "QtA=R");
  EXPECT_EQ(got->outcome.gates[0].column, 17);
  EXPECT_FALSE(got->outcome.gates[1].decides);
  TimeDone timed;
  timed.outcome.gates = sent.outcome.gates;
  const auto again = DecodeTimeDone(Encode(timed));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->outcome.gates.size(), 2U);
}

TEST(Protocol, AnUnknownVerdictKindIsRefused) {
  FatalMessage message{eval::VerdictKind::kTrap, "x"};
  std::string bytes = Encode(message);
  ASSERT_TRUE(DecodeFatal(bytes));
  bytes[0] = static_cast<char>(200);
  EXPECT_FALSE(DecodeFatal(bytes));
}

TEST(Protocol, AnIdIsPutInFrontAndTakenOff) {
  const std::string bytes = WithId(42, "rest");
  std::string_view view = bytes;
  EXPECT_EQ(*TakeId(view), 42U);
  EXPECT_EQ(view, "rest");
  std::string_view tooShort = "1234567";
  EXPECT_FALSE(TakeId(tooShort));
}

}  // namespace
}  // namespace grove::cuda
