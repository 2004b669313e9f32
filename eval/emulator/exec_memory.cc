// ld, st and their kin. Registers of a vector access are in Program::extra.
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/control.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Inst: a base, imm offset, x registers in extra, b flags below.
constexpr u32 kWide = 1;  // the base has 64 bits
constexpr u32 kStrong = 2;
constexpr u32 kSpaceShift = 4;

AccessKind KindOf(const Inst* ip, u32 bytes, bool store) {
  AccessKind kind;
  kind.space = static_cast<Space>(ip->b >> kSpaceShift);
  kind.bytes = bytes;
  kind.store = store;
  kind.strong = (ip->b & kStrong) != 0;
  return kind;
}

template <typename E, typename D>
inline D Extend(E e) {
  if constexpr (std::is_signed_v<E>) {
    return static_cast<D>(static_cast<std::make_signed_t<D>>(e));
  } else {
    return static_cast<D>(e);
  }
}

// An access to local memory, aligned and inside it in every lane.
bool IsPlainLocal(const Warp& w, const Inst* ip, const Pattern& p, u64 bytes) {
  return static_cast<Space>(ip->b >> kSpaceShift) == Space::kLocal && p.low <= p.high &&
         p.high <= w.local_stride && bytes <= w.local_stride - p.high &&
         (p.bits & (bytes - 1)) == 0;
}
inline std::byte* LocalCell(Warp& w, int lane, u64 offset) {
  return w.local.data() + static_cast<std::size_t>(lane) * w.local_stride + offset;
}

template <typename E, typename D, int V>
const Inst* LoadSlow(Warp& w, const Inst* ip, u64* address) {
  const AccessKind kind = KindOf(ip, sizeof(E) * V, false);
  const u64 window = WindowOf(kind.space);
  for (int i = 0; i < kLanes; ++i) address[i] += window;
  CountAccess(w, kind, address, w.mask);
  const u32* to = w.program->extra.data() + ip->x;
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    const std::byte* host = ResolveLane(w, ip, kind, address[lane], lane, nullptr);
    if (host == nullptr) return nullptr;
    for (int v = 0; v < V; ++v) {
      E e;
      std::memcpy(&e, host + static_cast<std::size_t>(v) * sizeof(E), sizeof(E));
      w.At<D>(to[v])[lane] = Extend<E, D>(e);
    }
  }
  return ip + 1;
}

template <typename E, typename D, int V, bool kShared>
const Inst* Load(Warp& w, const Inst* ip) {
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (ip->b & kWide) != 0, ip->imm, address);
  constexpr u64 kBytes = sizeof(E) * V;
  if (w.slow_memory) [[unlikely]]
    return LoadSlow<E, D, V>(w, ip, address);
  const u32* to = w.program->extra.data() + ip->x;
  const u32 mask = w.mask;
  if (mask != kFull) {
    // Inactive lanes read where the first active one does.
    const u64 safe = address[std::countr_zero(mask)];
    for (int i = 0; i < kLanes; ++i) address[i] = (mask >> i & 1) != 0 ? address[i] : safe;
  }
  const Pattern p = Classify(address, kBytes);
  const std::byte* host = kShared ? SharedWindow(w, p.low, p.high - p.low + kBytes)
                                  : PlainWindow(w, p.low, p.high - p.low + kBytes, false);
  if (host == nullptr || (p.bits & (kBytes - 1)) != 0) [[unlikely]] {
    if (IsPlainLocal(w, ip, p, kBytes)) {
      for (int v = 0; v < V; ++v) {
        D* d = w.At<D>(to[v]);
        ForEachLane(mask, [&](int i) {
          E e;
          std::memcpy(&e, LocalCell(w, i, address[i]) + static_cast<std::size_t>(v) * sizeof(E),
                      sizeof(E));
          d[i] = Extend<E, D>(e);
        });
      }
      return ip + 1;
    }
    return LoadSlow<E, D, V>(w, ip, address);
  }
  if (mask == kFull) {
    if (p.contiguous) {
      if constexpr (V == 1 && sizeof(E) == sizeof(D)) {
        std::memcpy(w.At<D>(to[0]), host, kLanes * sizeof(E));
      } else {
        const E* from = static_cast<const E*>(static_cast<const void*>(host));
        for (int v = 0; v < V; ++v) {
          D* __restrict d = w.At<D>(to[v]);
          for (int i = 0; i < kLanes; ++i) d[i] = Extend<E, D>(from[i * V + v]);
        }
      }
      return ip + 1;
    }
    if (p.low == p.high) {
      for (int v = 0; v < V; ++v) {
        E e;
        std::memcpy(&e, host + static_cast<std::size_t>(v) * sizeof(E), sizeof(E));
        D* d = w.At<D>(to[v]);
        const D value = Extend<E, D>(e);
        for (int i = 0; i < kLanes; ++i) d[i] = value;
      }
      return ip + 1;
    }
    const std::byte* base = host - p.low;
    for (int v = 0; v < V; ++v) {
      D* __restrict d = w.At<D>(to[v]);
      for (int i = 0; i < kLanes; ++i) {
        E e;
        std::memcpy(&e, base + address[i] + static_cast<std::size_t>(v) * sizeof(E), sizeof(E));
        d[i] = Extend<E, D>(e);
      }
    }
    return ip + 1;
  }
  const std::byte* base = host - p.low;
  for (int v = 0; v < V; ++v) {
    D* d = w.At<D>(to[v]);
    ForEachLane(mask, [&](int i) {
      E e;
      std::memcpy(&e, base + address[i] + static_cast<std::size_t>(v) * sizeof(E), sizeof(E));
      d[i] = Extend<E, D>(e);
    });
  }
  return ip + 1;
}

