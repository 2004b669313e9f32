// Timing on a real GPU. No test here judges an absolute time; they compare kernels with each other,
// with the device's floor, and with what the timer promises.
#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

using eval::VerdictKind;

class GpuTime : public GpuTest {};

const char kHonest[] = "if (i < dim::N) y[i] = 2.0f * x[i];";
constexpr std::int64_t kElements = 1 << 26;  // 256 MB each way: far beyond the L2 cache

TEST_F(GpuTime, EveryModeIsMeasuredAndTheOutputsAreRechecked) {
  auto mini = Doubling(kElements);
  const auto outcome = Time(*mini, PrepareKernel(*mini, kHonest));
  ASSERT_FALSE(outcome.fault) << outcome.fault->message;
  ASSERT_EQ(outcome.modes.size(), 4U);
  EXPECT_EQ(outcome.modes[0].mode, "cold");
  EXPECT_EQ(outcome.modes[1].mode, "hot");
  EXPECT_EQ(outcome.modes[2].mode, "graph");
  EXPECT_EQ(outcome.modes[3].mode, "host");
  for (const eval::ModeTime& mode : outcome.modes) {
    EXPECT_GE(mode.samples.size(), 3U) << mode.mode;
    EXPECT_TRUE(mode.note.empty()) << mode.mode << ": " << mode.note;
    EXPECT_LE(mode.min, mode.median);
    EXPECT_LE(mode.median, mode.q3);
  }
  EXPECT_GE(outcome.samples.size(), 10U);
  EXPECT_EQ(outcome.checked_share, 1);
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].worst_row_l2, 0);
  EXPECT_GT(outcome.mean_clock_ghz, 0.5);
  EXPECT_GT(outcome.empty_kernel.count(), 0);
  EXPECT_LT(outcome.empty_kernel, outcome.time);
  // 512 MB cannot be moved faster than the memory's peak.
  EXPECT_GT(outcome.time.count(), 8.0 * kElements / device_->spec().memory_gbs);
  ASSERT_EQ(outcome.launches.size(), 1U);
  EXPECT_GT(outcome.launches[0].occupancy.blocks_per_sm, 0);
  EXPECT_NE(outcome.launches[0].occupancy.limiter, "");
}

TEST_F(GpuTime, TheCacheIsColdInColdModeAndWarmInHotMode) {
  auto mini = Doubling(1 << 20);  // 8 MB: fits in the L2 cache
  const auto outcome = Time(*mini, PrepareKernel(*mini, kHonest));
  ASSERT_FALSE(outcome.fault);
  EXPECT_LT(outcome.modes[1].median, outcome.modes[0].median);
}

TEST_F(GpuTime, TheSameKernelIsATieWithItselfAndTwiceTheWorkIsSlower) {
  auto mini = Doubling(kElements);
  const auto base = PrepareKernel(*mini, kHonest);
  const auto twice = PrepareKernel(
      *mini,
      "if (i < dim::N) { y[i] = x[i]; __threadfence(); y[i] = 2.0f * x[dim::N - 1 - i] + 0.0f *"
      " ((volatile float*)y)[i]; y[i] = 2.0f * x[i]; }");
  eval::PairRequest request;
  request.context = &mini->context;
  request.base = &base;
  request.challenger = &base;
  const auto same = device_->TimePair(request);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->result, eval::PairOutcome::Result::kTie) << same->median_delta;
  EXPECT_EQ(same->base.size(), same->challenger.size());
  request.challenger = &twice;
  const auto slower = device_->TimePair(request);
  ASSERT_TRUE(slower);
  EXPECT_EQ(slower->result, eval::PairOutcome::Result::kSlower) << slower->ratio;
}

TEST_F(GpuTime, AResultKeptFromAnEarlierCallIsCaughtByTheRecheck) {
  auto mini = Doubling(4096);
  // Right for the first 3 calls, then it replays what it kept.
  const auto cheat =
      Prepare(*mini,
              "__device__ float kept[4096]; __device__ int calls;\n"
              "extern \"C\" __global__ void k(const float* x, float* y) {\n"
              "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
              "  if (*(volatile int*)&calls < 3 * 16) kept[i] = 2.0f * x[i];\n"
              "  y[i] = kept[i];\n  __syncthreads();\n"
              "  if (threadIdx.x == 0) atomicAdd(&calls, 1);\n}\n",
              R"json({"version": 1, "launches": [{"kernel": "k", "grid": [16], "block": [256],
          "args": ["x", "y"]}]})json");
  const auto check = Check(*mini, cheat, 2);
  EXPECT_FALSE(check.fault);
  EXPECT_EQ(check.errors[0].worst_row_l2, 0) << "looks right while it is only checked";
  const auto outcome = Time(*mini, cheat);
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_GT(outcome.errors[0].worst_row_l2, 0.1);
}

TEST_F(GpuTime, AHangWhileTimingIsATimeoutAndTheNextTimingIsFine) {
  auto mini = Doubling(4096, "hang");
  const auto hang =
      PrepareKernel(*mini, "while (*(const volatile float*)x != 1e30f) {} y[i] = x[i];");
  const auto outcome = Time(*mini, hang);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, VerdictKind::kTimeout) << outcome.fault->message;
  EXPECT_FALSE(Time(*mini, PrepareKernel(*mini, kHonest)).fault);
}

TEST_F(GpuTime, ARepeatedMeasurementAgreesWithItself) {
  auto mini = Doubling(kElements);
  const auto kernel = PrepareKernel(*mini, kHonest);
  const double first = Time(*mini, kernel).time.count();
  const double second = Time(*mini, kernel).time.count();
  EXPECT_NEAR(second / first, 1, 0.05);
}

}  // namespace
}  // namespace grove::cuda
