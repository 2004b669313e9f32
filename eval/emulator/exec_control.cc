// Branches, calls, barriers, exits: what changes the flow of a warp.
#include <algorithm>

#include <fmt/format.h>

#include "eval/emulator/checks.h"
#include "eval/emulator/control.h"
#include "eval/emulator/decoder.h"

namespace grove::emulator {
namespace {

constexpr std::size_t kMaxIndirect = 32;                  // arguments of a call through a pointer
constexpr std::size_t kMaxArena = std::size_t{16} << 20;  // all frames of a warp

const Inst* EnterBlock(Warp& w, const Inst* ip) {
  if (ip >= w.limit || w.fuel < 0) [[unlikely]] {
    w.stop = w.fuel < 0 ? Stop::kFuel : Stop::kReschedule;
    w.resume = ip;
    return nullptr;
  }
  BlockCount& count = w.counts[ip->d];
  ++count.warps;
  count.threads += std::popcount(w.mask);
  w.fuel -= ip->a;
  return ip + 1;
}

const Inst* Guard(Warp& w, const Inst* ip) {
  const std::uint32_t saved = w.mask;
  const std::uint32_t mask = saved & (w.Pred(ip->a) ^ ip->b);
  const Inst* const end = ip + 1 + ip->d;
  if (mask == 0) return end;
  w.mask = mask;
  for (const Inst* i = ip + 1; i < end; ++i) {
    if (i->fn(w, i) == nullptr) {
      w.mask = saved;
      return nullptr;
    }
  }
  w.mask = saved;
  return end;
}

inline const Inst* Split(Warp& w, std::uint32_t taken, const Inst* target, const Inst* next) {
  if (taken == 0) return next;
  if (taken == w.mask) return target;
  const bool target_first = target < next;
  const Inst* first = target_first ? target : next;
  const Inst* second = target_first ? next : target;
  const std::uint32_t first_mask = target_first ? taken : w.mask & ~taken;
  PushGroup(w, second, w.mask & ~first_mask);
  w.mask = first_mask;
  if (second < w.limit) w.limit = second;
  return first;
}

const Inst* BranchIf(Warp& w, const Inst* ip) {
  return Split(w, w.mask & (w.Pred(ip->a) ^ ip->b), ip->target, ip + 1);
}

const Inst* Skip(Warp& w, const Inst* ip) {
  return Split(w, w.mask & ~(w.Pred(ip->a) ^ ip->b), ip->target, ip + 1);
}

const Inst* Branch(Warp&, const Inst* ip) { return ip->target; }

// Splits the active lanes by the code index that each goes to.
template <typename TargetOf>
const Inst* Scatter(Warp& w, TargetOf target_of) {
  std::uint32_t left = w.mask;
  const Inst* only = nullptr;
  while (left != 0) {
    const Inst* target = target_of(std::countr_zero(left));
    std::uint32_t same = 0;
    ForEachLane(left, [&](int lane) { same |= std::uint32_t{target_of(lane) == target} << lane; });
    if (same == w.mask) {
      only = target;
      break;
    }
    PushGroup(w, target, same);
    left &= ~same;
  }
  if (only != nullptr) return only;
  w.mask = 0;
  w.stop = Stop::kReschedule;
  return nullptr;
}

const Inst* BranchIndexed(Warp& w, const Inst* ip) {
  const std::uint32_t* index = w.At<std::uint32_t>(ip->a);
  const std::uint32_t* table = w.program->extra.data() + ip->x;
  int bad = -1;
  ForEachLane(w.mask, [&](int lane) {
    if (index[lane] >= ip->b && bad < 0) bad = lane;
  });
  if (bad >= 0) {
    return w.Fail(ip, Fault::Kind::kTrap,
                  fmt::format("brx.idx with index {} of {} targets", index[bad], ip->b), bad);
  }
  const Inst* code = w.program->code.data();
  return Scatter(w, [&](int lane) { return code + table[index[lane]]; });
}

const Inst* Exit(Warp& w, const Inst*) {
  w.live &= ~w.mask;
  w.mask = 0;
  w.stop = Stop::kExit;
  return nullptr;
}

const Inst* Trap(Warp& w, const Inst* ip) {
  return w.Fail(ip, Fault::Kind::kTrap, "the kernel executed a trap");
}

const Inst* AssertFail(Warp& w, const Inst* ip) {
  return w.Fail(ip, Fault::Kind::kTrap, "an assertion of the kernel failed");
}

const Inst* Unsupported(Warp& w, const Inst* ip) {
  return w.Fail(ip, Fault::Kind::kUnsupported, "the emulator does not know this instruction");
}

const Inst* Nothing(Warp&, const Inst* ip) { return ip + 1; }

// Local memory of at least `bytes` per lane; false when that is more than a thread may have.
bool GrowLocal(Warp& w, std::int64_t bytes) {
  if (bytes <= w.local_stride) return true;
  if (bytes > kMaxLocalBytes) return false;
  const auto stride = static_cast<std::uint32_t>(
      std::min(kMaxLocalBytes, std::max<std::int64_t>(bytes, 2 * std::int64_t{w.local_stride})));
  std::vector<std::byte> grown(std::size_t{stride} * kLanes);
  std::vector<std::uint8_t> written(w.local_written.empty() ? 0 : grown.size());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (w.local_stride == 0) break;
    std::memcpy(grown.data() + lane * stride, w.local.data() + lane * w.local_stride,
                w.local_stride);
    if (!written.empty()) {
      std::memcpy(written.data() + lane * stride, w.local_written.data() + lane * w.local_stride,
                  w.local_stride);
    }
  }
  w.local.swap(grown);
  w.local_written.swap(written);
  w.local_stride = stride;
  return true;
}

// extra: count, then per argument: from (this frame), to (callee's frame), words.
const Inst* Enter(Warp& w, const Inst* ip, std::uint32_t callee_index, const std::uint32_t* move) {
  const FunctionCode& callee = w.program->functions[callee_index];
  const FunctionCode& caller = w.program->functions[static_cast<std::size_t>(ip->imm)];
  const std::uint32_t from = w.frame_offset();
  const std::size_t to = std::size_t{from} + caller.frame_bytes;
  const std::size_t end = to + callee.frame_bytes;
  if (end > w.arena.size()) {
    if (end > kMaxArena) {
      return w.Fail(ip, Fault::Kind::kStackOverflow, "calls are nested too deep");
    }
    w.arena.resize(std::min(kMaxArena, std::max(end, 2 * w.arena.size())));
    w.frame = w.arena.data() + from;
  }
  std::uint32_t top = 0;
  const std::array<std::uint32_t, kLanes> base = w.head().local_base;
  ForEachLane(w.mask, [&](int lane) { top = std::max(top, base[static_cast<std::size_t>(lane)]); });
  if (!GrowLocal(w, std::int64_t{top} + caller.local_bytes + callee.local_bytes)) {
    return w.Fail(ip, Fault::Kind::kStackOverflow, "the stack exceeds 512 KB per thread");
  }
  std::byte* frame = w.arena.data() + to;
  const std::uint32_t moves = *move++;
  auto* head = static_cast<FrameHead*>(static_cast<void*>(frame));
  const auto return_pc = static_cast<std::uint32_t>(ip + 1 - w.program->code.data());
  ForEachLane(w.mask, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    head->return_pc[l] = return_pc;
    head->return_frame[l] = from;
    head->local_base[l] = base[l] + caller.local_bytes;
    for (const FunctionCode::Constant& c : callee.constants) {
      std::memcpy(frame + c.offset + l * (c.wide ? 8 : 4), &c.bits, c.wide ? 8 : 4);
    }
    for (std::uint32_t m = 0; m < moves; ++m) {
      for (std::uint32_t word = 0; word < move[3 * m + 2]; ++word) {
        std::memcpy(frame + move[3 * m + 1] + word * 128 + l * 4,
                    w.frame + move[3 * m] + word * 128 + l * 4, 4);
      }
    }
  });
  w.frame = frame;
  ++w.depth;
  w.limit = NoLimit();
  return w.program->code.data() + callee.start;
}

