// GPUs as data: peaks and limits of the devices that the cost model knows, and how to derive those
// of one it does not know. Immutable values; everything here is thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan.h"

namespace grove::eval {

// Peaks of a GPU, dense arithmetic. Sources, device by device, in docs/model.md.
struct DeviceSpec {
  std::string name;  // exact: "H200", "H100-SXM", "H100-PCIe", "A100-80GB", "L40S", ...
  std::string arch;  // "sm_90a": what programs are compiled for
  // What the driver calls it ("NVIDIA H100 80GB HBM3"); matched whole, never as a substring.
  std::vector<std::string> driver_names;
  bool derived = false;  // peaks derived from what the driver reports, not from a data sheet
  int sm_count = 0;
  double clock_ghz = 0;   // boost clock that the peaks below refer to
  double memory_gbs = 0;  // GB/s (1e9), data sheet
  double copy_gbs = 0;    // GB/s, measured copy where known, else 0.875 x memory_gbs
  double l2_bytes = 0;
  double fp64_tflops = 0;  // fastest of CUDA cores and fp64 tensor cores
  double fp32_tflops = 0;  // CUDA cores
  double tf32_tflops = 0, fp16_tflops = 0, fp8_tflops = 0;  // tensor cores; 0 = has none
  int fp64_lanes = 2;         // fp64 results per cycle and SM, CUDA cores
  int half2_lanes = 128;      // f16x2 instructions (threads) per cycle and SM
  int conversion_lanes = 64;  // results per cycle and SM
  double mma_efficiency = 1;  // share of the tensor peak that mma.sync and wmma can reach
  int l1_bytes = 0;           // unified L1 and shared memory of an SM
  int shared_per_sm = 0;      // bytes
  int shared_per_block = 0;   // bytes, opt-in maximum
  int registers_per_sm = 65536;
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  double memory_gb = 0;  // GB (1e9)
};

// Every known device, best known first. Thread-safe.
const std::vector<DeviceSpec>& DeviceTable();

// By name or driver name, the whole of it, ignoring case; nullptr when there is none. A substring
// never matches: "H100" is not a device, since an SXM and a PCIe board differ by a factor of 1.6.
const DeviceSpec* FindDevice(std::string_view name);

// What the driver reports of a device that the table does not have.
struct DriverFacts {
  std::string name;
  int compute_major = 9;
  int compute_minor = 0;
  int sm_count = 0;
  double clock_ghz = 0;         // SM clock
  double memory_clock_ghz = 0;  // as reported; two transfers a cycle are assumed (DDR)
  int bus_bits = 0;
  double l2_bytes = 0;
  int shared_per_sm = 0;     // bytes
  int shared_per_block = 0;  // bytes, opt-in maximum
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  int registers_per_sm = 65536;
  double memory_gb = 0;  // GB (1e9)
};
// Peaks = results per cycle and SM of the nearest known architecture x SM count x clock;
// `derived` is set, and whoever shows such a device says so.
DeviceSpec DeriveDevice(const DriverFacts& facts);

// What a launch plan may ask of the device.
codegen::DeviceLimits LimitsOf(const DeviceSpec& device);

}  // namespace grove::eval
