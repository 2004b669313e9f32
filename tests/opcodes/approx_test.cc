// Approximate functions within the error that the PTX ISA documents, and their special values.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

std::vector<Operands> Range(float low, float high, int n) {
  std::vector<Operands> lanes;
  for (int i = 0; i <= n; ++i) {
    const float v = low + (high - low) * static_cast<float>(i) / static_cast<float>(n);
    lanes.push_back({Bits(v), 0, 0, 0});
  }
  return lanes;
}

std::vector<Operands> Exponents(bool negative = false) {
  std::vector<Operands> lanes;
  for (std::uint64_t e = 1; e < 255; ++e) {
    for (const std::uint64_t m : {0x0u, 0x1u, 0x3504f3u, 0x400000u, 0x7fffffu}) {
      lanes.push_back({(e << 23) | m | (negative ? 0x80000000 : 0), 0, 0, 0});
    }
  }
  return lanes;
}

// |got - want| <= max(relative * |want|, absolute), in lanes where the reference is normal.
void Within(const std::string& text, const std::vector<Operands>& lanes,
            const std::function<double(double, double)>& f, double relative, double absolute = 0,
            int operands = 1) {
  const auto got = Execute(
      {text, "f32", std::vector<std::string>(static_cast<std::size_t>(operands), "f32")}, lanes);
  ASSERT_EQ(got.size(), lanes.size()) << text;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const double want =
        f(static_cast<double>(F32(lanes[i][0])), static_cast<double>(F32(lanes[i][1])));
    if (std::fabs(want) < 1.1754943508222875e-38 && want != 0) continue;
    if (std::fabs(want) > 3.4028234663852886e38) continue;
    const double error = std::fabs(static_cast<double>(F32(got[i][0])) - want);
    const double allowed = std::max(relative * std::fabs(want), absolute);
    if (!(error <= allowed)) {
      ADD_FAILURE() << text << " at " << F32(lanes[i][0]) << ", " << F32(lanes[i][1]) << ": got "
                    << F32(got[i][0]) << ", want " << want << ", error " << error << " > "
                    << allowed;
      return;
    }
  }
}

void Exactly(const std::string& text, const std::vector<std::pair<float, float>>& table) {
  std::vector<Operands> lanes;
  for (const auto& [in, out] : table) lanes.push_back({Bits(in), Bits(out), 0, 0});
  Check(
      {text, "f32", {"f32"}}, lanes, [](const Operands& x) { return x[1]; }, As::kF32);
}

const float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kDenormal = 1e-40f;

TEST(ApproxOps, Ex2) {
  const auto exp2 = [](double a, double) { return std::exp2(a); };
  // 2 ulp over the full range, that is at most 2^-22 relative.
  Within("ex2.approx.f32 d, a;", Range(-125, 127.9f, 4000), exp2, std::ldexp(1.0, -22));
  Within("ex2.approx.ftz.f32 d, a;", Range(-2, 2, 4000), exp2, std::ldexp(1.0, -22));
  Exactly("ex2.approx.ftz.f32 d, a;", {{0.0f, 1.0f},
                                       {-0.0f, 1.0f},
                                       {1.0f, 2.0f},
                                       {-1.0f, 0.5f},
                                       {10.0f, 1024.0f},
                                       {kDenormal, 1.0f},
                                       {kInf, kInf},
                                       {-kInf, 0.0f},
                                       {200.0f, kInf},
                                       {-200.0f, 0.0f},
                                       {-140.0f, 0.0f},
                                       {kNan, kNan}});
}

TEST(ApproxOps, Ex2KeepsSubnormalResultsWithoutFtz) {
  const auto got = Execute({"ex2.approx.f32 d, a;", "f32", {"f32"}},
                           std::vector<Operands>{{Bits(-130.0f), 0, 0, 0}});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_NEAR(F32(got[0][0]) / std::exp2(-130.0), 1, 1e-4);
}

