// Comparisons, predicates, selection and moves.
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <Logic kOp>
const Inst* PredicateLogic(Warp& w, const Inst* ip) {
  const u32 a = w.Pred(ip->a) ^ static_cast<u32>(ip->imm);
  const u32 b = w.Pred(ip->b) ^ ip->x;
  u32 value = a;
  if constexpr (kOp == Logic::kAnd) value = a & b;
  if constexpr (kOp == Logic::kOr) value = a | b;
  if constexpr (kOp == Logic::kXor) value = a ^ b;
  if constexpr (kOp == Logic::kNot) value = ~a;
  Blend(w.Pred(ip->d), value, w.mask);
  return ip + 1;
}

template <typename T>
bool Eq(T a, T b) {
  return a == b;
}
template <typename T>
bool Ne(T a, T b) {
  return a != b;
}
template <typename T>
bool Lt(T a, T b) {
  return a < b;
}
template <typename T>
bool Le(T a, T b) {
  return a <= b;
}
template <typename T>
bool Gt(T a, T b) {
  return a > b;
}
template <typename T>
bool Ge(T a, T b) {
  return a >= b;
}
template <typename T>
bool OrderedNe(T a, T b) {
  return a < b || a > b;
}
template <typename T>
bool UnorderedEq(T a, T b) {
  return !(a < b || a > b);
}
template <typename T>
bool UnorderedLt(T a, T b) {
  return !(a >= b);
}
template <typename T>
bool UnorderedLe(T a, T b) {
  return !(a > b);
}
template <typename T>
bool UnorderedGt(T a, T b) {
  return !(a <= b);
}
template <typename T>
bool UnorderedGe(T a, T b) {
  return !(a < b);
}
template <typename T>
bool Both(T a, T b) {
  return a == a && b == b;
}
template <typename T>
bool Either(T a, T b) {
  return a != a || b != b;
}

// d: p, c: q (0: none), imm low bits: how to combine with predicate x (0 none, 1 and, 2 or, 3 xor),
// bit 8: x is negated.
inline void FinishSetp(Warp& w, const Inst* ip, u32 value) {
  u32 other = ~value;
  const auto mode = static_cast<u32>(ip->imm);
  if ((mode & 0xff) != 0) {
    const u32 c = w.Pred(ip->x) ^ ((mode & 0x100) != 0 ? kFull : 0);
    switch (mode & 0xff) {
      case 1:
        value &= c;
        other &= c;
        break;
      case 2:
        value |= c;
        other |= c;
        break;
      default:
        value ^= c;
        other ^= c;
        break;
    }
  }
  Blend(w.Pred(ip->d), value, w.mask);
  if (ip->c != 0) Blend(w.Pred(ip->c), other, w.mask);
}

template <typename T, auto F>
const Inst* Setp(Warp& w, const Inst* ip) {
  FinishSetp(w, ip, CompareLanes<T, F>(w, ip->a, ip->b));
  return ip + 1;
}
template <auto F>
const Inst* SetpFlush(Warp& w, const Inst* ip) {
  const float* a = w.At<float>(ip->a);
  const float* b = w.At<float>(ip->b);
  u32 value = 0;
  const auto flush = [](float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? 0.0f : x;
  };
  for (int i = 0; i < kLanes; ++i) value |= u32{F(flush(a[i]), flush(b[i]))} << i;
  FinishSetp(w, ip, value);
  return ip + 1;
}

