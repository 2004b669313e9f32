// Exact conversions between host floats and the narrow formats, with every rounding mode.
// Pure functions, thread-safe.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "base/dtype.h"

namespace grove::emulator {

enum class Round : std::uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

// A double as the float that carries its inexactness in the last bit (round to odd): rounding it
// further to at most 22 bits gives the same as rounding the double directly.
inline float ToOdd(double x) {
  const float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const bool inexact = back != x && x == x;
  const bool away = std::fabs(back) > std::fabs(x);
  bits = inexact ? (bits - (away ? 1u : 0u)) | 1u : bits;
  return std::bit_cast<float>(bits);
}

// a + b rounded to odd: what the addition drops (Knuth's two-sum) goes into the last bit.
inline double SumToOdd(double a, double b) {
  const double s = a + b;
  const double bb = s - a;
  const double error = (a - (s - bb)) + (b - bb);
  std::uint64_t bits = std::bit_cast<std::uint64_t>(s);
  const bool inexact = error != 0 && s - s == 0;
  const bool away = (error < 0) == (s > 0);
  bits = inexact ? (bits - (away ? 1u : 0u)) | 1u : bits;
  return std::bit_cast<double>(bits);
}

inline float HalfBits(std::uint32_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(static_cast<unsigned short>(h));
#else
  return HalfToFloat(static_cast<std::uint16_t>(h));
#endif
}
inline std::uint32_t ToHalfBits(float f) {
#if defined(__F16C__)
  return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  return FloatToHalf(f);
#endif
}
inline float BFloatBits(std::uint32_t h) { return std::bit_cast<float>(h << 16); }
inline std::uint32_t ToBFloatBits(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return f != f ? 0x7fffu : rounded;
}

// The value of a binary format with `mantissa` explicit bits and smallest normal exponent `low`
// (f16: 10, -14; bf16: 7, -126; tf32: 10, -126; e4m3: 3, -6; e5m2: 2, -14) nearest to x under the
// mode. Overflow is the caller's matter: the exponent has no upper end. Exact for every double.
inline double RoundTo(double x, int mantissa, int low, Round mode) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, low) - mantissa;
  const double scaled = std::ldexp(x, -unit);  // exact: only an exponent changes
  double r = 0;
  switch (mode) {
    case Round::kNearest:
      r = std::nearbyint(scaled);
      break;
    case Round::kZero:
      r = std::trunc(scaled);
      break;
    case Round::kDown:
      r = std::floor(scaled);
      break;
    case Round::kUp:
      r = std::ceil(scaled);
      break;
    case Round::kNearestAway:
      r = std::round(scaled);
      break;
  }
  return std::copysign(std::ldexp(r, unit), x);
}

// The binary32 nearest to x under the mode.
inline float ToFloat(double x, Round mode) {
  if (mode == Round::kNearest || x != x) return static_cast<float>(x);
  const double r = RoundTo(x, 23, -126, mode);
  if (std::fabs(r) > 3.4028234663852886e38 && std::isfinite(x)) {
    const bool up = mode == Round::kNearestAway || (mode == Round::kUp && x > 0) ||
                    (mode == Round::kDown && x < 0);
    return std::copysign(up ? HUGE_VALF : 3.4028234663852886e38f,
                         static_cast<float>(x > 0 ? 1 : -1));
  }
  return static_cast<float>(r);
}

// f16 or bf16 bits of x under the mode; overflow gives infinity or the largest finite value.
inline std::uint32_t ToNarrow(double x, bool bfloat, Round mode) {
  if (x != x) return 0x7fffu;
  double r = bfloat ? RoundTo(x, 7, -126, mode) : RoundTo(x, 10, -14, mode);
  const double largest = bfloat ? 3.3895313892515355e38 : 65504.0;
  if (std::fabs(r) > largest && std::isfinite(x)) {
    const bool infinite = mode == Round::kNearest || mode == Round::kNearestAway ||
                          (mode == Round::kUp && x > 0) || (mode == Round::kDown && x < 0);
    r = std::copysign(infinite ? HUGE_VAL : largest, x);
  }
  const float f = static_cast<float>(r);
  return bfloat ? std::bit_cast<std::uint32_t>(f) >> 16 : ToHalfBits(f);
}

// Ten bits of mantissa are kept (tensor cores drop the others).
inline float TruncateTf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

// fp8: e4m3 (largest 448, no infinity, NaN 0x7f) and e5m2.
double Fp8Value(std::uint32_t bits, bool e5m2);
std::uint32_t ToFp8(double x, bool e5m2);  // nearest even, saturating to the largest finite value

}  // namespace grove::emulator
