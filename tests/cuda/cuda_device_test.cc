// What the device does on a machine without a GPU.
#include "eval/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::cuda {
namespace {

TEST(CudaDevice, NeedsACompilerForItsOwnCode) {
  const auto device = MakeCudaDevice({});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kInvalidInput);
}

TEST(SpecOf, AKnownGpuIsFoundByTheDriversWholeName) {
  DeviceFacts facts;
  facts.name = "NVIDIA H200";
  const eval::DeviceSpec spec = SpecOf(facts);
  EXPECT_EQ(spec.name, "H200");
  EXPECT_FALSE(spec.derived);
}

TEST(SpecOf, AnUnknownGpuIsDerivedFromItsFactsAndSaysSo) {
  DeviceFacts facts;
  facts.name = "NVIDIA H2000 Prototype";
  facts.compute_major = 9;
  facts.sm_count = 100;
  facts.clock_khz = 2000000;
  facts.memory_clock_khz = 3000000;
  facts.memory_bus_bits = 4096;
  const eval::DeviceSpec spec = SpecOf(facts);
  EXPECT_TRUE(spec.derived);
  EXPECT_EQ(spec.sm_count, 100);
  EXPECT_NEAR(spec.memory_gbs, 2 * 3e9 * 512 / 1e9, 1);
}

}  // namespace
}  // namespace grove::cuda
