// cvt between all types: rounding, saturation, NaN, infinities, denormals.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

std::int64_t Sign(std::uint64_t bits, int width) {
  return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}
std::uint64_t Mask(int width) {
  return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}
std::vector<std::uint64_t> Values(int width) {
  return width <= 16 ? Ints16() : width == 32 ? Ints32() : Ints64();
}
// 8-bit values travel in wider registers.
std::string Reg(int width) { return fmt::format("b{}", std::max(width, 16)); }
std::string Name(int width, bool is_signed) {
  return fmt::format("{}{}", is_signed ? 's' : 'u', width);
}

__extension__ using Wide = __int128;

TEST(ConvertOps, IntegerToInteger) {
  for (const int from : {8, 16, 32, 64}) {
    for (const int to : {8, 16, 32, 64}) {
      for (const int signs : {0, 1, 2, 3}) {
        const bool from_signed = (signs & 1) != 0, to_signed = (signs & 2) != 0;
        // .sat is refused where nothing could saturate.
        const bool fits = to_signed == from_signed ? to >= from : to_signed && to > from;
        for (const bool saturate : {false, true}) {
          if (saturate && fits) continue;
          Check({fmt::format("cvt{}.{}.{} d, a;", saturate ? ".sat" : "", Name(to, to_signed),
                             Name(from, from_signed)),
                 Reg(to),
                 {Reg(from)}},
                Cross(Values(from)), [&](const Operands& x) {
                  Wide v = from_signed ? static_cast<Wide>(Sign(x[0], from))
                                       : static_cast<Wide>(x[0] & Mask(from));
                  if (saturate) {
                    const Wide low = to_signed ? -(static_cast<Wide>(1) << (to - 1)) : 0;
                    const Wide high = (static_cast<Wide>(1) << (to_signed ? to - 1 : to)) - 1;
                    v = std::clamp(v, low, high);
                  }
                  // The destination is extended to its register by the type's own sign.
                  const std::uint64_t bits = static_cast<std::uint64_t>(v) & Mask(to);
                  return to_signed ? static_cast<std::uint64_t>(Sign(bits, to)) : bits;
                });
        }
      }
    }
  }
}

TEST(ConvertOps, FloatToInteger) {
  for (const bool f64 : {false, true}) {
    const std::string source = f64 ? "f64" : "f32";
    auto lanes = Cross(f64 ? Floats64() : Floats32());
    for (double v : {-0.5, -1.5, -2.5, 0.4999, 126.5, 127.5, 128.5, 254.5, 255.5, 32766.5, 32767.5,
                     65534.5, 65535.5, 2147483646.5, -32768.5, -128.5, -129.0, 1e10, -1e10}) {
      lanes.push_back({f64 ? Bits(v) : Bits(static_cast<float>(v)), 0, 0, 0});
    }
    for (const int to : {8, 16, 32, 64}) {
      for (const bool is_signed : {false, true}) {
        for (const Round mode : kDirected) {
          Check({fmt::format("cvt{}.{}.{} d, a;", IntegerSuffix(mode), Name(to, is_signed), source),
                 Reg(to),
                 {source}},
                lanes, [&](const Operands& x) {
                  const double v = f64 ? F64(x[0]) : static_cast<double>(F32(x[0]));
                  const std::uint64_t bits = FloatToInteger(v, mode, to, is_signed, f64);
                  return is_signed ? static_cast<std::uint64_t>(Sign(bits, to)) : bits;
                });
        }
      }
    }
  }
}

TEST(ConvertOps, FlushedFloatToInteger) {
  Check({"cvt.rpi.ftz.s32.f32 d, a;", "b32", {"f32"}}, Cross(Floats32()), [](const Operands& x) {
    return FloatToInteger(static_cast<double>(Flush(F32(x[0]))), Round::kUp, 32, true, false);
  });
}

