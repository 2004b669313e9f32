// Integer arithmetic, logic and shifts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Twice = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, s128, u128>>>;

// Wrapping arithmetic, in unsigned types (16-bit ones would promote to int).
template <typename T>
T Add(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <>
u32 Add(u32 a, u32 b) {
  return a + b;
}
template <typename T>
T Sub(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
template <typename T>
T MulLo(T a, T b) {
  using U = std::conditional_t<sizeof(T) <= 4, u32, u64>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}
template <typename T>
T MulHi(T a, T b) {
  return static_cast<T>((static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) >> (8 * sizeof(T)));
}
template <typename T>
Twice<T> MulWide(T a, T b) {
  return static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b);
}
// Division by zero gives all ones; the most negative number by -1 gives itself (as the hardware).
template <typename T>
T Div(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <typename T>
T Rem(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return 0;
  }
  return static_cast<T>(a % b);
}
template <typename T>
T Min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T Max(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
T Abs(T a) {
  return a < 0 ? Sub<T>(0, a) : a;
}
template <typename T>
T Neg(T a) {
  return Sub<T>(0, a);
}
template <typename T>
T And(T a, T b) {
  return a & b;
}
template <typename T>
T Or(T a, T b) {
  return a | b;
}
template <typename T>
T Xor(T a, T b) {
  return a ^ b;
}
template <typename T>
T Not(T a) {
  return static_cast<T>(~a);
}
template <typename T>
T CNot(T a) {
  return a == 0 ? T{1} : T{0};
}
template <typename T>
T Shl(T a, u32 n) {
  return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << (n & (8 * sizeof(T) - 1)));
}
template <typename T>
T Shr(T a, u32 n) {
  constexpr u32 kBits = 8 * sizeof(T);
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(a >> (n >= kBits ? kBits - 1 : n));
  } else {
    return n >= kBits ? T{0} : static_cast<T>(a >> (n & (kBits - 1)));
  }
}
s32 AddSat(s32 a, s32 b) {
  return static_cast<s32>(std::clamp<s64>(s64{a} + b, INT32_MIN, INT32_MAX));
}
s32 SubSat(s32 a, s32 b) {
  return static_cast<s32>(std::clamp<s64>(s64{a} - b, INT32_MIN, INT32_MAX));
}
template <typename T>
T MadLo(T a, T b, T c) {
  return Add<T>(MulLo<T>(a, b), c);
}
template <typename T>
T MadHi(T a, T b, T c) {
  return Add<T>(MulHi<T>(a, b), c);
}
template <typename T>
Twice<T> MadWide(T a, T b, Twice<T> c) {
  return Add<Twice<T>>(MulWide<T>(a, b), c);
}
s32 MadHiSat(s32 a, s32 b, s32 c) { return AddSat(MulHi<s32>(a, b), c); }
s32 Mul24Lo(s32 a, s32 b) {
  return static_cast<s32>(static_cast<u64>(s64{static_cast<s32>(static_cast<u32>(a) << 8) >> 8} *
                                           (static_cast<s32>(static_cast<u32>(b) << 8) >> 8)));
}
u32 Mul24LoU(u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); }
// Bits 16 to 47 of the product.
s32 Mul24Hi(s32 a, s32 b) {
  const s64 x = static_cast<s32>(static_cast<u32>(a) << 8) >> 8;
  const s64 y = static_cast<s32>(static_cast<u32>(b) << 8) >> 8;
  return static_cast<s32>((x * y) >> 16);
}
u32 Mul24HiU(u32 a, u32 b) {
  return static_cast<u32>((u64{a & 0xffffff} * u64{b & 0xffffff}) >> 16);
}
s32 Mad24Lo(s32 a, s32 b, s32 c) { return Add(Mul24Lo(a, b), c); }
u32 Mad24LoU(u32 a, u32 b, u32 c) { return Mul24LoU(a, b) + c; }
s32 Mad24Hi(s32 a, s32 b, s32 c) { return Add(Mul24Hi(a, b), c); }
u32 Mad24HiU(u32 a, u32 b, u32 c) { return Mul24HiU(a, b) + c; }
s32 Mad24HiSat(s32 a, s32 b, s32 c) { return AddSat(Mul24Hi(a, b), c); }
template <typename T>
T Sad(T a, T b, T c) {
  return Add<T>(c, a < b ? Sub<T>(b, a) : Sub<T>(a, b));
}