const Inst* Call(Warp& w, const Inst* ip) {
  return Enter(w, ip, ip->d, w.program->extra.data() + ip->x);
}

// a: the function pointer. extra: number of arguments, of results, then the slot of each (frame
// offset, bytes). Lanes that call another function than the first active one wait their turn.
const Inst* CallIndirect(Warp& w, const Inst* ip) {
  const std::uint64_t* pointer = w.At<std::uint64_t>(ip->a);
  const int first = std::countr_zero(w.mask);
  const std::uint64_t target = pointer[first];
  const std::uint64_t index = target - kFunctionPointer;
  const std::vector<FunctionCode>& functions = w.program->functions;
  if (target < kFunctionPointer || index >= functions.size() || !functions[index].defined ||
      functions[index].entry) {
    return w.Fail(ip, Fault::Kind::kTrap, "call of an address that is no function", first);
  }
  const FunctionCode& callee = functions[index];
  const std::uint32_t* e = w.program->extra.data() + ip->x;
  bool fits = e[0] == callee.parameters.size() && e[1] == callee.results.size();
  std::array<std::uint32_t, 1 + 3 * kMaxIndirect> moves{};
  for (std::uint32_t i = 0; fits && i < e[0]; ++i) {
    const std::uint32_t* slot = e + 2 + 2 * i;
    fits = slot[1] == callee.parameters[i].bytes;
    moves[0] = e[0];
    moves[1 + 3 * i] = slot[0];
    moves[2 + 3 * i] = callee.parameters[i].frame;
    moves[3 + 3 * i] = (slot[1] + 3) / 4;
  }
  for (std::uint32_t i = 0; fits && i < e[1]; ++i) {
    fits = e[2 + 2 * (e[0] + i) + 1] == callee.results[i].bytes;
  }
  if (!fits) {
    return w.Fail(ip, Fault::Kind::kTrap, "the call does not match the function it reaches", first);
  }
  std::uint32_t same = 0;
  ForEachLane(w.mask, [&](int lane) { same |= std::uint32_t{pointer[lane] == target} << lane; });
  if (same != w.mask) {
    PushGroup(w, ip, w.mask & ~same);
    w.mask = same;
  }
  return Enter(w, ip, static_cast<std::uint32_t>(index), moves.data());
}

