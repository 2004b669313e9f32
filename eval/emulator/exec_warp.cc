// What lanes of a warp do together: shuffles, votes, matches, reductions, bar.warp.sync.
#include <algorithm>

#include "eval/emulator/checks.h"
#include "eval/emulator/control.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u32 = std::uint32_t;
using s32 = std::int32_t;

// The member mask at frame offset `at` (0: all lanes), as the first active lane sees it.
inline u32 Members(Warp& w, u32 at) {
  return at == 0 ? kFull : w.At<u32>(at)[std::countr_zero(w.mask)];
}
inline void Meet(Warp& w, u32 members) {
  if (w.block->races != nullptr) w.block->races->SyncWarp(w, members & w.live);
}

enum class Shuffle { kUp, kDown, kBfly, kIdx };

// d, a value, b lane, c clamp and segment mask; x members, imm: predicate destination.
template <Shuffle kMode>
const Inst* Shfl(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const u32* a = w.At<u32>(ip->a);
  const u32* b = w.At<u32>(ip->b);
  const u32* c = w.At<u32>(ip->c);
  alignas(64) u32 result[kLanes];
  u32 valid = 0;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const u32 bval = b[lane] & 31, cval = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const u32 max_lane = (lane & segment) | (cval & ~segment);
    const u32 min_lane = lane & segment;
    s32 from = 0;
    bool ok = false;
    if constexpr (kMode == Shuffle::kUp) {
      from = static_cast<s32>(lane) - static_cast<s32>(bval);
      ok = from >= static_cast<s32>(max_lane);
    } else if constexpr (kMode == Shuffle::kDown) {
      from = static_cast<s32>(lane + bval);
      ok = from <= static_cast<s32>(max_lane);
    } else if constexpr (kMode == Shuffle::kBfly) {
      from = static_cast<s32>(lane ^ bval);
      ok = from <= static_cast<s32>(max_lane);
    } else {
      from = static_cast<s32>(min_lane | (bval & ~segment));
      ok = from <= static_cast<s32>(max_lane);
    }
    const u32 source = ok ? static_cast<u32>(from) & 31 : lane;
    result[lane] = a[source];
    valid |= u32{ok} << lane;
  }
  if (ip->imm != 0) Blend(w.Pred(static_cast<u32>(ip->imm)), valid, w.mask);
  return MapLanes<u32>(w, ip, [&](int i) { return result[i]; });
}

// Shuffles over constant distances, the common case: one gather by a table. extra: 32 source lanes.
const Inst* ShflTable(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->b);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const u32* a = w.At<u32>(ip->a);
  const u32* from = w.program->extra.data() + ip->x;
  alignas(64) u32 result[kLanes];
#if defined(__AVX2__)
  for (int i = 0; i < kLanes; i += 8) {
    const __m256i index =
        _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(from + i)));
    const __m256i v =
        _mm256_i32gather_epi32(static_cast<const int*>(static_cast<const void*>(a)), index, 4);
    _mm256_store_si256(static_cast<__m256i*>(static_cast<void*>(result + i)), v);
  }
#else
  for (int i = 0; i < kLanes; ++i) result[i] = a[from[i]];
#endif
  if (ip->c != 0) Blend(w.Pred(ip->c), static_cast<u32>(ip->imm), w.mask);
  return MapLanes<u32>(w, ip, [&](int i) { return result[i]; });
}