// Two 16-bit lanes in one register.
template <typename T, auto F>
u32 Pair(u32 a, u32 b) {
  const T low = F(static_cast<T>(a), static_cast<T>(b));
  const T high = F(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return u32{static_cast<u16>(low)} | u32{static_cast<u16>(high)} << 16;
}

template <typename T>
u32 Popc(T a) {
  return static_cast<u32>(std::popcount(a));
}
template <typename T>
u32 Clz(T a) {
  return static_cast<u32>(std::countl_zero(a));
}
u32 Brev32(u32 a) {
  a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
  a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
  a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(a);
}
u64 Brev64(u64 a) {
  return u64{Brev32(static_cast<u32>(a))} << 32 | Brev32(static_cast<u32>(a >> 32));
}
template <typename T, bool kShift>
u32 Bfind(T a) {
  Unsigned<T> u = static_cast<Unsigned<T>>(a);
  if constexpr (std::is_signed_v<T>) {
    if (a < 0) u = static_cast<Unsigned<T>>(~u);
  }
  if (u == 0) return kFull;
  const u32 lead = static_cast<u32>(std::countl_zero(u));
  return kShift ? lead : 8 * sizeof(T) - 1 - lead;
}
template <typename T>
T Bfe(T a, u32 pos, u32 len) {
  constexpr u32 kBits = 8 * sizeof(T);
  pos &= 0xff;
  len &= 0xff;
  if (len == 0) return 0;
  const Unsigned<T> u = static_cast<Unsigned<T>>(a);
  Unsigned<T> field = pos >= kBits ? 0 : u >> pos;
  u32 top = pos + len - 1;  // the sign's position
  if (top >= kBits) top = kBits - 1;
  const u32 kept = pos >= kBits ? 0 : top - pos + 1;
  const Unsigned<T> keep = kept >= kBits ? ~Unsigned<T>{0} : (Unsigned<T>{1} << kept) - 1;
  field &= keep;
  if constexpr (std::is_signed_v<T>) {
    if ((u >> top & 1) != 0) field |= ~keep;
  }
  return static_cast<T>(field);
}
template <typename T>
T Bfi(T a, T b, u32 pos, u32 len) {
  constexpr u32 kBits = 8 * sizeof(T);
  pos &= 0xff;
  len &= 0xff;
  if (pos >= kBits || len == 0) return b;
  T keep = len >= kBits ? ~T{0} : (T{1} << len) - 1;
  keep = static_cast<T>(keep << pos);
  return (b & ~keep) | (static_cast<T>(a << pos) & keep);
}
u32 Bmsk(u32 pos, u32 len) {
  if (len == 0 || pos >= 32) return 0;
  const u32 ones = len >= 32 ? kFull : (1u << len) - 1;
  return ones << pos;
}
u32 ShfLeft(u32 lo, u32 hi, u32 n) { return static_cast<u32>(((u64{hi} << 32 | lo) << n) >> 32); }
u32 ShfRight(u32 lo, u32 hi, u32 n) { return static_cast<u32>((u64{hi} << 32 | lo) >> n); }
u32 ShfLeftWrap(u32 lo, u32 hi, u32 n) { return ShfLeft(lo, hi, n & 31); }
u32 ShfLeftClamp(u32 lo, u32 hi, u32 n) { return ShfLeft(lo, hi, n > 32 ? 32 : n); }
u32 ShfRightWrap(u32 lo, u32 hi, u32 n) { return ShfRight(lo, hi, n & 31); }
u32 ShfRightClamp(u32 lo, u32 hi, u32 n) { return ShfRight(lo, hi, n > 32 ? 32 : n); }
u32 Prmt(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 s = selector >> (4 * i) & 0xf;
    u32 byte = static_cast<u32>(bytes >> (8 * (s & 7)) & 0xff);
    if ((s & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
enum class PrmtMode { kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };
template <PrmtMode kMode>
u32 PrmtModed(u32 a, u32 b, u32 c) {
  const u32 n = c & 3;
  u32 selector = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 s = 0;
    switch (kMode) {
      case PrmtMode::kF4e:
        s = n + i;
        break;
      case PrmtMode::kB4e:
        s = (n + 8 - i) & 7;
        break;
      case PrmtMode::kRc8:
        s = n;
        break;
      case PrmtMode::kEcl:
        s = std::max(n, i);
        break;
      case PrmtMode::kEcr:
        s = std::min(n, i);
        break;
      case PrmtMode::kRc16:
        s = (n & 1) * 2 + (i & 1);
        break;
    }
    selector |= s << (4 * i);
  }
  return Prmt(a, b, selector);
}
template <typename A, typename B>
u32 Dp4a(u32 a, u32 b, u32 c) {
  u32 sum = c;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<u32>(s32{static_cast<A>(a >> (8 * i))} * s32{static_cast<B>(b >> (8 * i))});
  }
  return sum;
}
template <typename A, typename B, bool kHigh>
u32 Dp2a(u32 a, u32 b, u32 c) {
  u32 sum = c;
  for (int i = 0; i < 2; ++i) {
    const s64 x = static_cast<A>(a >> (16 * i));
    const s64 y = static_cast<B>(b >> (8 * i + (kHigh ? 16 : 0)));
    sum += static_cast<u32>(static_cast<u64>(x * y));
  }
  return sum;
}
const Inst* Lop3(Warp& w, const Inst* ip) {
  const u32* a = w.At<u32>(ip->a);
  const u32* b = w.At<u32>(ip->b);
  const u32* c = w.At<u32>(ip->c);
  const u32 t = static_cast<u32>(ip->imm);
  u32 bits[8];
  for (u32 i = 0; i < 8; ++i) bits[i] = (t >> i & 1) != 0 ? kFull : 0;
  return MapLanes<u32>(w, ip, [&](int i) {
    const u32 x = a[i], y = b[i], z = c[i];
    return (bits[0] & ~x & ~y & ~z) | (bits[1] & ~x & ~y & z) | (bits[2] & ~x & y & ~z) |
           (bits[3] & ~x & y & z) | (bits[4] & x & ~y & ~z) | (bits[5] & x & ~y & z) |
           (bits[6] & x & y & ~z) | (bits[7] & x & y & z);
  });
}

// Additions with carry. CC.CF is kept per lane in a register of the frame (imm).
template <typename T, bool kIn, bool kOut, bool kSub>
const Inst* Carry(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  const T* a = w.At<T>(ip->a);
  const T* b = w.At<T>(ip->b);
  u32& flag = w.Pred(ip->x);
  ForEachLane(w.mask, [&](int i) {
    const T in = kIn ? static_cast<T>(flag >> i & 1) : T{0};
    T result = 0;
    bool out = false;
    if constexpr (kSub) {
      const T t = a[i] - b[i];
      result = t - in;
      out = a[i] < b[i] || t < in;
    } else {
      const T t = a[i] + b[i];
      result = t + in;
      out = t < a[i] || result < t;
    }
    d[i] = result;
    if (kOut) Blend(flag, out ? kFull : 0, 1u << i);
  });
  return ip + 1;
}

// --- decoding ---

Type DoubleWidth(Type t) {
  switch (t) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kNone;
  }
}

#define GROVE_INTEGERS(F)                                                                   \
  {Type::kU16, Map2<u16, u16, u16, F<u16>>}, {Type::kS16, Map2<s16, s16, s16, F<s16>>},     \
      {Type::kU32, Map2<u32, u32, u32, F<u32>>}, {Type::kS32, Map2<s32, s32, s32, F<s32>>}, \
      {Type::kU64, Map2<u64, u64, u64, F<u64>>}, {                                          \
    Type::kS64, Map2<s64, s64, s64, F<s64>>                                                 \
  }
#define GROVE_BITS2(F)                                                                    \
  {Type::kB16, Map2<u16, u16, u16, F<u16>>}, {Type::kB32, Map2<u32, u32, u32, F<u32>>}, { \
    Type::kB64, Map2<u64, u64, u64, F<u64>>                                               \
  }

template <typename T>
Handler CarryOf(bool in, bool out, bool sub) {
  if (in && sub) return out ? Carry<T, true, true, true> : Carry<T, true, false, true>;
  if (in) return out ? Carry<T, true, true, false> : Carry<T, true, false, false>;
  return sub ? Carry<T, false, true, true> : Carry<T, false, true, false>;
}
Handler CarryHandler(bool wide, bool in, bool out, bool sub) {
  return wide ? CarryOf<u64>(in, out, sub) : CarryOf<u32>(in, out, sub);
}

bool EmitCarry(Decoder& d, bool in, bool sub) {
  const Type t = d.TypeAt(0);
  if (SizeOf(t) < 4) return d.Fail("no such form");
  if (!EmitOperands(d, CarryHandler(SizeOf(t) == 8, in, d.Has("cc"), sub), t, {t, t})) return false;
  d.program().code.back().x = d.CarryFlag();
  return true;
}

bool IsPair(Decoder& d) { return d.Has("u16x2") || d.Has("s16x2"); }
bool EmitPair(Decoder& d, Handler unsigned_pair, Handler signed_pair) {
  return EmitOperands(d, d.Has("s16x2") ? signed_pair : unsigned_pair, Type::kB32,
                      {Type::kB32, Type::kB32});
}

bool DecodeAdd(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsPair(d) && !d.Has("sat")) {
    return EmitPair(d, Map2<u32, u32, u32, Pair<u16, Add<u16>>>,
                    Map2<u32, u32, u32, Pair<u16, Add<u16>>>);
  }
  if (IsFloatType(t)) return DecodeFloatAdd(d);
  if (d.Has("cc")) return EmitCarry(d, false, false);
  if (d.Has("sat")) {
    return EmitOperands(d, t == Type::kS32 ? Map2<s32, s32, s32, AddSat> : nullptr, t, {t, t});
  }
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Add)}), t, {t, t});
}
bool DecodeAddc(Decoder& d) { return EmitCarry(d, true, false); }
bool DecodeSub(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatSub(d);
  if (d.Has("cc")) return EmitCarry(d, false, true);
  if (d.Has("sat")) {
    return EmitOperands(d, t == Type::kS32 ? Map2<s32, s32, s32, SubSat> : nullptr, t, {t, t});
  }
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Sub)}), t, {t, t});
}
bool DecodeSubc(Decoder& d) { return EmitCarry(d, true, true); }