TEST(ConvertOps, IntegerToFloat) {
  for (const int from : {8, 16, 32, 64}) {
    for (const bool is_signed : {false, true}) {
      auto lanes = Cross(Values(from));
      const auto random = RandomLanes(500, 51);
      lanes.insert(lanes.end(), random.begin(), random.end());
      for (const Round mode : kDirected) {
        const auto convert = [&](auto zero, std::uint64_t bits) {
          using T = decltype(zero);
          const HostRounding rounding(mode);
          if (is_signed) {
            const volatile std::int64_t v = Sign(bits, from);
            const volatile T r = static_cast<T>(v);
            return static_cast<T>(r);
          }
          // The compiler's u64 conversion may round twice; split so that one addition rounds.
          const std::uint64_t v = bits & Mask(from);
          if (v < (std::uint64_t{1} << 63)) {
            const volatile std::int64_t s = static_cast<std::int64_t>(v);
            const volatile T r = static_cast<T>(s);
            return static_cast<T>(r);
          }
          const volatile std::int64_t half = static_cast<std::int64_t>((v >> 1) | (v & 1));
          const volatile T r = static_cast<T>(half);
          return static_cast<T>(r * 2);
        };
        Check({fmt::format("cvt{}.f32.{} d, a;", Suffix(mode), Name(from, is_signed)),
               "f32",
               {Reg(from)}},
              lanes, [&](const Operands& x) { return Bits(convert(0.0f, x[0])); });
        Check({fmt::format("cvt{}.f64.{} d, a;", Suffix(mode), Name(from, is_signed)),
               "f64",
               {Reg(from)}},
              lanes, [&](const Operands& x) { return Bits(convert(0.0, x[0])); });
        if (from > 8) {
          Check({fmt::format("cvt{}.f16.{} d, a;", Suffix(mode), Name(from, is_signed)),
                 "b16",
                 {Reg(from)}},
                lanes, [&](const Operands& x) {
                  const HostRounding zero(Round::kZero);
                  // Truncated to 53 bits with a sticky last bit: exact enough for 11.
                  const auto wide = is_signed ? static_cast<long double>(Sign(x[0], from))
                                              : static_cast<long double>(x[0] & Mask(from));
                  const volatile long double source = wide;
                  double v = static_cast<double>(source);
                  if (static_cast<long double>(v) != source) {
                    v = F64(Bits(v) | 1);
                  }
                  return RoundTo(v, kHalf, mode);
                });
        }
      }
    }
  }
}

TEST(ConvertOps, DoubleToSingle) {
  auto lanes = Cross(Floats64());
  for (Operands x : RandomLanes(1000, 52)) {
    x[0] = (x[0] & 0x800fffffffffffff) | (std::uint64_t{0x369 + x[1] % 0x118} << 52);
    lanes.push_back(x);
  }
  for (const Round mode : kDirected) {
    Check(
        {fmt::format("cvt{}.f32.f64 d, a;", Suffix(mode)), "f32", {"f64"}}, lanes,
        [&](const Operands& x) { return RoundTo(F64(x[0]), kSingle, mode); }, As::kF32);
  }
  Check({"cvt.rn.sat.f32.f64 d, a;", "f32", {"f64"}}, lanes, [](const Operands& x) {
    const double v = F64(x[0]);
    if (!(v > 0)) return std::uint64_t{0};
    return v >= 1 ? Bits(1.0f) : RoundTo(v, kSingle, Round::kNearest);
  });
}

TEST(ConvertOps, SingleToDouble) {
  Check(
      {"cvt.f64.f32 d, a;", "f64", {"f32"}}, Cross(Floats32()),
      [](const Operands& x) { return Bits(static_cast<double>(F32(x[0]))); }, As::kF64);
  Check(
      {"cvt.ftz.f64.f32 d, a;", "f64", {"f32"}}, Cross(Floats32()),
      [](const Operands& x) { return Bits(static_cast<double>(Flush(F32(x[0])))); }, As::kF64);
}

TEST(ConvertOps, RoundToIntegralFloat) {
  auto lanes = Cross(Floats32());
  for (const float v : {-0.5f, -1.5f, -2.5f, 0.4999f, 8388607.5f, -8388607.5f}) {
    lanes.push_back({Bits(v), 0, 0, 0});
  }
  for (const Round mode : kDirected) {
    Check(
        {fmt::format("cvt{}.f32.f32 d, a;", IntegerSuffix(mode)), "f32", {"f32"}}, lanes,
        [&](const Operands& x) {
          const float v = F32(x[0]);
          return Bits(
              std::copysign(static_cast<float>(RoundToInteger(static_cast<double>(v), mode)), v));
        },
        As::kF32);
    Check(
        {fmt::format("cvt{}.f64.f64 d, a;", IntegerSuffix(mode)), "f64", {"f64"}},
        Cross(Floats64()),
        [&](const Operands& x) {
          const double v = F64(x[0]);
          return Bits(std::copysign(RoundToInteger(v, mode), v));
        },
        As::kF64);
  }
}

TEST(ConvertOps, SaturatedAndFlushedSingle) {
  Check({"cvt.sat.f32.f32 d, a;", "f32", {"f32"}}, Cross(Floats32()), [](const Operands& x) {
    const float v = F32(x[0]);
    if (!(v > 0)) return std::uint64_t{0};
    return v >= 1 ? Bits(1.0f) : x[0];
  });
  Check(
      {"cvt.ftz.f32.f32 d, a;", "f32", {"f32"}}, Cross(Floats32()),
      [](const Operands& x) { return Bits(Flush(F32(x[0]))); }, As::kF32);
}