template <typename E, typename D, int V>
const Inst* StoreSlow(Warp& w, const Inst* ip, u64* address) {
  const AccessKind kind = KindOf(ip, sizeof(E) * V, true);
  const u64 window = WindowOf(kind.space);
  for (int i = 0; i < kLanes; ++i) address[i] += window;
  CountAccess(w, kind, address, w.mask);
  const u32* from = w.program->extra.data() + ip->x;
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    E value[V];
    for (int v = 0; v < V; ++v) value[v] = static_cast<E>(w.At<D>(from[v])[lane]);
    const auto* bytes = static_cast<const std::byte*>(static_cast<const void*>(value));
    std::byte* host = ResolveLane(w, ip, kind, address[lane], lane, bytes);
    if (host == nullptr) return nullptr;
    std::memcpy(host, value, sizeof(value));
  }
  return ip + 1;
}

template <typename E, typename D, int V, bool kShared>
const Inst* Store(Warp& w, const Inst* ip) {
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (ip->b & kWide) != 0, ip->imm, address);
  constexpr u64 kBytes = sizeof(E) * V;
  if (w.slow_memory) [[unlikely]]
    return StoreSlow<E, D, V>(w, ip, address);
  const u32* from = w.program->extra.data() + ip->x;
  const u32 mask = w.mask;
  if (mask != kFull) {
    const u64 safe = address[std::countr_zero(mask)];
    for (int i = 0; i < kLanes; ++i) address[i] = (mask >> i & 1) != 0 ? address[i] : safe;
  }
  const Pattern p = Classify(address, kBytes);
  std::byte* host = kShared ? SharedWindow(w, p.low, p.high - p.low + kBytes)
                            : PlainWindow(w, p.low, p.high - p.low + kBytes, true);
  if (host == nullptr || (p.bits & (kBytes - 1)) != 0) [[unlikely]] {
    if (IsPlainLocal(w, ip, p, kBytes)) {
      for (int v = 0; v < V; ++v) {
        const D* s = w.At<D>(from[v]);
        ForEachLane(mask, [&](int i) {
          const E e = static_cast<E>(s[i]);
          std::memcpy(LocalCell(w, i, address[i]) + static_cast<std::size_t>(v) * sizeof(E), &e,
                      sizeof(E));
        });
      }
      return ip + 1;
    }
    return StoreSlow<E, D, V>(w, ip, address);
  }
  if (mask == kFull && p.contiguous) {
    if constexpr (V == 1 && sizeof(E) == sizeof(D)) {
      std::memcpy(host, w.At<D>(from[0]), kLanes * sizeof(E));
    } else {
      E* to = static_cast<E*>(static_cast<void*>(host));
      for (int v = 0; v < V; ++v) {
        const D* s = w.At<D>(from[v]);
        for (int i = 0; i < kLanes; ++i) to[i * V + v] = static_cast<E>(s[i]);
      }
    }
    return ip + 1;
  }
  std::byte* base = host - p.low;
  for (int v = 0; v < V; ++v) {
    const D* s = w.At<D>(from[v]);
    ForEachLane(mask, [&](int i) {
      const E e = static_cast<E>(s[i]);
      std::memcpy(base + address[i] + static_cast<std::size_t>(v) * sizeof(E), &e, sizeof(E));
    });
  }
  return ip + 1;
}

// --- parameters ---

