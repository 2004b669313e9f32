// Modelled time: from the emulator's counters and the cubin's registers and shared memory, an
// estimate of a launch's time on a named GPU. Always labelled as modelled, never mixed with
// measured times. Pure functions of their arguments: thread-safe. Formulas and their limits:
// docs/model.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "codegen/plan.h"
#include "eval/emulator/emulator.h"
#include "eval/model/device_spec.h"
#include "seeds/task.h"

namespace grove::eval {

// Blocks of a launch that fit on one SM at once, and what limits them.
struct Occupancy {
  int blocks_per_sm = 0;   // 0 = the launch does not fit at all
  double warps_share = 0;  // resident warps / maximum
  // "registers", "shared memory", "threads", "blocks"; where several allow as few blocks, all of
  // them: "registers and shared memory".
  std::string limiter;
};
// The rules of cuda_occupancy.h for compute capability 8.0 and newer: registers are given to warps
// in units of 256 out of four equal files, shared memory to blocks in units of 128 bytes with 1 KB
// reserved for each block. `entry.registers` of 0 (unknown) counts as 32.
Occupancy ComputeOccupancy(const DeviceSpec& device, const codegen::EntryPoint& entry,
                           std::int64_t threads_per_block, std::int64_t dynamic_shared);

// One resource and the time that the launch would take if nothing else limited it.
struct ModelledPipe {
  std::string_view name;  // static storage
  Nanoseconds time{0};
};

struct ModelledLaunch {
  Nanoseconds time{0};  // launch overhead included, as one launch of a chain on a stream
  Occupancy occupancy;
  // What limits: "memory", "l2", "fp32", "fp64", "fp16", "integer", "special", "conversion",
  // "tensor", "shared" (shared memory and L1), "issue", "latency", "launch", or "does not fit".
  std::string bound;
  double dram_bytes = 0;            // whole launch
  double l2_bytes = 0;              // whole launch, requests that pass L1
  double waves = 0;                 // blocks / blocks that run at once
  std::vector<ModelledPipe> pipes;  // every resource, longest first: the "why" of a report
};

// `counters` are those of the sampled blocks with count_memory; they are scaled to all blocks of
// the launch. `footprint` is the size of all buffers that the launch is given; with it the distinct
// bytes loaded are taken to be those of the buffers, as far as the sample allows, otherwise they
// are extrapolated from the sample. A launch that does not fit on the device, or whose sample is
// empty, has time 0 and says so in `bound`.
ModelledLaunch ModelLaunch(const DeviceSpec& device, const codegen::ResolvedLaunch& launch,
                           const codegen::EntryPoint& entry, const emulator::Counters& counters,
                           std::optional<Bytes> footprint = std::nullopt);

// A library product: tiles of 128 x 128 in waves over the SMs at 70% of the peak of its compute
// type, or its bytes at the measured copy rate, whichever is longer.
ModelledLaunch ModelGemm(const DeviceSpec& device, const codegen::ResolvedGemm& gemm);

// Launches of one plan execution, back to back on a stream: the sum, plus what the first launch of
// an idle device costs over a chained one.
Nanoseconds SumLaunches(std::span<const ModelledLaunch> launches);

// Flattened indices (x fastest), sorted and distinct, of a stratified sample of at most `count`
// blocks: the first, the last, the corners of the grid, and runs of neighbours spread evenly, so
// that reuse between neighbours in L2 is seen. All blocks when there are no more than `count`.
std::vector<std::int64_t> SampleBlocks(const codegen::ResolvedLaunch& launch, std::int64_t count);

// The least time any kernel could take: max(bytes / peak bandwidth, flops / fastest arithmetic of
// any kind).
Nanoseconds ImpossibleFloor(const DeviceSpec& device, double flops, Bytes min_bytes);

// The least time for honest work of a class; measured copy bandwidth. fp32 by CUDA cores or, if
// that is faster, by three products of operands split in two parts over tensor cores: of tf32, or
// of scaled fp16 (11 bits each, as tf32 has, at twice the rate).
Nanoseconds ClassFloor(const DeviceSpec& device, seeds::PrecisionClass c, double flops,
                       Bytes min_bytes);

}  // namespace grove::eval