std::vector<Operands> NarrowingInputs() {
  auto lanes = Cross(Floats32());
  for (Operands x : RandomLanes(2000, 53)) {
    x[0] = (x[0] & 0x807fffff) | ((x[1] % 48 + 0x60) << 23);  // around the range of f16
    lanes.push_back(x);
  }
  for (std::uint64_t h = 0; h < 0x7c00; h += 97) {  // exact ties between neighbours
    const double tie = (Decode(h, kHalf) + Decode(h + 1, kHalf)) / 2;
    lanes.push_back({Bits(static_cast<float>(tie)), 0, 0, 0});
    lanes.push_back({Bits(static_cast<float>(-tie)), 0, 0, 0});
  }
  return lanes;
}

TEST(ConvertOps, SingleToHalf) {
  for (const Round mode : kDirected) {
    Check(
        {fmt::format("cvt{}.f16.f32 d, a;", Suffix(mode)), "b16", {"f32"}}, NarrowingInputs(),
        [&](const Operands& x) { return RoundTo(static_cast<double>(F32(x[0])), kHalf, mode); },
        As::kF16);
  }
  Check({"cvt.rn.sat.f16.f32 d, a;", "b16", {"f32"}}, NarrowingInputs(), [](const Operands& x) {
    const double v = static_cast<double>(F32(x[0]));
    if (!(v > 0)) return std::uint64_t{0};
    return RoundTo(std::min(v, 1.0), kHalf, Round::kNearest);
  });
  Check(
      {"cvt.rn.f16.f64 d, a;", "b16", {"f64"}}, Cross(Floats64()),
      [](const Operands& x) { return RoundTo(F64(x[0]), kHalf, Round::kNearest); }, As::kF16);
}

TEST(ConvertOps, SingleToBFloat) {
  for (const Round mode : {Round::kNearest, Round::kZero}) {
    Check(
        {fmt::format("cvt{}.bf16.f32 d, a;", Suffix(mode)), "b16", {"f32"}}, NarrowingInputs(),
        [&](const Operands& x) { return RoundTo(static_cast<double>(F32(x[0])), kBFloat, mode); },
        As::kBF16);
  }
}

TEST(ConvertOps, HalfAndBFloatWiden) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < 0x10000; i += 3) all.push_back(i);
  Check(
      {"cvt.f32.f16 d, a;", "f32", {"b16"}}, Cross(all),
      [](const Operands& x) { return RoundTo(Decode(x[0], kHalf), kSingle, Round::kNearest); },
      As::kF32);
  Check(
      {"cvt.f64.f16 d, a;", "f64", {"b16"}}, Cross(all),
      [](const Operands& x) { return Bits(Decode(x[0], kHalf)); }, As::kF64);
  Check(
      {"cvt.f32.bf16 d, a;", "f32", {"b16"}}, Cross(all),
      [](const Operands& x) { return x[0] << 16; }, As::kF32);
}

TEST(ConvertOps, HalfToInteger) {
  for (const Round mode : kDirected) {
    for (const int to : {16, 32, 64}) {
      for (const bool is_signed : {false, true}) {
        Check({fmt::format("cvt{}.{}.f16 d, a;", IntegerSuffix(mode), Name(to, is_signed)),
               Reg(to),
               {"b16"}},
              Cross(Halves()), [&](const Operands& x) {
                return FloatToInteger(Decode(x[0], kHalf), mode, to, is_signed, false);
              });
      }
    }
    Check(
        {fmt::format("cvt{}.f16.f16 d, a;", IntegerSuffix(mode)), "b16", {"b16"}}, Cross(Halves()),
        [&](const Operands& x) {
          const double v = Decode(x[0], kHalf);
          return RoundTo(std::copysign(RoundToInteger(v, mode), v), kHalf, Round::kNearest);
        },
        As::kF16);
  }
}

TEST(ConvertOps, PackedPairs) {
  auto lanes = Cross(Thin(Floats32(), 24), Thin(Floats32(), 24));
  const auto pack = [](const Operands& x, Format f, Round mode) {
    // The first source becomes the upper half.
    return (RoundTo(static_cast<double>(F32(x[0])), f, mode) << 16) |
           RoundTo(static_cast<double>(F32(x[1])), f, mode);
  };
  for (const Round mode : {Round::kNearest, Round::kZero}) {
    Check(
        {fmt::format("cvt{}.f16x2.f32 d, a, b;", Suffix(mode)), "b32", {"f32", "f32"}}, lanes,
        [&](const Operands& x) { return pack(x, kHalf, mode); }, As::kF16x2);
    Check(
        {fmt::format("cvt{}.bf16x2.f32 d, a, b;", Suffix(mode)), "b32", {"f32", "f32"}}, lanes,
        [&](const Operands& x) { return pack(x, kBFloat, mode); }, As::kBF16x2);
  }
  Check(
      {"cvt.rn.relu.f16x2.f32 d, a, b;", "b32", {"f32", "f32"}}, lanes,
      [&](const Operands& x) {
        const auto relu = [](std::uint64_t bits) {
          const double v = static_cast<double>(F32(bits));
          if (std::isnan(v)) return std::uint64_t{0x7fff};  // canonical NaN stays
          return v > 0 ? RoundTo(v, kHalf, Round::kNearest) : 0;
        };
        return (relu(x[0]) << 16) | relu(x[1]);
      },
      As::kF16x2);
}

