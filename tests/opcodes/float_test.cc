// f32 and f64 arithmetic in the four rounding modes against the host's IEEE arithmetic.
#include <cmath>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

// Operands and results pass through volatile, so that nothing is computed under another mode.
template <typename T, typename F>
T Under(Round mode, F f, T a, T b, T c) {
  const HostRounding rounding(mode);
  const volatile T x = a, y = b, z = c;
  const volatile T result = f(x, y, z);
  return result;
}

std::vector<Operands> Pairs32() {
  auto lanes = Cross(Floats32(), Floats32());
  const auto random = RandomLanes(2000, 31);
  lanes.insert(lanes.end(), random.begin(), random.end());
  return lanes;
}

// Random operands whose exponents are close, so that sums round.
std::vector<Operands> Triples32() {
  const auto v = Thin(Floats32(), 15);
  auto lanes = Cross(v, v, v);
  for (Operands x : RandomLanes(3000, 32)) {
    for (auto& bits : x) bits = (bits & 0x83ffffff) | 0x3c000000;
    lanes.push_back(x);
  }
  return lanes;
}

std::vector<Operands> Pairs64() {
  auto lanes = Cross(Floats64(), Floats64());
  const auto random = RandomLanes(1000, 33);
  lanes.insert(lanes.end(), random.begin(), random.end());
  return lanes;
}

std::vector<Operands> Triples64() {
  const auto v = Thin(Floats64(), 14);
  auto lanes = Cross(v, v, v);
  for (Operands x : RandomLanes(2000, 34)) {
    for (auto& bits : x) bits = (bits & 0x803fffffffffffff) | 0x3fc0000000000000;
    lanes.push_back(x);
  }
  return lanes;
}

template <typename F>
void CheckF32(const std::string& text, int operands, const std::vector<Operands>& lanes, F f) {
  Check(
      {text, "f32", std::vector<std::string>(static_cast<std::size_t>(operands), "f32")}, lanes,
      [&](const Operands& x) { return Bits(f(F32(x[0]), F32(x[1]), F32(x[2]))); }, As::kF32);
}
template <typename F>
void CheckF64(const std::string& text, int operands, const std::vector<Operands>& lanes, F f) {
  Check(
      {text, "f64", std::vector<std::string>(static_cast<std::size_t>(operands), "f64")}, lanes,
      [&](const Operands& x) { return Bits(f(F64(x[0]), F64(x[1]), F64(x[2]))); }, As::kF64);
}

class Rounded : public testing::TestWithParam<Round> {
 protected:
  std::string s() const { return Suffix(GetParam()); }
  template <typename T, typename F>
  auto Host(F f) const {
    return [mode = GetParam(), f](T a, T b, T c) { return Under(mode, f, a, b, c); };
  }
};

TEST_P(Rounded, AddSubMulF32) {
  CheckF32("add" + s() + ".f32 d, a, b;", 2, Pairs32(),
           Host<float>([](float a, float b, float) { return a + b; }));
  CheckF32("sub" + s() + ".f32 d, a, b;", 2, Pairs32(),
           Host<float>([](float a, float b, float) { return a - b; }));
  CheckF32("mul" + s() + ".f32 d, a, b;", 2, Pairs32(),
           Host<float>([](float a, float b, float) { return a * b; }));
}

TEST_P(Rounded, DivSqrtRcpF32) {
  CheckF32("div" + s() + ".f32 d, a, b;", 2, Pairs32(),
           Host<float>([](float a, float b, float) { return a / b; }));
  CheckF32("sqrt" + s() + ".f32 d, a;", 1, Pairs32(),
           Host<float>([](float a, float, float) { return std::sqrt(a); }));
  CheckF32("rcp" + s() + ".f32 d, a;", 1, Pairs32(),
           Host<float>([](float a, float, float) { return 1.0f / a; }));
}

