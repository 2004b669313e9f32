// cvt in all its forms, cvta, and packing conversions. Common pairs have handlers that vectorise;
// the rest goes through one exact generic path.
#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/emulator/decoder.h"
#include "eval/emulator/float_math.h"
#include "eval/emulator/lanes.h"
#include "eval/emulator/softfloat.h"

namespace grove::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <typename D, typename S>
D Cast(S s) {
  return static_cast<D>(s);
}

// float to integer, truncated and saturated; NaN gives 0. Written so that it vectorises.
s32 TruncS32(float x) {
  const float low = x > -2147483648.0f ? x : -2147483648.0f;
  const bool big = x >= 2147483648.0f;
  const s32 i = static_cast<s32>(big || x != x ? 0.0f : low);
  return big ? std::numeric_limits<s32>::max() : i;
}
u32 TruncU32(float x) {
  const bool big = x >= 4294967296.0f;
  const u64 i = static_cast<u64>(static_cast<s64>(big || !(x > 0) ? 0.0f : x));
  return big ? kFull : static_cast<u32>(i);
}
s32 NearS32(float x) { return TruncS32(__builtin_rintf(x)); }
s32 FloorS32(float x) { return TruncS32(__builtin_floorf(x)); }
s32 CeilS32(float x) { return TruncS32(__builtin_ceilf(x)); }
float HalfToF32(std::uint16_t h) { return HalfBits(h); }
std::uint16_t F32ToHalf(float f) {
  return static_cast<std::uint16_t>(f != f ? 0x7fff : ToHalfBits(f));
}
float BFloatToF32(std::uint16_t h) { return BFloatBits(h); }
std::uint16_t F32ToBFloat(float f) { return static_cast<std::uint16_t>(ToBFloatBits(f)); }
u32 PackHalf(float high, float low) { return u32{F32ToHalf(high)} << 16 | F32ToHalf(low); }
u32 PackBFloat(float high, float low) { return ToBFloatBits(high) << 16 | ToBFloatBits(low); }
float RintF(float x) { return __builtin_rintf(x); }
float FloorF(float x) { return __builtin_floorf(x); }
float CeilF(float x) { return __builtin_ceilf(x); }
float TruncF(float x) { return __builtin_truncf(x); }
// Ties away from zero, as the hardware's cvt.rna.tf32 (the low 13 bits become zero).
float Tf32Away(float x) {
  const u32 u = std::bit_cast<u32>(x);
  return x - x != 0 ? x : std::bit_cast<float>((u + 0x1000u) & 0xffffe000u);
}

// What the generic path needs to know; kept in Inst::imm.
struct Form {
  std::uint8_t to = 0, from = 0, round = 0, integral = 0;
  std::uint8_t saturate = 0, flush = 0, relu = 0, spare = 0;
};

__extension__ typedef __int128 s128;

