// mbarrier.* on shared memory of the own block. The object's 64 bits are opaque to a program; here:
// bits 0-19 expected arrivals of a phase, 20-39 arrivals still missing, 40-61 bytes still missing
// (two's complement), 63 the phase. Every operation is a strong access to the object, so that the
// race checker sees the order which it gives.
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"
#include "eval/emulator/mbarrier.h"

namespace grove::emulator {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u64 kCountMask = (u64{1} << 20) - 1;
constexpr u64 kBytesMask = (u64{1} << 22) - 1;

struct State {
  u64 expected, missing, bytes, phase;
};
State Decompose(u64 v) {
  return {v & kCountMask, v >> 20 & kCountMask, v >> 40 & kBytesMask, v >> 63};
}
u64 Compose(const State& s) {
  return (s.expected & kCountMask) | (s.missing & kCountMask) << 20 | (s.bytes & kBytesMask) << 40 |
         s.phase << 63;
}
void Settle(State& s) {
  if (s.missing != 0 || s.bytes != 0) return;
  s.phase ^= 1;
  s.missing = s.expected;
}

enum class Action : u32 { kInit, kInvalidate, kArrive, kExpect, kArriveExpect, kComplete, kDrop };

std::byte* Object(Warp& w, const Inst* ip, bool wide, Space space, bool initial, int lane) {
  AccessKind kind;
  kind.space = space;
  kind.bytes = 8;
  kind.store = true;
  kind.atomic = !initial;
  kind.strong = true;
  const u64 base = wide ? w.At<u64>(ip->a)[lane] : u64{w.At<u32>(ip->a)[lane]};
  const u64 address = base + static_cast<u64>(ip->imm) + WindowOf(space);
  const std::byte zeros[8] = {};
  return ResolveLane(w, ip, kind, address, lane, initial ? zeros : nullptr);
}

// d state (0: none), a base, b operand (0: 1), c action, x flags: 1 wide, space above bit 4.
const Inst* Update(Warp& w, const Inst* ip) {
  const Action action = static_cast<Action>(ip->c);
  const bool wide = (ip->x & 1) != 0;
  const Space space = static_cast<Space>(ip->x >> 4);
  const bool initial = action == Action::kInit;
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    std::byte* host = Object(w, ip, wide, space, initial, lane);
    if (host == nullptr) return nullptr;
    const u64 n = ip->b == 0 ? 1 : w.At<u32>(ip->b)[lane];
    u64 bits = 0;
    std::memcpy(&bits, host, 8);
    State s = Decompose(bits);
    const u64 before = bits;
    switch (action) {
      case Action::kInit:
        if (n == 0 || n > kCountMask) {
          return w.Fail(ip, Fault::Kind::kTrap, "mbarrier.init with a count out of range", lane);
        }
        s = {n, n, 0, 0};
        break;
      case Action::kInvalidate:
        s = {0, 0, 0, 0};
        break;
      case Action::kExpect:
        s.bytes += n;
        break;
      case Action::kComplete:
        s.bytes -= n;
        s.bytes &= kBytesMask;
        Settle(s);
        break;
      case Action::kArrive:
      case Action::kArriveExpect:
      case Action::kDrop: {
        const u64 arrivals = action == Action::kArriveExpect ? 1 : n;
        if (arrivals > s.missing) {
          return w.Fail(ip, Fault::Kind::kTrap, "more arrivals at an mbarrier than it expects",
                        lane);
        }
        if (action == Action::kArriveExpect) s.bytes += n;
        if (action == Action::kDrop) s.expected -= arrivals;
        s.missing -= arrivals;
        Settle(s);
        break;
      }
    }
    bits = Compose(s);
    std::memcpy(host, &bits, 8);
    if (ip->d != 0) w.At<u64>(ip->d)[lane] = before;
  }
  return ip + 1;
}

// d predicate, a base, b state or parity, c: 1 when b is a parity, x as above.
const Inst* Test(Warp& w, const Inst* ip) {
  const bool wide = (ip->x & 1) != 0;
  const Space space = static_cast<Space>(ip->x >> 4);
  u32 done = 0;
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    const std::byte* host = Object(w, ip, wide, space, false, lane);
    if (host == nullptr) return nullptr;
    u64 bits = 0;
    std::memcpy(&bits, host, 8);
    const u64 phase = ip->c != 0 ? w.At<u32>(ip->b)[lane] & 1 : w.At<u64>(ip->b)[lane] >> 63;
    done |= u32{(bits >> 63) != phase} << lane;
  }
  Blend(w.Pred(ip->d), done, w.mask);
  return ip + 1;
}

const Inst* Pending(Warp& w, const Inst* ip) {
  const u64* a = w.At<u64>(ip->a);
  return MapLanes<u32>(w, ip, [&](int i) { return static_cast<u32>(a[i] >> 20 & kCountMask); });
}

