// cp.async.bulk between global and shared memory of the own block, without tensor maps. A copy
// takes place when it is issued: its bytes count as come at the mbarrier, and bulk groups are
// complete at once. What a program must still do is wait, since only the mbarrier orders the copy
// before the other threads' loads; the race checker sees when it does not.
#include <algorithm>
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

constexpr u32 kChunk = 16;  // bytes: the unit of size and alignment

struct End {
  u32 base, wide, low, high, space;
};
constexpr std::size_t kEndWords = sizeof(End) / 4;

void Resolve(Warp& w, const u32* extra, u64* address) {
  End end;
  std::memcpy(&end, extra, sizeof(end));
  LaneAddresses(w, end.base, end.wide != 0,
                static_cast<std::int64_t>(u64{end.high} << 32 | end.low), address);
  const u64 window = WindowOf(static_cast<Space>(end.space));
  for (int i = 0; i < kLanes; ++i) address[i] += window;
}

// Counts `bytes` from `address` on as accesses of a warp, 16 bytes a lane.
void Count(Warp& w, const AccessKind& kind, u64 address, u64 bytes) {
  for (u64 at = 0; at < bytes; at += kChunk * kLanes) {
    u64 lanes[kLanes];
    for (u64 i = 0; i < kLanes; ++i) lanes[i] = address + at + i * kChunk;
    const u64 n = std::min<u64>((bytes - at) / kChunk, kLanes);
    CountAccess(w, kind, lanes, n == kLanes ? kFull : (1u << n) - 1);
  }
}

// b: size register, c: 1 with an mbarrier; extra: to, from, mbarrier.
const Inst* Copy(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  alignas(64) u64 to[kLanes], from[kLanes], barrier[kLanes];
  Resolve(w, e, to);
  Resolve(w, e + kEndWords, from);
  if (ip->c != 0) Resolve(w, e + 2 * kEndWords, barrier);
  AccessKind load, store;
  load.bytes = store.bytes = kChunk;
  load.space = store.space = Space::kGeneric;
  store.store = true;
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    const u64 bytes = w.At<u32>(ip->b)[lane];
    if (bytes % kChunk != 0) {
      return w.Fail(ip, Fault::Kind::kMisaligned, "the size of a bulk copy is no multiple of 16",
                    lane);
    }
    if (bytes > kMaxSharedBytes) {
      return w.Fail(ip, Fault::Kind::kOutOfBounds, "a bulk copy larger than shared memory", lane);
    }
    Count(w, load, from[lane], bytes);
    Count(w, store, to[lane], bytes);
    for (u64 at = 0; at < bytes; at += kChunk) {
      const std::byte* source = ResolveLane(w, ip, load, from[lane] + at, lane, nullptr);
      if (source == nullptr) return nullptr;
      std::byte chunk[kChunk];
      std::memcpy(chunk, source, kChunk);
      std::byte* target = ResolveLane(w, ip, store, to[lane] + at, lane, chunk);
      if (target == nullptr) return nullptr;
      std::memcpy(target, chunk, kChunk);
    }
    if (ip->c != 0 && !CompleteBytes(w, ip, barrier[lane], lane, bytes)) return nullptr;
  }
  return ip + 1;
}

// Nothing to wait for; bulk groups are complete when they are issued.
const Inst* Nothing(Warp&, const Inst* ip) { return ip + 1; }

void AddEnd(Decoder& d, const Operand& operand, Space space, std::vector<u32>* extra) {
  const Address address = d.ResolveAddress(operand);
  const auto offset = static_cast<u64>(address.offset);
  extra->push_back(address.base);
  extra->push_back(address.wide ? 1 : 0);
  extra->push_back(static_cast<u32>(offset));
  extra->push_back(static_cast<u32>(offset >> 32));
  extra->push_back(static_cast<u32>(space));
}

// The spaces in the order of the modifiers: destination, source.
bool SpacesOf(Decoder& d, Space* to, Space* from) {
  int seen = 0;
  for (const std::string& m : d.statement().modifiers) {
    Space space;
    if (m == "global")
      space = Space::kGlobal;
    else if (m == "shared::cta" || m == "shared::cluster")
      space = Space::kShared;
    else
      continue;
    *(seen++ == 0 ? to : from) = space;
  }
  return seen == 2;
}

}  // namespace

bool DecodeBulkCopy(Decoder& d) {
  if (d.Has("tensor")) return d.Fail("copies through tensor maps are not emulated");
  if (d.Has("reduce") || d.Has("cp_mask") || d.Has("multicast::cluster")) {
    return d.Fail("this form of cp.async.bulk is not emulated");
  }
  d.counts().control++;
  if (d.Has("commit_group") || d.Has("wait_group") || d.Has("prefetch")) {
    d.Emit(Nothing);
    return true;
  }
  Space to = Space::kGeneric, from = Space::kGeneric;
  if (!SpacesOf(d, &to, &from)) return d.Fail("no such form");
  const bool barrier = d.Has("mbarrier::complete_tx::bytes");
  if (barrier == (to == Space::kGlobal)) return d.Fail("no such form");
  std::vector<u32> extra;
  AddEnd(d, d.Op(0), to, &extra);
  AddEnd(d, d.Op(1), from, &extra);
  const u32 size = d.Source(d.Op(2), Type::kB32);
  if (barrier) AddEnd(d, d.Op(3), Space::kShared, &extra);
  d.TouchShared(Space::kShared, kChunk);
  Counters& counts = d.counts();
  (from == Space::kGlobal ? counts.global_loads : counts.shared_loads)++;
  (to == Space::kGlobal ? counts.global_stores : counts.shared_stores)++;
  const u32 x = d.AddExtra(extra);
  Inst& inst = d.Emit(Copy);
  inst.b = size;
  inst.c = barrier ? 1 : 0;
  inst.x = x;
  return true;
}

}  // namespace grove::emulator