bool DecodeMul(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatMul(d);
  if (d.Has("wide")) {
    return EmitOperands(d,
                        Pick(t, {{Type::kU16, Map2<u32, u16, u16, MulWide<u16>>},
                                 {Type::kS16, Map2<s32, s16, s16, MulWide<s16>>},
                                 {Type::kU32, Map2<u64, u32, u32, MulWide<u32>>},
                                 {Type::kS32, Map2<s64, s32, s32, MulWide<s32>>}}),
                        DoubleWidth(t), {t, t});
  }
  if (d.Has("hi")) return EmitOperands(d, Pick(t, {GROVE_INTEGERS(MulHi)}), t, {t, t});
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(MulLo)}), t, {t, t});
}
bool DecodeMul24(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (SizeOf(t) != 4) return d.Fail("no such form");
  const bool hi = d.Has("hi");
  return EmitOperands(d,
                      t == Type::kS32
                          ? (hi ? Map2<s32, s32, s32, Mul24Hi> : Map2<s32, s32, s32, Mul24Lo>)
                          : (hi ? Map2<u32, u32, u32, Mul24HiU> : Map2<u32, u32, u32, Mul24LoU>),
                      t, {t, t});
}
bool DecodeMad24(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (SizeOf(t) != 4) return d.Fail("no such form");
  const bool hi = d.Has("hi");
  Handler h = t == Type::kS32
                  ? (hi ? Map3<s32, s32, s32, s32, Mad24Hi> : Map3<s32, s32, s32, s32, Mad24Lo>)
                  : (hi ? Map3<u32, u32, u32, u32, Mad24HiU> : Map3<u32, u32, u32, u32, Mad24LoU>);
  if (hi && d.Has("sat")) h = Map3<s32, s32, s32, s32, Mad24HiSat>;
  return EmitOperands(d, h, t, {t, t, t});
}
// mad with carry: the product goes to a temporary, then an addition with carry.
bool EmitMadCarry(Decoder& d, bool in) {
  const Type t = d.TypeAt(0);
  const bool wide = SizeOf(t) == 8;
  const std::uint32_t a = d.Source(d.Op(1), t), b = d.Source(d.Op(2), t), c = d.Source(d.Op(3), t);
  const std::uint32_t product = d.Temporary(wide), to = d.Destination(d.Op(0), t);
  const Handler multiply = Pick(t, {{Type::kU32, d.Has("hi") ? Map2<u32, u32, u32, MulHi<u32>>
                                                             : Map2<u32, u32, u32, MulLo<u32>>},
                                    {Type::kS32, d.Has("hi") ? Map2<s32, s32, s32, MulHi<s32>>
                                                             : Map2<s32, s32, s32, MulLo<s32>>},
                                    {Type::kU64, d.Has("hi") ? Map2<u64, u64, u64, MulHi<u64>>
                                                             : Map2<u64, u64, u64, MulLo<u64>>},
                                    {Type::kS64, d.Has("hi") ? Map2<s64, s64, s64, MulHi<s64>>
                                                             : Map2<s64, s64, s64, MulLo<s64>>}});
  if (multiply == nullptr) return d.Fail("no such form");
  d.counts().integer++;
  Inst& first = d.Emit(multiply);
  first.d = product;
  first.a = a;
  first.b = b;
  Inst& second = d.Emit(CarryHandler(wide, in, d.Has("cc"), false));
  second.d = to;
  second.a = product;
  second.b = c;
  second.x = d.CarryFlag();
  return true;
}
bool DecodeMadc(Decoder& d) { return EmitMadCarry(d, true); }