TEST(ApproxOps, Lg2) {
  const auto log2 = [](double a, double) { return std::log2(a); };
  // 2^-22 absolute in (0.5, 2), 2 ulp outside.
  Within("lg2.approx.f32 d, a;", Range(0.5f, 2, 4000), log2, 0, std::ldexp(1.0, -22));
  Within("lg2.approx.ftz.f32 d, a;", Exponents(), log2, std::ldexp(1.0, -22), std::ldexp(1.0, -22));
  Exactly("lg2.approx.f32 d, a;", {{1.0f, 0.0f},
                                   {8.0f, 3.0f},
                                   {0.0f, -kInf},
                                   {-0.0f, -kInf},
                                   {kInf, kInf},
                                   {-1.0f, kNan},
                                   {-kInf, kNan},
                                   {kNan, kNan}});
  Exactly("lg2.approx.ftz.f32 d, a;", {{kDenormal, -kInf}, {-kDenormal, -kInf}});
}

TEST(ApproxOps, SinCos) {
  const float pi = 3.14159265f;
  const auto sine = [](double a, double) { return std::sin(a); };
  const auto cosine = [](double a, double) { return std::cos(a); };
  Within("sin.approx.f32 d, a;", Range(-pi, pi, 4000), sine, 0, std::ldexp(1.0, -20.5));
  Within("cos.approx.f32 d, a;", Range(-pi, pi, 4000), cosine, 0, std::ldexp(1.0, -20.5));
  Within("sin.approx.f32 d, a;", Range(-100 * pi, 100 * pi, 4000), sine, 0, std::ldexp(1.0, -14.7));
  Within("cos.approx.ftz.f32 d, a;", Range(-100 * pi, 100 * pi, 4000), cosine, 0,
         std::ldexp(1.0, -14.7));
  Exactly("sin.approx.ftz.f32 d, a;", {{0.0f, 0.0f}, {-0.0f, -0.0f}, {kInf, kNan}, {kNan, kNan}});
  Exactly("cos.approx.ftz.f32 d, a;", {{0.0f, 1.0f}, {-kInf, kNan}, {kNan, kNan}});
}

TEST(ApproxOps, RcpRsqrtSqrt) {
  Within(
      "rcp.approx.f32 d, a;", Exponents(), [](double a, double) { return 1 / a; },
      std::ldexp(1.0, -23));
  Within(
      "rcp.approx.ftz.f32 d, a;", Exponents(true), [](double a, double) { return 1 / a; },
      std::ldexp(1.0, -23));
  Within(
      "rsqrt.approx.f32 d, a;", Exponents(), [](double a, double) { return 1 / std::sqrt(a); },
      std::ldexp(1.0, -22.9));
  Within(
      "sqrt.approx.f32 d, a;", Exponents(), [](double a, double) { return std::sqrt(a); },
      std::ldexp(1.0, -23));
  Exactly("rcp.approx.ftz.f32 d, a;", {{0.0f, kInf},
                                       {-0.0f, -kInf},
                                       {kInf, 0.0f},
                                       {-kInf, -0.0f},
                                       {kDenormal, kInf},
                                       {-kDenormal, -kInf},
                                       {kNan, kNan}});
  Exactly("rsqrt.approx.ftz.f32 d, a;", {{0.0f, kInf},
                                         {-0.0f, -kInf},
                                         {4.0f, 0.5f},
                                         {kInf, 0.0f},
                                         {kDenormal, kInf},
                                         {-1.0f, kNan},
                                         {kNan, kNan}});
  Exactly("sqrt.approx.ftz.f32 d, a;", {{0.0f, 0.0f},
                                        {-0.0f, -0.0f},
                                        {4.0f, 2.0f},
                                        {kInf, kInf},
                                        {kDenormal, 0.0f},
                                        {-1.0f, kNan},
                                        {kNan, kNan}});
}

TEST(ApproxOps, Tanh) {
  Within(
      "tanh.approx.f32 d, a;", Range(-9, 9, 4000), [](double a, double) { return std::tanh(a); },
      std::ldexp(1.0, -10.987));
  Exactly("tanh.approx.f32 d, a;",
          {{kInf, 1.0f}, {-kInf, -1.0f}, {0.0f, 0.0f}, {-0.0f, -0.0f}, {kNan, kNan}});
}

