// Asynchronous copies and mbarriers. A copy reads its source when it is issued and lands in shared
// memory when its thread waits for it, so a missing wait shows. Bulk and tensor copies, and
// clusters, are not here.
#include <algorithm>
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/checks.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// d: bytes, a: shared base, b: global base, c: source size (0: all), imm: shared offset,
// x: extra {flags (1 shared base wide, 2 global base wide), global offset low, high, predicate}.
const Inst* CopyAsync(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  alignas(64) u64 to[kLanes], from[kLanes];
  LaneAddresses(w, ip->a, (e[0] & 1) != 0, ip->imm, to);
  LaneAddresses(w, ip->b, (e[0] & 2) != 0, static_cast<std::int64_t>(u64{e[2]} << 32 | e[1]), from);
  AccessKind load;
  load.space = Space::kGlobal;
  load.bytes = ip->d;
  CountAccess(w, load, from, w.mask);
  AccessKind store;
  store.space = Space::kShared;
  store.bytes = ip->d;
  store.store = true;
  u64 window[kLanes];
  for (int i = 0; i < kLanes; ++i) window[i] = to[i] + kSharedWindow;
  CountAccess(w, store, window, w.mask);
  const u32 ignored = e[3] == 0 ? 0 : w.Pred(e[3]) ^ e[4];
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    Warp::AsyncCopy copy;
    copy.lane = lane;
    copy.group = w.copy_groups[static_cast<std::size_t>(lane)];
    copy.bytes = ip->d;
    copy.to = to[lane];
    u32 bytes = ip->c == 0 ? ip->d : std::min(ip->d, w.At<u32>(ip->c)[lane]);
    if ((ignored >> lane & 1) != 0) bytes = 0;
    if (to[lane] % ip->d != 0 || to[lane] + ip->d > w.shared_bytes) {
      // Found now rather than when it lands.
      if (ResolveLane(w, ip, store, window[lane], lane, nullptr) == nullptr) return nullptr;
    }
    if (bytes == ip->d) {
      const std::byte* host = ResolveLane(w, ip, load, from[lane], lane, nullptr);
      if (host == nullptr) return nullptr;
      std::memcpy(copy.data.data(), host, bytes);
    } else {
      AccessKind byte = load;
      byte.bytes = 1;
      for (u32 i = 0; i < bytes; ++i) {
        const std::byte* host = ResolveLane(w, ip, byte, from[lane] + i, lane, nullptr);
        if (host == nullptr) return nullptr;
        copy.data[i] = *host;
      }
    }
    w.copies.push_back(copy);
  }
  return ip + 1;
}

const Inst* CommitGroup(Warp& w, const Inst* ip) {
  ForEachLane(w.mask, [&](int lane) { ++w.copy_groups[static_cast<std::size_t>(lane)]; });
  return ip + 1;
}

// Lands the copies of the active lanes whose group is complete: all but the last `a` committed
// groups; b: those not committed too.
const Inst* WaitGroup(Warp& w, const Inst* ip) {
  AccessKind store;
  store.space = Space::kShared;
  store.store = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < w.copies.size(); ++i) {
    const Warp::AsyncCopy& copy = w.copies[i];
    const u32 committed = w.copy_groups[static_cast<std::size_t>(copy.lane)];
    const bool mine = (w.mask >> copy.lane & 1) != 0;
    if (!mine || (ip->b == 0 && u64{copy.group} + ip->a >= committed)) {
      if (kept != i) w.copies[kept] = copy;
      ++kept;
      continue;
    }
    store.bytes = copy.bytes;
    std::byte* host =
        ResolveLane(w, ip, store, copy.to + kSharedWindow, copy.lane, copy.data.data());
    if (host == nullptr) return nullptr;
    std::memcpy(host, copy.data.data(), copy.bytes);
  }
  w.copies.resize(kept);
  return ip + 1;
}

// --- mbarrier ---
// The 64-bit object: bits 0-19 pending arrivals, 20-39 arrivals per phase, 63 the phase's parity.