double ReadFloat(Type t, u64 bits) {
  switch (t) {
    case Type::kF16:
      return static_cast<double>(HalfBits(static_cast<u32>(bits) & 0xffff));
    case Type::kBF16:
      return static_cast<double>(BFloatBits(static_cast<u32>(bits) & 0xffff));
    case Type::kF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<u32>(bits)));
    case Type::kF64:
      return std::bit_cast<double>(bits);
    default:
      return 0;
  }
}
s64 SignExtend(u64 bits, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<s64>(bits << shift) >> shift;
}
double ApplyIntegral(double x, Round mode) {
  switch (mode) {
    case Round::kNearest:
      return std::nearbyint(x);
    case Round::kZero:
      return std::trunc(x);
    case Round::kDown:
      return std::floor(x);
    case Round::kUp:
      return std::ceil(x);
    case Round::kNearestAway:
      return std::round(x);
  }
  return x;
}
// NaN gives 0 only between types of at most 32 bits, else the highest bit (PTX ISA 9.0, cvt).
u64 ClampToInteger(double x, Type t, bool from_f64) {
  const int bits = 8 * SizeOf(t);
  if (x != x) return from_f64 || bits == 64 ? u64{1} << (bits - 1) : 0;
  if (IsSigned(t)) {
    const double top = std::ldexp(1.0, bits - 1);
    if (x >= top) return (u64{1} << (bits - 1)) - 1;
    if (x < -top) return u64{0} - (u64{1} << (bits - 1));
    return static_cast<u64>(static_cast<s64>(x));
  }
  if (x <= 0) return 0;
  if (x >= std::ldexp(1.0, bits)) return bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  return static_cast<u64>(x);
}
// An integer as a double that rounds like the integer itself to 24 bits and fewer.
double IntegerToOdd(s128 v) {
  double d = static_cast<double>(v);
  const auto back = static_cast<s128>(d);
  if (back == v) return d;
  u64 bits = std::bit_cast<u64>(d);
  const bool away = (back < 0 ? -back : back) > (v < 0 ? -v : v);
  bits = (bits - (away ? 1 : 0)) | 1;
  return std::bit_cast<double>(bits);
}

u64 ConvertOne(const Form& form, u64 bits) {
  const Type from = static_cast<Type>(form.from), to = static_cast<Type>(form.to);
  const Round mode = static_cast<Round>(form.round);
  if (!IsFloatType(from) && !IsFloatType(to)) {
    const int bytes = SizeOf(from);
    const u64 raw = bytes == 8 ? bits : bits & ((u64{1} << (8 * bytes)) - 1);
    if (form.saturate == 0) {
      return IsSigned(from) ? static_cast<u64>(SignExtend(raw, bytes)) : raw;
    }
    const s128 v = IsSigned(from) ? s128{SignExtend(raw, bytes)} : static_cast<s128>(raw);
    const int out = 8 * SizeOf(to);
    const s128 low = IsSigned(to) ? -(s128{1} << (out - 1)) : s128{0};
    const s128 high = IsSigned(to) ? (s128{1} << (out - 1)) - 1 : (s128{1} << out) - 1;
    return static_cast<u64>(std::clamp(v, low, high));
  }
  double x = 0;
  if (IsFloatType(from)) {
    x = ReadFloat(from, bits);
    if (form.flush != 0 && from == Type::kF32)
      x = static_cast<double>(FlushFloat(static_cast<float>(x)));
  } else {
    const int bytes = SizeOf(from);
    const u64 raw = bytes == 8 ? bits : bits & ((u64{1} << (8 * bytes)) - 1);
    const s128 v = IsSigned(from) ? s128{SignExtend(raw, bytes)} : static_cast<s128>(raw);
    if (to == Type::kF64) {
      if (mode == Round::kNearest) return std::bit_cast<u64>(static_cast<double>(v));
      double d = static_cast<double>(v);
      const auto back = static_cast<s128>(d);
      if (mode == Round::kDown && back > v) d = std::nextafter(d, -HUGE_VAL);
      if (mode == Round::kUp && back < v) d = std::nextafter(d, HUGE_VAL);
      if (mode == Round::kZero && (v < 0 ? back < v : back > v)) d = std::nextafter(d, 0.0);
      return std::bit_cast<u64>(d);
    }
    x = IntegerToOdd(v);
  }
  if (!IsFloatType(to)) return ClampToInteger(ApplyIntegral(x, mode), to, from == Type::kF64);
  if (form.integral != 0) x = ApplyIntegral(x, mode);
  const Round narrow = form.integral != 0 ? Round::kNearest : mode;
  if (form.saturate != 0) x = x > 0 ? std::min(x, 1.0) : 0.0;
  if (form.relu != 0 && x < 0) x = 0;
  switch (to) {
    case Type::kF64:
      return std::bit_cast<u64>(x);
    case Type::kF32: {
      float f = ToFloat(x, narrow);
      if (form.flush != 0) f = FlushFloat(f);
      return std::bit_cast<u32>(f);
    }
    case Type::kF16:
      return ToNarrow(x, false, narrow);
    case Type::kBF16:
      return ToNarrow(x, true, narrow);
    case Type::kTF32:
      if (x != x) return 0x7fffffffu;
      return std::bit_cast<u32>(static_cast<float>(RoundTo(x, 10, -126, narrow)));
    default:
      return 0;
  }
}