template <typename T>
Handler CompareHandler(const std::string& op, bool is_float, bool flush) {
  if constexpr (std::is_same_v<T, float>) {
    if (flush) {
      if (op == "eq") return SetpFlush<Eq<T>>;
      if (op == "ne") return SetpFlush<OrderedNe<T>>;
      if (op == "lt") return SetpFlush<Lt<T>>;
      if (op == "le") return SetpFlush<Le<T>>;
      if (op == "gt") return SetpFlush<Gt<T>>;
      if (op == "ge") return SetpFlush<Ge<T>>;
      if (op == "equ") return SetpFlush<UnorderedEq<T>>;
      if (op == "neu") return SetpFlush<Ne<T>>;
      if (op == "ltu") return SetpFlush<UnorderedLt<T>>;
      if (op == "leu") return SetpFlush<UnorderedLe<T>>;
      if (op == "gtu") return SetpFlush<UnorderedGt<T>>;
      if (op == "geu") return SetpFlush<UnorderedGe<T>>;
    }
  }
  if (op == "eq") return Setp<T, Eq<T>>;
  if (op == "lt") return Setp<T, Lt<T>>;
  if (op == "le") return Setp<T, Le<T>>;
  if (op == "gt") return Setp<T, Gt<T>>;
  if (op == "ge") return Setp<T, Ge<T>>;
  if (is_float) {
    if constexpr (std::is_floating_point_v<T>) {
      if (op == "ne") return Setp<T, OrderedNe<T>>;
      if (op == "equ") return Setp<T, UnorderedEq<T>>;
      if (op == "neu") return Setp<T, Ne<T>>;
      if (op == "ltu") return Setp<T, UnorderedLt<T>>;
      if (op == "leu") return Setp<T, UnorderedLe<T>>;
      if (op == "gtu") return Setp<T, UnorderedGt<T>>;
      if (op == "geu") return Setp<T, UnorderedGe<T>>;
      if (op == "num") return Setp<T, Both<T>>;
      if (op == "nan") return Setp<T, Either<T>>;
    }
    return nullptr;
  }
  if (op == "ne") return Setp<T, Ne<T>>;
  if constexpr (std::is_unsigned_v<T>) {
    if (op == "lo") return Setp<T, Lt<T>>;
    if (op == "ls") return Setp<T, Le<T>>;
    if (op == "hi") return Setp<T, Gt<T>>;
    if (op == "hs") return Setp<T, Ge<T>>;
  }
  return nullptr;
}

template <typename T>
const Inst* Selp(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  const T* a = w.At<T>(ip->a);
  const T* b = w.At<T>(ip->b);
  const u32 p = w.Pred(ip->c) ^ static_cast<u32>(ip->imm);
  const u32 mask = w.mask;
  if (mask == kFull) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) d[i] = (p >> i & 1) != 0 ? a[i] : b[i];
  } else {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      const T value = (p >> i & 1) != 0 ? a[i] : b[i];
      d[i] = (mask >> i & 1) != 0 ? value : d[i];
    }
  }
  return ip + 1;
}

// set: the predicate c becomes a number.
template <typename T>
const Inst* FromPredicate(Warp& w, const Inst* ip) {
  const u32 p = w.Pred(ip->c);
  const T one = static_cast<T>(ip->imm);
  return MapLanes<T>(w, ip, [&](int i) { return (p >> i & 1) != 0 ? one : T{0}; });
}

template <typename T>
T Slct(T a, T b, s32 c) {
  return c >= 0 ? a : b;
}
template <typename T>
T SlctF(T a, T b, float c) {
  return c >= 0 ? a : b;
}

// --- mov of vectors ---

// extra: count, frame offsets of the parts; imm: bits of one part; d/a: the whole.
const Inst* MovPack(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  const u32 parts = e[0];
  const int bits = static_cast<int>(ip->imm);
  ForEachLane(w.mask, [&](int lane) {
    u64 whole = 0;
    for (u32 p = 0; p < parts; ++p) {
      u64 part = w.At<u32>(e[1 + p])[lane];
      if (bits < 32) part &= (u64{1} << bits) - 1;
      whole |= part << (static_cast<int>(p) * bits);
    }
    if (ip->b != 0)
      w.At<u64>(ip->d)[lane] = whole;
    else
      w.At<u32>(ip->d)[lane] = static_cast<u32>(whole);
  });
  return ip + 1;
}
const Inst* MovUnpack(Warp& w, const Inst* ip) {
  const u32* e = w.program->extra.data() + ip->x;
  const u32 parts = e[0];
  const int bits = static_cast<int>(ip->imm);
  const u64 keep = (u64{1} << bits) - 1;
  ForEachLane(w.mask, [&](int lane) {
    const u64 whole = ip->b != 0 ? w.At<u64>(ip->a)[lane] : w.At<u32>(ip->a)[lane];
    for (u32 p = 0; p < parts; ++p) {
      w.At<u32>(e[1 + p])[lane] = static_cast<u32>(whole >> (static_cast<int>(p) * bits) & keep);
    }
  });
  return ip + 1;
}

