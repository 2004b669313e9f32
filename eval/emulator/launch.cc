// Run: checks a launch, resolves its symbols, and spreads its blocks over threads.
#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "eval/emulator/checks.h"
#include "eval/emulator/module.h"
#include "eval/emulator/scheduler.h"

namespace grove::emulator {
namespace {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 40;

Fault BadLaunch(std::string message) {
  Fault fault;
  fault.kind = Fault::Kind::kBadLaunch;
  fault.message = std::move(message);
  return fault;
}

// Module variables get their memory in this address space, once.
const ModuleInstance& Instance(const Program& program, Access::Impl& memory) {
  const std::lock_guard lock(memory.mutex);
  const auto [found, fresh] = memory.modules.try_emplace(program.identity.get());
  ModuleInstance& instance = found->second;
  if (!fresh) return instance;
  instance.identity = program.identity;
  instance.addresses.resize(program.symbols.size());
  for (std::size_t i = 0; i < program.symbols.size(); ++i) {
    const Symbol& symbol = program.symbols[i];
    if (symbol.kind == Symbol::Kind::kFunction) {
      instance.addresses[i] = kFunctionPointer + symbol.function;
    }
    if (symbol.kind != Symbol::Kind::kGlobal) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(symbol.variable.bytes));
    std::copy_n(
        static_cast<const std::byte*>(static_cast<const void*>(symbol.variable.data.data())),
        std::min(symbol.variable.data.size(), bytes.size()), bytes.data());
    AddressSpace::Buffer buffer;
    buffer.name = symbol.variable.name;
    buffer.host = bytes.data();
    buffer.bytes = static_cast<std::int64_t>(bytes.size());
    buffer.writable = symbol.variable.space != Space::kConst;
    instance.addresses[i] = memory.Map(buffer);
    memory.buffers.back().owned = std::move(bytes);
  }
  for (std::size_t i = 0; i < program.symbols.size(); ++i) {
    const Symbol& symbol = program.symbols[i];
    if (symbol.kind != Symbol::Kind::kGlobal) continue;
    const Slot* slot = memory.Find(instance.addresses[i]);
    for (const Variable::Relocation& r : symbol.variable.relocations) {
      for (std::size_t j = 0; j < program.symbols.size(); ++j) {
        if (program.symbols[j].variable.name != r.symbol) continue;
        const std::uint64_t value = instance.addresses[j] + static_cast<std::uint64_t>(r.addend);
        if (slot != nullptr && static_cast<std::uint64_t>(r.offset) + 8 <= slot->bytes) {
          std::memcpy(slot->host + r.offset, &value, 8);
        }
      }
    }
  }
  return instance;
}

std::optional<Fault> Prepare(Launch& launch, const Program& program, const LaunchConfig& config,
                             Access::Impl& memory, const LaunchOptions& options) {
  const auto found = program.function_by_name.find(config.kernel);
  if (found == program.function_by_name.end() || !program.functions[found->second].entry ||
      !program.functions[found->second].defined) {
    return BadLaunch(fmt::format("the module has no kernel {}", config.kernel));
  }
  const FunctionCode& kernel = program.functions[found->second];
  launch.program = &program;
  launch.kernel = &kernel;
  launch.config = &config;
  launch.options = &options;
  launch.memory = &memory;
  std::int64_t blocks = 1;
  launch.threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (config.grid[i] < 1 || config.grid[i] > (i == 0 ? 2147483647 : 65535)) {
      return BadLaunch(fmt::format("grid dimension {} is {}", i, config.grid[i]));
    }
    if (config.block[i] < 1 || config.block[i] > (i == 2 ? 64 : 1024)) {
      return BadLaunch(fmt::format("block dimension {} is {}", i, config.block[i]));
    }
    launch.grid[i] = static_cast<std::uint32_t>(config.grid[i]);
    launch.block[i] = static_cast<std::uint32_t>(config.block[i]);
    blocks *= config.grid[i];
    launch.threads *= config.block[i];
    if (blocks > kMaxBlocks) return BadLaunch("the grid has more than 2^40 blocks");
  }
  if (launch.threads > 1024) {
    return BadLaunch(fmt::format("{} threads in a block; at most 1024", launch.threads));
  }
  if (kernel.max_threads > 0 && launch.threads > kernel.max_threads) {
    return BadLaunch(fmt::format("{} threads in a block; the kernel's launch bounds allow {}",
                                 launch.threads, kernel.max_threads));
  }
  if (config.cluster && (*config.cluster)[0] * (*config.cluster)[1] * (*config.cluster)[2] != 1) {
    Fault fault = BadLaunch("clusters of several blocks are not emulated");
    fault.kind = Fault::Kind::kUnsupported;
    return fault;
  }
  if (config.params.size() != kernel.parameter_offsets.size()) {
    return BadLaunch(fmt::format("{} parameters given, kernel {} takes {}", config.params.size(),
                                 kernel.name, kernel.parameter_offsets.size()));
  }
  if (kernel.parameter_block > 32764) {
    return BadLaunch(fmt::format("{} bytes of parameters; at most 32764", kernel.parameter_block));
  }
  launch.params.assign(kernel.parameter_block, std::byte{0});
  for (std::size_t i = 0; i < config.params.size(); ++i) {
    if (config.params[i].size() != kernel.parameter_bytes[i]) {
      return BadLaunch(fmt::format("parameter {} has {} bytes, kernel {} takes {}", i,
                                   config.params[i].size(), kernel.name,
                                   kernel.parameter_bytes[i]));
    }
    std::copy(config.params[i].begin(), config.params[i].end(),
              launch.params.begin() + kernel.parameter_offsets[i]);
  }
  launch.symbols = Instance(program, memory).addresses;
  // Static shared variables in order, dynamic shared memory behind them.
  std::int64_t shared = 0;
  for (const std::uint32_t s : kernel.shared_symbols) {
    const Symbol& symbol = program.symbols[s];
    if (symbol.kind != Symbol::Kind::kShared) continue;
    shared = (shared + symbol.variable.align - 1) / symbol.variable.align * symbol.variable.align;
    launch.symbols[s] = static_cast<std::uint64_t>(shared);
    shared += symbol.variable.bytes;
  }
  if (config.shared_bytes < 0) return BadLaunch("negative shared memory");
  std::int64_t align = 16;
  for (const std::uint32_t s : kernel.shared_symbols) {
    if (program.symbols[s].kind == Symbol::Kind::kDynamicShared) {
      align = std::max(align, program.symbols[s].variable.align);
    }
  }
  const std::int64_t dynamic = (shared + align - 1) / align * align;
  for (const std::uint32_t s : kernel.shared_symbols) {
    if (program.symbols[s].kind == Symbol::Kind::kDynamicShared) {
      launch.symbols[s] = static_cast<std::uint64_t>(dynamic);
    }
  }
  if (config.shared_bytes > 0) shared = dynamic + config.shared_bytes;
  if (shared > kMaxSharedBytes) {
    return BadLaunch(fmt::format("{} bytes of shared memory; at most {}", shared, kMaxSharedBytes));
  }
  launch.shared_bytes = static_cast<std::uint32_t>(shared);
  launch.dynamic_shared = static_cast<std::uint32_t>(config.shared_bytes);
  if (kernel.local_bytes > kMaxLocalBytes) {
    Fault fault = BadLaunch(fmt::format("{} bytes of local memory per thread; at most {}",
                                        kernel.local_bytes, kMaxLocalBytes));
    fault.kind = Fault::Kind::kStackOverflow;
    return fault;
  }
  for (const std::int64_t b : config.blocks) {
    if (b < 0 || b >= blocks) return BadLaunch(fmt::format("block {} is not in the grid", b));
  }
  if (config.cooperative && !config.blocks.empty()) {
    return BadLaunch("a cooperative launch runs all of its blocks");
  }
  launch.budget = options.instruction_budget;
  return std::nullopt;
}