template <bool kWideTo, bool kWideFrom>
const Inst* ConvertGeneric(Warp& w, const Inst* ip) {
  const Form form = std::bit_cast<Form>(ip->imm);
  const int bytes = SizeOf(static_cast<Type>(form.to));
  ForEachLane(w.mask, [&](int lane) {
    const u64 in = kWideFrom ? w.At<u64>(ip->a)[lane] : w.At<u32>(ip->a)[lane];
    const u64 out = ConvertOne(form, in);
    if constexpr (kWideTo) {
      w.At<u64>(ip->d)[lane] = out;
    } else {
      // A narrow integer is extended to the register by its own sign.
      const bool sign = IsSigned(static_cast<Type>(form.to)) && bytes < 4 && ip->c != 0;
      w.At<u32>(ip->d)[lane] = sign         ? static_cast<u32>(SignExtend(out, bytes))
                               : bytes == 1 ? static_cast<u32>(out & 0xff)
                               : bytes == 2 ? static_cast<u32>(out & 0xffff)
                                            : static_cast<u32>(out);
    }
  });
  return ip + 1;
}

// cvt.pack.sat.TYPE.s32[.b32] d, a, b [, c]; imm: the type.
const Inst* ConvertPack(Warp& w, const Inst* ip) {
  const Type t = static_cast<Type>(ip->imm);
  const int bits = 8 * SizeOf(t);
  const s64 low = IsSigned(t) ? -(s64{1} << (bits - 1)) : 0;
  const s64 high = IsSigned(t) ? (s64{1} << (bits - 1)) - 1 : (s64{1} << bits) - 1;
  const u64 keep = (u64{1} << bits) - 1;
  const s32* a = w.At<s32>(ip->a);
  const s32* b = w.At<s32>(ip->b);
  ForEachLane(w.mask, [&](int i) {
    const u64 hi = static_cast<u64>(std::clamp<s64>(a[i], low, high)) & keep;
    const u64 lo = static_cast<u64>(std::clamp<s64>(b[i], low, high)) & keep;
    u64 value = hi << bits | lo;
    if (bits == 8 && ip->c != 0) value |= u64{w.At<u32>(ip->c)[i]} << 16;
    w.At<u32>(ip->d)[i] = static_cast<u32>(value);
  });
  return ip + 1;
}

// Pairs with a rounding mode or relu, and fp8. imm: Form; a: high or only source, b: low.
const Inst* ConvertPair(Warp& w, const Inst* ip) {
  const Form form = std::bit_cast<Form>(ip->imm);
  const Type to = static_cast<Type>(form.to), from = static_cast<Type>(form.from);
  ForEachLane(w.mask, [&](int lane) {
    double v[2] = {0, 0};  // low, high
    const u32 a = w.At<u32>(ip->a)[lane];
    if (from == Type::kF32) {
      v[0] = static_cast<double>(w.At<float>(ip->b)[lane]);
      v[1] = static_cast<double>(std::bit_cast<float>(a));
    } else {
      for (int i = 0; i < 2; ++i) {
        if (from == Type::kF16x2)
          v[i] = static_cast<double>(HalfBits(a >> (16 * i) & 0xffff));
        else if (from == Type::kBF16x2)
          v[i] = static_cast<double>(BFloatBits(a >> (16 * i) & 0xffff));
        else
          v[i] = Fp8Value(a >> (8 * i) & 0xff, from == Type::kE5M2x2);
      }
    }
    u32 result = 0;
    for (int i = 0; i < 2; ++i) {
      double x = v[i];
      if (form.relu != 0) x = x > 0 ? x : 0.0;
      const Round mode = static_cast<Round>(form.round);
      if (to == Type::kF16x2)
        result |= ToNarrow(x, false, mode) << (16 * i);
      else if (to == Type::kBF16x2)
        result |= ToNarrow(x, true, mode) << (16 * i);
      else
        result |= ToFp8(x, to == Type::kE5M2x2) << (8 * i);
    }
    w.At<u32>(ip->d)[lane] = result;
  });
  return ip + 1;
}