u32 Flags(const Address& address, Space space) {
  return (address.wide ? 1u : 0u) | static_cast<u32>(space) << 4;
}

bool DecodeUpdate(Decoder& d, Action action) {
  Space space;
  if (!SpaceOf(d, space)) return false;
  const bool arrives =
      action == Action::kArrive || action == Action::kArriveExpect || action == Action::kDrop;
  // arrive may be written with a state, with _, or (on remote barriers) without either.
  std::size_t at = 0;
  u32 to = 0;
  if (arrives && d.Op(0).kind != Operand::Kind::kAddress) {
    if (d.Op(0).kind != Operand::Kind::kSink) to = d.Destination(d.Op(0), Type::kB64);
    at = 1;
  }
  const Address address = d.ResolveAddress(d.Op(at));
  const bool counted = d.count() > at + 1;
  if (!counted && action != Action::kArrive && action != Action::kDrop &&
      action != Action::kInvalidate) {
    return d.Fail("an operand is missing");
  }
  const u32 n = counted ? d.Source(d.Op(at + 1), Type::kB32) : 0;
  d.counts().control++;
  d.TouchShared(Space::kShared, 8);
  Inst& inst = d.Emit(Update);
  inst.d = to;
  inst.a = address.base;
  inst.b = n;
  inst.c = static_cast<u32>(action);
  inst.imm = address.offset;
  inst.x = Flags(address, space);
  return true;
}

bool DecodeMbarrier(Decoder& d) {
  if (d.Has("init")) return DecodeUpdate(d, Action::kInit);
  if (d.Has("inval")) return DecodeUpdate(d, Action::kInvalidate);
  if (d.Has("arrive_drop")) {
    if (d.Has("expect_tx")) return d.Fail("this form of mbarrier is not emulated");
    return DecodeUpdate(d, Action::kDrop);
  }
  if (d.Has("arrive")) {
    return DecodeUpdate(d, d.Has("expect_tx") ? Action::kArriveExpect : Action::kArrive);
  }
  if (d.Has("expect_tx")) return DecodeUpdate(d, Action::kExpect);
  if (d.Has("complete_tx")) return DecodeUpdate(d, Action::kComplete);
  if (d.Has("pending_count")) {
    const u32 a = d.Source(d.Op(1), Type::kB64), to = d.Destination(d.Op(0), Type::kB32);
    d.counts().integer++;
    Inst& inst = d.Emit(Pending);
    inst.d = to;
    inst.a = a;
    return true;
  }
  if (!d.Has("test_wait") && !d.Has("try_wait")) {
    return d.Fail("this form of mbarrier is not emulated");
  }
  Space space;
  if (!SpaceOf(d, space)) return false;
  const u32 p = d.PredicateDestination(d.Op(0));
  const Address address = d.ResolveAddress(d.Op(1));
  const bool parity = d.Has("parity");
  const u32 state = d.Source(d.Op(2), parity ? Type::kB32 : Type::kB64);
  d.counts().control++;
  d.TouchShared(Space::kShared, 8);
  Inst& inst = d.Emit(Test);
  inst.d = p;
  inst.a = address.base;
  inst.b = state;
  inst.c = parity ? 1 : 0;
  inst.imm = address.offset;
  inst.x = Flags(address, space);
  return true;
}

}  // namespace

bool CompleteBytes(Warp& w, const Inst* inst, std::uint64_t address, int lane,
                   std::uint64_t bytes) {
  AccessKind kind;
  kind.space = Space::kGeneric;
  kind.bytes = 8;
  kind.store = kind.atomic = kind.strong = true;
  std::byte* host = ResolveLane(w, inst, kind, address, lane, nullptr);
  if (host == nullptr) return false;
  u64 bits = 0;
  std::memcpy(&bits, host, 8);
  State s = Decompose(bits);
  s.bytes = (s.bytes - bytes) & kBytesMask;
  Settle(s);
  bits = Compose(s);
  std::memcpy(host, &bits, 8);
  return true;
}

bool ArriveOnce(Warp& w, const Inst* inst, std::uint64_t address, int lane) {
  AccessKind kind;
  kind.space = Space::kGeneric;
  kind.bytes = 8;
  kind.store = kind.atomic = kind.strong = true;
  std::byte* host = ResolveLane(w, inst, kind, address, lane, nullptr);
  if (host == nullptr) return false;
  u64 bits = 0;
  std::memcpy(&bits, host, 8);
  State s = Decompose(bits);
  if (s.missing == 0) {
    w.Fail(inst, Fault::Kind::kTrap, "more arrivals at an mbarrier than it expects", lane);
    return false;
  }
  s.missing -= 1;
  Settle(s);
  bits = Compose(s);
  std::memcpy(host, &bits, 8);
  return true;
}

void RegisterMbarrier(OpcodeTable& table) { table["mbarrier"] = {DecodeMbarrier}; }

}  // namespace grove::emulator
