// Host arithmetic that the emulator is compared with, written from the PTX ISA and IEEE 754 and
// independently of the emulator's own code.
#pragma once

#include <cstdint>

namespace grove::emulator::opcodes {

enum class Round { kNearest, kZero, kDown, kUp, kNearestAway };
constexpr Round kDirected[] = {Round::kNearest, Round::kZero, Round::kDown, Round::kUp};
// ".rn", ".rz", ".rm", ".rp", ".rna"
const char* Suffix(Round mode);
// ".rni", ".rzi", ".rmi", ".rpi"
const char* IntegerSuffix(Round mode);

// Sets the host's rounding mode for its lifetime.
class HostRounding {
 public:
  explicit HostRounding(Round mode);
  ~HostRounding();
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int saved_;
};

// A binary floating-point format.
struct Format {
  int exponent_bits;
  int mantissa_bits;  // without the hidden one
};
constexpr Format kHalf{5, 10}, kBFloat{8, 7}, kSingle{8, 23}, kTf32{8, 10};

// `value` rounded to the format, as its bits (sign, exponent, mantissa from the top). NaN becomes a
// quiet NaN; overflow follows the rounding mode.
std::uint64_t RoundTo(double value, Format format, Round mode);
// The exact value of a bit pattern.
double Decode(std::uint64_t bits, Format format);

// a + b and a * b + c rounded to odd in double: rounding the result once more to a format of at
// most 51 bits gives the correctly rounded one. The product must be exact in double.
double AddToOdd(double a, double b);
double FmaToOdd(double a, double b, double c);

// Subnormals of binary32 to a zero of the same sign.
float Flush(float value);
// Integer nearest to `value` in the mode, as a double (infinities and NaN unchanged).
double RoundToInteger(double value, Round mode);

// cvt from a float to an integer of `width` bits: saturates; NaN as the ISA's table says.
std::uint64_t FloatToInteger(double value, Round mode, int width, bool is_signed,
                             bool source_is_f64);

}  // namespace grove::emulator::opcodes