constexpr u64 kPhase = u64{1} << 63;
constexpr u64 kCountMask = (u64{1} << 20) - 1;

enum class MbarrierOp : u32 { kInit, kInval, kArrive, kArriveDrop, kTestWait, kTestParity };

template <MbarrierOp kOp>
const Inst* Mbarrier(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (e[0] & 1) != 0, ip->imm, address);
  AccessKind kind;
  kind.space = static_cast<Space>(e[0] >> 4);
  kind.bytes = 8;
  kind.strong = true;
  kind.store = kOp != MbarrierOp::kTestWait && kOp != MbarrierOp::kTestParity;
  kind.atomic = kind.store && kOp != MbarrierOp::kInit;
  u32 left = w.mask, result = 0;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    std::byte* host = ResolveLane(w, ip, kind, address[lane] + WindowOf(kind.space), lane, nullptr);
    if (host == nullptr) return nullptr;
    u64 state = 0;
    std::memcpy(&state, host, 8);
    if constexpr (kOp == MbarrierOp::kInit) {
      const u64 count = w.At<u32>(ip->b)[lane] & kCountMask;
      state = count | count << 20;
    } else if constexpr (kOp == MbarrierOp::kInval) {
      state = 0;
    } else if constexpr (kOp == MbarrierOp::kArrive || kOp == MbarrierOp::kArriveDrop) {
      const u64 count = ip->b == 0 ? 1 : w.At<u32>(ip->b)[lane];
      if (ip->d != 0) w.At<u64>(ip->d)[lane] = state;
      u64 pending = state & kCountMask, per_phase = state >> 20 & kCountMask;
      if (count > pending) {
        return w.Fail(ip, Fault::Kind::kTrap, "more arrivals at an mbarrier than it expects", lane);
      }
      pending -= count;
      if (kOp == MbarrierOp::kArriveDrop) per_phase -= std::min(count, per_phase);
      u64 phase = state & kPhase;
      if (pending == 0) {
        phase ^= kPhase;
        pending = per_phase;
      }
      state = phase | per_phase << 20 | pending;
    } else if constexpr (kOp == MbarrierOp::kTestWait) {
      result |= u32{((w.At<u64>(ip->b)[lane] ^ state) & kPhase) != 0} << lane;
    } else {
      const u64 parity = (w.At<u32>(ip->b)[lane] & 1) != 0 ? kPhase : 0;
      result |= u32{(state & kPhase) != parity} << lane;
    }
    if (kind.store) std::memcpy(host, &state, 8);
  }
  if constexpr (kOp == MbarrierOp::kTestWait || kOp == MbarrierOp::kTestParity) {
    Blend(w.Pred(ip->d), result, w.mask);
  }
  return ip + 1;
}

bool EmitMbarrier(Decoder& d, Handler handler, u32 to, std::size_t at, u32 operand) {
  Space space;
  if (!SpaceOf(d, space)) return false;
  const Address address = d.ResolveAddress(d.Op(at));
  d.TouchShared(Space::kShared, 4);
  d.counts().control++;
  const u32 x = d.AddExtra({(address.wide ? 1u : 0u) | static_cast<u32>(space) << 4});
  Inst& inst = d.Emit(handler);
  inst.d = to;
  inst.a = address.base;
  inst.b = operand;
  inst.imm = address.offset;
  inst.x = x;
  return true;
}

// cp.async.mbarrier.arrive: the copies land now. Without .noinc the phase's pending count rises by
// one first, so nothing is left to do.
bool DecodeCopyArrive(Decoder& d) {
  Inst& wait = d.Emit(WaitGroup);
  wait.b = 1;
  if (!d.Has("noinc")) {
    d.counts().control++;
    return true;
  }
  return EmitMbarrier(d, Mbarrier<MbarrierOp::kArrive>, 0, 0, 0);
}

