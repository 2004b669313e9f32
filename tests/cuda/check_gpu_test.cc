// Checks on a real GPU: honest kernels pass, each kind of fault gets its own verdict, and nobody
// pays for a neighbour.
#include <atomic>
#include <thread>

#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

using eval::VerdictKind;

class GpuCheck : public GpuTest {};

const char kHonest[] = "if (i < dim::N) y[i] = 2.0f * x[i];";

TEST_F(GpuCheck, AnHonestKernelIsExactAndDeterministic) {
  auto mini = Doubling(100003);
  const auto outcome = Check(*mini, PrepareKernel(*mini, kHonest), 3);
  EXPECT_FALSE(outcome.fault) << outcome.fault->message;
  EXPECT_TRUE(outcome.deterministic);
  EXPECT_FALSE(outcome.unwritten_tensor);
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].worst_row_l2, 0);
  EXPECT_EQ(outcome.errors[0].elements, 100003);
}

TEST_F(GpuCheck, AWrongElementIsFoundWithItsPlaceAndValues) {
  auto mini = Doubling(4096);
  const auto outcome =
      Check(*mini, PrepareKernel(*mini, "if (i < dim::N) y[i] = i == 1234 ? 99.0f : 2.0f * x[i];"));
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].worst_element, 1234);
  EXPECT_EQ(outcome.errors[0].got, 99);
  EXPECT_LT(std::abs(outcome.errors[0].expected), 20);
}

TEST_F(GpuCheck, AnUnwrittenElementIsNamed) {
  auto mini = Doubling(5000);
  const auto outcome =
      Check(*mini, PrepareKernel(*mini, "if (i < dim::N && i != 4321) y[i] = 2.0f * x[i];"));
  ASSERT_TRUE(outcome.unwritten_tensor);
  EXPECT_EQ(*outcome.unwritten_tensor, 1U);
  EXPECT_EQ(outcome.unwritten_element, 4321);
}

TEST_F(GpuCheck, AnUnwrittenElementIsFoundInASingleRunToo) {
  auto mini = Doubling(5000);
  const auto outcome =
      Check(*mini, PrepareKernel(*mini, "if (i < dim::N - 1) y[i] = 2.0f * x[i];"), 1);
  EXPECT_EQ(outcome.unwritten_element, 4999);
}

TEST_F(GpuCheck, RunsThatDifferInTheirBitsAreSeen) {
  auto mini = Doubling(4096);
  const auto outcome =
      Check(*mini,
            PrepareKernel(*mini,
                          "if (i < dim::N) y[i] = 2.0f * x[i] + 1e-30f * (clock64() & 1023);"
                          " if (i == 7) y[i] = (float)clock64();"),
            3);
  EXPECT_FALSE(outcome.deterministic);
}

TEST_F(GpuCheck, AnInputThatIsWrittenIsNamed) {
  auto mini = Doubling(4096);
  const auto outcome =
      Check(*mini, PrepareKernel(*mini,
                                 "if (i < dim::N) { y[i] = 2.0f * x[i];"
                                 " if (i == 99) const_cast<float*>(x)[i] = 0.5f; }"));
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, VerdictKind::kInputModified);
  EXPECT_NE(outcome.fault->message.find("input x"), std::string::npos) << outcome.fault->message;
  EXPECT_NE(outcome.fault->message.find("element 99"), std::string::npos) << outcome.fault->message;
}

TEST_F(GpuCheck, AWriteJustBehindTheOutputHitsTheGuard) {
  EXPECT_EQ(FaultOfBody("y[i] = 2.0f * x[i]; if (i == 0) y[dim::N] = 1.0f;"),
            VerdictKind::kOutOfBounds);
}

TEST_F(GpuCheck, AWriteJustBeforeTheOutputHitsTheGuard) {
  EXPECT_EQ(FaultOfBody("y[i] = 2.0f * x[i]; if (i == 0) y[-1] = 1.0f;"),
            VerdictKind::kOutOfBounds);
}

TEST_F(GpuCheck, FarAndNegativeAccessesAreOutOfBounds) {
  EXPECT_EQ(FaultOfBody("y[i] = 2.0f * x[i]; if (i == 0) y[1LL << 30] = 1.0f;"),
            VerdictKind::kOutOfBounds);
  EXPECT_EQ(FaultOfBody("y[i] = 2.0f * x[i - 2147483647LL];"), VerdictKind::kOutOfBounds);
}

