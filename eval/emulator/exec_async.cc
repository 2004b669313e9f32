// cp.async with its groups. A copy reads its source when it is issued and lands in shared memory
// when its thread waits for it, so a missing wait shows.
#include <algorithm>
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/checks.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"
#include "eval/emulator/mbarrier.h"

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

// a base, imm offset, x: extra {flags (1 wide base), space}.
const Inst* ArriveForCopies(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (e[0] & 1) != 0, ip->imm, address);
  const u64 window = WindowOf(static_cast<Space>(e[1]));
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    if (!ArriveOnce(w, ip, address[lane] + window, lane)) return nullptr;
  }
  return ip + 1;
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
  Space space;
  if (!SpaceOf(d, space)) return false;
  const Address address = d.ResolveAddress(d.Op(0));
  d.counts().control++;
  const u32 x = d.AddExtra({address.wide ? 1u : 0u, static_cast<u32>(space)});
  Inst& inst = d.Emit(ArriveForCopies);
  inst.a = address.base;
  inst.imm = address.offset;
  inst.x = x;
  return true;
}

bool DecodeCpAsync(Decoder& d) {
  if (!d.Has("async")) return d.Fail("no such form");
  if (d.Has("bulk")) return DecodeBulkCopy(d);
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

}  // namespace

void RegisterAsync(OpcodeTable& table) { table["cp"] = {DecodeCpAsync}; }

}  // namespace grove::emulator
