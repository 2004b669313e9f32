// Warps of a block take turns. A warp runs until it waits, ends, or used its slice of instructions,
// so a warp that spins on a flag lets the others set it. Inside a warp, lanes that went apart are
// groups: the group deepest in calls and lowest in the code runs first, which brings structured
// branches together again at their end; when a slice is over while other groups wait, each gets a
// turn, so a lane that spins cannot starve the lane it waits for.
#include "eval/emulator/scheduler.h"

#include <algorithm>

#include <fmt/format.h>

#include "eval/emulator/checks.h"
#include "eval/emulator/control.h"

namespace grove::emulator {
namespace {

constexpr std::int64_t kDivergedSlice = 512;  // while several groups can run

void RemoveGroup(Warp& w, int index) {
  w.groups[static_cast<std::size_t>(index)] = w.groups[static_cast<std::size_t>(--w.group_count)];
}

// Lanes at the same place go on together.
void MergeGroups(Warp& w) {
  for (int i = 0; i < w.group_count; ++i) {
    Group& a = w.groups[static_cast<std::size_t>(i)];
    for (int j = w.group_count - 1; j > i; --j) {
      const Group& b = w.groups[static_cast<std::size_t>(j)];
      if (a.pc != b.pc || a.frame != b.frame || a.depth != b.depth || a.state != b.state ||
          a.state == Group::State::kBarrier) {
        continue;
      }
      a.mask |= b.mask;
      a.need |= b.need;
      RemoveGroup(w, j);
    }
  }
}

// Groups at a warp-wide operation run once every lane it names is there or gone. bar.warp.sync may
// be reached at different places.
void WakeMeetings(Warp& w) {
  std::uint32_t at_barrier = 0;
  for (int i = 0; i < w.group_count; ++i) {
    Group& g = w.groups[static_cast<std::size_t>(i)];
    if (g.state != Group::State::kWarpSync) continue;
    if (g.pc->fn == WarpBarrierHandler()) at_barrier |= g.mask;
    if ((g.need & w.live & ~g.mask) == 0) g.state = Group::State::kRunnable;
  }
  for (int i = 0; i < w.group_count; ++i) {
    Group& g = w.groups[static_cast<std::size_t>(i)];
    if (g.state != Group::State::kWarpSync || g.pc->fn != WarpBarrierHandler()) continue;
    if ((g.need & w.live & ~at_barrier) != 0) continue;
    g.state = Group::State::kRunnable;
    ++g.pc;
    if (w.block->races != nullptr) w.block->races->SyncWarp(w, g.need & w.live);
  }
}

bool Runnable(const Group& g) { return g.state == Group::State::kRunnable; }

// Chooses the group that runs next and takes it out. False when none can.
bool PickGroup(Warp& w, bool in_turn) {
  MergeGroups(w);
  WakeMeetings(w);
  int best = -1, runnable = 0;
  for (int i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[static_cast<std::size_t>(i)];
    if (!Runnable(g)) continue;
    ++runnable;
    if (best < 0) {
      best = i;
      continue;
    }
    const Group& b = w.groups[static_cast<std::size_t>(best)];
    if (g.depth > b.depth || (g.depth == b.depth && g.pc < b.pc)) best = i;
  }
  if (best < 0) return false;
  if (in_turn && runnable > 1) {
    int skip = static_cast<int>(w.rotate++ % static_cast<std::uint32_t>(runnable));
    for (int i = 0; i < w.group_count; ++i) {
      if (Runnable(w.groups[static_cast<std::size_t>(i)]) && skip-- == 0) best = i;
    }
  }
  const Group g = w.groups[static_cast<std::size_t>(best)];
  RemoveGroup(w, best);
  w.mask = g.mask;
  w.depth = g.depth;
  w.frame = w.arena.data() + g.frame;
  w.resume = g.pc;
  w.limit = NoLimit();
  if (!(in_turn && runnable > 1)) {
    for (int i = 0; i < w.group_count; ++i) {
      const Group& o = w.groups[static_cast<std::size_t>(i)];
      if (Runnable(o) && o.depth == g.depth && o.pc < w.limit) w.limit = o.pc;
    }
  }
  return true;
}

int RunnableGroups(const Warp& w) {
  return static_cast<int>(
      std::count_if(w.groups.begin(), w.groups.begin() + w.group_count, Runnable));
}

// Threads that count as arrived at every barrier: those that exited or never existed.
std::int64_t LiveThreads(const Block& block) {
  std::int64_t live = 0;
  for (const auto& w : block.warps) live += std::popcount(w->live);
  return live;
}

// A barrier with a thread count counts whole warps: lanes that exited arrive with their warp.
std::int64_t ExitedWaiters(const Block& block, int id) {
  std::int64_t exited = 0;
  for (const auto& w : block.warps) {
    std::uint32_t waiting = 0;
    for (int i = 0; i < w->group_count; ++i) {
      const Group& g = w->groups[static_cast<std::size_t>(i)];
      if (g.state == Group::State::kBarrier && g.barrier == id) waiting |= g.mask;
    }
    if (waiting != 0 && waiting == w->live) exited += kLanes - std::popcount(w->live);
  }
  return exited;
}

void WriteReduction(Warp& w, const Group& g, const Barrier& barrier) {
  const Inst* bar = g.pc - 1;
  if (bar->c < 2) return;
  std::byte* frame = w.arena.data() + g.frame + bar->d;
  auto* words = static_cast<std::uint32_t*>(static_cast<void*>(frame));
  if (bar->c == 2) {
    ForEachLane(g.mask, [&](int lane) { words[lane] = barrier.popc; });
  } else {
    const bool value = bar->c == 3 ? barrier.all : barrier.any;
    *words = (*words & ~g.mask) | (value ? g.mask : 0);
  }
}

// Opens the barriers that are complete. True when one was.
bool OpenBarriers(Block& block) {
  bool opened = false;
  const std::int64_t live = LiveThreads(block);
  for (int id = 0; id < kBarriers; ++id) {
    Barrier& barrier = block.barriers[static_cast<std::size_t>(id)];
    if (!barrier.used) continue;
    const bool complete = barrier.expected == 0
                              ? barrier.arrived >= live
                              : barrier.arrived + ExitedWaiters(block, id) >= barrier.expected;
    if (!complete) continue;
    for (const auto& w : block.warps) {
      std::uint32_t lanes = 0;
      for (int i = 0; i < w->group_count; ++i) {
        Group& g = w->groups[static_cast<std::size_t>(i)];
        if (g.state != Group::State::kBarrier || g.barrier != id) continue;
        WriteReduction(*w, g, barrier);
        g.state = Group::State::kRunnable;
        lanes |= g.mask;
      }
      if (lanes != 0 && block.races != nullptr) block.races->Release(id, w->index, lanes, w->live);
    }
    if (block.races != nullptr) block.races->EndRelease(id);
    barrier = Barrier{};
    opened = true;
  }
  block.barrier_changed = false;
  return opened;
}

// Gives the warp instructions to run. False when the launch has spent more than its budget, which
// depends on the work alone: what is granted and not used is never charged.
bool Refuel(Warp& w, std::int64_t slice) {
  const std::int64_t left = w.launch->budget.load(std::memory_order_relaxed);
  if (left < 0) return false;
  w.granted = std::min(slice, left / kLanes + 1);
  w.fuel = w.granted;
  w.clock_base += w.granted;
  return true;
}
void Settle(Warp& w) {
  w.launch->budget.fetch_sub((w.granted - w.fuel) * kLanes, std::memory_order_relaxed);
  w.clock_base -= w.fuel;
  w.granted = w.fuel = 0;
}

// Runs a warp until it waits, ends or used its slice. False on a fault.
bool RunWarp(Block& block, Warp& w) {
  std::int64_t total = block.slice;
  bool in_turn = false;
  for (;;) {
    if (!PickGroup(w, in_turn)) break;
    const bool several = w.group_count > 0 && RunnableGroups(w) > 0;
    if (!Refuel(w, several ? kDivergedSlice : block.slice)) {
      w.Fail(w.resume, Fault::Kind::kBudget,
             fmt::format("the launch exceeds its budget of {} thread-instructions",
                         w.launch->options->instruction_budget));
      return false;
    }
    const Inst* ip = w.resume;
    while (ip != nullptr) ip = ip->fn(w, ip);
    total -= w.granted - w.fuel;
    Settle(w);
    in_turn = false;
    if (w.stop == Stop::kFault) return false;
    if (w.mask != 0) {
      PushGroup(w, w.resume, w.mask);
      Group& g = w.groups[static_cast<std::size_t>(w.group_count - 1)];
      if (w.stop == Stop::kBarrier) {
        g.state = Group::State::kBarrier;
        g.barrier = w.barrier;
      } else if (w.stop == Stop::kWarpSync) {
        g.state = Group::State::kWarpSync;
        g.need = w.need;
      }
      w.mask = 0;
    }
    if (w.stop == Stop::kExit) block.barrier_changed = true;
    if (w.stop == Stop::kFuel) {
      if (total <= 0) break;
      in_turn = true;
    }
  }
  return true;
}

bool CanRun(Warp& w) {
  if (w.live == 0) return false;
  MergeGroups(w);
  WakeMeetings(w);
  return RunnableGroups(w) > 0;
}

// Nothing can go on: says who waits where.
void Deadlock(Block& block) {
  const Inst* at = nullptr;
  Warp* warp = nullptr;
  std::int64_t waiting = 0, elsewhere = 0;
  bool barrier = false;
  for (const auto& w : block.warps) {
    for (int i = 0; i < w->group_count; ++i) {
      const Group& g = w->groups[static_cast<std::size_t>(i)];
      const bool here = g.state == Group::State::kBarrier;
      if (at == nullptr || (here && !barrier)) {
        at = here ? g.pc - 1 : g.pc;
        warp = w.get();
        warp->mask = g.mask;
        barrier = here;
        waiting = elsewhere = 0;
      }
    }
  }
  const Group* first = nullptr;
  for (const auto& w : block.warps) {
    for (int i = 0; i < w->group_count; ++i) {
      const Group& g = w->groups[static_cast<std::size_t>(i)];
      const Inst* pc = g.state == Group::State::kBarrier ? g.pc - 1 : g.pc;
      if (pc == at)
        waiting += std::popcount(g.mask);
      else
        elsewhere += std::popcount(g.mask);
      if (first == nullptr) first = &g;
    }
  }
  if (warp == nullptr) return;
  const int lane = warp->mask == 0 ? 0 : std::countr_zero(warp->mask);
  warp->Fail(at, Fault::Kind::kBarrierDivergence,
             fmt::format("{} threads of the block wait at this {} for threads that never reach it "
                         "({} others wait elsewhere)",
                         waiting, barrier ? "barrier" : "warp-wide instruction", elsewhere),
             lane);
}

}  // namespace

const Inst* Warp::Fail(const Inst* inst, Fault::Kind kind, std::string message, int lane) {
  stop = Stop::kFault;
  if (block->fault) return nullptr;
  Fault fault;
  fault.kind = kind;
  fault.message = std::move(message);
  if (inst != nullptr) {
    const SourceLine& source = program->sources[inst->statement];
    fault.instruction = source.text;
    fault.ptx_line = source.line;
  }
  if (lane < 0) lane = mask == 0 ? 0 : std::countr_zero(mask);
  for (std::size_t i = 0; i < 3; ++i) fault.block[i] = block->index[i];
  const std::int64_t thread = std::int64_t{index} * kLanes + lane;
  fault.thread = {thread % launch->block[0], thread / launch->block[0] % launch->block[1],
                  thread / launch->block[0] / launch->block[1]};
  fault.message += fmt::format(" (block {},{},{}, thread {},{},{}, PTX line {}: {})",
                               fault.block[0], fault.block[1], fault.block[2], fault.thread[0],
                               fault.thread[1], fault.thread[2], fault.ptx_line, fault.instruction);
  block->fault = std::move(fault);
  return nullptr;
}

void PrepareBlock(Block& block, Launch& launch, std::int64_t flat, Worker& worker) {
  block.launch = &launch;
  block.flat = flat;
  block.index = {static_cast<std::uint32_t>(flat % launch.grid[0]),
                 static_cast<std::uint32_t>(flat / launch.grid[0] % launch.grid[1]),
                 static_cast<std::uint32_t>(flat / launch.grid[0] / launch.grid[1])};
  // What nobody wrote is NaN, so that its use shows.
  block.shared.assign(launch.shared_bytes, std::byte{0xff});
  block.shared_written.assign(launch.options->detect_uninitialised ? launch.shared_bytes : 0,
                              std::uint8_t{0});
  const auto warps = static_cast<std::size_t>((launch.threads + kLanes - 1) / kLanes);
  if (launch.options->detect_races && launch.shared_bytes > 0) {
    if (block.races == nullptr) {
      block.races = std::make_unique<RaceChecker>(launch.shared_bytes, static_cast<int>(warps),
                                                  launch.program->shared_granule);
    } else {
      block.races->Reset();
    }
  }
  block.barriers = {};
  block.fault.reset();
  block.barrier_changed = false;
  const FunctionCode& kernel = *launch.kernel;
  const Program& program = *launch.program;
  block.warps.resize(warps);
  for (std::size_t i = 0; i < warps; ++i) {
    if (block.warps[i] == nullptr) block.warps[i] = std::make_unique<Warp>();
    Warp& w = *block.warps[i];
    if (w.arena.size() < kernel.frame_bytes) w.arena.resize(kernel.frame_bytes);
    std::memcpy(w.arena.data(), kernel.image.data(), kernel.frame_bytes);
    const std::int64_t threads =
        std::min<std::int64_t>(kLanes, launch.threads - static_cast<std::int64_t>(i) * kLanes);
    w.frame = w.arena.data();
    w.live = threads == kLanes ? kFull : (1u << threads) - 1;
    w.mask = 0;
    w.limit = NoLimit();
    w.fuel = w.granted = 0;
    w.clock_base = 0;
    w.counts = worker.counts.data();
    w.shared = block.shared.data();
    w.shared_bytes = launch.shared_bytes;
    w.slots = launch.memory->slots.data();
    w.slot_count = launch.memory->slots.size();
    w.symbols = launch.symbols.data();
    w.block = &block;
    w.launch = &launch;
    w.program = &program;
    w.slow_memory = block.races != nullptr || block.memory_counter != nullptr ||
                    launch.options->detect_uninitialised;
    w.stop = Stop::kNone;
    w.depth = 0;
    w.index = static_cast<int>(i);
    w.rotate = 0;
    w.local_stride = kernel.local_bytes;
    w.local.assign(std::size_t{w.local_stride} * kLanes, std::byte{0});
    w.local_written.assign(launch.options->detect_uninitialised ? w.local.size() : 0,
                           std::uint8_t{0});
    w.copies.clear();
    w.copy_groups = {};
    w.group_count = 0;
    PushGroup(w, program.code.data() + kernel.start, w.live);
  }
}

Progress RunBlock(Block& block, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    bool ran = false, alive = false;
    for (const auto& w : block.warps) {
      if (w->live == 0) continue;
      alive = true;
      if (!CanRun(*w)) continue;
      ran = true;
      if (!RunWarp(block, *w)) {
        return block.fault->kind == Fault::Kind::kBudget ? Progress::kBudget : Progress::kFault;
      }
      if (block.barrier_changed) OpenBarriers(block);
    }
    if (!alive) return Progress::kDone;
    if (!ran && !OpenBarriers(block)) {
      Deadlock(block);
      return Progress::kFault;
    }
  }
  return Progress::kWaiting;
}

}  // namespace grove::emulator