TEST_F(GpuCheck, AMisalignedVectorAccessIsMisaligned) {
  EXPECT_EQ(FaultOfBody("*(float4*)(y + 1) = make_float4(1, 2, 3, 4);"), VerdictKind::kMisaligned);
}

TEST_F(GpuCheck, TrapAssertAndStackOverflowAreTraps) {
  EXPECT_EQ(FaultOfBody("__trap();"), VerdictKind::kTrap);
  auto mini = Doubling(4096);
  const auto recursion = Check(
      *mini, Prepare(*mini,
                     "__device__ __noinline__ float Down(float v, int n) { volatile float a[64];"
                     " a[n & 63] = v; return n < 0 ? v : Down(a[n & 63] + 1, n + 1) + a[5]; }\n"
                     "extern \"C\" __global__ void k(const float* x, float* y) {"
                     " y[threadIdx.x] = Down(x[threadIdx.x], 1); }",
                     R"json({"version": 1, "launches": [{"kernel": "k", "grid": [1], "block": [32],
                         "args": ["x", "y"]}]})json"));
  ASSERT_TRUE(recursion.fault);
  EXPECT_TRUE(recursion.fault->kind == VerdictKind::kTrap ||
              recursion.fault->kind == VerdictKind::kOutOfBounds)
      << recursion.fault->message;
}

TEST_F(GpuCheck, AnEndlessLoopAndABarrierDeadlockAreTimeouts) {
  EXPECT_EQ(FaultOfBody("while (*(const volatile float*)x != 1e30f) {} y[i] = x[i];"),
            VerdictKind::kTimeout);
  EXPECT_EQ(FaultOfBody("__shared__ volatile int flag; if (threadIdx.x == 0) flag = 0;"
                        " __syncthreads(); while (threadIdx.x == 0 && flag == 0) {}"
                        " __syncthreads(); flag = 1; y[i] = 2.0f * x[i];"),
            VerdictKind::kTimeout);
}

TEST_F(GpuCheck, APrintfFloodDisturbsNothing) {
  EXPECT_EQ(FaultOfBody("for (int k = 0; k < 100; ++k) printf(\"%d %d\\n\", (int)i, k);"
                        " if (i < dim::N) y[i] = 2.0f * x[i];"),
            VerdictKind::kPass);
}

TEST_F(GpuCheck, AWorkspaceBeyondTheMemoryIsOutOfMemoryAndHarmsNobody) {
  auto mini = Doubling(4096);
  auto hungry = Prepare(
      *mini,
      "extern \"C\" __global__ void k(const float* x, float* y, float* w) {"
      " y[threadIdx.x] = w[threadIdx.x]; }",
      R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32", "shape": [25000000000]}],
          "launches": [{"kernel": "k", "grid": [1], "block": [32], "args": ["x", "y", "w"]}]})json");
  if (hungry.compiled == nullptr) return;
  // As large as the device itself: with our tensors beside it, it can never fit.
  hungry.plan.workspaces[0].elements = device_->facts().memory_bytes / 4;
  const auto outcome = Check(*mini, hungry);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, VerdictKind::kOutOfMemory) << outcome.fault->message;
  EXPECT_FALSE(Check(*mini, PrepareKernel(*mini, kHonest)).fault);
}

TEST_F(GpuCheck, PlansThatTheDeviceRefusesArePlanErrors) {
  auto mini = Doubling(4096);
  auto large = PrepareKernel(*mini, kHonest);
  large.plan.launches[0].cooperative = true;
  large.plan.launches[0].grid = {1000000, 1, 1};
  auto outcome = Check(*mini, large);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, VerdictKind::kPlanError) << outcome.fault->message;

  auto missing = PrepareKernel(*mini, kHonest);
  missing.plan.launches[0].kernel = "nobody";
  outcome = Check(*mini, missing);
  ASSERT_TRUE(outcome.fault);
  EXPECT_NE(outcome.fault->message.find("no kernel named 'nobody'"), std::string::npos);

  auto few = PrepareKernel(*mini, kHonest);
  few.plan.launches[0].args.pop_back();
  outcome = Check(*mini, few);
  ASSERT_TRUE(outcome.fault);
  EXPECT_NE(outcome.fault->message.find("has 2 parameters, the plan gives 1"), std::string::npos)
      << outcome.fault->message;

  auto narrow = PrepareKernel(*mini, kHonest);
  narrow.plan.launches[0].args[1].size = 4;
  outcome = Check(*mini, narrow);
  ASSERT_TRUE(outcome.fault);
  EXPECT_NE(outcome.fault->message.find("parameter 1"), std::string::npos);
}

