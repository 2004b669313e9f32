#include "eval/emulator/softfloat.h"

#include <limits>

namespace grove::emulator {

double Fp8Value(std::uint32_t bits, bool e5m2) {
  const int mantissa_bits = e5m2 ? 2 : 3;
  const int bias = e5m2 ? 15 : 7;
  const int exponent = static_cast<int>((bits & 0x7f) >> mantissa_bits);
  const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
  double value = 0;
  if (e5m2 && exponent == 31) {
    value = mantissa == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  } else if (!e5m2 && (bits & 0x7f) == 0x7f) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

std::uint32_t ToFp8(double x, bool e5m2) {
  if (x != x) return 0x7f;
  const int mantissa_bits = e5m2 ? 2 : 3;
  const int low = e5m2 ? -14 : -6;
  const double largest = e5m2 ? 57344 : 448;
  const std::uint32_t sign = std::signbit(x) ? 0x80 : 0;
  double r = std::fabs(RoundTo(x, mantissa_bits, low, Round::kNearest));
  if (!(r <= largest)) r = largest;
  if (r == 0) return sign;
  int exponent = 0;
  std::frexp(r, &exponent);
  --exponent;
  if (exponent < low) {
    return sign | static_cast<std::uint32_t>(std::ldexp(r, mantissa_bits - low));
  }
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(r, mantissa_bits - exponent));
  return sign | static_cast<std::uint32_t>(exponent - low + 1) << mantissa_bits |
         (mantissa & ((1u << mantissa_bits) - 1));
}

}  // namespace grove::emulator