TEST_P(Rounded, FmaF32) {
  CheckF32("fma" + s() + ".f32 d, a, b, c;", 3, Triples32(),
           Host<float>([](float a, float b, float c) { return std::fma(a, b, c); }));
  CheckF32("mad" + s() + ".f32 d, a, b, c;", 3, Triples32(),
           Host<float>([](float a, float b, float c) { return std::fma(a, b, c); }));
}

TEST_P(Rounded, FlushedF32) {
  const auto flushed = [this](auto f) {
    return [mode = GetParam(), f](float a, float b, float c) {
      return Flush(Under(mode, f, Flush(a), Flush(b), Flush(c)));
    };
  };
  CheckF32("add" + s() + ".ftz.f32 d, a, b;", 2, Pairs32(),
           flushed([](float a, float b, float) { return a + b; }));
  CheckF32("mul" + s() + ".ftz.f32 d, a, b;", 2, Cross(Floats32(), Floats32()),
           flushed([](float a, float b, float) { return a * b; }));
  CheckF32("fma" + s() + ".ftz.f32 d, a, b, c;", 3, Triples32(),
           flushed([](float a, float b, float c) { return std::fma(a, b, c); }));
  CheckF32("div" + s() + ".ftz.f32 d, a, b;", 2, Cross(Floats32(), Floats32()),
           flushed([](float a, float b, float) { return a / b; }));
  CheckF32("sqrt" + s() + ".ftz.f32 d, a;", 1, Cross(Floats32()),
           flushed([](float a, float, float) { return std::sqrt(a); }));
  CheckF32("rcp" + s() + ".ftz.f32 d, a;", 1, Cross(Floats32()),
           flushed([](float a, float, float) { return 1.0f / a; }));
}

TEST_P(Rounded, AddSubMulF64) {
  CheckF64("add" + s() + ".f64 d, a, b;", 2, Pairs64(),
           Host<double>([](double a, double b, double) { return a + b; }));
  CheckF64("sub" + s() + ".f64 d, a, b;", 2, Pairs64(),
           Host<double>([](double a, double b, double) { return a - b; }));
  CheckF64("mul" + s() + ".f64 d, a, b;", 2, Pairs64(),
           Host<double>([](double a, double b, double) { return a * b; }));
}

TEST_P(Rounded, DivSqrtRcpFmaF64) {
  CheckF64("div" + s() + ".f64 d, a, b;", 2, Pairs64(),
           Host<double>([](double a, double b, double) { return a / b; }));
  CheckF64("sqrt" + s() + ".f64 d, a;", 1, Pairs64(),
           Host<double>([](double a, double, double) { return std::sqrt(a); }));
  CheckF64("rcp" + s() + ".f64 d, a;", 1, Pairs64(),
           Host<double>([](double a, double, double) { return 1.0 / a; }));
  CheckF64("fma" + s() + ".f64 d, a, b, c;", 3, Triples64(),
           Host<double>([](double a, double b, double c) { return std::fma(a, b, c); }));
}

INSTANTIATE_TEST_SUITE_P(Modes, Rounded, testing::ValuesIn(kDirected), [](const auto& test) {
  return std::string(Suffix(test.param)).substr(1);
});

TEST(FloatOps, NoModifierMeansNearest) {
  const auto near = [](auto f) {
    return [f](float a, float b, float c) { return Under(Round::kNearest, f, a, b, c); };
  };
  CheckF32("add.f32 d, a, b;", 2, Pairs32(), near([](float a, float b, float) { return a + b; }));
  CheckF32("sub.f32 d, a, b;", 2, Pairs32(), near([](float a, float b, float) { return a - b; }));
  CheckF32("mul.f32 d, a, b;", 2, Pairs32(), near([](float a, float b, float) { return a * b; }));
}