TEST_F(GpuCheck, ACubinForAnotherArchitectureIsOneClearLine) {
  auto mini = Doubling(4096);
  auto candidate = PrepareKernel(*mini, kHonest);
  codegen::CompileRequest request;
  request.source = "extern \"C\" __global__ void k(const float* x, float* y) {}";
  request.arch = device_->facts().compute_major == 8 ? "sm_90" : "sm_80";
  auto other = farm_->Compile(request);
  ASSERT_TRUE(other && (*other)->ok());
  candidate.compiled = *other;
  const auto outcome = Check(*mini, candidate);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, VerdictKind::kUnsupported) << outcome.fault->message;
  EXPECT_EQ(outcome.fault->message.find('\n'), std::string::npos);
}

TEST_F(GpuCheck, DynamicSharedMemoryClustersWorkspacesAndScalarsAllWork) {
  auto mini = Doubling(8192);
  const auto candidate = Prepare(
      *mini,
      "extern \"C\" __global__ void first(const float* x, float* w, int n, double f) {\n"
      "  extern __shared__ float s[];\n"
      "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
      "  s[20000 + threadIdx.x] = i < n ? x[i] : 0.0f;\n  __syncthreads();\n"
      "  if (i < n) w[i] = (float)(f * s[20000 + threadIdx.x]);\n}\n"
      "extern \"C\" __global__ void second(const float* w, float* y) {\n"
      "  const int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < dim::N) y[i] = w[i];\n}\n",
      R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32", "shape": ["N"], "init": "zero"}],
          "launches": [
            {"kernel": "first", "grid": ["ceil_div(N, 256)"], "block": [256], "shared": 100000,
             "cluster": [2], "args": ["x", "w", "N", {"f64": 2.0}]},
            {"kernel": "second", "grid": ["ceil_div(N, 256)"], "block": [256],
             "args": ["w", "y"]}]})json");
  const auto outcome = Check(*mini, candidate, 3);
  EXPECT_FALSE(outcome.fault) << outcome.fault->message;
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].worst_row_l2, 0);
}

TEST_F(GpuCheck, ManyChecksAtOnceWithHostileOnesAmongThem) {
  auto mini = Doubling(1 << 16);
  const auto honest = PrepareKernel(*mini, kHonest);
  const auto wrong = PrepareKernel(*mini, "if (i < dim::N) y[i] = 2.5f * x[i];");
  const auto illegal = PrepareKernel(*mini, "y[i + (1LL << 31)] = x[i];");
  const auto trap = PrepareKernel(*mini, "__trap();");
  std::atomic<int> passed{0};
  std::atomic<int> wrongs{0};
  std::atomic<int> faults{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const int kind = (t * 8 + i) % 16;
        if (kind == 3) {
          const auto outcome = Check(*mini, illegal);
          if (outcome.fault && outcome.fault->kind == VerdictKind::kOutOfBounds) ++faults;
        } else if (kind == 9) {
          const auto outcome = Check(*mini, trap);
          if (outcome.fault && outcome.fault->kind == VerdictKind::kTrap) ++faults;
        } else if (kind % 2 == 0) {
          const auto outcome = Check(*mini, wrong);
          if (!outcome.fault && outcome.errors.size() == 1 &&
              outcome.errors[0].worst_row_l2 > 0.2) {
            ++wrongs;
          }
        } else {
          const auto outcome = Check(*mini, honest);
          if (!outcome.fault && outcome.errors.size() == 1 && outcome.errors[0].worst_row_l2 == 0) {
            ++passed;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 36);
  EXPECT_EQ(wrongs, 48);
  EXPECT_EQ(faults, 12);
  EXPECT_EQ(device_->counters().blamed >= 12, true);
}

}  // namespace
}  // namespace grove::cuda