TEST(ConvertOps, Tf32) {
  Check(
      {"cvt.rna.tf32.f32 d, a;", "b32", {"f32"}}, NarrowingInputs(),
      [](const Operands& x) {
        return RoundTo(static_cast<double>(F32(x[0])), kTf32, Round::kNearestAway) << 13;
      },
      As::kF32);
}

// e4m3 has no infinity: 0x7f is NaN and 0x7e the largest number, 448.
std::uint64_t ToE4m3(double v) {
  if (std::isnan(v)) return 0x7f;
  const std::uint64_t sign = std::signbit(v) ? 0x80 : 0;
  const double m = std::fabs(v);
  if (m > 448) return sign | 0x7e;
  if (m < std::ldexp(1.0, -6)) return sign | RoundTo(m, {4, 3}, Round::kNearest);
  // Exponent 15 is an ordinary one here: round with more exponent bits and take off the bias.
  const std::uint64_t wide = RoundTo(m, {6, 3}, Round::kNearest);
  return sign | std::min<std::uint64_t>(wide - (std::uint64_t{24} << 3), 0x7e);
}

TEST(ConvertOps, Fp8Pairs) {
  std::vector<std::uint64_t> values;
  for (const float v :
       {0.0f,         1.0f,          -1.0f,    0.5f,          1.0625f, 1.1875f,   240.0f,
        447.0f,       448.0f,        460.0f,   464.0f,        1000.0f, -1e9f,     0.015625f,
        0.001953125f, 0.0009765625f, 0.001f,   0.0146484375f, 3.1415f, -2.71828f, HUGE_VALF,
        -HUGE_VALF,   NAN,           57344.0f, 61440.0f,      1e-5f,   7.6e-6f}) {
    values.push_back(Bits(v));
  }
  Check({"cvt.rn.satfinite.e4m3x2.f32 d, a, b;", "b16", {"f32", "f32"}}, Cross(values, values),
        [](const Operands& x) {
          const auto byte = [](std::uint64_t bits) {
            return ToE4m3(static_cast<double>(F32(bits)));
          };
          return (byte(x[0]) << 8) | byte(x[1]);
        });
  Check({"cvt.rn.satfinite.e5m2x2.f32 d, a, b;", "b16", {"f32", "f32"}}, Cross(values, values),
        [](const Operands& x) {
          const auto byte = [](std::uint64_t bits) -> std::uint64_t {
            const double v = static_cast<double>(F32(bits));
            if (std::isnan(v)) return 0x7f;
            const std::uint64_t r = RoundTo(v, {5, 2}, Round::kNearest);
            return (r & 0x7f) >= 0x7c ? (r & 0x80) | 0x7b : r;
          };
          return (byte(x[0]) << 8) | byte(x[1]);
        });
}

TEST(ConvertOps, Fp8PairsWiden) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < 0x10000; i += 7) all.push_back(i);
  Check(
      {"cvt.rn.f16x2.e5m2x2 d, a;", "b32", {"b16"}}, Cross(all),
      [](const Operands& x) { return ((x[0] & 0xff00) << 16) | ((x[0] & 0xff) << 8); }, As::kF16x2);
  Check(
      {"cvt.rn.f16x2.e4m3x2 d, a;", "b32", {"b16"}}, Cross(all),
      [](const Operands& x) {
        const auto half = [](std::uint64_t byte) -> std::uint64_t {
          if ((byte & 0x7f) == 0x7f) return 0x7fff;
          // As {5,3} the pattern would be 2^8 smaller; exponent 0 stays subnormal.
          const double sign = (byte & 0x80) != 0 ? -1 : 1;
          const std::uint64_t e = (byte >> 3) & 0xf, m = byte & 7;
          const double v = e == 0
                               ? std::ldexp(static_cast<double>(m), -9)
                               : std::ldexp(static_cast<double>(8 + m), static_cast<int>(e) - 10);
          return RoundTo(std::copysign(v, sign), kHalf, Round::kNearest);
        };
        return (half(x[0] >> 8) << 16) | half(x[0] & 0xff);
      },
      As::kF16x2);
}

}  // namespace
}  // namespace grove::emulator::opcodes