// As TakeResults, behind a call through a pointer: the callee may differ by lane.
const Inst* TakeIndirectResults(Warp& w, const Inst* ip) {
  const FunctionCode& caller = w.program->functions[static_cast<std::size_t>(ip->imm)];
  const std::uint64_t* pointer = w.At<std::uint64_t>(ip->a);
  const std::byte* behind = w.frame + caller.frame_bytes;
  const std::uint32_t* e = w.program->extra.data() + ip->x;
  ForEachLane(w.mask, [&](int lane) {
    const FunctionCode& callee = w.program->functions[pointer[lane] - kFunctionPointer];
    for (std::uint32_t i = 0; i < e[1]; ++i) {
      const std::uint32_t* slot = e + 2 + 2 * (e[0] + i);
      for (std::uint32_t word = 0; word < (slot[1] + 3) / 4; ++word) {
        std::memcpy(w.frame + slot[0] + word * 128 + lane * 4,
                    behind + callee.results[i].frame + word * 128 + lane * 4, 4);
      }
    }
  });
  return ip + 1;
}

// Copies the results of the callee, whose frame lies behind this one, once its lanes are back.
const Inst* TakeResults(Warp& w, const Inst* ip) {
  const FunctionCode& caller = w.program->functions[static_cast<std::size_t>(ip->imm)];
  const std::byte* callee = w.frame + caller.frame_bytes;
  const std::uint32_t* move = w.program->extra.data() + ip->x;
  const std::uint32_t moves = *move++;
  for (std::uint32_t m = 0; m < moves; ++m) {
    for (std::uint32_t word = 0; word < move[3 * m + 2]; ++word) {
      ForEachLane(w.mask, [&](int lane) {
        std::memcpy(w.frame + move[3 * m + 1] + word * 128 + lane * 4,
                    callee + move[3 * m] + word * 128 + lane * 4, 4);
      });
    }
  }
  return ip + 1;
}

const Inst* CopyPointer(Warp& w, const Inst* ip) {
  std::uint64_t* d = w.At<std::uint64_t>(ip->d);
  const std::uint64_t* a = w.At<std::uint64_t>(ip->a);
  ForEachLane(w.mask, [&](int lane) { d[lane] = a[lane]; });
  return ip + 1;
}