bool DecodeMad(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatFma(d);
  if (d.Has("cc")) return EmitMadCarry(d, false);
  if (d.Has("wide")) {
    const Type wide = DoubleWidth(t);
    return EmitOperands(d,
                        Pick(t, {{Type::kU16, Map3<u32, u16, u16, u32, MadWide<u16>>},
                                 {Type::kS16, Map3<s32, s16, s16, s32, MadWide<s16>>},
                                 {Type::kU32, Map3<u64, u32, u32, u64, MadWide<u32>>},
                                 {Type::kS32, Map3<s64, s32, s32, s64, MadWide<s32>>}}),
                        wide, {t, t, wide});
  }
  if (d.Has("hi")) {
    if (d.Has("sat")) return EmitOperands(d, Map3<s32, s32, s32, s32, MadHiSat>, t, {t, t, t});
    return EmitOperands(d,
                        Pick(t, {{Type::kU16, Map3<u16, u16, u16, u16, MadHi<u16>>},
                                 {Type::kS16, Map3<s16, s16, s16, s16, MadHi<s16>>},
                                 {Type::kU32, Map3<u32, u32, u32, u32, MadHi<u32>>},
                                 {Type::kS32, Map3<s32, s32, s32, s32, MadHi<s32>>},
                                 {Type::kU64, Map3<u64, u64, u64, u64, MadHi<u64>>},
                                 {Type::kS64, Map3<s64, s64, s64, s64, MadHi<s64>>}}),
                        t, {t, t, t});
  }
  return EmitOperands(d,
                      Pick(t, {{Type::kU16, Map3<u16, u16, u16, u16, MadLo<u16>>},
                               {Type::kS16, Map3<s16, s16, s16, s16, MadLo<s16>>},
                               {Type::kU32, Map3<u32, u32, u32, u32, MadLo<u32>>},
                               {Type::kS32, Map3<s32, s32, s32, s32, MadLo<s32>>},
                               {Type::kU64, Map3<u64, u64, u64, u64, MadLo<u64>>},
                               {Type::kS64, Map3<s64, s64, s64, s64, MadLo<s64>>}}),
                      t, {t, t, t});
}
bool DecodeDiv(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatDiv(d);
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Div)}), t, {t, t});
}
bool DecodeRem(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Rem)}), t, {t, t});
}
bool DecodeMin(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsPair(d) && !d.Has("relu")) {
    return EmitPair(d, Map2<u32, u32, u32, Pair<u16, Min<u16>>>,
                    Map2<u32, u32, u32, Pair<s16, Min<s16>>>);
  }
  if (IsFloatType(t)) return DecodeFloatMin(d);
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Min)}), t, {t, t});
}
bool DecodeMax(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsPair(d) && !d.Has("relu")) {
    return EmitPair(d, Map2<u32, u32, u32, Pair<u16, Max<u16>>>,
                    Map2<u32, u32, u32, Pair<s16, Max<s16>>>);
  }
  if (IsFloatType(t)) return DecodeFloatMax(d);
  return EmitOperands(d, Pick(t, {GROVE_INTEGERS(Max)}), t, {t, t});
}
bool DecodeAbs(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatAbs(d);
  return EmitOperands(d,
                      Pick(t, {{Type::kS16, Map1<s16, s16, Abs<s16>>},
                               {Type::kS32, Map1<s32, s32, Abs<s32>>},
                               {Type::kS64, Map1<s64, s64, Abs<s64>>}}),
                      t, {t});
}
bool DecodeNeg(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (IsFloatType(t)) return DecodeFloatNeg(d);
  return EmitOperands(d,
                      Pick(t, {{Type::kS16, Map1<s16, s16, Neg<s16>>},
                               {Type::kS32, Map1<s32, s32, Neg<s32>>},
                               {Type::kS64, Map1<s64, s64, Neg<s64>>}}),
                      t, {t});
}
bool DecodeSad(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      Pick(t, {{Type::kU16, Map3<u16, u16, u16, u16, Sad<u16>>},
                               {Type::kS16, Map3<s16, s16, s16, s16, Sad<s16>>},
                               {Type::kU32, Map3<u32, u32, u32, u32, Sad<u32>>},
                               {Type::kS32, Map3<s32, s32, s32, s32, Sad<s32>>},
                               {Type::kU64, Map3<u64, u64, u64, u64, Sad<u64>>},
                               {Type::kS64, Map3<s64, s64, s64, s64, Sad<s64>>}}),
                      t, {t, t, t});
}

