// Launch features on a real GPU: cooperative grids, programmatic dependent launches, tensor maps.
#include <string>
#include <string_view>

#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

class GpuLaunch : public GpuTest {
 protected:
  void ExpectExact(const MiniTask& mini, const eval::Prepared& candidate) {
    const auto outcome = Check(mini, candidate, 3);
    ASSERT_FALSE(outcome.fault) << outcome.fault->message;
    EXPECT_TRUE(outcome.deterministic);
    ASSERT_EQ(outcome.errors.size(), 1U);
    EXPECT_EQ(outcome.errors[0].worst_row_l2, 0);
  }
};

// Every block reads what the block at the other end wrote before the grid's barrier.
TEST_F(GpuLaunch, ACooperativeGridSynchronises) {
  auto mini = Doubling(16384);
  const auto candidate =
      Prepare(*mini,
              "#include <cooperative_groups.h>\n"
              "extern \"C\" __global__ void k(const float* x, float* w, float* y) {\n"
              "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
              "  w[dim::N - 1 - i] = x[i];\n"
              "  cooperative_groups::this_grid().sync();\n"
              "  y[i] = 2.0f * w[dim::N - 1 - i];\n}\n",
              R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32", "shape": ["N"]}],
              "launches": [{"kernel": "k", "grid": ["N / 256"], "block": [256],
                            "cooperative": true, "args": ["x", "w", "y"]}]})json");
  ExpectExact(*mini, candidate);
}

TEST_F(GpuLaunch, ADependentLaunchThatWaitsSeesWhatTheFirstWrote) {
  auto mini = Doubling(1 << 20);
  const auto candidate =
      Prepare(*mini,
              "extern \"C\" __global__ void first(const float* x, float* w) {\n"
              "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
              "  const int i = blockIdx.x * 256 + threadIdx.x;\n  w[i] = 2.0f * x[i];\n}\n"
              "extern \"C\" __global__ void second(const float* w, float* y) {\n"
              "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
              "  const int i = blockIdx.x * 256 + threadIdx.x;\n  y[i] = w[i];\n}\n",
              R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32", "shape": ["N"]}],
              "launches": [
                {"kernel": "first", "grid": ["N / 256"], "block": [256], "args": ["x", "w"]},
                {"kernel": "second", "grid": ["N / 256"], "block": [256], "dependent": true,
                 "args": ["w", "y"]}]})json");
  ExpectExact(*mini, candidate);
}

// A cooperative launch, a dependent one behind it, and a cooperative one behind that: each reads
// backwards what the one in front wrote. `last`: what the third launch is besides.
std::string ThreeLaunches(std::string_view last) {
  return R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32", "shape": ["N"]},
                                             {"name": "v", "dtype": "f32", "shape": ["N"]}],
    "launches": [
      {"kernel": "gather", "grid": ["N / 256"], "block": [256], "cooperative": true,
       "args": ["x", "w", "v"]},
      {"kernel": "turn", "grid": ["N / 256"], "block": [256], "dependent": true,
       "args": ["v", "w"]},
      {"kernel": "gather", "grid": ["N / 256"], "block": [256], "cooperative": true,)json" +
         std::string(last) + R"json( "args": ["w", "v", "y"]}]})json";
}
constexpr const char* kThreeLaunches =
    "#include <cooperative_groups.h>\n"
    "extern \"C\" __global__ void gather(const float* x, float* w, float* y) {\n"
    "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
    "  const float v = x[i];\n"
    "  cooperative_groups::this_grid().sync();\n"
    "  w[dim::N - 1 - i] = v;\n"
    "  cooperative_groups::this_grid().sync();\n"
    "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
    "  y[i] = w[dim::N - 1 - i];\n}\n"
    "extern \"C\" __global__ void turn(const float* v, float* w) {\n"
    "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
    "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
    "  w[i] = 2.0f * v[i];\n}\n";

TEST_F(GpuLaunch, CooperativeAndDependentLaunchesFollowEachOther) {
  auto mini = Doubling(16384);
  ExpectExact(*mini, Prepare(*mini, kThreeLaunches, ThreeLaunches("")));
}

// What no manual says.
TEST_F(GpuLaunch, OneLaunchMayBeCooperativeAndDependent) {
  auto mini = Doubling(16384);
  ExpectExact(*mini,
              Prepare(*mini, kThreeLaunches, ThreeLaunches(R"json( "dependent": true,)json")));
}

TEST_F(GpuLaunch, ATensorMapFeedsTheBulkCopyEngine) {
  if (device_->facts().compute_major < 9) GTEST_SKIP() << "needs compute capability 9.0";
  auto mini = Doubling(8192);
  const auto candidate = Prepare(
      *mini,
      "#include <cuda.h>\n"
      "extern \"C\" __global__ void k(const __grid_constant__ CUtensorMap map, float* y) {\n"
      "  __shared__ alignas(128) float tile[256];\n"
      "  __shared__ alignas(8) unsigned long long gate;\n"
      "  const unsigned g = (unsigned)__cvta_generic_to_shared(&gate);\n"
      "  const unsigned t = (unsigned)__cvta_generic_to_shared(tile);\n"
      "  if (threadIdx.x == 0) {\n"
      "    asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" :: \"r\"(g) : \"memory\");\n"
      "    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
      "    asm volatile(\"{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }\"\n"
      "                 :: \"r\"(g), \"r\"(1024) : \"memory\");\n"
      "    asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx\"\n"
      "                 \"::bytes [%0], [%1, {%2}], [%3];\"\n"
      "                 :: \"r\"(t), \"l\"(&map), \"r\"((int)blockIdx.x * 256), \"r\"(g)\n"
      "                 : \"memory\");\n"
      "  }\n"
      "  __syncthreads();\n"
      "  int done = 0;\n"
      "  while (!done) {\n"
      "    asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;\"\n"
      "                 \" selp.b32 %0, 1, 0, p; }\" : \"=r\"(done) : \"r\"(g) : \"memory\");\n"
      "  }\n"
      "  y[blockIdx.x * 256 + threadIdx.x] = 2.0f * tile[threadIdx.x];\n}\n",
      R"json({"version": 1, "tensor_maps": [{"name": "map", "tensor": "x", "box": [256]}],
              "launches": [{"kernel": "k", "grid": ["N / 256"], "block": [256],
                            "args": ["map", "y"]}]})json");
  ExpectExact(*mini, candidate);
}

}  // namespace
}  // namespace grove::cuda