bool DecodeShfl(Decoder& d) {
  const bool sync = d.Has("sync");
  const u32 value = d.Source(d.Op(1), Type::kB32);
  const u32 lane = d.Source(d.Op(2), Type::kB32), clamp = d.Source(d.Op(3), Type::kB32);
  const u32 members = sync ? d.Source(d.Op(4), Type::kB32) : 0;
  const u32 to = d.Destination(d.Op(0), Type::kB32);
  const u32 p = d.Op(0).pair.empty() ? 0 : d.PredicateDestination(d.Op(0).pair[0]);
  d.counts().shuffles++;
  const bool constant =
      d.Op(2).kind == Operand::Kind::kInteger && d.Op(3).kind == Operand::Kind::kInteger;
  if (constant && !d.Has("idx")) {
    const auto b = static_cast<u32>(d.Op(2).value) & 31, c = static_cast<u32>(d.Op(3).value);
    const u32 cval = c & 31, segment = c >> 8 & 31;
    std::vector<u32> table;
    u32 valid = 0;
    for (u32 i = 0; i < kLanes; ++i) {
      const u32 max_lane = (i & segment) | (cval & ~segment);
      s32 from = static_cast<s32>(i);
      bool ok = true;
      if (d.Has("up")) {
        from -= static_cast<s32>(b);
        ok = from >= static_cast<s32>(max_lane);
      } else {
        from = static_cast<s32>(d.Has("down") ? i + b : i ^ b);
        ok = from <= static_cast<s32>(max_lane);
      }
      table.push_back(ok ? static_cast<u32>(from) & 31 : i);
      valid |= u32{ok} << i;
    }
    const u32 x = d.AddExtra(table);
    Inst& inst = d.Emit(ShflTable);
    inst.d = to;
    inst.a = value;
    inst.b = members;
    inst.c = p;
    inst.x = x;
    inst.imm = valid;
    return true;
  }
  Handler h = d.Has("up")     ? Shfl<Shuffle::kUp>
              : d.Has("down") ? Shfl<Shuffle::kDown>
              : d.Has("bfly") ? Shfl<Shuffle::kBfly>
              : d.Has("idx")  ? Shfl<Shuffle::kIdx>
                              : nullptr;
  if (h == nullptr) return d.Fail("no such form");
  Inst& inst = d.Emit(h);
  inst.d = to;
  inst.a = value;
  inst.b = lane;
  inst.c = clamp;
  inst.x = members;
  inst.imm = p;
  return true;
}

enum class Vote { kAll, kAny, kUni, kBallot };
template <Vote kMode>
const Inst* VoteSync(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const u32 in = w.mask & members;
  const u32 p = (w.Pred(ip->a) ^ static_cast<u32>(ip->imm)) & in;
  if constexpr (kMode == Vote::kBallot) {
    return MapLanes<u32>(w, ip, [&](int) { return p; });
  } else {
    const bool value = kMode == Vote::kAll   ? p == in
                       : kMode == Vote::kAny ? p != 0
                                             : p == 0 || p == in;
    Blend(w.Pred(ip->d), value ? kFull : 0, w.mask);
    return ip + 1;
  }
}
bool DecodeVote(Decoder& d) {
  const bool ballot = d.Has("ballot");
  const u32 p = d.PredicateSource(d.Op(1));
  const u32 members = d.Has("sync") ? d.Source(d.Op(2), Type::kB32) : 0;
  const u32 to = ballot ? d.Destination(d.Op(0), Type::kB32) : d.PredicateDestination(d.Op(0));
  d.counts().shuffles++;
  Inst& inst = d.Emit(ballot         ? VoteSync<Vote::kBallot>
                      : d.Has("all") ? VoteSync<Vote::kAll>
                      : d.Has("any") ? VoteSync<Vote::kAny>
                                     : VoteSync<Vote::kUni>);
  inst.d = to;
  inst.a = p;
  inst.x = members;
  inst.imm = d.Op(1).negated ? std::int64_t{kFull} : 0;
  return true;
}

const Inst* ActiveMask(Warp& w, const Inst* ip) {
  const u32 mask = w.mask;
  return MapLanes<u32>(w, ip, [&](int) { return mask; });
}
bool DecodeActiveMask(Decoder& d) {
  const u32 to = d.Destination(d.Op(0), Type::kB32);
  d.counts().shuffles++;
  d.Emit(ActiveMask).d = to;
  return true;
}

const Inst* Elect(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const u32 leader = static_cast<u32>(std::countr_zero(w.mask & members));
  Blend(w.Pred(ip->a), leader < 32 ? 1u << leader : 0, w.mask);
  return MapLanes<u32>(w, ip, [&](int) { return leader; });
}
bool DecodeElect(Decoder& d) {
  if (d.Op(0).pair.empty()) return d.Fail("no predicate");
  const u32 members = d.Source(d.Op(1), Type::kB32);
  const u32 to = d.Destination(d.Op(0), Type::kB32), p = d.PredicateDestination(d.Op(0).pair[0]);
  d.counts().shuffles++;
  Inst& inst = d.Emit(Elect);
  inst.d = to;
  inst.a = p;
  inst.x = members;
  return true;
}