// Kernel parameters are the same in every lane. imm: byte offset in the parameter block.
template <typename E, typename D, int V>
const Inst* LoadKernelParam(Warp& w, const Inst* ip) {
  const u32* to = w.program->extra.data() + ip->x;
  const std::vector<std::byte>& params = w.launch->params;
  for (int v = 0; v < V; ++v) {
    E e{};
    const auto at = static_cast<std::size_t>(ip->imm) + static_cast<std::size_t>(v) * sizeof(E);
    if (at + sizeof(E) > params.size()) {
      return w.Fail(ip, Fault::Kind::kOutOfBounds, "load behind the kernel's parameters");
    }
    std::memcpy(&e, params.data() + at, sizeof(E));
    const D value = Extend<E, D>(e);
    D* d = w.At<D>(to[v]);
    ForEachLane(w.mask, [&](int lane) { d[lane] = value; });
  }
  return ip + 1;
}

// Parameters of functions lie in frames as [word][lane]. d: frame offset of the words, imm: byte.
template <typename E, typename D, int V>
const Inst* LoadWords(Warp& w, const Inst* ip) {
  const u32* to = w.program->extra.data() + ip->x;
  ForEachLane(w.mask, [&](int lane) {
    for (int v = 0; v < V; ++v) {
      E e{};
      auto* bytes = static_cast<std::byte*>(static_cast<void*>(&e));
      for (u32 i = 0; i < sizeof(E); ++i) {
        const u32 at = static_cast<u32>(ip->imm) + static_cast<u32>(v) * sizeof(E) + i;
        bytes[i] = w.frame[ip->d + at / 4 * 128 + static_cast<u32>(lane) * 4 + at % 4];
      }
      w.At<D>(to[v])[lane] = Extend<E, D>(e);
    }
  });
  return ip + 1;
}
template <typename E, typename D, int V>
const Inst* StoreWords(Warp& w, const Inst* ip) {
  const u32* from = w.program->extra.data() + ip->x;
  ForEachLane(w.mask, [&](int lane) {
    for (int v = 0; v < V; ++v) {
      const E e = static_cast<E>(w.At<D>(from[v])[lane]);
      const auto* bytes = static_cast<const std::byte*>(static_cast<const void*>(&e));
      for (u32 i = 0; i < sizeof(E); ++i) {
        const u32 at = static_cast<u32>(ip->imm) + static_cast<u32>(v) * sizeof(E) + i;
        w.frame[ip->d + at / 4 * 128 + static_cast<u32>(lane) * 4 + at % 4] = bytes[i];
      }
    }
  });
  return ip + 1;
}

// --- decoding ---

enum class Op { kLoadShared, kLoad, kStoreShared, kStore, kKernelParam, kLoadWords, kStoreWords };