// One thread's share of a launch.
struct Share {
  Worker worker;
  Block block;
  MemoryCounter memory;
  std::int64_t blocks = 0;
};

struct Outcome {
  std::mutex mutex;
  std::atomic<std::int64_t> first{std::numeric_limits<std::int64_t>::max()};  // faulting position
  std::optional<Fault> fault;
  std::atomic<bool> spent{false};  // the budget
  std::optional<Fault> budget_fault;

  void Report(std::int64_t position, Fault fault_found, bool budget) {
    const std::lock_guard lock(mutex);
    if (budget) {
      spent = true;
      if (!budget_fault) budget_fault = std::move(fault_found);
    } else if (position < first) {
      first = position;
      fault = std::move(fault_found);
    }
  }
};

void RunOne(Launch& launch, Share& share, std::int64_t position, std::int64_t flat,
            Outcome& outcome) {
  share.block.memory_counter = launch.options->count_memory ? &share.memory : nullptr;
  share.memory.NextBlock();
  PrepareBlock(share.block, launch, flat, share.worker);
  const Progress progress = RunBlock(share.block, std::numeric_limits<std::int64_t>::max());
  ++share.blocks;
  if (progress == Progress::kFault || progress == Progress::kBudget) {
    outcome.Report(position, std::move(*share.block.fault), progress == Progress::kBudget);
  }
}

