// Functions of one or two floats that vectorise over lanes: no branches, no library calls.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace grove::emulator {

inline float FlushFloat(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
// Into [0, 1]; NaN gives +0.
inline float Saturate(float x) {
  const float low = x > 0 ? x : 0.0f;
  return low < 1 ? low : 1.0f;
}

// 2^x, relative error below 2^-23: 2^n times a Taylor polynomial on [-1/2, 1/2], whose remainder is
// (ln2/2)^8/8! = 5e-9.
inline float Exp2Float(float x) {
  const float clamped = x > 130.0f ? 130.0f : (x < -160.0f ? -160.0f : x);
  const float n = __builtin_rintf(clamped);
  const float f = clamped - n;
  float p = 1.5252734e-5f;
  p = __builtin_fmaf(p, f, 1.5403530e-4f);
  p = __builtin_fmaf(p, f, 1.3333558e-3f);
  p = __builtin_fmaf(p, f, 9.6181291e-3f);
  p = __builtin_fmaf(p, f, 5.5504109e-2f);
  p = __builtin_fmaf(p, f, 2.4022651e-1f);
  p = __builtin_fmaf(p, f, 6.9314718e-1f);
  p = __builtin_fmaf(p, f, 1.0f);
  // In two steps, so that subnormal results are reached with one rounding.
  const int whole = static_cast<int>(n == n ? n : 0.0f);
  const int half = whole >> 1;
  const float s1 = std::bit_cast<float>(static_cast<std::uint32_t>(half + 127) << 23);
  const float s2 = std::bit_cast<float>(static_cast<std::uint32_t>(whole - half + 127) << 23);
  return p * s1 * s2;
}

// log2(x), absolute error below 2^-22 for x near 1 and relative error below 2^-22 elsewhere.
inline float Log2Float(float x) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const float scaled = tiny ? x * 8388608.0f : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const std::int32_t shifted = static_cast<std::int32_t>(bits) - 0x3f3504f3;
  const std::int32_t e = shifted >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e) << 23));
  const float s = (m - 1.0f) / (m + 1.0f);
  const float z = s * s;
  float p = 0.32059889f;  // 2/ln2/9
  p = __builtin_fmaf(p, z, 0.41219858f);
  p = __builtin_fmaf(p, z, 0.57707802f);
  p = __builtin_fmaf(p, z, 0.96179669f);
  p = __builtin_fmaf(p, z, 2.88539008f);
  const float r = __builtin_fmaf(p, s, static_cast<float>(e) - (tiny ? 23.0f : 0.0f));
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float finite = x == inf ? inf : r;
  return x > 0 ? finite : (x == 0 ? -inf : nan);
}

// PTX min and max: a NaN loses against a number (kNaN: wins), -0 is below +0, and two NaNs give the
// canonical one.
template <typename T, bool kMax, bool kNaN>
inline T MinMax(T a, T b) {
  using U = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const T canonical = std::bit_cast<T>(static_cast<U>(~U{0} >> 1));
  const T same = std::bit_cast<T>(static_cast<U>(kMax ? std::bit_cast<U>(a) & std::bit_cast<U>(b)
                                                      : std::bit_cast<U>(a) | std::bit_cast<U>(b)));
  const bool first = kMax ? a > b : a < b;
  T r = a == b ? same : (first ? a : b);
  const bool a_nan = a != a, b_nan = b != b;
  if (kNaN) return (a_nan || b_nan) ? canonical : r;
  r = a_nan ? b : r;
  r = b_nan ? a : r;
  return (a_nan && b_nan) ? canonical : r;
}
template <bool kMax, bool kNaN>
inline float MinMax3(float a, float b, float c) {
  return MinMax<float, kMax, kNaN>(MinMax<float, kMax, kNaN>(a, b), c);
}
template <bool kMax, bool kNaN>
inline float MinMaxXorsign(float a, float b) {
  const float r = MinMax<float, kMax, kNaN>(std::fabs(a), std::fabs(b));
  return std::bit_cast<float>(
      std::bit_cast<std::uint32_t>(r) |
      ((std::bit_cast<std::uint32_t>(a) ^ std::bit_cast<std::uint32_t>(b)) & 0x80000000u));
}

}  // namespace grove::emulator