const Inst* Return(Warp& w, const Inst* ip) {
  if (w.depth == 0) return Exit(w, ip);
  const FrameHead& head = w.head();
  const int first = std::countr_zero(w.mask);
  const std::uint32_t pc = head.return_pc[static_cast<std::size_t>(first)];
  const std::uint32_t frame = head.return_frame[static_cast<std::size_t>(first)];
  std::uint32_t same = 0;
  ForEachLane(w.mask, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    same |= std::uint32_t{head.return_pc[l] == pc && head.return_frame[l] == frame} << lane;
  });
  const std::uint32_t others = w.mask & ~same;
  if (others != 0) PushGroup(w, ip, others);  // they return when it is their turn
  w.mask = same;
  w.frame = w.arena.data() + frame;
  --w.depth;
  const Inst* back = w.program->code.data() + pc;
  if (w.group_count == 0) return back;
  w.stop = Stop::kReschedule;
  w.resume = back;
  return nullptr;
}

// a: frame offset of the barrier number, b: of the thread count (0: none), c: how (see kBarrier...)
constexpr std::uint32_t kBarrierSync = 0, kBarrierArrive = 1, kBarrierPopc = 2, kBarrierAnd = 3,
                        kBarrierOr = 4;

const Inst* BarrierWait(Warp& w, const Inst* ip) {
  const auto lane = static_cast<std::size_t>(std::countr_zero(w.mask));
  const std::uint32_t id = w.At<std::uint32_t>(ip->a)[lane];
  const std::uint32_t expected = ip->b == 0 ? 0 : w.At<std::uint32_t>(ip->b)[lane];
  if (id >= kBarriers) {
    return w.Fail(ip, Fault::Kind::kTrap, fmt::format("barrier {} does not exist", id));
  }
  Barrier& barrier = w.block->barriers[id];
  if (barrier.used && barrier.expected != expected) {
    return w.Fail(ip, Fault::Kind::kBarrierDivergence,
                  fmt::format("barrier {} is used with {} and with {} threads at once", id,
                              barrier.expected, expected));
  }
  barrier.used = true;
  barrier.expected = expected;
  barrier.arrived += std::popcount(w.mask);
  if (ip->c >= kBarrierPopc) {
    const std::uint32_t p = w.mask & (w.Pred(ip->x) ^ static_cast<std::uint32_t>(ip->imm));
    barrier.popc += static_cast<std::uint32_t>(std::popcount(p));
    barrier.all = barrier.all && p == w.mask;
    barrier.any = barrier.any || p != 0;
  }
  w.block->barrier_changed = true;
  if (w.block->races != nullptr) w.block->races->Arrive(w, static_cast<int>(id));
  if (ip->c == kBarrierArrive) return ip + 1;
  w.stop = Stop::kBarrier;
  w.barrier = static_cast<int>(id);
  w.resume = ip + 1;
  return nullptr;
}

bool DecodeBranch(Decoder& d) {
  const Operand& target = d.Op(0);
  if (target.kind != Operand::Kind::kSymbol) return d.Fail("expected a label");
  const Statement& s = d.statement();
  d.counts().control++;
  if (s.guarded) {
    d.EmitBranch(BranchIf, d.PredicateSource(s.guard), s.guard.negated, target.name);
  } else {
    d.EmitBranch(Branch, 0, false, target.name);
  }
  d.StartBlock();
  return true;
}

bool DecodeBranchIndexed(Decoder& d) {
  const std::uint32_t index = d.Source(d.Op(0), Type::kB32);
  const std::vector<std::string>* targets = d.BranchTargets(d.Op(1).name);
  if (targets == nullptr) return d.Fail("unknown list of targets");
  d.counts().control++;
  const std::uint32_t extra = d.AddExtra(std::vector<std::uint32_t>(targets->size()));
  Inst& inst = d.Emit(BranchIndexed);
  inst.a = index;
  inst.b = static_cast<std::uint32_t>(targets->size());
  inst.x = extra;
  for (std::size_t i = 0; i < targets->size(); ++i) {
    d.FixLabel(d.program().code.size() - 1, (*targets)[i], static_cast<int>(extra + i));
  }
  d.StartBlock();
  return true;
}

bool DecodeReturn(Decoder& d) {
  d.counts().control++;
  d.Emit(d.statement().opcode == "exit" || d.function().entry ? Exit : Return);
  d.StartBlock();
  return true;
}

bool DecodeTrap(Decoder& d) {
  d.counts().control++;
  d.Emit(Trap);
  return true;
}

