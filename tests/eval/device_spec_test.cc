#include "eval/model/device_spec.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::eval {
namespace {

TEST(DeviceTable, HasEveryDeviceOfTheDocumentation) {
  for (const char* name : {"H200", "H100-SXM", "H100-PCIe", "A100-40GB", "A100-80GB", "L40S", "L4",
                           "RTX-4090", "B200"}) {
    ASSERT_NE(FindDevice(name), nullptr) << name;
    EXPECT_EQ(FindDevice(name)->name, name);
  }
}

TEST(DeviceTable, NamesAreDistinctAndAllFieldsAreFilled) {
  std::set<std::string> names;
  for (const DeviceSpec& d : DeviceTable()) {
    EXPECT_TRUE(names.insert(d.name).second) << d.name;
    for (const std::string& n : d.driver_names) EXPECT_TRUE(names.insert(n).second) << n;
    EXPECT_FALSE(d.derived);
    EXPECT_GT(d.sm_count, 0);
    EXPECT_GT(d.clock_ghz, 1.0);
    EXPECT_LE(d.copy_gbs, d.memory_gbs) << d.name;
    EXPECT_GE(d.copy_gbs, 0.8 * d.memory_gbs) << d.name;
    EXPECT_GT(d.fp64_tflops, 0);
    EXPECT_GE(d.tf32_tflops, d.fp32_tflops) << d.name;
    EXPECT_GT(d.fp16_tflops, d.tf32_tflops) << d.name;
    EXPECT_GT(d.shared_per_sm, d.shared_per_block) << d.name;
    EXPECT_GT(d.l1_bytes, d.shared_per_sm) << d.name;
    EXPECT_GT(d.memory_gb, 0);
  }
}

TEST(DeviceTable, Fp32PeakAgreesWithLanesTimesClock) {
  // 64 (A100) or 128 fp32 lanes an SM, two FLOP each: the clock and the peak must tell one story.
  for (const DeviceSpec& d : DeviceTable()) {
    const double lanes = d.fp32_tflops * 1e3 / (2 * d.sm_count * d.clock_ghz);
    const double expected = d.arch == "sm_80" ? 64 : 128;
    EXPECT_NEAR(lanes, expected, 0.03 * expected) << d.name;
  }
}

TEST(FindDevice, IgnoresCaseButMatchesWholeNames) {
  EXPECT_EQ(FindDevice("h100-sxm"), FindDevice("H100-SXM"));
  EXPECT_EQ(FindDevice("H100"), nullptr);
  EXPECT_EQ(FindDevice("H100-SXM "), nullptr);
  EXPECT_EQ(FindDevice("NVIDIA H100"), nullptr);
  EXPECT_EQ(FindDevice(""), nullptr);
  EXPECT_EQ(FindDevice("L4"), FindDevice("NVIDIA L4"));
  EXPECT_NE(FindDevice("L4"), FindDevice("L40S"));
}

TEST(FindDevice, DriverNamesTellSxmFromPcie) {
  EXPECT_EQ(FindDevice("NVIDIA H100 80GB HBM3")->name, "H100-SXM");
  EXPECT_EQ(FindDevice("NVIDIA H100 PCIe")->name, "H100-PCIe");
  EXPECT_EQ(FindDevice("NVIDIA H200")->name, "H200");
}

TEST(DeriveDevice, ReproducesAKnownDeviceFromItsDriverFacts) {
  DriverFacts facts;
  facts.name = "NVIDIA H100 96GB";
  facts.compute_major = 9;
  facts.sm_count = 132;
  facts.clock_ghz = 1.98;
  facts.memory_clock_ghz = 2.619;
  facts.bus_bits = 5120;
  facts.l2_bytes = 52428800;
  facts.memory_gb = 96;
  const DeviceSpec d = DeriveDevice(facts);
  EXPECT_TRUE(d.derived);
  EXPECT_EQ(d.name, facts.name);
  EXPECT_EQ(d.arch, "sm_90a");
  EXPECT_NEAR(d.memory_gbs, 3352, 1);  // the data sheet says 3350
  EXPECT_NEAR(d.fp16_tflops, 990, 1);
  EXPECT_NEAR(d.copy_gbs, 0.875 * d.memory_gbs, 1e-9);
}

TEST(DeriveDevice, ScalesPeaksWithSmCountAndClock) {
  DriverFacts facts;
  facts.name = "half an A100";
  facts.compute_major = 8;
  facts.compute_minor = 0;
  facts.sm_count = 54;
  facts.clock_ghz = 1.41;
  facts.memory_clock_ghz = 1.215;
  facts.bus_bits = 2560;
  const DeviceSpec d = DeriveDevice(facts);
  EXPECT_NEAR(d.fp32_tflops, 9.75, 1e-9);
  EXPECT_NEAR(d.fp16_tflops, 156, 1e-9);
  EXPECT_NEAR(d.memory_gbs, 777.6, 0.1);
  EXPECT_EQ(d.fp8_tflops, 0);
}

TEST(LimitsOf, CarriesTheDeviceIntoThePlan) {
  const auto h200 = LimitsOf(*FindDevice("H200"));
  EXPECT_EQ(h200.sm_count, 132);
  EXPECT_EQ(h200.max_shared, 232448);
  EXPECT_EQ(h200.l2_bytes, 52428800);
  EXPECT_EQ(h200.max_cluster, 16);
  EXPECT_EQ(h200.memory_bytes, 141000000000);
  const auto l4 = LimitsOf(*FindDevice("L4"));
  EXPECT_EQ(l4.max_shared, 101376);
  EXPECT_EQ(l4.max_cluster, 1);
  EXPECT_EQ(LimitsOf(*FindDevice("B200")).max_cluster, 16);
}

}  // namespace
}  // namespace grove::eval