template <typename E, typename D, int V>
Handler HandlerOf(Op op) {
  switch (op) {
    case Op::kLoadShared:
      return Load<E, D, V, true>;
    case Op::kLoad:
      return Load<E, D, V, false>;
    case Op::kStoreShared:
      return Store<E, D, V, true>;
    case Op::kStore:
      return Store<E, D, V, false>;
    case Op::kKernelParam:
      return LoadKernelParam<E, D, V>;
    case Op::kLoadWords:
      return LoadWords<E, D, V>;
    case Op::kStoreWords:
      return StoreWords<E, D, V>;
  }
  return nullptr;
}
template <typename E, typename D>
Handler WithLanes(Op op, std::size_t v) {
  switch (v) {
    case 1:
      return HandlerOf<E, D, 1>(op);
    case 2:
      return HandlerOf<E, D, 2>(op);
    case 4:
      return HandlerOf<E, D, 4>(op);
    case 8:
      return HandlerOf<E, D, 8>(op);
    default:
      return nullptr;
  }
}
Handler MemoryHandler(Op op, Type t, bool wide, std::size_t v) {
  switch (SizeOf(t)) {
    case 1:
      if (IsSigned(t))
        return wide ? WithLanes<std::int8_t, u64>(op, v) : WithLanes<std::int8_t, u32>(op, v);
      return wide ? WithLanes<u8, u64>(op, v) : WithLanes<u8, u32>(op, v);
    case 2:
      if (IsSigned(t))
        return wide ? WithLanes<std::int16_t, u64>(op, v) : WithLanes<std::int16_t, u32>(op, v);
      return wide ? WithLanes<u16, u64>(op, v) : WithLanes<u16, u32>(op, v);
    case 4:
      if (wide && IsSigned(t)) return WithLanes<std::int32_t, u64>(op, v);
      return wide ? WithLanes<u32, u64>(op, v) : WithLanes<u32, u32>(op, v);
    case 8:
      return wide ? WithLanes<u64, u64>(op, v) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool SpaceOf(Decoder& d, Space& space) {
  space = Space::kGeneric;
  for (const std::string& m : d.statement().modifiers) {
    if (m == "global")
      space = Space::kGlobal;
    else if (m == "const")
      space = Space::kConst;
    else if (m == "shared" || m == "shared::cta" || m == "shared::cluster")
      space = Space::kShared;
    else if (m == "local")
      space = Space::kLocal;
    else if (m.starts_with("param"))
      space = Space::kParam;
    else if (m == "v1" || m == "b128")
      return d.Fail("no such form");
  }
  return true;
}

namespace {

bool DecodeAccess(Decoder& d, bool store) {
  Space space;
  if (!SpaceOf(d, space)) return false;
  Type t = d.TypeAt(-1);
  if (t == Type::kNone) return d.Fail("no type");
  std::size_t lanes = d.Has("v2") ? 2 : d.Has("v4") ? 4 : d.Has("v8") ? 8 : 1;
  const Operand& address = d.Op(store ? 0 : 1);
  const Operand& value = d.Op(store ? 1 : 0);
  if (lanes * static_cast<std::size_t>(SizeOf(t)) > 32) return d.Fail("no such form");
  std::vector<const Operand*> values;
  if (lanes == 1) {
    values.push_back(value.kind == Operand::Kind::kVector && value.elements.size() == 1
                         ? &value.elements[0]
                         : &value);
  } else {
    if (value.kind != Operand::Kind::kVector || value.elements.size() != lanes) {
      return d.Fail("the vector has the wrong length");
    }
    for (const Operand& o : value.elements) values.push_back(&o);
  }
  // One width of register for all; smaller values are extended into wider registers.
  bool wide = SizeOf(t) == 8;
  for (const Operand* o : values) {
    if (o->kind == Operand::Kind::kRegister && d.RegisterBytes(*o) == 8) wide = true;
  }
  const Type held = wide ? Type::kB64 : Type::kB32;
  std::vector<u32> at;
  for (const Operand* o : values) {
    at.push_back(store ? d.Source(*o, o->kind == Operand::Kind::kRegister ? held
                                      : wide                              ? held
                                                                          : t)
                       : d.Destination(*o, held));
  }
  Op op = store ? Op::kStore : Op::kLoad;
  if (space == Space::kShared) op = store ? Op::kStoreShared : Op::kLoadShared;
  std::int64_t offset = 0;
  u32 words = 0;
  Address resolved;
  if (const ParamSlot* slot = d.LocalParam(address)) {
    op = store ? Op::kStoreWords : Op::kLoadWords;
    offset = address.value;
    words = slot->frame;
    if (offset < 0 || offset + static_cast<std::int64_t>(lanes) * SizeOf(t) > slot->bytes) {
      return d.Fail("access behind the parameter");
    }
  } else if (address.kind == Operand::Kind::kAddress && !address.elements.empty() &&
             address.elements[0].kind == Operand::Kind::kSymbol && !store &&
             d.KernelParam(address.elements[0].name) >= 0) {
    op = Op::kKernelParam;
    offset = d.KernelParam(address.elements[0].name) + address.value;
    if (offset < 0) return d.Fail("access before the parameter");
  } else {
    resolved = d.ResolveAddress(address);
    offset = resolved.offset;
  }
  const Handler h = MemoryHandler(op, t, wide, lanes);
  if (h == nullptr) return d.Fail("no such form");
  d.TouchShared(space, SizeOf(t));
  Counters& c = d.counts();
  if (space == Space::kShared)
    ++(store ? c.shared_stores : c.shared_loads);
  else if (space == Space::kLocal)
    ++c.local_accesses;
  else if (op == Op::kStore)
    ++c.global_stores;
  else if (op == Op::kLoad)
    ++c.global_loads;
  const u32 x = d.AddExtra(at);
  Inst& inst = d.Emit(h);
  inst.d = words;
  inst.a = resolved.base;
  inst.b = (resolved.wide ? kWide : 0) | static_cast<u32>(space) << kSpaceShift;
  if (d.Has("volatile") || d.Has("relaxed") || d.Has("acquire") || d.Has("release") ||
      d.Has("mmio")) {
    inst.b |= kStrong;
  }
  inst.imm = offset;
  inst.x = x;
  return true;
}

bool DecodeLoad(Decoder& d) { return DecodeAccess(d, false); }
bool DecodeStore(Decoder& d) { return DecodeAccess(d, true); }

}  // namespace

void RegisterMemory(OpcodeTable& table) {
  table["ld"] = {DecodeLoad};
  table["ldu"] = {DecodeLoad};
  table["st"] = {DecodeStore};
}

}  // namespace grove::emulator
