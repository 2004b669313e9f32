// atom and red. On global memory they are host atomics, so that concurrent blocks may meet; lanes
// of a warp go in order.
#include <algorithm>
#include <bit>
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/float_math.h"
#include "eval/emulator/softfloat.h"

namespace grove::emulator {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum class Op : u32 { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec };

// Bits before and operands to bits after. Type by how its bits are read.
template <typename T>
T Apply(Op op, T old, T b, T c) {
  switch (op) {
    case Op::kAdd:
      return static_cast<T>(static_cast<u64>(old) + static_cast<u64>(b));
    case Op::kMin:
      return b < old ? b : old;
    case Op::kMax:
      return old < b ? b : old;
    case Op::kAnd:
      return old & b;
    case Op::kOr:
      return old | b;
    case Op::kXor:
      return old ^ b;
    case Op::kExch:
      return b;
    case Op::kCas:
      return old == b ? c : old;
    case Op::kInc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case Op::kDec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
  return old;
}

u32 HalfPair(Op op, Type t, u32 old, u32 b) {
  const bool bfloat = t == Type::kBF16x2 || t == Type::kBF16;
  u32 result = 0;
  const int n = SizeOf(t) / 2;
  for (int i = 0; i < n; ++i) {
    const u32 x = old >> (16 * i) & 0xffff, y = b >> (16 * i) & 0xffff;
    const float fx = bfloat ? BFloatBits(x) : HalfBits(x),
                fy = bfloat ? BFloatBits(y) : HalfBits(y);
    float r = fx + fy;
    if (op == Op::kMin) r = MinMax<float, false, false>(fx, fy);
    if (op == Op::kMax) r = MinMax<float, true, false>(fx, fy);
    result |= (bfloat ? ToBFloatBits(r) : ToHalfBits(r)) << (16 * i);
  }
  return result;
}

template <typename Bits>
Bits Next(Op op, Type t, Bits old, Bits b, Bits c) {
  if constexpr (sizeof(Bits) == 4) {
    if (t == Type::kF32) {
      const float x = std::bit_cast<float>(old), y = std::bit_cast<float>(b);
      if (op == Op::kAdd) return std::bit_cast<u32>(x + y);
      if (op == Op::kMin) return std::bit_cast<u32>(MinMax<float, false, false>(x, y));
      if (op == Op::kMax) return std::bit_cast<u32>(MinMax<float, true, false>(x, y));
    }
    if (t == Type::kF16x2 || t == Type::kBF16x2) return HalfPair(op, t, old, b);
    if (t == Type::kS32 && (op == Op::kMin || op == Op::kMax)) {
      return static_cast<u32>(
          Apply(op, static_cast<std::int32_t>(old), static_cast<std::int32_t>(b), 0));
    }
  } else if constexpr (sizeof(Bits) == 8) {
    if (t == Type::kF64 && op == Op::kAdd) {
      return std::bit_cast<u64>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
    }
    if (t == Type::kS64 && (op == Op::kMin || op == Op::kMax)) {
      return static_cast<u64>(
          Apply(op, static_cast<std::int64_t>(old), static_cast<std::int64_t>(b), std::int64_t{0}));
    }
  } else {
    if (t == Type::kF16 || t == Type::kBF16) return static_cast<u16>(HalfPair(op, t, old, b));
  }
  return Apply<Bits>(op, old, b, c);
}

// d result registers (0: none), a base, b operand, c second operand (cas), imm offset,
// x: start in extra of {operation, type, flags, parts, then per further part: d, b}.
template <typename Bits>
const Inst* Atomic(Warp& w, const Inst* ip) {
  using Register = std::conditional_t<sizeof(Bits) == 8, u64, u32>;
  const u32* e = w.program->extra.data() + ip->x;
  const Op op = static_cast<Op>(e[0]);
  const Type type = static_cast<Type>(e[1]);
  const u32 parts = e[3];
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (e[2] & 1) != 0, ip->imm, address);
  AccessKind kind;
  kind.space = static_cast<Space>(e[2] >> 4);
  kind.bytes = sizeof(Bits) * parts;
  kind.store = true;
  kind.atomic = true;
  kind.strong = true;
  const u64 window = WindowOf(kind.space);
  for (int i = 0; i < kLanes; ++i) address[i] += window;
  CountAccess(w, kind, address, w.mask);
  u32 left = w.mask;
  while (left != 0) {
    const int lane = std::countr_zero(left);
    left &= left - 1;
    std::byte* host = ResolveLane(w, ip, kind, address[lane], lane, nullptr);
    if (host == nullptr) return nullptr;
    for (u32 p = 0; p < parts; ++p) {
      const u32 d = p == 0 ? ip->d : e[4 + 2 * (p - 1)];
      const u32 b_at = p == 0 ? ip->b : e[5 + 2 * (p - 1)];
      const Bits b = static_cast<Bits>(w.At<Register>(b_at)[lane]);
      const Bits c = ip->c == 0 ? Bits{0} : static_cast<Bits>(w.At<Register>(ip->c)[lane]);
      Bits* cell = static_cast<Bits*>(static_cast<void*>(host)) + p;
      Bits old = __atomic_load_n(cell, __ATOMIC_RELAXED);
      while (!__atomic_compare_exchange_n(cell, &old, Next<Bits>(op, type, old, b, c), false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      }
      if (d != 0) w.At<Register>(d)[lane] = old;
    }
  }
  return ip + 1;
}

bool DecodeAtomicOp(Decoder& d, bool returns) {
  Space space;
  if (!SpaceOf(d, space)) return false;
  const Type t = d.TypeAt(-1);
  Op op;
  if (d.Has("add"))
    op = Op::kAdd;
  else if (d.Has("min"))
    op = Op::kMin;
  else if (d.Has("max"))
    op = Op::kMax;
  else if (d.Has("and"))
    op = Op::kAnd;
  else if (d.Has("or"))
    op = Op::kOr;
  else if (d.Has("xor"))
    op = Op::kXor;
  else if (d.Has("exch"))
    op = Op::kExch;
  else if (d.Has("cas"))
    op = Op::kCas;
  else if (d.Has("inc"))
    op = Op::kInc;
  else if (d.Has("dec"))
    op = Op::kDec;
  else
    return d.Fail("no such operation");
  const int bytes = SizeOf(t);
  if (bytes != 2 && bytes != 4 && bytes != 8) return d.Fail("no such form");
  const std::size_t first = returns ? 1 : 0;
  const Address address = d.ResolveAddress(d.Op(first));
  const Operand& value = d.Op(first + 1);
  std::vector<const Operand*> values, results;
  if (value.kind == Operand::Kind::kVector) {
    for (const Operand& o : value.elements) values.push_back(&o);
    if (returns) {
      for (const Operand& o : d.Op(0).elements) results.push_back(&o);
      if (results.size() != values.size()) return d.Fail("the vectors have different lengths");
    }
  } else {
    values.push_back(&value);
    if (returns) results.push_back(&d.Op(0));
  }
  if (values.empty() || values.size() > 8) return d.Fail("no such form");
  const Type held = bytes == 2 ? Type::kB16 : t;
  std::vector<u32> extra{static_cast<u32>(op), static_cast<u32>(t),
                         (address.wide ? 1u : 0u) | static_cast<u32>(space) << 4,
                         static_cast<u32>(values.size())};
  std::vector<u32> to, from;
  for (std::size_t i = 0; i < values.size(); ++i) {
    from.push_back(d.Source(*values[i], held));
    to.push_back(
        returns && results[i]->kind != Operand::Kind::kSink ? d.Destination(*results[i], held) : 0);
    if (i > 0) {
      extra.push_back(to.back());
      extra.push_back(from.back());
    }
  }
  const u32 c = op == Op::kCas ? d.Source(d.Op(first + 2), held) : 0;
  d.TouchShared(space, bytes);
  d.counts().atomics++;
  const u32 x = d.AddExtra(extra);
  Inst& inst = d.Emit(bytes == 8 ? Atomic<u64> : bytes == 4 ? Atomic<u32> : Atomic<u16>);
  inst.d = to[0];
  inst.a = address.base;
  inst.b = from[0];
  inst.c = c;
  inst.imm = address.offset;
  inst.x = x;
  return true;
}
bool DecodeAtom(Decoder& d) { return DecodeAtomicOp(d, true); }
bool DecodeRed(Decoder& d) {
  if (d.Has("async")) return d.Fail("clusters are not emulated");
  return DecodeAtomicOp(d, false);
}

}  // namespace

void RegisterAtomic(OpcodeTable& table) {
  table["atom"] = {DecodeAtom};
  table["red"] = {DecodeRed};
}

}  // namespace grove::emulator