bool DecodeAnd(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kPred) return DecodePredicateLogic(d, Logic::kAnd);
  return EmitOperands(d, Pick(t, {GROVE_BITS2(And)}), t, {t, t});
}
bool DecodeOr(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kPred) return DecodePredicateLogic(d, Logic::kOr);
  return EmitOperands(d, Pick(t, {GROVE_BITS2(Or)}), t, {t, t});
}
bool DecodeXor(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kPred) return DecodePredicateLogic(d, Logic::kXor);
  return EmitOperands(d, Pick(t, {GROVE_BITS2(Xor)}), t, {t, t});
}
bool DecodeNot(Decoder& d) {
  const Type t = d.TypeAt(0);
  if (t == Type::kPred) return DecodePredicateLogic(d, Logic::kNot);
  return EmitOperands(d,
                      Pick(t, {{Type::kB16, Map1<u16, u16, Not<u16>>},
                               {Type::kB32, Map1<u32, u32, Not<u32>>},
                               {Type::kB64, Map1<u64, u64, Not<u64>>}}),
                      t, {t});
}
bool DecodeCnot(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      Pick(t, {{Type::kB16, Map1<u16, u16, CNot<u16>>},
                               {Type::kB32, Map1<u32, u32, CNot<u32>>},
                               {Type::kB64, Map1<u64, u64, CNot<u64>>}}),
                      t, {t});
}
bool DecodeShl(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      Pick(t, {{Type::kB16, Map2<u16, u16, u32, Shl<u16>>},
                               {Type::kB32, Map2<u32, u32, u32, Shl<u32>>},
                               {Type::kB64, Map2<u64, u64, u32, Shl<u64>>}}),
                      t, {t, Type::kU32});
}
bool DecodeShr(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      Pick(t, {{Type::kB16, Map2<u16, u16, u32, Shr<u16>>},
                               {Type::kU16, Map2<u16, u16, u32, Shr<u16>>},
                               {Type::kS16, Map2<s16, s16, u32, Shr<s16>>},
                               {Type::kB32, Map2<u32, u32, u32, Shr<u32>>},
                               {Type::kU32, Map2<u32, u32, u32, Shr<u32>>},
                               {Type::kS32, Map2<s32, s32, u32, Shr<s32>>},
                               {Type::kB64, Map2<u64, u64, u32, Shr<u64>>},
                               {Type::kU64, Map2<u64, u64, u32, Shr<u64>>},
                               {Type::kS64, Map2<s64, s64, u32, Shr<s64>>}}),
                      t, {t, Type::kU32});
}
bool DecodeShf(Decoder& d) {
  const bool left = d.Has("l"), wrap = d.Has("wrap");
  const Type t = Type::kB32;
  return EmitOperands(
      d,
      left ? (wrap ? Map3<u32, u32, u32, u32, ShfLeftWrap> : Map3<u32, u32, u32, u32, ShfLeftClamp>)
           : (wrap ? Map3<u32, u32, u32, u32, ShfRightWrap>
                   : Map3<u32, u32, u32, u32, ShfRightClamp>),
      t, {t, t, t});
}
bool DecodeLop3(Decoder& d) {
  const Type t = Type::kB32;
  if (d.TypeAt(0) != t || d.count() != 5) return d.Fail("no such form");
  if (d.Op(4).kind != Operand::Kind::kInteger) return d.Fail("the table is no constant");
  if (!EmitOperands(d, Lop3, t, {t, t, t})) return false;
  d.program().code.back().imm = d.Op(4).value;
  return true;
}
bool DecodePrmt(Decoder& d) {
  const Type t = Type::kB32;
  Handler h = Map3<u32, u32, u32, u32, Prmt>;
  if (d.Has("f4e")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kF4e>>;
  if (d.Has("b4e")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kB4e>>;
  if (d.Has("rc8")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kRc8>>;
  if (d.Has("ecl")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kEcl>>;
  if (d.Has("ecr")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kEcr>>;
  if (d.Has("rc16")) h = Map3<u32, u32, u32, u32, PrmtModed<PrmtMode::kRc16>>;
  return EmitOperands(d, h, t, {t, t, t});
}
bool DecodePopc(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d, SizeOf(t) == 8 ? Map1<u32, u64, Popc<u64>> : Map1<u32, u32, Popc<u32>>,
                      Type::kU32, {t});
}
bool DecodeClz(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d, SizeOf(t) == 8 ? Map1<u32, u64, Clz<u64>> : Map1<u32, u32, Clz<u32>>,
                      Type::kU32, {t});
}
bool DecodeBrev(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d, SizeOf(t) == 8 ? Map1<u64, u64, Brev64> : Map1<u32, u32, Brev32>, t, {t});
}
bool DecodeBfind(Decoder& d) {
  const Type t = d.TypeAt(0);
  const bool shift = d.Has("shiftamt");
  return EmitOperands(d,
                      Pick(t, {{Type::kU32, shift ? Map1<u32, u32, Bfind<u32, true>>
                                                  : Map1<u32, u32, Bfind<u32, false>>},
                               {Type::kS32, shift ? Map1<u32, s32, Bfind<s32, true>>
                                                  : Map1<u32, s32, Bfind<s32, false>>},
                               {Type::kU64, shift ? Map1<u32, u64, Bfind<u64, true>>
                                                  : Map1<u32, u64, Bfind<u64, false>>},
                               {Type::kS64, shift ? Map1<u32, s64, Bfind<s64, true>>
                                                  : Map1<u32, s64, Bfind<s64, false>>}}),
                      Type::kU32, {t});
}
bool DecodeBfe(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      Pick(t, {{Type::kU32, Map3<u32, u32, u32, u32, Bfe<u32>>},
                               {Type::kS32, Map3<s32, s32, u32, u32, Bfe<s32>>},
                               {Type::kU64, Map3<u64, u64, u32, u32, Bfe<u64>>},
                               {Type::kS64, Map3<s64, s64, u32, u32, Bfe<s64>>}}),
                      t, {t, Type::kU32, Type::kU32});
}
bool DecodeBfi(Decoder& d) {
  const Type t = d.TypeAt(0);
  return EmitOperands(d,
                      SizeOf(t) == 8 ? Map4<u64, u64, u64, u32, u32, Bfi<u64>>
                                     : Map4<u32, u32, u32, u32, u32, Bfi<u32>>,
                      t, {t, t, Type::kU32, Type::kU32});
}
bool DecodeBmsk(Decoder& d) {
  const Type t = Type::kB32;
  if (d.Has("wrap")) return d.Fail("no such form");
  return EmitOperands(d, Map2<u32, u32, u32, Bmsk>, t, {t, t});
}
bool DecodeDp4a(Decoder& d) {
  const bool a = IsSigned(d.TypeAt(0)), b = IsSigned(d.TypeAt(1));
  const Type t = Type::kB32;
  return EmitOperands(
      d,
      a ? (b ? Map3<u32, u32, u32, u32, Dp4a<s8, s8>> : Map3<u32, u32, u32, u32, Dp4a<s8, u8>>)
        : (b ? Map3<u32, u32, u32, u32, Dp4a<u8, s8>> : Map3<u32, u32, u32, u32, Dp4a<u8, u8>>),
      t, {t, t, t});
}
template <bool kHigh>
Handler Dp2aHandler(bool a, bool b) {
  return a ? (b ? Map3<u32, u32, u32, u32, Dp2a<s16, s8, kHigh>>
                : Map3<u32, u32, u32, u32, Dp2a<s16, u8, kHigh>>)
           : (b ? Map3<u32, u32, u32, u32, Dp2a<u16, s8, kHigh>>
                : Map3<u32, u32, u32, u32, Dp2a<u16, u8, kHigh>>);
}
bool DecodeDp2a(Decoder& d) {
  const bool a = IsSigned(d.TypeAt(0)), b = IsSigned(d.TypeAt(1));
  const Type t = Type::kB32;
  return EmitOperands(d, d.Has("hi") ? Dp2aHandler<true>(a, b) : Dp2aHandler<false>(a, b), t,
                      {t, t, t});
}

}  // namespace

