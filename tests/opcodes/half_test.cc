// f16, f16x2, bf16 and bf16x2 arithmetic, correctly rounded, and comparisons.
#include <cmath>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

struct Narrow {
  const char* name;
  Format format;
  As as;
  As pair;
};
constexpr Narrow kF16{"f16", kHalf, As::kF16, As::kF16x2};
constexpr Narrow kBF16{"bf16", kBFloat, As::kBF16, As::kBF16x2};

using Exact = std::function<double(double, double, double)>;

class NarrowOp : public testing::TestWithParam<Narrow> {
 protected:
  std::vector<std::uint64_t> values() const {
    return GetParam().as == As::kF16 ? Halves() : BFloats();
  }
  std::vector<Operands> lanes(int operands) const {
    const auto v = operands == 3 ? Thin(values(), 14) : values();
    auto all = operands == 1 ? Cross(v) : operands == 2 ? Cross(v, v) : Cross(v, v, v);
    for (Operands x : RandomLanes(1500, 61)) {
      for (auto& bits : x) bits &= 0xffff;
      all.push_back(x);
    }
    return all;
  }
  double D(std::uint64_t bits) const { return Decode(bits & 0xffff, GetParam().format); }
  std::uint64_t R(double v) const { return RoundTo(v, GetParam().format, Round::kNearest); }

  // `f` must be exact or rounded to odd in double.
  void CheckScalar(const std::string& op, int operands, const Exact& f) {
    static const char* const kList[] = {"", "d, a;", "d, a, b;", "d, a, b, c;"};
    Check(
        {fmt::format("{}.{} {}", op, GetParam().name, kList[operands]), "b16",
         std::vector<std::string>(static_cast<std::size_t>(operands), "b16")},
        lanes(operands), [&](const Operands& x) { return R(f(D(x[0]), D(x[1]), D(x[2]))); },
        GetParam().as);
  }
  void CheckPair(const std::string& op, int operands, const Exact& f) {
    static const char* const kList[] = {"", "d, a;", "d, a, b;", "d, a, b, c;"};
    // Different halves: the upper one is the lanes in reverse.
    auto low = lanes(operands);
    for (std::size_t i = 0; i < low.size(); ++i) {
      for (std::size_t k = 0; k < 4; ++k) {
        low[i][k] = (low[i][k] & 0xffff) | ((low[low.size() - 1 - i][k] & 0xffff) << 16);
      }
    }
    Check(
        {fmt::format("{}.{}x2 {}", op, GetParam().name, kList[operands]), "b32",
         std::vector<std::string>(static_cast<std::size_t>(operands), "b32")},
        low,
        [&](const Operands& x) {
          return R(f(D(x[0]), D(x[1]), D(x[2]))) |
                 (R(f(D(x[0] >> 16), D(x[1] >> 16), D(x[2] >> 16))) << 16);
        },
        GetParam().pair);
  }
  void CheckBoth(const std::string& op, int operands, const Exact& f) {
    CheckScalar(op, operands, f);
    CheckPair(op, operands, f);
  }
};

TEST_P(NarrowOp, AddSubMul) {
  CheckBoth("add.rn", 2, [](double a, double b, double) { return AddToOdd(a, b); });
  CheckBoth("sub.rn", 2, [](double a, double b, double) { return AddToOdd(a, -b); });
  CheckBoth("mul.rn", 2, [](double a, double b, double) { return a * b; });
}

TEST_P(NarrowOp, Fma) {
  CheckBoth("fma.rn", 3, [](double a, double b, double c) { return FmaToOdd(a, b, c); });
  CheckBoth("fma.rn.relu", 3, [](double a, double b, double c) {
    const double v = FmaToOdd(a, b, c);
    return std::isnan(v) || v > 0 ? v : 0.0;
  });
}

TEST_P(NarrowOp, MinMax) {
  const auto least = [](double a, double b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  };
  CheckBoth("min", 2, [&](double a, double b, double) { return least(a, b); });
  CheckBoth("max", 2, [&](double a, double b, double) { return -least(-a, -b); });
  CheckBoth("min.NaN", 2, [&](double a, double b, double) {
    return std::isnan(a) || std::isnan(b) ? std::nan("") : least(a, b);
  });
}

TEST_P(NarrowOp, AbsNeg) {
  CheckBoth("abs", 1, [](double a, double, double) { return std::fabs(a); });
  CheckBoth("neg", 1, [](double a, double, double) { return -a; });
}

TEST_P(NarrowOp, Setp) {
  const auto nan = [](double a, double b) { return std::isnan(a) || std::isnan(b); };
  const std::vector<std::pair<const char*, std::function<bool(double, double)>>> all{
      {"eq", [](double a, double b) { return a == b; }},
      {"ne", [&](double a, double b) { return !nan(a, b) && a != b; }},
      {"lt", [](double a, double b) { return a < b; }},
      {"ge", [](double a, double b) { return a >= b; }},
      {"neu", [&](double a, double b) { return nan(a, b) || a != b; }},
      {"gtu", [&](double a, double b) { return nan(a, b) || a > b; }},
      {"num", [&](double a, double b) { return !nan(a, b); }},
      {"nan", [&](double a, double b) { return nan(a, b); }},
  };
  for (const auto& [name, f] : all) {
    Check({fmt::format("setp.{}.{} p, a, b; selp.u32 d, 1, 0, p;", name, GetParam().name),
           "b32",
           {"b16", "b16"}},
          lanes(2), [&](const Operands& x) { return f(D(x[0]), D(x[1])) ? 1 : 0; });
    Check({fmt::format("setp.{}.{}x2 p|q, a, b; selp.u32 d, 1, 0, p; selp.u32 e, 2, 0, q; "
                       "add.u32 d, d, e;",
                       name, GetParam().name),
           "b32",
           {"b32", "b32"},
           "b32"},
          RandomLanes(512, 62), [&](const Operands& x) {
            return (f(D(x[0]), D(x[1])) ? 1 : 0) + (f(D(x[0] >> 16), D(x[1] >> 16)) ? 2 : 0);
          });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, NarrowOp, testing::Values(kF16, kBF16),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HalfOps, SaturatedAndFlushed) {
  const auto lanes = Cross(Halves(), Halves());
  const auto value = [](std::uint64_t bits) { return Decode(bits, kHalf); };
  const auto flush = [&](std::uint64_t bits) {
    const double v = value(bits);
    return std::fabs(v) < std::ldexp(1.0, -14) ? std::copysign(0.0, v) : v;
  };
  Check({"add.rn.sat.f16 d, a, b;", "b16", {"b16", "b16"}}, lanes, [&](const Operands& x) {
    const double v = value(x[0]) + value(x[1]);
    if (!(v > 0)) return std::uint64_t{0};
    return RoundTo(std::min(v, 1.0), kHalf, Round::kNearest);
  });
  Check(
      {"add.ftz.f16 d, a, b;", "b16", {"b16", "b16"}}, lanes,
      [&](const Operands& x) {
        return RoundTo(flush(RoundTo(flush(x[0]) + flush(x[1]), kHalf, Round::kNearest)), kHalf,
                       Round::kNearest);
      },
      As::kF16);
}

TEST(HalfOps, CompilersHalfNegationByXor) {
  Check({"xor.b16 d, a, 0x8000;", "b16", {"b16"}}, Cross(Halves()),
        [](const Operands& x) { return x[0] ^ 0x8000; });
}

}  // namespace
}  // namespace grove::emulator::opcodes