// All blocks at once, in turns, by the calling thread.
void RunCooperative(Launch& launch, Share& share, std::int64_t blocks, Outcome& outcome) {
  std::vector<std::unique_ptr<Block>> resident;
  for (std::int64_t b = 0; b < blocks; ++b) {
    resident.push_back(std::make_unique<Block>());
    resident.back()->memory_counter = launch.options->count_memory ? &share.memory : nullptr;
    resident.back()->slice = 1024;  // blocks spin at the grid's barrier
    PrepareBlock(*resident.back(), launch, b, share.worker);
  }
  share.blocks = blocks;
  std::int64_t left = blocks;
  while (left > 0) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      auto& block = resident[static_cast<std::size_t>(b)];
      if (block == nullptr) continue;
      const Progress progress = RunBlock(*block, 1);
      if (progress == Progress::kWaiting) continue;
      if (progress != Progress::kDone) {
        outcome.Report(b, std::move(*block->fault), progress == Progress::kBudget);
        return;
      }
      block.reset();
      --left;
    }
  }
}

// Which of `count` blocks begins at place `i`.
std::int64_t Place(LaunchOptions::Order order, std::int64_t i, std::int64_t count) {
  switch (order) {
    case LaunchOptions::Order::kNatural:
      return i;
    case LaunchOptions::Order::kReversed:
      return count - 1 - i;
    case LaunchOptions::Order::kScattered: {
      // A stride near the golden section of the count that has no divisor in common with it.
      std::int64_t stride = std::max<std::int64_t>(1, count * 5 / 8);
      while (std::gcd(stride, count) != 1) ++stride;
      return (i * stride + count / 3) % count;
    }
  }
  return i;
}

void Total(const Program& program, const Share& share, Counters& total) {
  for (std::size_t i = 0; i < share.worker.counts.size(); ++i) {
    const BlockCount& count = share.worker.counts[i];
    if (count.warps == 0) continue;
    const StaticCounts& block = program.blocks[i];
    const Counters& one = block.per_warp;
    const auto n = count.warps;
    total.warp_instructions += n * block.instructions;
    total.thread_instructions += count.threads * block.instructions;
    total.fp32 += n * one.fp32;
    total.fp64 += n * one.fp64;
    total.fp16 += n * one.fp16;
    total.integer += n * one.integer;
    total.special += n * one.special;
    total.conversion += n * one.conversion;
    total.control += n * one.control;
    total.tensor += n * one.tensor;
    total.tensor_flops_f16 += static_cast<double>(n) * one.tensor_flops_f16;
    total.tensor_flops_tf32 += static_cast<double>(n) * one.tensor_flops_tf32;
    total.global_loads += n * one.global_loads;
    total.global_stores += n * one.global_stores;
    total.shared_loads += n * one.shared_loads;
    total.shared_stores += n * one.shared_stores;
    total.local_accesses += n * one.local_accesses;
    total.atomics += n * one.atomics;
    total.barriers += n * one.barriers;
    total.shuffles += n * one.shuffles;
  }
  total.blocks += share.blocks;
}

}  // namespace

Counters& Counters::operator+=(const Counters& o) {
  blocks += o.blocks;
  warp_instructions += o.warp_instructions;
  thread_instructions += o.thread_instructions;
  fp32 += o.fp32;
  fp64 += o.fp64;
  fp16 += o.fp16;
  integer += o.integer;
  special += o.special;
  conversion += o.conversion;
  control += o.control;
  tensor += o.tensor;
  tensor_flops_f16 += o.tensor_flops_f16;
  tensor_flops_tf32 += o.tensor_flops_tf32;
  global_loads += o.global_loads;
  global_stores += o.global_stores;
  shared_loads += o.shared_loads;
  shared_stores += o.shared_stores;
  local_accesses += o.local_accesses;
  atomics += o.atomics;
  barriers += o.barriers;
  shuffles += o.shuffles;
  global_load_sectors += o.global_load_sectors;
  global_store_sectors += o.global_store_sectors;
  unique_load_bytes += o.unique_load_bytes;
  block_load_bytes += o.block_load_bytes;
  unique_store_bytes += o.unique_store_bytes;
  shared_wavefronts += o.shared_wavefronts;
  return *this;
}