template <typename T>
T Move(T a) {
  return a;
}

bool EmitPredicate(Decoder& d, Handler handler, bool two) {
  const std::uint32_t a = d.PredicateSource(d.Op(1));
  const std::uint32_t b = two ? d.PredicateSource(d.Op(2)) : a;
  const std::uint32_t to = d.PredicateDestination(d.Op(0));
  d.counts().integer++;
  Inst& inst = d.Emit(handler);
  inst.d = to;
  inst.a = a;
  inst.b = b;
  inst.imm = d.Op(1).negated ? std::int64_t{kFull} : 0;
  inst.x = two && d.Op(2).negated ? kFull : 0;
  return true;
}
Handler HandlerForCompare(Type t, const std::string& op, bool flush) {
  switch (t) {
    case Type::kB16:
    case Type::kU16:
      return CompareHandler<u16>(op, false, false);
    case Type::kS16:
      return CompareHandler<s16>(op, false, false);
    case Type::kB32:
    case Type::kU32:
      return CompareHandler<u32>(op, false, false);
    case Type::kS32:
      return CompareHandler<s32>(op, false, false);
    case Type::kB64:
    case Type::kU64:
      return CompareHandler<u64>(op, false, false);
    case Type::kS64:
      return CompareHandler<s64>(op, false, false);
    case Type::kF32:
      return CompareHandler<float>(op, true, flush);
    case Type::kF64:
      return CompareHandler<double>(op, true, false);
    default:
      return nullptr;
  }
}

std::int64_t Combination(Decoder& d) {
  if (d.Has("and")) return 1;
  if (d.Has("or")) return 2;
  if (d.Has("xor")) return 3;
  return 0;
}

bool DecodeSetp(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kF16 || t == Type::kBF16 || t == Type::kF16x2 || t == Type::kBF16x2) {
    return DecodeHalfSetp(d);
  }
  const Handler h = d.statement().modifiers.empty()
                        ? nullptr
                        : HandlerForCompare(t, d.statement().modifiers[0], d.Has("ftz"));
  if (h == nullptr) return d.Fail("no such comparison");
  const std::uint32_t a = d.Source(d.Op(1), t), b = d.Source(d.Op(2), t);
  std::int64_t mode = Combination(d);
  std::uint32_t c = 0;
  if (mode != 0) {
    c = d.PredicateSource(d.Op(3));
    if (d.Op(3).negated) mode |= 0x100;
  }
  const std::uint32_t p = d.PredicateDestination(d.Op(0));
  const std::uint32_t q = d.Op(0).pair.empty() ? 0 : d.PredicateDestination(d.Op(0).pair[0]);
  d.counts().integer++;
  Inst& inst = d.Emit(h);
  inst.d = p;
  inst.a = a;
  inst.b = b;
  inst.c = q;
  inst.imm = mode;
  inst.x = c;
  return true;
}

// set.cmp[.bool].dtype.stype d, a, b [, c]
bool DecodeSet(Decoder& d) {
  const Type result = d.TypeAt(0), t = d.TypeAt(1);
  if (t == Type::kF16 || t == Type::kBF16 || t == Type::kF16x2 || t == Type::kBF16x2) {
    return DecodeHalfSet(d);
  }
  const Handler h = d.statement().modifiers.empty()
                        ? nullptr
                        : HandlerForCompare(t, d.statement().modifiers[0], d.Has("ftz"));
  if (h == nullptr) return d.Fail("no such comparison");
  const std::uint32_t a = d.Source(d.Op(1), t), b = d.Source(d.Op(2), t);
  std::int64_t mode = Combination(d);
  std::uint32_t c = 0;
  if (mode != 0) {
    c = d.PredicateSource(d.Op(3));
    if (d.Op(3).negated) mode |= 0x100;
  }
  const std::uint32_t to = d.Destination(d.Op(0), result);
  const std::uint32_t p = d.Temporary(false);
  d.counts().integer++;
  Inst& compare = d.Emit(h);
  compare.d = p;
  compare.a = a;
  compare.b = b;
  compare.imm = mode;
  compare.x = c;
  Inst& inst = d.Emit(FromPredicate<u32>);
  inst.d = to;
  inst.c = p;
  inst.imm = result == Type::kF32 ? 0x3f800000 : std::int64_t{kFull};
  return SizeOf(result) == 4 || d.Fail("no such form");
}