TEST(FloatOps, SaturationClampsToUnitAndTurnsNanIntoZero) {
  const auto saturate = [](float v) {
    if (std::isnan(v)) return 0.0f;
    return v <= 0 ? 0.0f : v >= 1 ? 1.0f : v;
  };
  CheckF32("add.sat.f32 d, a, b;", 2, Pairs32(),
           [&](float a, float b, float) { return saturate(a + b); });
  CheckF32("mul.sat.f32 d, a, b;", 2, Pairs32(),
           [&](float a, float b, float) { return saturate(a * b); });
  CheckF32("fma.rn.sat.f32 d, a, b, c;", 3, Triples32(),
           [&](float a, float b, float c) { return saturate(std::fma(a, b, c)); });
  CheckF32("sub.ftz.sat.f32 d, a, b;", 2, Pairs32(),
           [&](float a, float b, float) { return saturate(Flush(Flush(a) - Flush(b))); });
}

// min and max: the other operand for one NaN, -0 below +0.
template <typename T>
T Min(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T>
T Max(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

TEST(FloatOps, MinMaxIgnoreOneNanAndOrderZeros) {
  CheckF32("min.f32 d, a, b;", 2, Pairs32(), [](float a, float b, float) { return Min(a, b); });
  CheckF32("max.f32 d, a, b;", 2, Pairs32(), [](float a, float b, float) { return Max(a, b); });
  CheckF64("min.f64 d, a, b;", 2, Pairs64(), [](double a, double b, double) { return Min(a, b); });
  CheckF64("max.f64 d, a, b;", 2, Pairs64(), [](double a, double b, double) { return Max(a, b); });
}

TEST(FloatOps, MinMaxFlushed) {
  CheckF32("min.ftz.f32 d, a, b;", 2, Pairs32(),
           [](float a, float b, float) { return Min(Flush(a), Flush(b)); });
  CheckF32("max.ftz.f32 d, a, b;", 2, Pairs32(),
           [](float a, float b, float) { return Max(Flush(a), Flush(b)); });
}

TEST(FloatOps, MinMaxWithNanPropagation) {
  CheckF32("min.NaN.f32 d, a, b;", 2, Pairs32(), [](float a, float b, float) {
    return std::isnan(a) || std::isnan(b) ? NAN : Min(a, b);
  });
  CheckF32("max.NaN.f32 d, a, b;", 2, Pairs32(), [](float a, float b, float) {
    return std::isnan(a) || std::isnan(b) ? NAN : Max(a, b);
  });
}

TEST(FloatOps, AbsNegCopysign) {
  CheckF32("abs.f32 d, a;", 1, Pairs32(), [](float a, float, float) { return std::fabs(a); });
  CheckF32("neg.f32 d, a;", 1, Pairs32(), [](float a, float, float) { return -a; });
  CheckF32("abs.ftz.f32 d, a;", 1, Pairs32(),
           [](float a, float, float) { return std::fabs(Flush(a)); });
  CheckF32("neg.ftz.f32 d, a;", 1, Pairs32(), [](float a, float, float) { return -Flush(a); });
  CheckF64("abs.f64 d, a;", 1, Pairs64(), [](double a, double, double) { return std::fabs(a); });
  CheckF64("neg.f64 d, a;", 1, Pairs64(), [](double a, double, double) { return -a; });
  CheckF32("copysign.f32 d, a, b;", 2, Pairs32(),
           [](float a, float b, float) { return std::copysign(b, a); });
  CheckF64("copysign.f64 d, a, b;", 2, Pairs64(),
           [](double a, double b, double) { return std::copysign(b, a); });
}

TEST(FloatOps, Testp) {
  const auto check = [](const std::string& kind, const std::function<bool(float)>& f) {
    Check({"testp." + kind + ".f32 p, a; selp.u32 d, 1, 0, p;", "b32", {"f32"}}, Cross(Floats32()),
          [&](const Operands& x) { return f(F32(x[0])) ? 1 : 0; });
  };
  check("finite", [](float v) { return std::isfinite(v); });
  check("infinite", [](float v) { return std::isinf(v); });
  check("number", [](float v) { return !std::isnan(v); });
  check("notanumber", [](float v) { return std::isnan(v); });
  check("normal", [](float v) { return std::isnormal(v); });
  check("subnormal", [](float v) { return std::fpclassify(v) == FP_SUBNORMAL; });
}

}  // namespace
}  // namespace grove::emulator::opcodes