bool DecodeCall(Decoder& d) {
  std::size_t at = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (at < d.count() && d.Op(at).kind == Operand::Kind::kList) results = &d.Op(at++);
  const Operand& callee = d.Op(at++);
  if (at < d.count() && d.Op(at).kind == Operand::Kind::kList) arguments = &d.Op(at++);
  d.counts().control++;
  if (callee.kind == Operand::Kind::kRegister) {
    // A copy: the callee's results may overwrite the register.
    const std::uint32_t from = d.Source(callee, Type::kB64), a = d.Temporary(true);
    Inst& copy = d.Emit(CopyPointer);
    copy.d = a;
    copy.a = from;
    std::vector<std::uint32_t> extra{0, 0};
    for (const Operand* list : {arguments, results}) {
      if (list == nullptr) continue;
      for (const Operand& o : list->elements) {
        const ParamSlot* slot = d.ParamVariable(o.name);
        if (slot == nullptr || extra.size() > 2 * kMaxIndirect)
          return d.Fail("an argument is no .param");
        extra.push_back(slot->frame);
        extra.push_back(slot->bytes);
        ++extra[list == arguments ? 0 : 1];
      }
    }
    const std::uint32_t x = d.AddExtra(extra);
    Inst& call = d.Emit(CallIndirect);
    call.a = a;
    call.x = x;
    call.imm = d.function_index();
    d.StartBlock();
    Inst& take = d.Emit(TakeIndirectResults);
    take.a = a;
    take.x = x;
    take.imm = d.function_index();
    return true;
  }
  const auto found = d.program().function_by_name.find(callee.name);
  if (found == d.program().function_by_name.end()) return d.Fail("unknown function");
  const FunctionCode& code = d.program().functions[found->second];
  if (!code.defined) {
    if (callee.name == "__assertfail") {
      d.Emit(AssertFail);
      return true;
    }
    if (callee.name != "vprintf") return d.Fail("the function is not part of the module");
    if (results != nullptr && !results->elements.empty()) {
      if (const ParamSlot* slot = d.ParamVariable(results->elements[0].name)) {
        Inst& inst = d.Emit(ImmediateHandler(false));
        inst.d = slot->frame;
      }
    }
    return true;
  }
  const auto moves_of = [&](const Operand* list, const std::vector<ParamSlot>& theirs, bool in) {
    std::vector<std::uint32_t> moves{0};
    const std::size_t given = list == nullptr ? 0 : list->elements.size();
    if (given != theirs.size()) {
      d.Fail("the call does not match the function");
      return moves;
    }
    for (std::size_t i = 0; i < given; ++i) {
      const ParamSlot* mine = d.ParamVariable(list->elements[i].name);
      if (list->elements[i].kind != Operand::Kind::kSymbol || mine == nullptr ||
          mine->bytes != theirs[i].bytes) {
        d.Fail("the call does not match the function");
        return moves;
      }
      ++moves[0];
      moves.push_back(in ? mine->frame : theirs[i].frame);
      moves.push_back(in ? theirs[i].frame : mine->frame);
      moves.push_back((mine->bytes + 3) / 4);
    }
    return moves;
  };
  const std::uint32_t in = d.AddExtra(moves_of(arguments, code.parameters, true));
  const std::uint32_t out = d.AddExtra(moves_of(results, code.results, false));
  d.UseFunction(found->second);
  Inst& call = d.Emit(Call);
  call.d = found->second;
  call.imm = d.function_index();
  call.x = in;
  d.StartBlock();
  Inst& take = d.Emit(TakeResults);
  take.imm = d.function_index();
  take.x = out;
  return true;
}

