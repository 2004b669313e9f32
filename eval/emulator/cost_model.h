// Modelled time: from the emulator's counters and the cubin's registers and shared memory, an
// estimate of a launch's time on a named GPU. Always labelled as modelled, never mixed with measured
// times.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "codegen/plan.h"
#include "eval/emulator/emulator.h"

namespace grove::eval {

// Peaks of a GPU, dense arithmetic. Sources in docs/model.md.
struct DeviceSpec {
  std::string name;          // exact: "H200", "H100-SXM", "H100-PCIe", "A100-80GB", "L40S", ...
  std::string arch;          // "sm_90"
  int sm_count = 0;
  double clock_ghz = 0;
  double memory_gbs = 0;     // GB/s, data sheet
  double copy_gbs = 0;       // GB/s, measured copy where known, else 0.875 x memory_gbs
  double l2_bytes = 0;
  double fp32_tflops = 0, tf32_tflops = 0, fp16_tflops = 0, fp8_tflops = 0;
  int shared_per_sm = 0;     // bytes
  int shared_per_block = 0;  // bytes, opt-in maximum
  int registers_per_sm = 65536;
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  double memory_gb = 0;
};
// The device table. FindDevice matches exactly, ignoring case.
const std::vector<DeviceSpec>& DeviceTable();
const DeviceSpec* FindDevice(std::string_view name);
codegen::DeviceLimits LimitsOf(const DeviceSpec& device);

// Blocks of a launch that fit on one SM at once, and what limits them.
struct Occupancy {
  int blocks_per_sm = 0;
  double warps_share = 0;   // resident warps / maximum
  std::string limiter;      // "registers", "shared memory", "threads", "blocks"
};
Occupancy ComputeOccupancy(const DeviceSpec& device, const codegen::EntryPoint& entry,
                           std::int64_t threads_per_block, std::int64_t dynamic_shared);

struct ModelledLaunch {
  Nanoseconds time{0};
  Occupancy occupancy;
  std::string bound;        // "memory", "fp32", "tensor", "shared", "issue", "latency", "launch"
  double dram_bytes = 0;    // whole launch
};

// `counters` of the sampled blocks with count_memory; scaled to all blocks of the launch.
ModelledLaunch ModelLaunch(const DeviceSpec& device, const codegen::ResolvedLaunch& launch,
                           const codegen::EntryPoint& entry, const emulator::Counters& counters);

// Flattened indices of a stratified sample of at most `count` blocks (first, last, corners, spread
// evenly; runs of neighbours so that reuse between neighbours in L2 is seen).
std::vector<std::int64_t> SampleBlocks(const codegen::ResolvedLaunch& launch, std::int64_t count);

// The least time any kernel could take: max(bytes / peak bandwidth, flops / fastest arithmetic).
Nanoseconds ImpossibleFloor(const DeviceSpec& device, double flops, Bytes min_bytes);
// The least time for honest work of a class: fp32 by CUDA cores or split over tensor cores at a
// third of the tf32 rate, whichever is faster; measured copy bandwidth.
Nanoseconds ClassFloor(const DeviceSpec& device, seeds::PrecisionClass c, double flops,
                       Bytes min_bytes);

}  // namespace grove::eval
