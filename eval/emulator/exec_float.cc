// Arithmetic of f32 and f64: IEEE exact for the rounded operations. The .approx ones are computed
// in float accuracy; hardware may differ in the last bits.
#include <cfenv>
#include <cmath>
#include <limits>

#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/float_math.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

template <typename T>
T FAdd(T a, T b) {
  return a + b;
}
template <typename T>
T FSub(T a, T b) {
  return a - b;
}
template <typename T>
T FMul(T a, T b) {
  return a * b;
}
template <typename T>
T FDiv(T a, T b) {
  return a / b;
}
template <typename T>
T FFma(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <>
float FFma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
template <>
double FFma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
template <typename T>
T FRcp(T a) {
  return T{1} / a;
}
template <typename T>
T FSqrt(T a) {
  return std::sqrt(a);
}
template <typename T>
T FRsqrt(T a) {
  return T{1} / std::sqrt(a);
}
template <typename T>
T FAbs(T a) {
  return std::fabs(a);
}
template <typename T>
T FNeg(T a) {
  return -a;
}
float FSin(float a) { return std::sin(a); }
float FCos(float a) { return std::cos(a); }
float FTanh(float a) { return std::tanh(a); }
template <typename T>
T FCopysign(T sign, T magnitude) {
  return std::copysign(magnitude, sign);
}

// With subnormal inputs and results as zeros of the same sign, and results in [0, 1].
template <auto F, bool kFtz, bool kSat>
float Adjust1(float a) {
  float r = F(kFtz ? FlushFloat(a) : a);
  if (kFtz) r = FlushFloat(r);
  return kSat ? Saturate(r) : r;
}
template <auto F, bool kFtz, bool kSat>
float Adjust2(float a, float b) {
  float r = kFtz ? F(FlushFloat(a), FlushFloat(b)) : F(a, b);
  if (kFtz) r = FlushFloat(r);
  return kSat ? Saturate(r) : r;
}
template <auto F, bool kFtz, bool kSat>
float Adjust3(float a, float b, float c) {
  float r = kFtz ? F(FlushFloat(a), FlushFloat(b), FlushFloat(c)) : F(a, b, c);
  if (kFtz) r = FlushFloat(r);
  return kSat ? Saturate(r) : r;
}

// Runs the handler under another rounding mode. The clobbers keep its loads behind the first switch
// and its stores before the second.
template <Handler kHandler, int kMode>
const Inst* Rounded(Warp& w, const Inst* ip) {
#if defined(__SSE__)
  const unsigned saved = _mm_getcsr();
  constexpr unsigned kBits = kMode == FE_TOWARDZERO ? 0x6000u
                             : kMode == FE_DOWNWARD ? 0x2000u
                                                    : 0x4000u;
  _mm_setcsr((saved & ~0x6000u) | kBits);
  asm volatile("" ::: "memory");
  const Inst* next = kHandler(w, ip);
  asm volatile("" ::: "memory");
  _mm_setcsr(saved);
#else
  std::fesetround(kMode);
  asm volatile("" ::: "memory");
  const Inst* next = kHandler(w, ip);
  asm volatile("" ::: "memory");
  std::fesetround(FE_TONEAREST);
#endif
  return next;
}

template <Handler kHandler>
Handler WithMode(Decoder& d) {
  if (d.Has("rz")) return Rounded<kHandler, FE_TOWARDZERO>;
  if (d.Has("rm")) return Rounded<kHandler, FE_DOWNWARD>;
  if (d.Has("rp")) return Rounded<kHandler, FE_UPWARD>;
  return kHandler;
}

template <auto F>
Handler Single1(Decoder& d) {
  const bool ftz = d.Has("ftz"), sat = d.Has("sat");
  if (!ftz && !sat) return WithMode<Map1<float, float, F>>(d);
  if (ftz && !sat) return WithMode<Map1<float, float, Adjust1<F, true, false>>>(d);
  if (!ftz) return WithMode<Map1<float, float, Adjust1<F, false, true>>>(d);
  return WithMode<Map1<float, float, Adjust1<F, true, true>>>(d);
}
template <auto F>
Handler Single2(Decoder& d) {
  const bool ftz = d.Has("ftz"), sat = d.Has("sat");
  if (!ftz && !sat) return WithMode<Map2<float, float, float, F>>(d);
  if (ftz && !sat) return WithMode<Map2<float, float, float, Adjust2<F, true, false>>>(d);
  if (!ftz) return WithMode<Map2<float, float, float, Adjust2<F, false, true>>>(d);
  return WithMode<Map2<float, float, float, Adjust2<F, true, true>>>(d);
}
template <auto F>
Handler Single3(Decoder& d) {
  const bool ftz = d.Has("ftz"), sat = d.Has("sat");
  if (!ftz && !sat) return WithMode<Map3<float, float, float, float, F>>(d);
  if (ftz && !sat) return WithMode<Map3<float, float, float, float, Adjust3<F, true, false>>>(d);
  if (!ftz) return WithMode<Map3<float, float, float, float, Adjust3<F, false, true>>>(d);
  return WithMode<Map3<float, float, float, float, Adjust3<F, true, true>>>(d);
}

bool EmitFloat(Decoder& d, Handler handler, Type t, std::size_t sources, bool special = false) {
  if (handler == nullptr) return d.Fail("no such form");
  std::array<std::uint32_t, 3> at{};
  for (std::size_t i = 0; i < sources; ++i) at[i] = d.Source(d.Op(i + 1), t);
  const std::uint32_t to = d.Destination(d.Op(0), t);
  if (special)
    d.counts().special++;
  else if (t == Type::kF64)
    d.counts().fp64++;
  else
    d.counts().fp32++;
  Inst& inst = d.Emit(handler);
  inst.d = to;
  inst.a = at[0];
  inst.b = at[1];
  inst.c = at[2];
  return true;
}

bool IsHalfType(Type t) {
  return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2;
}

template <auto F32, auto F64>
bool DecodeBinary(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  if (t == Type::kF64) return EmitFloat(d, WithMode<Map2<double, double, double, F64>>(d), t, 2);
  if (t != Type::kF32) return d.Fail("no such form");
  return EmitFloat(d, Single2<F32>(d), t, 2);
}

bool DecodeRcp(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (t == Type::kF64)
    return EmitFloat(d, WithMode<Map1<double, double, FRcp<double>>>(d), t, 1, true);
  return EmitFloat(d, t == Type::kF32 ? Single1<FRcp<float>>(d) : nullptr, t, 1, true);
}
bool DecodeSqrt(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (t == Type::kF64)
    return EmitFloat(d, WithMode<Map1<double, double, FSqrt<double>>>(d), t, 1, true);
  return EmitFloat(d, t == Type::kF32 ? Single1<FSqrt<float>>(d) : nullptr, t, 1, true);
}
bool DecodeRsqrt(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (t == Type::kF64) return EmitFloat(d, Map1<double, double, FRsqrt<double>>, t, 1, true);
  return EmitFloat(d, t == Type::kF32 ? Single1<FRsqrt<float>>(d) : nullptr, t, 1, true);
}
template <auto F>
bool DecodeSpecialFunction(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  return EmitFloat(d, t == Type::kF32 ? Single1<F>(d) : nullptr, t, 1, true);
}

bool DecodeCopysign(Decoder& d) {
  const Type t = d.TypeAt(-1);
  return EmitFloat(d,
                   t == Type::kF64 ? Map2<double, double, double, FCopysign<double>>
                                   : Map2<float, float, float, FCopysign<float>>,
                   t, 2);
}

enum class Test { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <typename T, Test kTest>
bool Check(T a, T) {
  switch (kTest) {
    case Test::kFinite:
      return std::isfinite(a);
    case Test::kInfinite:
      return std::isinf(a);
    case Test::kNumber:
      return a == a;
    case Test::kNotANumber:
      return a != a;
    case Test::kNormal:
      return std::isnormal(a);
    case Test::kSubnormal:
      return std::fpclassify(a) == FP_SUBNORMAL;
  }
  return false;
}
template <typename T, Test kTest>
const Inst* Testp(Warp& w, const Inst* ip) {
  Blend(w.Pred(ip->d), CompareLanes<T, Check<T, kTest>>(w, ip->a, ip->a), w.mask);
  return ip + 1;
}
template <typename T>
Handler TestHandler(Decoder& d) {
  if (d.Has("finite")) return Testp<T, Test::kFinite>;
  if (d.Has("infinite")) return Testp<T, Test::kInfinite>;
  if (d.Has("number")) return Testp<T, Test::kNumber>;
  if (d.Has("notanumber")) return Testp<T, Test::kNotANumber>;
  if (d.Has("normal")) return Testp<T, Test::kNormal>;
  if (d.Has("subnormal")) return Testp<T, Test::kSubnormal>;
  return nullptr;
}
bool DecodeTestp(Decoder& d) {
  const Type t = d.TypeAt(-1);
  const Handler h = t == Type::kF64 ? TestHandler<double>(d) : TestHandler<float>(d);
  if (h == nullptr) return d.Fail("no such form");
  const std::uint32_t a = d.Source(d.Op(1), t), p = d.PredicateDestination(d.Op(0));
  d.counts().fp32++;
  Inst& inst = d.Emit(h);
  inst.d = p;
  inst.a = a;
  return true;
}

template <bool kMax>
bool DecodeMinMax(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  const bool nan = d.Has("NaN"), xorsign = d.Has("xorsign");
  if (t == Type::kF64) {
    return EmitFloat(d, Map2<double, double, double, MinMax<double, kMax, false>>, t, 2);
  }
  if (t != Type::kF32) return d.Fail("no such form");
  if (d.count() == 4) {
    return EmitFloat(d, nan ? Single3<MinMax3<kMax, true>>(d) : Single3<MinMax3<kMax, false>>(d), t,
                     3);
  }
  if (xorsign) {
    return EmitFloat(
        d, nan ? Single2<MinMaxXorsign<kMax, true>>(d) : Single2<MinMaxXorsign<kMax, false>>(d), t,
        2);
  }
  return EmitFloat(
      d, nan ? Single2<MinMax<float, kMax, true>>(d) : Single2<MinMax<float, kMax, false>>(d), t,
      2);
}

}  // namespace

bool DecodeFloatAdd(Decoder& d) { return DecodeBinary<FAdd<float>, FAdd<double>>(d); }
bool DecodeFloatSub(Decoder& d) { return DecodeBinary<FSub<float>, FSub<double>>(d); }
bool DecodeFloatMul(Decoder& d) { return DecodeBinary<FMul<float>, FMul<double>>(d); }
bool DecodeFloatDiv(Decoder& d) { return DecodeBinary<FDiv<float>, FDiv<double>>(d); }
bool DecodeFloatFma(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  if (t == Type::kF64) {
    return EmitFloat(d, WithMode<Map3<double, double, double, double, FFma<double>>>(d), t, 3);
  }
  if (t != Type::kF32) return d.Fail("no such form");
  return EmitFloat(d, Single3<FFma<float>>(d), t, 3);
}
bool DecodeFloatMin(Decoder& d) { return DecodeMinMax<false>(d); }
bool DecodeFloatMax(Decoder& d) { return DecodeMinMax<true>(d); }
bool DecodeFloatAbs(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  if (t == Type::kF64) return EmitFloat(d, Map1<double, double, FAbs<double>>, t, 1);
  return EmitFloat(d, t == Type::kF32 ? Single1<FAbs<float>>(d) : nullptr, t, 1);
}
bool DecodeFloatNeg(Decoder& d) {
  const Type t = d.TypeAt(-1);
  if (IsHalfType(t)) return DecodeHalfOp(d);
  if (t == Type::kF64) return EmitFloat(d, Map1<double, double, FNeg<double>>, t, 1);
  return EmitFloat(d, t == Type::kF32 ? Single1<FNeg<float>>(d) : nullptr, t, 1);
}

void RegisterFloat(OpcodeTable& table) {
  table["fma"] = {DecodeFloatFma};
  table["rcp"] = {DecodeRcp};
  table["sqrt"] = {DecodeSqrt};
  table["rsqrt"] = {DecodeRsqrt};
  table["sin"] = {DecodeSpecialFunction<FSin>};
  table["cos"] = {DecodeSpecialFunction<FCos>};
  table["lg2"] = {DecodeSpecialFunction<Log2Float>};
  table["ex2"] = {DecodeSpecialFunction<Exp2Float>};
  table["tanh"] = {DecodeSpecialFunction<FTanh>};
  table["copysign"] = {DecodeCopysign};
  table["testp"] = {DecodeTestp};
}

}  // namespace grove::emulator