bool DecodeBarrier(Decoder& d) {
  if (d.Has("cluster")) return d.Fail("clusters are not emulated");
  if (d.Has("warp")) return DecodeWarpBarrier(d);
  std::size_t at = 0;
  const bool red = d.Has("red");
  const bool arrive = d.Has("arrive");
  std::uint32_t how = arrive ? kBarrierArrive : kBarrierSync;
  std::uint32_t destination = 0;
  if (red) {
    how = d.Has("popc") ? kBarrierPopc : d.Has("and") ? kBarrierAnd : kBarrierOr;
    destination = how == kBarrierPopc ? d.Destination(d.Op(at++), Type::kB32)
                                      : d.PredicateDestination(d.Op(at++));
  }
  const std::uint32_t id = at < d.count() ? d.Source(d.Op(at++), Type::kB32) : d.Constant(0, false);
  std::uint32_t threads = 0, predicate = 0;
  std::int64_t negate = 0;
  const std::size_t left = d.count() - std::min(at, d.count());
  if (left > (red ? 1u : 0u)) threads = d.Source(d.Op(at++), Type::kB32);
  if (red) {
    predicate = d.PredicateSource(d.Op(at));
    negate = d.Op(at).negated ? std::int64_t{kFull} : 0;
  }
  if (arrive && threads == 0) return d.Fail("arrive without a thread count");
  d.counts().barriers++;
  Inst& inst = d.Emit(BarrierWait);
  inst.a = id;
  inst.b = threads;
  inst.c = how;
  inst.d = destination;
  inst.x = predicate;
  inst.imm = negate;
  d.StartBlock();
  return true;
}

bool DecodeNothing(Decoder& d) {
  d.counts().control++;
  d.Emit(Nothing);
  return true;
}

template <typename T>
const Inst* LoadImmediate(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  ForEachLane(w.mask, [&](int lane) { d[lane] = static_cast<T>(ip->imm); });
  return ip + 1;
}

template <typename T>
const Inst* LoadSymbolAddress(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  const T value = static_cast<T>(w.symbols[ip->a] + static_cast<std::uint64_t>(ip->imm));
  ForEachLane(w.mask, [&](int lane) { d[lane] = value; });
  return ip + 1;
}

template <typename T>
const Inst* LoadLocalAddress(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  const FrameHead& head = w.head();
  ForEachLane(w.mask, [&](int lane) {
    d[lane] = static_cast<T>(head.local_base[static_cast<std::size_t>(lane)] +
                             static_cast<std::uint64_t>(ip->imm));
  });
  return ip + 1;
}

const Inst* Narrow(Warp& w, const Inst* ip) {
  std::uint32_t* d = w.At<std::uint32_t>(ip->d);
  const std::uint64_t* a = w.At<std::uint64_t>(ip->a);
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<std::uint32_t>(a[i]);
  return ip + 1;
}

}  // namespace

Handler EnterBlockHandler() { return EnterBlock; }
Handler GuardHandler() { return Guard; }
Handler SkipHandler() { return Skip; }
Handler UnsupportedHandler() { return Unsupported; }
Handler NarrowHandler() { return Narrow; }
Handler ImmediateHandler(bool wide) {
  return wide ? LoadImmediate<std::uint64_t> : LoadImmediate<std::uint32_t>;
}
Handler SymbolHandler(bool wide) {
  return wide ? LoadSymbolAddress<std::uint64_t> : LoadSymbolAddress<std::uint32_t>;
}
Handler LocalAddressHandler(bool wide) {
  return wide ? LoadLocalAddress<std::uint64_t> : LoadLocalAddress<std::uint32_t>;
}
void PushGroup(Warp& w, const Inst* pc, std::uint32_t mask) {
  Group& group = w.groups[static_cast<std::size_t>(w.group_count++)];
  group = Group{};
  group.pc = pc;
  group.mask = mask;
  group.frame = w.frame_offset();
  group.depth = w.depth;
}

void RegisterControl(OpcodeTable& table) {
  table["bra"] = {DecodeBranch, true};
  table["brx"] = {DecodeBranchIndexed, true};
  table["ret"] = {DecodeReturn, true};
  table["exit"] = {DecodeReturn, true};
  table["trap"] = {DecodeTrap, true};
  table["brkpt"] = {DecodeTrap, true};
  table["call"] = {DecodeCall, true};
  table["bar"] = {DecodeBarrier, true};
  table["barrier"] = {DecodeBarrier, true};
  table["membar"] = {DecodeNothing, false};
  table["fence"] = {DecodeNothing, false};
  table["griddepcontrol"] = {DecodeNothing, false};
  table["nanosleep"] = {DecodeNothing, false};
  table["prefetch"] = {DecodeNothing, false};
  table["prefetchu"] = {DecodeNothing, false};
  table["applypriority"] = {DecodeNothing, false};
  table["discard"] = {DecodeNothing, false};
  table["setmaxnreg"] = {DecodeNothing, false};
  table["pmevent"] = {DecodeNothing, false};
}

}  // namespace grove::emulator