bool IsPair(Type t) {
  return t == Type::kF16x2 || t == Type::kBF16x2 || t == Type::kE4M3x2 || t == Type::kE5M2x2;
}

Round RoundingOf(Decoder& d) {
  if (d.Has("rz") || d.Has("rzi")) return Round::kZero;
  if (d.Has("rm") || d.Has("rmi")) return Round::kDown;
  if (d.Has("rp") || d.Has("rpi")) return Round::kUp;
  if (d.Has("rna")) return Round::kNearestAway;
  return Round::kNearest;
}

Handler FastConvert(Decoder& d, Type to, Type from, const Form& f) {
  if (f.saturate != 0 || f.flush != 0 || f.relu != 0) return nullptr;
  const Round mode = static_cast<Round>(f.round);
  const bool nearest = mode == Round::kNearest;
  using T = Type;
  if (to == T::kF32 && nearest && f.integral == 0) {
    if (from == T::kS32) return Map1<float, s32, Cast<float, s32>>;
    if (from == T::kU32) return Map1<float, u32, Cast<float, u32>>;
    if (from == T::kF64) return Map1<float, double, Cast<float, double>>;
    if (from == T::kF16) return Map1<float, std::uint16_t, HalfToF32>;
    if (from == T::kBF16) return Map1<float, std::uint16_t, BFloatToF32>;
  }
  if (to == T::kF32 && from == T::kF32 && f.integral != 0) {
    if (nearest) return Map1<float, float, RintF>;
    if (mode == Round::kDown) return Map1<float, float, FloorF>;
    if (mode == Round::kUp) return Map1<float, float, CeilF>;
    if (mode == Round::kZero) return Map1<float, float, TruncF>;
  }
  if (to == T::kF64 && f.integral == 0) {
    if (from == T::kF32) return Map1<double, float, Cast<double, float>>;
    if (from == T::kS32) return Map1<double, s32, Cast<double, s32>>;
    if (from == T::kU32) return Map1<double, u32, Cast<double, u32>>;
  }
  if (to == T::kF16 && from == T::kF32 && nearest) return Map1<std::uint16_t, float, F32ToHalf>;
  if (to == T::kBF16 && from == T::kF32 && nearest) return Map1<std::uint16_t, float, F32ToBFloat>;
  if (to == T::kTF32 && mode == Round::kNearestAway) return Map1<float, float, Tf32Away>;
  if (from == T::kF32 && to == T::kS32) {
    if (mode == Round::kZero) return Map1<s32, float, TruncS32>;
    if (nearest) return Map1<s32, float, NearS32>;
    if (mode == Round::kDown) return Map1<s32, float, FloorS32>;
    if (mode == Round::kUp) return Map1<s32, float, CeilS32>;
  }
  if (from == T::kF32 && to == T::kU32 && mode == Round::kZero) return Map1<u32, float, TruncU32>;
  const bool wide = d.RegisterBytes(d.Op(0)) == 8;
  if (IsFloatType(to) || IsFloatType(from)) return nullptr;
  if (SizeOf(to) == 8 && wide) {
    if (from == T::kU32) return Map1<u64, u32, Cast<u64, u32>>;
    if (from == T::kS32) return Map1<s64, s32, Cast<s64, s32>>;
    if (from == T::kU16) return Map1<u64, std::uint16_t, Cast<u64, std::uint16_t>>;
    if (from == T::kU8) return Map1<u64, std::uint8_t, Cast<u64, std::uint8_t>>;
    if (from == T::kS16) return Map1<s64, std::int16_t, Cast<s64, std::int16_t>>;
  }
  if (SizeOf(to) == 4 && !wide) {
    if (SizeOf(from) == 8) return Map1<u32, u64, Cast<u32, u64>>;
    if (from == T::kU16) return Map1<u32, std::uint16_t, Cast<u32, std::uint16_t>>;
    if (from == T::kS16) return Map1<s32, std::int16_t, Cast<s32, std::int16_t>>;
    if (from == T::kU8) return Map1<u32, std::uint8_t, Cast<u32, std::uint8_t>>;
    if (from == T::kS8) return Map1<s32, std::int8_t, Cast<s32, std::int8_t>>;
  }
  if (SizeOf(to) == 2 && !wide && SizeOf(from) == 4)
    return Map1<std::uint16_t, u32, Cast<std::uint16_t, u32>>;
  return nullptr;
}