void RegisterInteger(OpcodeTable& table) {
  table["add"] = {DecodeAdd};
  table["addc"] = {DecodeAddc};
  table["sub"] = {DecodeSub};
  table["subc"] = {DecodeSubc};
  table["mul"] = {DecodeMul};
  table["mul24"] = {DecodeMul24};
  table["mad24"] = {DecodeMad24};
  table["mad"] = {DecodeMad};
  table["madc"] = {DecodeMadc};
  table["div"] = {DecodeDiv};
  table["rem"] = {DecodeRem};
  table["min"] = {DecodeMin};
  table["max"] = {DecodeMax};
  table["abs"] = {DecodeAbs};
  table["neg"] = {DecodeNeg};
  table["sad"] = {DecodeSad};
  table["and"] = {DecodeAnd};
  table["or"] = {DecodeOr};
  table["xor"] = {DecodeXor};
  table["not"] = {DecodeNot};
  table["cnot"] = {DecodeCnot};
  table["shl"] = {DecodeShl};
  table["shr"] = {DecodeShr};
  table["shf"] = {DecodeShf};
  table["lop3"] = {DecodeLop3};
  table["prmt"] = {DecodePrmt};
  table["popc"] = {DecodePopc};
  table["clz"] = {DecodeClz};
  table["brev"] = {DecodeBrev};
  table["bfind"] = {DecodeBfind};
  table["bfe"] = {DecodeBfe};
  table["bfi"] = {DecodeBfi};
  table["bmsk"] = {DecodeBmsk};
  table["dp4a"] = {DecodeDp4a};
  table["dp2a"] = {DecodeDp2a};
}

}  // namespace grove::emulator
