#include "tests/opcodes/reference.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

namespace grove::emulator::opcodes {

const char* Suffix(Round mode) {
  switch (mode) {
    case Round::kNearest:
      return ".rn";
    case Round::kZero:
      return ".rz";
    case Round::kDown:
      return ".rm";
    case Round::kUp:
      return ".rp";
    case Round::kNearestAway:
      return ".rna";
  }
  return "";
}

const char* IntegerSuffix(Round mode) {
  switch (mode) {
    case Round::kZero:
      return ".rzi";
    case Round::kDown:
      return ".rmi";
    case Round::kUp:
      return ".rpi";
    default:
      return ".rni";
  }
}

HostRounding::HostRounding(Round mode) : saved_(std::fegetround()) {
  switch (mode) {
    case Round::kZero:
      std::fesetround(FE_TOWARDZERO);
      break;
    case Round::kDown:
      std::fesetround(FE_DOWNWARD);
      break;
    case Round::kUp:
      std::fesetround(FE_UPWARD);
      break;
    default:
      std::fesetround(FE_TONEAREST);
  }
}

HostRounding::~HostRounding() { std::fesetround(saved_); }

double Decode(std::uint64_t bits, Format f) {
  const int total = 1 + f.exponent_bits + f.mantissa_bits;
  const bool negative = ((bits >> (total - 1)) & 1) != 0;
  const std::uint64_t exponent = (bits >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1);
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << f.mantissa_bits) - 1);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == (1u << f.exponent_bits) - 1) {
    value = mantissa == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - f.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa | (std::uint64_t{1} << f.mantissa_bits)),
                       static_cast<int>(exponent) - bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint64_t RoundTo(double value, Format f, Round mode) {
  const int total = 1 + f.exponent_bits + f.mantissa_bits;
  const std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (total - 1) : 0;
  const std::uint64_t infinity = ((std::uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  if (std::isnan(value)) return infinity | (std::uint64_t{1} << (f.mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  // Units in the last place of the result: magnitude = scaled x 2^ulp.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const int ulp = exponent - f.mantissa_bits;
  const double scaled = std::ldexp(magnitude, -ulp);  // exact: below 2^53
  const double floor = std::floor(scaled);
  const double rest = scaled - floor;
  bool up = false;
  switch (mode) {
    case Round::kNearest:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(floor, 2) == 1);
      break;
    case Round::kNearestAway:
      up = rest >= 0.5;
      break;
    case Round::kZero:
      break;
    case Round::kDown:
      up = rest > 0 && sign != 0;
      break;
    case Round::kUp:
      up = rest > 0 && sign == 0;
      break;
  }
  const std::uint64_t units = static_cast<std::uint64_t>(floor) + (up ? 1 : 0);
  // Adding the units to the biased exponent carries into it by itself.
  const std::uint64_t hidden = std::uint64_t{1} << f.mantissa_bits;
  std::uint64_t bits = units;
  if (units >= hidden) {
    bits = (static_cast<std::uint64_t>(exponent + bias) << f.mantissa_bits) + (units - hidden);
  }
  if (bits >= infinity) {
    const bool to_infinity = mode == Round::kNearest || mode == Round::kNearestAway ||
                             (mode == Round::kUp && sign == 0) ||
                             (mode == Round::kDown && sign != 0);
    bits = to_infinity ? infinity : infinity - 1;
  }
  return sign | bits;
}

double AddToOdd(double a, double b) {
  const HostRounding nearest(Round::kNearest);
  const volatile double sum = a + b;
  const double s = sum;
  if (!std::isfinite(s)) return s;
  // Knuth's two-sum gives the exact error.
  const volatile double bb = s - a;
  const volatile double da = s - bb;
  const volatile double ea = a - da;
  const volatile double eb = b - bb;
  const volatile double error = ea + eb;
  if (error == 0) return s;
  std::uint64_t bits = std::bit_cast<std::uint64_t>(s);
  const bool toward_zero = (error < 0) == (s > 0);  // |exact| < |s|
  if (toward_zero) bits -= 1;                       // now truncated
  return std::bit_cast<double>(bits | 1);
}

double FmaToOdd(double a, double b, double c) {
  const volatile double product = a * b;
  return AddToOdd(product, c);
}

float Flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

double RoundToInteger(double value, Round mode) {
  if (!std::isfinite(value)) return value;
  switch (mode) {
    case Round::kZero:
      return std::trunc(value);
    case Round::kDown:
      return std::floor(value);
    case Round::kUp:
      return std::ceil(value);
    default: {
      const HostRounding nearest(Round::kNearest);
      return std::nearbyint(value);
    }
  }
}

std::uint64_t FloatToInteger(double value, Round mode, int width, bool is_signed,
                             bool source_is_f64) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  if (std::isnan(value)) {
    return source_is_f64 || width == 64 ? std::uint64_t{1} << (width - 1) : 0;
  }
  const double r = RoundToInteger(value, mode);
  const double top = std::ldexp(1.0, is_signed ? width - 1 : width);  // first that does not fit
  const double bottom = is_signed ? -std::ldexp(1.0, width - 1) : 0.0;
  if (r >= top) return is_signed ? mask >> 1 : mask;
  if (r <= bottom) return is_signed ? std::uint64_t{1} << (width - 1) : 0;
  if (is_signed) return static_cast<std::uint64_t>(static_cast<std::int64_t>(r)) & mask;
  return static_cast<std::uint64_t>(r) & mask;
}

}  // namespace grove::emulator::opcodes