TEST(ApproxOps, Division) {
  std::vector<Operands> lanes;
  for (const Operands& a : Exponents()) {
    for (const float b : {1.0f, 3.0f, -7.0f, 0.1f, 1e10f, 1e-10f, 6e37f}) {
      lanes.push_back({a[0], Bits(b), 0, 0});
    }
  }
  const auto divide = [](double a, double b) { return a / b; };
  Within("div.approx.f32 d, a, b;", lanes, divide, std::ldexp(1.0, -22), 0, 2);
  Within("div.full.f32 d, a, b;", lanes, divide, std::ldexp(1.0, -22), 0, 2);
  Within("div.approx.ftz.f32 d, a, b;", lanes, divide, std::ldexp(1.0, -22), 0, 2);
  std::vector<Operands> special;
  const auto add = [&](float a, float b, float d) {
    special.push_back({Bits(a), Bits(b), Bits(d), 0});
  };
  add(1, 0, kInf);
  add(-1, 0, -kInf);
  add(0, 0, kNan);
  add(kInf, kInf, kNan);
  add(1, kInf, 0);
  add(-1, kInf, -0.0f);
  add(kInf, 2, kInf);
  Check(
      {"div.approx.f32 d, a, b;", "f32", {"f32", "f32"}}, special,
      [](const Operands& x) { return x[2]; }, As::kF32);
  Check(
      {"div.full.f32 d, a, b;", "f32", {"f32", "f32"}}, special,
      [](const Operands& x) { return x[2]; }, As::kF32);
}

TEST(ApproxOps, DoubleReciprocals) {
  std::vector<Operands> lanes;
  for (std::uint64_t e = 100; e < 1900; e += 7) lanes.push_back({(e << 52) | (e << 37), 0, 0, 0});
  const auto check = [&](const char* text, const std::function<double(double)>& f) {
    const auto got = Execute({text, "f64", {"f64"}}, lanes);
    ASSERT_EQ(got.size(), lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const double want = f(F64(lanes[i][0]));
      ASSERT_NEAR(F64(got[i][0]) / want, 1, 1e-5) << text << " at " << F64(lanes[i][0]);
    }
  };
  check("rcp.approx.ftz.f64 d, a;", [](double a) { return 1 / a; });
  check("rsqrt.approx.ftz.f64 d, a;", [](double a) { return 1 / std::sqrt(a); });
}

TEST(ApproxOps, HalfFunctions) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t h = 0x2000; h < 0x4900; h += 5) {
    values.push_back(h);
    values.push_back(h | 0x8000);
  }
  const auto lanes = Cross(values);
  const auto check = [&](const std::string& text, Format format,
                         const std::function<double(double)>& f, double relative) {
    const auto got = Execute({text, "b16", {"b16"}}, lanes);
    ASSERT_EQ(got.size(), lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const double x = Decode(lanes[i][0], format);
      const double want = f(x);
      if (std::fabs(want) < 6.2e-5 || std::fabs(want) > 60000) continue;
      ASSERT_NEAR(Decode(got[i][0], format) / want, 1, relative) << text << " at " << x;
    }
  };
  check(
      "ex2.approx.f16 d, a;", kHalf, [](double a) { return std::exp2(a); }, std::ldexp(1.0, -9.9));
  check(
      "tanh.approx.f16 d, a;", kHalf, [](double a) { return std::tanh(a); }, std::ldexp(1.0, -9.9));
  check(
      "ex2.approx.ftz.bf16 d, a;", kBFloat, [](double a) { return std::exp2(a); },
      std::ldexp(1.0, -7));
  check(
      "tanh.approx.bf16 d, a;", kBFloat, [](double a) { return std::tanh(a); },
      std::ldexp(1.0, -7));
}

}  // namespace
}  // namespace grove::emulator::opcodes