std::string_view Name(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kOutOfBounds:
      return "out_of_bounds";
    case Fault::Kind::kWriteToInput:
      return "write_to_input";
    case Fault::Kind::kMisaligned:
      return "misaligned";
    case Fault::Kind::kRace:
      return "race";
    case Fault::Kind::kUninitialised:
      return "uninitialised";
    case Fault::Kind::kBarrierDivergence:
      return "barrier_divergence";
    case Fault::Kind::kTrap:
      return "trap";
    case Fault::Kind::kBudget:
      return "budget";
    case Fault::Kind::kUnsupported:
      return "unsupported";
    case Fault::Kind::kStackOverflow:
      return "stack_overflow";
    case Fault::Kind::kBadLaunch:
      return "bad_launch";
  }
  return "unknown";
}

LaunchOutcome Run(const Module& module, const LaunchConfig& config, AddressSpace& space,
                  const LaunchOptions& options) {
  LaunchOutcome result;
  const Program& program = module.program();
  Access::Impl& memory = Access::Get(space);
  Launch launch;
  if (auto fault = Prepare(launch, program, config, memory, options)) {
    result.fault = std::move(fault);
    return result;
  }
  const std::int64_t grid = config.grid[0] * config.grid[1] * config.grid[2];
  const bool all = config.blocks.empty();
  const std::int64_t count = all ? grid : static_cast<std::int64_t>(config.blocks.size());
  Outcome outcome;
  std::vector<std::unique_ptr<Share>> shares;
  const auto new_share = [&] {
    shares.push_back(std::make_unique<Share>());
    shares.back()->worker.counts.resize(program.blocks.size());
    return shares.back().get();
  };
  std::vector<std::byte> workspace;
  if (config.cooperative) {
    // What cooperative_groups takes for the grid's barrier: zeros at the address in %envreg1 and 2.
    constexpr std::int64_t kMaxResident = 4096;
    if (count > kMaxResident) {
      result.fault = BadLaunch(
          fmt::format("a cooperative launch of {} blocks; at most {}", count, kMaxResident));
      return result;
    }
    workspace.resize(4096);
    AddressSpace::Buffer buffer;
    buffer.name = "grid workspace";
    buffer.host = workspace.data();
    buffer.bytes = static_cast<std::int64_t>(workspace.size());
    launch.grid_workspace = memory.Map(buffer);
    RunCooperative(launch, *new_share(), count, outcome);
    memory.UnmapLast();
  } else {
    std::atomic<std::int64_t> next{0};
    const auto work = [&](Share& share) {
      for (;;) {
        const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= count || outcome.spent || i > outcome.first) break;
        const std::int64_t at = Place(options.order, i, count);
        RunOne(launch, share, i, all ? at : config.blocks[static_cast<std::size_t>(at)], outcome);
      }
    };
    const int threads = options.parallel && count > 1 ? tbb::this_task_arena::max_concurrency() : 1;
    for (int t = 0; t < threads; ++t) new_share();
    if (threads == 1) {
      work(*shares[0]);
    } else {
      tbb::parallel_for(0, threads, [&](int t) { work(*shares[static_cast<std::size_t>(t)]); });
    }
  }
  MemoryCounter merged;
  for (const auto& share : shares) {
    Total(program, *share, result.counters);
    if (options.count_memory) merged.Merge(share->memory);
  }
  result.counters.global_load_sectors = merged.load_sectors;
  result.counters.global_store_sectors = merged.store_sectors;
  result.counters.shared_wavefronts = merged.wavefronts;
  result.counters.unique_load_bytes = merged.UniqueBytes(false);
  // Blocks of a cooperative launch take turns, so what each of them loads is not told apart.
  if (!config.cooperative) result.counters.block_load_bytes = 32 * merged.block_sectors;
  result.counters.unique_store_bytes = merged.UniqueBytes(true);
  if (!outcome.fault && !outcome.budget_fault && launch.budget < 0) {
    Fault fault = BadLaunch(fmt::format("the launch exceeds its budget of {} thread-instructions",
                                        options.instruction_budget));
    fault.kind = Fault::Kind::kBudget;
    outcome.budget_fault = std::move(fault);
  }
  result.fault = outcome.fault ? std::move(outcome.fault) : std::move(outcome.budget_fault);
  return result;
}

}  // namespace grove::emulator