// A source register may be wider than the type; its low part counts.
u32 ConvertSource(Decoder& d, const Operand& o, Type t, bool& wide) {
  wide = SizeOf(t) == 8;
  return d.Source(o, t, true);
}

bool DecodeConvert(Decoder& d) {
  if (d.Has("pack")) {
    const Type t = d.TypeAt(0);
    if (SizeOf(t) > 2 || SizeOf(t) == 0) return d.Fail("no such form");
    const u32 a = d.Source(d.Op(1), Type::kB32), b = d.Source(d.Op(2), Type::kB32);
    const u32 c = d.count() > 3 ? d.Source(d.Op(3), Type::kB32) : 0;
    const u32 to = d.Destination(d.Op(0), Type::kB32);
    d.counts().conversion++;
    Inst& inst = d.Emit(ConvertPack);
    inst.d = to;
    inst.a = a;
    inst.b = b;
    inst.c = c;
    inst.imm = static_cast<std::int64_t>(t);
    return true;
  }
  const Type to = d.TypeAt(0), from = d.TypeAt(1);
  if (to == Type::kNone || from == Type::kNone) return d.Fail("no such form");
  Form form;
  form.to = static_cast<std::uint8_t>(to);
  form.from = static_cast<std::uint8_t>(from);
  form.round = static_cast<std::uint8_t>(RoundingOf(d));
  form.integral = d.Has("rni") || d.Has("rzi") || d.Has("rmi") || d.Has("rpi") ? 1 : 0;
  form.saturate = d.Has("sat") ? 1 : 0;
  form.flush = d.Has("ftz") ? 1 : 0;
  form.relu = d.Has("relu") ? 1 : 0;
  if (IsPair(to)) {
    const bool two = from == Type::kF32;
    if (!two && !IsPair(from)) return d.Fail("no such form");
    const u32 a = d.Source(d.Op(1), two ? Type::kF32 : from);
    const u32 b = two ? d.Source(d.Op(2), Type::kF32) : a;
    const u32 at = d.Destination(d.Op(0), to);
    const bool plain = two && form.round == 0 && form.relu == 0;
    Handler h = ConvertPair;
    if (plain && to == Type::kF16x2) h = Map2<u32, float, float, PackHalf>;
    if (plain && to == Type::kBF16x2) h = Map2<u32, float, float, PackBFloat>;
    d.counts().conversion++;
    Inst& inst = d.Emit(h);
    inst.d = at;
    inst.a = a;
    inst.b = b;
    inst.imm = std::bit_cast<std::int64_t>(form);
    return true;
  }
  if (IsPair(from) || SizeOf(to) > 8 || SizeOf(from) > 8 || SizeOf(to) == 0 || SizeOf(from) == 0) {
    return d.Fail("no such form");
  }
  bool wide_from = false;
  const u32 a = ConvertSource(d, d.Op(1), from, wide_from);
  // A destination register may be wider than the type: an integer is extended into it.
  const int register_bytes =
      d.Op(0).kind == Operand::Kind::kSink ? std::max(SizeOf(to), 4) : d.RegisterBytes(d.Op(0));
  const bool wide_to = register_bytes == 8;
  if (SizeOf(to) == 8 && !wide_to) return d.Fail("the destination is too narrow");
  if (IsFloatType(to) && wide_to != (SizeOf(to) == 8)) return d.Fail("the destination is too wide");
  const u32 at = d.Destination(d.Op(0), wide_to ? Type::kB64 : Type::kB32);
  // An 8- or 16-bit result in a 32-bit register is extended; a 16-bit register holds it as it is.
  const Type register_type = d.RegisterType(d.Op(0));
  const bool extend = SizeOf(register_type) > SizeOf(to);
  Handler h = extend && SizeOf(to) < 4 ? nullptr : FastConvert(d, to, from, form);
  if (h == nullptr) {
    h = wide_to ? (wide_from ? ConvertGeneric<true, true> : ConvertGeneric<true, false>)
                : (wide_from ? ConvertGeneric<false, true> : ConvertGeneric<false, false>);
  }
  d.counts().conversion++;
  Inst& inst = d.Emit(h);
  inst.d = at;
  inst.a = a;
  inst.c = extend ? 1 : 0;
  inst.imm = std::bit_cast<std::int64_t>(form);
  return true;
}