bool DecodeSelp(Decoder& d) {
  const Type t = d.TypeAt(0);
  const std::uint32_t a = d.Source(d.Op(1), t), b = d.Source(d.Op(2), t);
  const std::uint32_t c = d.PredicateSource(d.Op(3));
  const std::uint32_t to = d.Destination(d.Op(0), t);
  d.counts().integer++;
  Inst& inst = d.Emit(SizeOf(t) == 8 ? Selp<u64> : Selp<u32>);
  inst.d = to;
  inst.a = a;
  inst.b = b;
  inst.c = c;
  inst.imm = d.Op(3).negated ? std::int64_t{kFull} : 0;
  return true;
}

bool DecodeSlct(Decoder& d) {
  const Type t = d.TypeAt(0), c = d.TypeAt(1);
  const bool f = c == Type::kF32;
  return EmitOperands(
      d,
      SizeOf(t) == 8
          ? (f ? Map3<u64, u64, u64, float, SlctF<u64>> : Map3<u64, u64, u64, s32, Slct<u64>>)
          : (f ? Map3<u32, u32, u32, float, SlctF<u32>> : Map3<u32, u32, u32, s32, Slct<u32>>),
      t, {t, t, c});
}

bool DecodeMov(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kPred) return DecodePredicateLogic(d, Logic::kMove);
  const Operand& to = d.Op(0);
  const Operand& from = d.Op(1);
  const bool unpack = to.kind == Operand::Kind::kVector, pack = from.kind == Operand::Kind::kVector;
  if (unpack || pack) {
    const std::vector<Operand>& parts = unpack ? to.elements : from.elements;
    const int bytes = SizeOf(t);
    if (parts.size() < 2 || parts.size() > 4 || bytes > 8 || bytes < 2)
      return d.Fail("no such form");
    const int bits = 8 * bytes / static_cast<int>(parts.size());
    const Type part = bits == 32 ? Type::kB32 : bits == 16 ? Type::kB16 : Type::kB8;
    std::vector<std::uint32_t> extra{static_cast<std::uint32_t>(parts.size())};
    for (const Operand& o : parts)
      extra.push_back(unpack ? d.Destination(o, part) : d.Source(o, part));
    const std::uint32_t whole = unpack ? d.Source(from, t) : d.Destination(to, t);
    d.counts().integer++;
    const std::uint32_t x = d.AddExtra(extra);
    Inst& inst = d.Emit(unpack ? MovUnpack : MovPack);
    inst.d = inst.a = whole;
    inst.b = bytes == 8 ? 1 : 0;
    inst.imm = bits;
    inst.x = x;
    return true;
  }
  if (t == Type::kNone || SizeOf(t) > 8) return d.Fail("no such form");
  return EmitOperands(d, SizeOf(t) == 8 ? Map1<u64, u64, Move<u64>> : Map1<u32, u32, Move<u32>>, t,
                      {t});
}

}  // namespace

bool DecodePredicateLogic(Decoder& d, Logic logic) {
  switch (logic) {
    case Logic::kAnd:
      return EmitPredicate(d, PredicateLogic<Logic::kAnd>, true);
    case Logic::kOr:
      return EmitPredicate(d, PredicateLogic<Logic::kOr>, true);
    case Logic::kXor:
      return EmitPredicate(d, PredicateLogic<Logic::kXor>, true);
    case Logic::kMove:
      return EmitPredicate(d, PredicateLogic<Logic::kMove>, false);
    case Logic::kNot:
      return EmitPredicate(d, PredicateLogic<Logic::kNot>, false);
  }
  return false;
}

void RegisterSelect(OpcodeTable& table) {
  table["setp"] = {DecodeSetp};
  table["set"] = {DecodeSet};
  table["selp"] = {DecodeSelp};
  table["slct"] = {DecodeSlct};
  table["mov"] = {DecodeMov};
}

}  // namespace grove::emulator
