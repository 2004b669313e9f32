#include "eval/model/device_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

namespace grove::eval {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr int kKiB = 1024;

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// What all devices of one compute capability share.
DeviceSpec Hopper() {
  DeviceSpec d;
  d.arch = "sm_90a";
  d.fp64_lanes = 64;
  d.half2_lanes = 128;
  d.conversion_lanes = 64;
  d.mma_efficiency = 0.65;  // the rest needs wgmma
  d.l1_bytes = 256 * kKiB;
  d.shared_per_sm = 228 * kKiB;
  d.shared_per_block = 227 * kKiB;
  return d;
}

DeviceSpec Ampere() {
  DeviceSpec d;
  d.arch = "sm_80";
  d.fp64_lanes = 32;
  d.half2_lanes = 128;
  d.conversion_lanes = 16;
  d.mma_efficiency = 0.9;
  d.l1_bytes = 192 * kKiB;
  d.shared_per_sm = 164 * kKiB;
  d.shared_per_block = 163 * kKiB;
  return d;
}

DeviceSpec Ada() {
  DeviceSpec d;
  d.arch = "sm_89";
  d.fp64_lanes = 2;
  d.half2_lanes = 64;
  d.conversion_lanes = 16;
  d.mma_efficiency = 0.9;
  d.l1_bytes = 128 * kKiB;
  d.shared_per_sm = 100 * kKiB;
  d.shared_per_block = 99 * kKiB;
  d.threads_per_sm = 1536;
  d.blocks_per_sm = 24;
  return d;
}

DeviceSpec Blackwell() {
  DeviceSpec d = Hopper();
  d.arch = "sm_100";
  d.mma_efficiency = 0.4;  // the rest needs tcgen05
  return d;
}

struct Peaks {
  double memory_gbs, copy_gbs, fp64, fp32, tf32, fp16, fp8;
};

DeviceSpec Fill(DeviceSpec d, std::string name, std::vector<std::string> driver_names, int sm_count,
                double clock_ghz, double l2_mib, double memory_gb, const Peaks& p) {
  d.name = std::move(name);
  d.driver_names = std::move(driver_names);
  d.sm_count = sm_count;
  d.clock_ghz = clock_ghz;
  d.l2_bytes = l2_mib * kMiB;
  d.memory_gb = memory_gb;
  d.memory_gbs = p.memory_gbs;
  d.copy_gbs = p.copy_gbs > 0 ? p.copy_gbs : 0.875 * p.memory_gbs;
  d.fp64_tflops = p.fp64;
  d.fp32_tflops = p.fp32;
  d.tf32_tflops = p.tf32;
  d.fp16_tflops = p.fp16;
  d.fp8_tflops = p.fp8;
  return d;
}

// Peaks from NVIDIA's data sheets and architecture white papers (dense, boost clock); the copy
// bandwidth of the H200 was measured. One row a device: see docs/model.md.
std::vector<DeviceSpec> MakeTable() {
  std::vector<DeviceSpec> t;
  t.push_back(Fill(Hopper(), "H200", {"NVIDIA H200"}, 132, 1.98, 50, 141,
                   {4800, 4200, 67, 67, 495, 990, 1979}));
  t.push_back(Fill(Hopper(), "H100-SXM", {"NVIDIA H100 80GB HBM3"}, 132, 1.98, 50, 80,
                   {3350, 0, 67, 67, 495, 990, 1979}));
  t.push_back(Fill(Hopper(), "H100-PCIe", {"NVIDIA H100 PCIe"}, 114, 1.755, 50, 80,
                   {2040, 0, 51, 51.2, 378, 756, 1513}));
  t.push_back(Fill(Ampere(), "A100-40GB", {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"}, 108,
                   1.41, 40, 40, {1555, 0, 19.5, 19.5, 156, 312, 0}));
  t.push_back(Fill(Ampere(), "A100-80GB", {"NVIDIA A100-SXM4-80GB"}, 108, 1.41, 40, 80,
                   {2039, 0, 19.5, 19.5, 156, 312, 0}));
  t.push_back(Fill(Ampere(), "A100-80GB-PCIe", {"NVIDIA A100 80GB PCIe"}, 108, 1.41, 40, 80,
                   {1935, 0, 19.5, 19.5, 156, 312, 0}));
  t.push_back(
      Fill(Ada(), "L40S", {"NVIDIA L40S"}, 142, 2.52, 96, 48, {864, 0, 1.43, 91.6, 183, 362, 733}));
  t.push_back(
      Fill(Ada(), "L4", {"NVIDIA L4"}, 58, 2.04, 48, 24, {300, 0, 0.49, 30.3, 60, 121, 242}));
  t.push_back(Fill(Ada(), "RTX-4090", {"NVIDIA GeForce RTX 4090"}, 128, 2.52, 72, 24,
                   {1008, 0, 1.29, 82.6, 82.6, 165, 330}));
  t.push_back(Fill(Blackwell(), "B200", {"NVIDIA B200"}, 148, 1.965, 126, 180,
                   {8000, 0, 40, 75, 1100, 2250, 4500}));
  return t;
}

// The known device whose architecture a foreign one resembles most.
const DeviceSpec& Nearest(int major, int minor) {
  const char* name = "H200";
  if (major >= 10) name = "B200";
  if (major == 8) name = minor == 0 ? "A100-80GB" : "RTX-4090";
  if (major >= 12) name = "RTX-4090";  // consumer Blackwell keeps Ada's SM limits
  if (major < 8) name = "A100-80GB";
  return *FindDevice(name);
}

}  // namespace

const std::vector<DeviceSpec>& DeviceTable() {
  static const std::vector<DeviceSpec> table = MakeTable();
  return table;
}

const DeviceSpec* FindDevice(std::string_view name) {
  for (const DeviceSpec& d : DeviceTable()) {
    if (SameIgnoringCase(d.name, name)) return &d;
    for (const std::string& driver_name : d.driver_names) {
      if (SameIgnoringCase(driver_name, name)) return &d;
    }
  }
  return nullptr;
}

DeviceSpec DeriveDevice(const DriverFacts& facts) {
  const DeviceSpec& like = Nearest(facts.compute_major, facts.compute_minor);
  DeviceSpec d = like;
  d.name = facts.name;
  d.driver_names = {facts.name};
  d.derived = true;
  // Chips from Hopper on have instructions of their own.
  d.arch = fmt::format("sm_{}{}{}", facts.compute_major, facts.compute_minor,
                       facts.compute_major >= 9 ? "a" : "");
  d.sm_count = facts.sm_count;
  d.clock_ghz = facts.clock_ghz;
  const double scale = facts.sm_count * facts.clock_ghz / (like.sm_count * like.clock_ghz);
  d.fp64_tflops *= scale;
  d.fp32_tflops *= scale;
  d.tf32_tflops *= scale;
  d.fp16_tflops *= scale;
  d.fp8_tflops *= scale;
  d.memory_gbs = 2 * facts.memory_clock_ghz * facts.bus_bits / 8;
  d.copy_gbs = 0.875 * d.memory_gbs;
  d.l2_bytes = facts.l2_bytes;
  if (facts.shared_per_sm > 0) d.shared_per_sm = facts.shared_per_sm;
  if (facts.shared_per_block > 0) d.shared_per_block = facts.shared_per_block;
  d.l1_bytes = std::max(like.l1_bytes, d.shared_per_sm + 28 * kKiB);
  d.threads_per_sm = facts.threads_per_sm;
  d.blocks_per_sm = facts.blocks_per_sm;
  d.registers_per_sm = facts.registers_per_sm;
  d.memory_gb = facts.memory_gb;
  return d;
}

codegen::DeviceLimits LimitsOf(const DeviceSpec& device) {
  codegen::DeviceLimits limits;
  limits.sm_count = device.sm_count;
  limits.max_shared = device.shared_per_block;
  limits.l2_bytes = static_cast<std::int64_t>(device.l2_bytes);
  const bool clusters = device.arch.size() > 5 || device.arch >= "sm_90";
  limits.max_cluster = clusters ? 16 : 1;
  limits.memory_bytes = static_cast<std::int64_t>(device.memory_gb * 1e9);
  return limits;
}

}  // namespace grove::eval