bool DecodeCpAsync(Decoder& d) {
  if (!d.Has("async")) return d.Fail("no such form");
  if (d.Has("bulk") || d.Has("tensor") || d.Has("reduce")) {
    return d.Fail("bulk copies are not emulated");
  }
  if (d.Has("mbarrier")) return DecodeCopyArrive(d);
  if (d.Has("commit_group")) {
    d.counts().control++;
    d.Emit(CommitGroup);
    return true;
  }
  if (d.Has("wait_group") || d.Has("wait_all")) {
    const bool all = d.Has("wait_all");
    d.counts().control++;
    const std::int64_t n = all ? 0 : d.Op(0).value;
    if (!all && d.Op(0).kind != Operand::Kind::kInteger) return d.Fail("the group is no constant");
    Inst& inst = d.Emit(WaitGroup);
    inst.a = static_cast<u32>(std::clamp<std::int64_t>(n, 0, 1 << 20));
    inst.b = all ? 1 : 0;
    return true;
  }
  const Address to = d.ResolveAddress(d.Op(0)), from = d.ResolveAddress(d.Op(1));
  const std::int64_t bytes = d.Op(2).value;
  if (d.Op(2).kind != Operand::Kind::kInteger || (bytes != 4 && bytes != 8 && bytes != 16)) {
    return d.Fail("no such form");
  }
  u32 size = 0, predicate = 0, negated = 0;
  if (d.count() > 3) {
    if (d.RegisterType(d.Op(3)) == Type::kPred) {
      predicate = d.PredicateSource(d.Op(3));
      negated = d.Op(3).negated ? kFull : 0;
    } else if (d.TypeAt(-1) == Type::kNone && !d.Has("L2::cache_hint")) {
      size = d.Source(d.Op(3), Type::kB32);
    }
  }
  d.TouchShared(Space::kShared, static_cast<int>(bytes));
  d.counts().global_loads++;
  d.counts().shared_stores++;
  const auto offset = static_cast<u64>(from.offset);
  const u32 x = d.AddExtra({(to.wide ? 1u : 0u) | (from.wide ? 2u : 0u), static_cast<u32>(offset),
                            static_cast<u32>(offset >> 32), predicate, negated});
  Inst& inst = d.Emit(CopyAsync);
  inst.d = static_cast<u32>(bytes);
  inst.a = to.base;
  inst.b = from.base;
  inst.c = size;
  inst.imm = to.offset;
  inst.x = x;
  return true;
}

bool DecodeMbarrier(Decoder& d) {
  if (d.Has("expect_tx") || d.Has("complete_tx") || d.Has("noComplete") || d.Has("pending_count")) {
    return d.Fail("transaction counts are not emulated");
  }
  if (d.Has("init"))
    return EmitMbarrier(d, Mbarrier<MbarrierOp::kInit>, 0, 0, d.Source(d.Op(1), Type::kB32));
  if (d.Has("inval")) return EmitMbarrier(d, Mbarrier<MbarrierOp::kInval>, 0, 0, 0);
  if (d.Has("arrive") || d.Has("arrive_drop")) {
    const u32 to = d.Op(0).kind == Operand::Kind::kSink ? 0 : d.Destination(d.Op(0), Type::kB64);
    const u32 count = d.count() > 2 ? d.Source(d.Op(2), Type::kB32) : 0;
    return EmitMbarrier(
        d, d.Has("arrive") ? Mbarrier<MbarrierOp::kArrive> : Mbarrier<MbarrierOp::kArriveDrop>, to,
        1, count);
  }
  if (d.Has("test_wait") || d.Has("try_wait")) {
    const u32 p = d.PredicateDestination(d.Op(0));
    const bool parity = d.Has("parity");
    const u32 phase = d.Source(d.Op(2), parity ? Type::kB32 : Type::kB64);
    return EmitMbarrier(
        d, parity ? Mbarrier<MbarrierOp::kTestParity> : Mbarrier<MbarrierOp::kTestWait>, p, 1,
        phase);
  }
  return d.Fail("no such form");
}

}  // namespace

void RegisterAsync(OpcodeTable& table) {
  table["cp"] = {DecodeCpAsync};
  table["mbarrier"] = {DecodeMbarrier};
}

}  // namespace grove::emulator