// --- cvta, isspacep ---

template <typename T>
const Inst* AddConstant(Warp& w, const Inst* ip) {
  const T* a = w.At<T>(ip->a);
  const T by = static_cast<T>(ip->imm);
  return MapLanes<T>(w, ip, [&](int i) { return static_cast<T>(a[i] + by); });
}

// Shared and local addresses are offsets; global, constant and parameter ones are generic already.
bool DecodeCvta(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (SizeOf(t) < 4) return d.Fail("no such form");
  std::int64_t by = 0;
  if (d.Has("shared") || d.Has("shared::cta") || d.Has("shared::cluster")) by = kSharedWindow;
  if (d.Has("local")) by = kLocalWindow;
  if (d.Has("to")) by = -by;
  const u32 a = d.Source(d.Op(1), t), to = d.Destination(d.Op(0), t);
  d.counts().integer++;
  Inst& inst = d.Emit(SizeOf(t) == 8 ? AddConstant<u64> : AddConstant<u32>);
  inst.d = to;
  inst.a = a;
  inst.imm = by;
  return true;
}

// imm: window address, or -1 for global.
const Inst* IsSpace(Warp& w, const Inst* ip) {
  const u64* a = w.At<u64>(ip->a);
  u32 value = 0;
  for (int i = 0; i < kLanes; ++i) {
    const bool yes = ip->imm < 0 ? a[i] >> kSlotBits != 0
                                 : a[i] / kWindowBytes == static_cast<u64>(ip->imm) / kWindowBytes;
    value |= u32{yes} << i;
  }
  Blend(w.Pred(ip->d), value, w.mask);
  return ip + 1;
}
bool DecodeIsSpace(Decoder& d) {
  const u32 a = d.Source(d.Op(1), Type::kB64), p = d.PredicateDestination(d.Op(0));
  std::int64_t window = -1;
  if (d.Has("local"))
    window = kLocalWindow;
  else if (d.Has("param"))
    window = kParamWindow;
  else if (!d.Has("global") && !d.Has("const"))
    window = kSharedWindow;
  d.counts().integer++;
  Inst& inst = d.Emit(IsSpace);
  inst.d = p;
  inst.a = a;
  inst.imm = window;
  return true;
}

}  // namespace

void RegisterConvert(OpcodeTable& table) {
  table["cvt"] = {DecodeConvert};
  table["cvta"] = {DecodeCvta};
  table["isspacep"] = {DecodeIsSpace};
}

}  // namespace grove::emulator
