#include "eval/model/cost_model.h"

#include <algorithm>
#include <cmath>

namespace grove::eval {
namespace {

// Assumptions of the model that no data sheet gives. docs/model.md says where each comes from.
constexpr double kDramLatencyNs = 650;  // loaded, not idle
constexpr double kL2LatencyNs = 200;
constexpr double kL1LatencyCycles = 33;
constexpr double kSharedLatencyCycles = 24;
constexpr double kBarrierCycles = 30;
constexpr double kIssueCycles = 2;    // cycles between two instructions of one warp
constexpr double kLoadsInFlight = 2;  // independent loads that a warp has under way
constexpr double kSharedInFlight = 4;
constexpr double kL2BytesPerCycle = 24;  // per SM
constexpr double kSectorBytes = 32;
constexpr double kShortReuse = 4;          // more re-reads than this happen at short distance
constexpr double kChainedLaunchNs = 1000;  // a launch behind another one
constexpr double kFirstLaunchNs = 1500;    // what the first one costs in addition
constexpr double kIntegerLanes = 64;
constexpr double kSpecialLanes = 16;
constexpr double kLaneIssue = 128;  // 4 warp instructions a cycle and SM

std::int64_t RoundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

double AsDouble(std::int64_t value) { return static_cast<double>(value); }

// Per block of the sample.
struct BlockWork {
  double warps = 1;
  double load_bytes = 0;      // requested sectors
  double distinct_bytes = 0;  // distinct sectors
  double store_bytes = 0;     // requested sectors
  double sectors_per_load = 0;
};

// The distinct bytes of the whole launch from those of a sample. If every sector is used by `m` of
// the B blocks, n blocks drawn at random see U (1 - (1 - m/B)^n) of the U distinct bytes, and
// m = total / U: solved for U by bisection.
double ExtrapolateDistinct(double sample_unique, double block_distinct, double sampled,
                           double blocks) {
  const double total = block_distinct * blocks;
  if (sample_unique <= 0 || sampled >= blocks) return std::max(sample_unique, 0.0);
  if (sample_unique >= block_distinct * sampled * (1 - 1e-9)) {  // no two sampled blocks share
    return sample_unique * blocks / sampled;
  }
  double low = sample_unique;
  double high = std::max(low, std::min(total, sample_unique * blocks / sampled));
  for (int i = 0; i < 60; ++i) {
    const double u = 0.5 * (low + high);
    const double share = std::min(1.0, total / u / blocks);
    const double seen = u * (1 - std::pow(1 - share, sampled));
    (seen < sample_unique ? low : high) = u;
  }
  return 0.5 * (low + high);
}

// Where the loads of a launch are served.
struct Traffic {
  double l2_load_bytes = 0;
  double dram_load_bytes = 0;
  double l1_hit = 0;  // share of the requested bytes
};

Traffic ModelLoads(const DeviceSpec& device, const BlockWork& work, double blocks, double resident,
                   double resident_per_sm, double unique, double store_unique_per_block,
                   double shared_per_block) {
  Traffic t;
  if (work.load_bytes <= 0) return t;
  const double l1 = std::max(device.l1_bytes - resident_per_sm * shared_per_block, 16.0 * 1024);
  // Lanes far apart (a thread a row): neighbouring iterations touch the same sectors, which stay in
  // L1 as long as one line per lane does.
  double spatial = 1;
  if (work.sectors_per_load > 16 && resident_per_sm * work.warps * 32 * 128 <= 2 * l1) {
    spatial = std::clamp(work.sectors_per_load / 4, 1.0, 8.0);
  }
  const double distinct = work.distinct_bytes;
  const double requested = std::max(distinct, work.load_bytes / spatial);
  double passes = 1;
  if (distinct * resident_per_sm > l1) passes = std::min(requested / distinct, kShortReuse);
  t.l2_load_bytes = distinct * passes * blocks;
  t.l1_hit = std::clamp(1 - distinct * passes / work.load_bytes, 0.0, 1.0);

  // Sharing between blocks: inside a wave it hits L2, from wave to wave only what stays there.
  const double total = distinct * blocks;
  const double share = std::min(1.0, total / unique / blocks);
  const double wave_unique = unique * (1 - std::pow(1 - share, resident));
  const double waves = std::max(1.0, blocks / resident);
  double first_touch = unique;
  if (unique > 0.8 * device.l2_bytes) {
    first_touch = std::clamp(wave_unique * waves, unique, std::max(unique, total));
  }
  // A block's own second pass: served by L2 while everything that the resident blocks touch fits.
  const double live = std::min(resident * (distinct + store_unique_per_block),
                               unique + store_unique_per_block * blocks);
  const double hit = std::clamp(1.5 - live / device.l2_bytes, 0.0, 1.0);
  t.dram_load_bytes = first_touch + std::max(0.0, t.l2_load_bytes - total) * (1 - hit);
  return t;
}

}  // namespace

Occupancy ComputeOccupancy(const DeviceSpec& device, const codegen::EntryPoint& entry,
                           std::int64_t threads_per_block, std::int64_t dynamic_shared) {
  Occupancy result;
  if (threads_per_block <= 0 || threads_per_block > 1024) {
    result.limiter = "threads";
    return result;
  }
  const std::int64_t warps = RoundUp(threads_per_block, 32) / 32;
  const std::int64_t registers = entry.registers > 0 ? entry.registers : 32;
  const std::int64_t per_warp = RoundUp(registers * 32, 256);
  const std::int64_t register_warps = device.registers_per_sm / 4 / per_warp * 4;
  // A single block may not spread a file's leftovers over the others.
  const bool fits = per_warp * RoundUp(warps, 4) <= device.registers_per_sm;
  const std::int64_t by_registers = fits ? register_warps / warps : 0;

  const std::int64_t shared = RoundUp(entry.static_shared + dynamic_shared + 1024, 128);
  const bool shared_fits = entry.static_shared + dynamic_shared <= device.shared_per_block;
  const std::int64_t by_shared = shared_fits ? device.shared_per_sm / shared : 0;
  const std::int64_t by_threads = device.threads_per_sm / 32 / warps;
  const std::int64_t by_blocks = device.blocks_per_sm;

  const std::array<std::pair<std::int64_t, const char*>, 4> limits{{
      {by_threads, "threads"},
      {by_registers, "registers"},
      {by_shared, "shared memory"},
      {by_blocks, "blocks"},
  }};
  const auto least = std::min_element(
      limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  result.blocks_per_sm = static_cast<int>(least->first);
  result.warps_share =
      AsDouble(least->first * warps) / (static_cast<double>(device.threads_per_sm) / 32);
  // All that allow no more; where every warp is there, nothing but their number limits.
  if (result.warps_share >= 1) {
    result.limiter = "threads";
    return result;
  }
  for (const auto& [blocks, name] : limits) {
    if (blocks > least->first) continue;
    if (!result.limiter.empty()) result.limiter += " and ";
    result.limiter += name;
  }
  return result;
}

ModelledLaunch ModelLaunch(const DeviceSpec& device, const codegen::ResolvedLaunch& launch,
                           const codegen::EntryPoint& entry, const emulator::Counters& counters,
                           std::optional<Bytes> footprint) {
  ModelledLaunch result;
  result.occupancy = ComputeOccupancy(device, entry, launch.threads(), launch.shared_bytes);
  if (result.occupancy.blocks_per_sm == 0 || counters.blocks <= 0) {
    result.bound = counters.blocks <= 0 ? "no sample" : "does not fit";
    return result;
  }
  const double blocks = AsDouble(launch.blocks());
  const double sampled = AsDouble(counters.blocks);
  const double scale = blocks / sampled;
  const double sms = device.sm_count;
  const double per_sm = result.occupancy.blocks_per_sm;
  const double hz = device.clock_ghz;              // cycles per ns
  const double busiest = std::ceil(blocks / sms);  // blocks on the SM that has most
  const double resident_per_sm = std::min(per_sm, busiest);
  const double resident = std::min(blocks, sms * per_sm);
  result.waves = blocks / (sms * per_sm);

  BlockWork work;
  work.warps = AsDouble(RoundUp(launch.threads(), 32) / 32);
  work.load_bytes = AsDouble(counters.global_load_sectors) * kSectorBytes / sampled;
  work.store_bytes = AsDouble(counters.global_store_sectors) * kSectorBytes / sampled;
  work.distinct_bytes = counters.block_load_bytes > 0
                            ? AsDouble(counters.block_load_bytes) / sampled
                            : AsDouble(counters.unique_load_bytes) / sampled;
  if (counters.global_loads > 0) {
    work.sectors_per_load =
        AsDouble(counters.global_load_sectors) / AsDouble(counters.global_loads);
  }
  const double store_unique = AsDouble(counters.unique_store_bytes) * scale;
  const double sample_unique = AsDouble(counters.unique_load_bytes);
  double unique = ExtrapolateDistinct(sample_unique, work.distinct_bytes, sampled, blocks);
  if (footprint) {
    // What is not written is read: a launch that is given a tensor reads all of it, unless its
    // blocks, sharing nothing, could not.
    const double whole = static_cast<double>(footprint->value);
    unique = std::min({sample_unique * scale, work.distinct_bytes * blocks,
                       std::max(whole - store_unique, unique)});
    unique = std::min(std::max(unique, sample_unique), whole);
  }
  const double shared = AsDouble(entry.static_shared + launch.shared_bytes);
  const Traffic traffic = ModelLoads(device, work, blocks, resident, resident_per_sm, unique,
                                     AsDouble(counters.unique_store_bytes) / sampled, shared);
  result.dram_bytes = traffic.dram_load_bytes + store_unique;
  result.l2_bytes = traffic.l2_load_bytes + work.store_bytes * blocks;

  auto& pipes = result.pipes;
  pipes.push_back({"memory", Nanoseconds(result.dram_bytes / device.copy_gbs)});
  pipes.push_back({"l2", Nanoseconds(result.l2_bytes / (kL2BytesPerCycle * sms * hz))});

  // The SM with most blocks decides; `count` warp instructions of the sample at `lanes` per cycle.
  const auto sm_pipe = [&](std::string_view name, double count, double lanes) {
    const double cycles = count / sampled * 32 / lanes * busiest;
    pipes.push_back({name, Nanoseconds(cycles / hz)});
  };
  const double fp32_lanes = device.fp32_tflops * 1e3 / (2 * sms * hz);
  sm_pipe("issue", AsDouble(counters.warp_instructions), kLaneIssue);
  sm_pipe("fp32", AsDouble(counters.fp32), fp32_lanes);
  sm_pipe("fp64", AsDouble(counters.fp64), device.fp64_lanes);
  sm_pipe("fp16", AsDouble(counters.fp16), device.half2_lanes);
  sm_pipe("integer", AsDouble(counters.integer), kIntegerLanes);
  sm_pipe("special", AsDouble(counters.special), kSpecialLanes);
  sm_pipe("conversion", AsDouble(counters.conversion), device.conversion_lanes);
  // Shared memory, L1 and shuffles share one data path of 128 bytes a cycle.
  const double wavefronts =
      AsDouble(counters.shared_wavefronts + counters.shuffles + counters.local_accesses +
               2 * counters.atomics) +
      std::max(AsDouble(counters.global_loads), AsDouble(counters.global_load_sectors) / 4) +
      std::max(AsDouble(counters.global_stores), AsDouble(counters.global_store_sectors) / 4);
  sm_pipe("shared", wavefronts, 32);
  const double f16_rate = device.fp16_tflops * 1e3 * device.mma_efficiency / sms;  // FLOP/ns and SM
  const double tf32_rate =
      std::max(device.tf32_tflops * device.mma_efficiency, device.fp32_tflops) * 1e3 / sms;
  double tensor_ns = 0;
  if (counters.tensor_flops_f16 > 0) tensor_ns += counters.tensor_flops_f16 / f16_rate;
  if (counters.tensor_flops_tf32 > 0) tensor_ns += counters.tensor_flops_tf32 / tf32_rate;
  pipes.push_back({"tensor", Nanoseconds(tensor_ns / sampled * busiest)});

  // A block cannot end before its warps have issued their instructions one after the other and
  // waited for their loads, however idle the rest of the device is.
  const double warps = sampled * work.warps;
  const double from_dram = traffic.l2_load_bytes > 0
                               ? std::min(1.0, traffic.dram_load_bytes / traffic.l2_load_bytes)
                               : 0;
  const double beyond_l1 = from_dram * kDramLatencyNs + (1 - from_dram) * kL2LatencyNs;
  const double load_ns = traffic.l1_hit * kL1LatencyCycles / hz + (1 - traffic.l1_hit) * beyond_l1;
  const double chain_ns =
      AsDouble(counters.warp_instructions) / warps * kIssueCycles / hz +
      AsDouble(counters.global_loads) / warps * load_ns / kLoadsInFlight +
      AsDouble(counters.atomics) / warps * kL2LatencyNs +
      AsDouble(counters.shared_loads) / warps * kSharedLatencyCycles / hz / kSharedInFlight +
      AsDouble(counters.shuffles) / warps * kSharedLatencyCycles / hz +
      AsDouble(counters.barriers) / warps * kBarrierCycles / hz;
  pipes.push_back({"latency", Nanoseconds(chain_ns * std::max(1.0, busiest / per_sm))});

  // The longest pipe, with the others only partly hidden behind it.
  double power = 0;
  for (const ModelledPipe& p : pipes) power += std::pow(p.time.count(), 4);
  const double body = std::pow(power, 0.25);
  pipes.push_back({"launch", Nanoseconds(kChainedLaunchNs)});
  std::stable_sort(pipes.begin(), pipes.end(),
                   [](const ModelledPipe& a, const ModelledPipe& b) { return a.time > b.time; });
  result.bound = pipes.front().name;
  result.time = Nanoseconds(body + kChainedLaunchNs);
  return result;
}

ModelledLaunch ModelGemm(const DeviceSpec& device, const codegen::ResolvedGemm& gemm) {
  using codegen::GemmCompute;
  constexpr double kTile = 128;
  constexpr double kShareOfPeak = 0.7;
  double tflops = device.fp32_tflops;
  std::string_view unit = "fp32";
  const auto tensor = [&](double peak) {
    if (peak <= 0) return;  // has no such unit
    tflops = peak;
    unit = "tensor";
  };
  const bool half = gemm.a.dtype == DType::kF16 || gemm.a.dtype == DType::kBF16;
  if (half || gemm.compute == GemmCompute::kFp16 || gemm.compute == GemmCompute::kBf16) {
    tensor(device.fp16_tflops);
  } else if (gemm.compute == GemmCompute::kTf32) {
    tensor(device.tf32_tflops);
  } else if (gemm.compute == GemmCompute::kBf16x9) {
    tensor(device.fp16_tflops / 9);
  } else if (gemm.compute == GemmCompute::kFp64) {
    tflops = device.fp64_tflops;
    unit = "fp64";
  }
  const double m = AsDouble(gemm.m), n = AsDouble(gemm.n), k = AsDouble(gemm.k);
  const double batch = AsDouble(gemm.batch);
  const double sms = std::max(1, device.sm_count);
  const double tiles = std::ceil(m / kTile) * std::ceil(n / kTile) * batch;
  const double waves = std::ceil(tiles / sms);
  // Small matrices have smaller tiles: no more work is charged than a quarter tile's worth.
  const double tile_flops =
      2 * k * std::clamp(m, kTile / 4, kTile) * std::clamp(n, kTile / 4, kTile);
  const double arithmetic = waves * sms * tile_flops / (kShareOfPeak * tflops * 1e3);
  const auto size = static_cast<double>(SizeOf(gemm.a.dtype));
  const double reads_c = gemm.beta == 0 ? 1 : 2;
  const double bytes = batch * ((m * k + k * n) * size +
                                reads_c * m * n * static_cast<double>(SizeOf(gemm.c.dtype)));
  const double memory = bytes / device.copy_gbs;
  ModelledLaunch result;
  result.time = Nanoseconds(kChainedLaunchNs + std::max(arithmetic, memory));
  result.bound = arithmetic >= memory ? unit : "memory";
  result.dram_bytes = bytes;
  result.waves = tiles / sms;
  result.pipes = {{unit, Nanoseconds(arithmetic)}, {"memory", Nanoseconds(memory)}};
  if (arithmetic < memory) std::swap(result.pipes[0], result.pipes[1]);
  return result;
}

Nanoseconds SumLaunches(std::span<const ModelledLaunch> launches) {
  Nanoseconds sum(launches.empty() ? 0 : kFirstLaunchNs);
  for (const ModelledLaunch& launch : launches) sum += launch.time;
  return sum;
}

std::vector<std::int64_t> SampleBlocks(const codegen::ResolvedLaunch& launch, std::int64_t count) {
  std::vector<std::int64_t> sample;
  const std::int64_t blocks = launch.blocks();
  if (count <= 0 || blocks <= 0) return sample;
  if (blocks <= count) {
    for (std::int64_t i = 0; i < blocks; ++i) sample.push_back(i);
    return sample;
  }
  const std::int64_t gx = launch.grid[0], gy = launch.grid[1], gz = launch.grid[2];
  const auto add = [&](std::int64_t index) {
    if (static_cast<std::int64_t>(sample.size()) >= count) return;
    const auto at = std::lower_bound(sample.begin(), sample.end(), index);
    if (at == sample.end() || *at != index) sample.insert(at, index);
  };
  add(0);
  add(blocks - 1);
  for (const std::int64_t z : {std::int64_t{0}, gz - 1}) {
    for (const std::int64_t y : {std::int64_t{0}, gy - 1}) {
      for (const std::int64_t x : {std::int64_t{0}, gx - 1}) add((z * gy + y) * gx + x);
    }
  }
  // Runs of four neighbours; more starts than needed, since some hit what is there already.
  constexpr std::int64_t kRun = 4;
  const std::int64_t runs = std::max<std::int64_t>(1, count / kRun);
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t start = static_cast<std::int64_t>(
        (static_cast<double>(run) + 0.5) / static_cast<double>(runs) * static_cast<double>(blocks));
    for (std::int64_t k = 0; k < kRun && start + k < blocks; ++k) add(start + k);
  }
  for (std::int64_t i = 0; static_cast<std::int64_t>(sample.size()) < count && i < blocks; ++i) {
    add(i);
  }
  return sample;
}

Nanoseconds ImpossibleFloor(const DeviceSpec& device, double flops, Bytes min_bytes) {
  const double fastest = std::max({device.fp64_tflops, device.fp32_tflops, device.tf32_tflops,
                                   device.fp16_tflops, device.fp8_tflops});
  return Nanoseconds(
      std::max(static_cast<double>(min_bytes.value) / device.memory_gbs, flops / (fastest * 1e3)));
}

Nanoseconds ClassFloor(const DeviceSpec& device, seeds::PrecisionClass c, double flops,
                       Bytes min_bytes) {
  double tflops = device.fp32_tflops;
  switch (c) {
    case seeds::PrecisionClass::kFp64:
      tflops = device.fp64_tflops;
      break;
    case seeds::PrecisionClass::kFp32:
      tflops = std::max({device.fp32_tflops, device.tf32_tflops / 3, device.fp16_tflops / 3});
      break;
    case seeds::PrecisionClass::kTf32:
      tflops = std::max(device.fp32_tflops, device.tf32_tflops);
      break;
    case seeds::PrecisionClass::kFp16:
    case seeds::PrecisionClass::kBf16:
      tflops = std::max(device.fp32_tflops, device.fp16_tflops);
      break;
    case seeds::PrecisionClass::kFp8:
      tflops = std::max(device.fp16_tflops, device.fp8_tflops);
      break;
  }
  return Nanoseconds(
      std::max(static_cast<double>(min_bytes.value) / device.copy_gbs, flops / (tflops * 1e3)));
}

}  // namespace grove::eval