template <typename T, bool kAll>
const Inst* Match(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const T* a = w.At<T>(ip->a);
  const u32 in = w.mask & members;
  alignas(64) u32 result[kLanes] = {};
  u32 equal = 0;
  ForEachLane(in, [&](int lane) {
    u32 same = 0;
    ForEachLane(in, [&](int other) { same |= u32{a[other] == a[lane]} << other; });
    result[lane] = kAll ? (same == in ? in : 0) : same;
    equal |= u32{same == in} << lane;
  });
  if (ip->imm != 0) Blend(w.Pred(static_cast<u32>(ip->imm)), equal, w.mask);
  return MapLanes<u32>(w, ip, [&](int i) { return result[i]; });
}
bool DecodeMatch(Decoder& d) {
  const Type t = d.TypeAt(-1);
  const bool all = d.Has("all"), wide = SizeOf(t) == 8;
  const u32 a = d.Source(d.Op(1), t), members = d.Source(d.Op(2), Type::kB32);
  const u32 to = d.Destination(d.Op(0), Type::kB32);
  const u32 p = d.Op(0).pair.empty() ? 0 : d.PredicateDestination(d.Op(0).pair[0]);
  d.counts().shuffles++;
  Inst& inst = d.Emit(wide ? (all ? Match<std::uint64_t, true> : Match<std::uint64_t, false>)
                           : (all ? Match<u32, true> : Match<u32, false>));
  inst.d = to;
  inst.a = a;
  inst.x = members;
  inst.imm = p;
  return true;
}

u32 RAdd(u32 a, u32 b) { return a + b; }
u32 RMinU(u32 a, u32 b) { return std::min(a, b); }
u32 RMaxU(u32 a, u32 b) { return std::max(a, b); }
u32 RMinS(u32 a, u32 b) { return static_cast<s32>(a) < static_cast<s32>(b) ? a : b; }
u32 RMaxS(u32 a, u32 b) { return static_cast<s32>(a) > static_cast<s32>(b) ? a : b; }
u32 RAnd(u32 a, u32 b) { return a & b; }
u32 ROr(u32 a, u32 b) { return a | b; }
u32 RXor(u32 a, u32 b) { return a ^ b; }
template <auto F>
const Inst* Redux(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  const u32* a = w.At<u32>(ip->a);
  const u32 in = w.mask & members;
  const int first = std::countr_zero(in);
  if (first >= kLanes) return ip + 1;
  u32 value = a[first];
  ForEachLane(in & (in - 1), [&](int lane) { value = F(value, a[lane]); });
  return MapLanes<u32>(w, ip, [&](int) { return value; });
}
bool DecodeRedux(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (SizeOf(t) != 4 || IsFloatType(t)) return d.Fail("no such form");
  const bool s = IsSigned(t);
  Handler h = d.Has("add")   ? Redux<RAdd>
              : d.Has("min") ? (s ? Redux<RMinS> : Redux<RMinU>)
              : d.Has("max") ? (s ? Redux<RMaxS> : Redux<RMaxU>)
              : d.Has("and") ? Redux<RAnd>
              : d.Has("or")  ? Redux<ROr>
              : d.Has("xor") ? Redux<RXor>
                             : nullptr;
  if (h == nullptr) return d.Fail("no such form");
  const u32 a = d.Source(d.Op(1), t), members = d.Source(d.Op(2), Type::kB32);
  const u32 to = d.Destination(d.Op(0), t);
  d.counts().shuffles++;
  Inst& inst = d.Emit(h);
  inst.d = to;
  inst.a = a;
  inst.x = members;
  return true;
}

const Inst* WarpBarrier(Warp& w, const Inst* ip) {
  const u32 members = Members(w, ip->x);
  if (!w.Together(members)) return w.WaitFor(ip, members);
  Meet(w, members);
  return ip + 1;
}

}  // namespace

Handler WarpBarrierHandler() { return WarpBarrier; }

bool DecodeWarpBarrier(Decoder& d) {
  const u32 members = d.Source(d.Op(0), Type::kB32);
  d.counts().control++;
  Inst& inst = d.Emit(WarpBarrier);
  inst.x = members;
  return true;
}

void RegisterWarp(OpcodeTable& table) {
  table["shfl"] = {DecodeShfl, true};
  table["vote"] = {DecodeVote, true};
  table["activemask"] = {DecodeActiveMask, false};
  table["elect"] = {DecodeElect, true};
  table["match"] = {DecodeMatch, true};
  table["redux"] = {DecodeRedux, true};
}

}  // namespace grove::emulator
