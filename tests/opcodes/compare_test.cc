// setp, set, selp and slct: every comparison, with NaN.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

using FloatCompare = std::pair<const char*, std::function<bool(double, double)>>;

const std::vector<FloatCompare>& FloatCompares() {
  static const auto nan = [](double a, double b) { return std::isnan(a) || std::isnan(b); };
  static const std::vector<FloatCompare> all{
      {"eq", [](double a, double b) { return a == b; }},
      // ne is ordered in PTX: false on NaN.
      {"ne", [](double a, double b) { return !nan(a, b) && a != b; }},
      {"lt", [](double a, double b) { return a < b; }},
      {"le", [](double a, double b) { return a <= b; }},
      {"gt", [](double a, double b) { return a > b; }},
      {"ge", [](double a, double b) { return a >= b; }},
      {"equ", [](double a, double b) { return nan(a, b) || a == b; }},
      {"neu", [](double a, double b) { return nan(a, b) || a != b; }},
      {"ltu", [](double a, double b) { return nan(a, b) || a < b; }},
      {"leu", [](double a, double b) { return nan(a, b) || a <= b; }},
      {"gtu", [](double a, double b) { return nan(a, b) || a > b; }},
      {"geu", [](double a, double b) { return nan(a, b) || a >= b; }},
      {"num", [](double a, double b) { return !nan(a, b); }},
      {"nan", [](double a, double b) { return nan(a, b); }},
  };
  return all;
}

TEST(CompareOps, SetpF32) {
  for (const auto& [name, f] : FloatCompares()) {
    Check({fmt::format("setp.{}.f32 p, a, b; selp.u32 d, 1, 0, p;", name), "b32", {"f32", "f32"}},
          Cross(Floats32(), Floats32()),
          [&](const Operands& x) { return f(F32(x[0]), F32(x[1])) ? 1 : 0; });
  }
}

TEST(CompareOps, SetpFlushedF32) {
  for (const auto& [name, f] : FloatCompares()) {
    Check(
        {fmt::format("setp.{}.ftz.f32 p, a, b; selp.u32 d, 1, 0, p;", name), "b32", {"f32", "f32"}},
        Cross(Floats32(), Floats32()),
        [&](const Operands& x) { return f(Flush(F32(x[0])), Flush(F32(x[1]))) ? 1 : 0; });
  }
}

TEST(CompareOps, SetpF64) {
  for (const auto& [name, f] : FloatCompares()) {
    Check({fmt::format("setp.{}.f64 p, a, b; selp.u32 d, 1, 0, p;", name), "b32", {"f64", "f64"}},
          Cross(Floats64(), Floats64()),
          [&](const Operands& x) { return f(F64(x[0]), F64(x[1])) ? 1 : 0; });
  }
}

template <typename T>
void CheckIntegers(const std::string& type, const std::string& reg,
                   const std::vector<std::uint64_t>& values) {
  using Compare = std::pair<const char*, std::function<bool(T, T)>>;
  const std::vector<Compare> signed_names{
      {"eq", [](T a, T b) { return a == b; }}, {"ne", [](T a, T b) { return a != b; }},
      {"lt", [](T a, T b) { return a < b; }},  {"le", [](T a, T b) { return a <= b; }},
      {"gt", [](T a, T b) { return a > b; }},  {"ge", [](T a, T b) { return a >= b; }},
  };
  const std::vector<Compare> unsigned_names{
      {"lo", [](T a, T b) { return a < b; }},
      {"ls", [](T a, T b) { return a <= b; }},
      {"hi", [](T a, T b) { return a > b; }},
      {"hs", [](T a, T b) { return a >= b; }},
  };
  auto names = signed_names;
  if (type[0] == 'u') names.insert(names.end(), unsigned_names.begin(), unsigned_names.end());
  for (const auto& [name, f] : names) {
    Check({fmt::format("setp.{}.{} p, a, b; selp.u32 d, 1, 0, p;", name, type), "b32", {reg, reg}},
          Cross(values, values),
          [&](const Operands& x) { return f(static_cast<T>(x[0]), static_cast<T>(x[1])) ? 1 : 0; });
  }
}

TEST(CompareOps, SetpIntegers) {
  CheckIntegers<std::int16_t>("s16", "b16", Ints16());
  CheckIntegers<std::uint16_t>("u16", "b16", Ints16());
  CheckIntegers<std::int32_t>("s32", "b32", Ints32());
  CheckIntegers<std::uint32_t>("u32", "b32", Ints32());
  CheckIntegers<std::int64_t>("s64", "b64", Ints64());
  CheckIntegers<std::uint64_t>("u64", "b64", Ints64());
}

TEST(CompareOps, SetpBitTypes) {
  for (const char* type : {"b16", "b32", "b64"}) {
    const auto values = type[1] == '1' ? Ints16() : type[1] == '3' ? Ints32() : Ints64();
    Check({fmt::format("setp.eq.{} p, a, b; selp.u32 d, 1, 0, p;", type), "b32", {type, type}},
          Cross(values, values), [](const Operands& x) { return x[0] == x[1] ? 1 : 0; });
    Check({fmt::format("setp.ne.{} p, a, b; selp.u32 d, 1, 0, p;", type), "b32", {type, type}},
          Cross(values, values), [](const Operands& x) { return x[0] != x[1] ? 1 : 0; });
  }
}

TEST(CompareOps, SetpCombinesWithAPredicateAndGivesTwoResults) {
  for (const char* combine : {"and", "or", "xor"}) {
    for (const bool negated : {false, true}) {
      const auto join = [&](bool a, bool b) {
        return *combine == 'a' ? a && b : *combine == 'o' ? a || b : a != b;
      };
      Check({fmt::format("setp.ne.u32 r, c, 0; setp.lt.{}.s32 p|q, a, b, {}r; "
                         "selp.u32 d, 1, 0, p; selp.u32 e, 2, 0, q; add.u32 d, d, e;",
                         combine, negated ? "!" : ""),
             "b32",
             {"b32", "b32", "b32"},
             "b32"},
            Cross(Thin(Ints32(), 10), Thin(Ints32(), 10), {0, 1}), [&](const Operands& x) {
              const bool less = static_cast<std::int32_t>(x[0]) < static_cast<std::int32_t>(x[1]);
              const bool c = (x[2] != 0) != negated;
              return (join(less, c) ? 1 : 0) + (join(!less, c) ? 2 : 0);
            });
    }
  }
}

TEST(CompareOps, SetGivesAllOnesOrOne) {
  Check({"set.lt.u32.s32 d, a, b;", "b32", {"b32", "b32"}}, Cross(Ints32(), Ints32()),
        [](const Operands& x) {
          return static_cast<std::int32_t>(x[0]) < static_cast<std::int32_t>(x[1]) ? 0xffffffff : 0;
        });
  Check({"set.gtu.s32.f32 d, a, b;", "b32", {"f32", "f32"}}, Cross(Floats32(), Floats32()),
        [](const Operands& x) { return !(F32(x[0]) <= F32(x[1])) ? 0xffffffff : 0; });
  Check({"set.ge.f32.f32 d, a, b;", "f32", {"f32", "f32"}}, Cross(Floats32(), Floats32()),
        [](const Operands& x) { return F32(x[0]) >= F32(x[1]) ? 0x3f800000 : 0; });
}

TEST(CompareOps, SelpOfEveryWidth) {
  for (const char* t : {"b16", "b32", "b64", "f32", "f64"}) {
    Check(
        {fmt::format("setp.ne.u32 p, c, 0; selp.{} d, a, b, p;", t), t, {t, t, "b32"}},
        [] {
          auto lanes = RandomLanes(128, 41);
          for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i][2] = i % 2;
          return lanes;
        }(),
        [](const Operands& x) { return x[2] != 0 ? x[0] : x[1]; });
  }
}

TEST(CompareOps, SlctChoosesBySign) {
  Check({"slct.u32.s32 d, a, b, c;", "b32", {"b32", "b32", "b32"}}, Cross({1, 2}, {3, 4}, Ints32()),
        [](const Operands& x) { return static_cast<std::int32_t>(x[2]) >= 0 ? x[0] : x[1]; });
  Check(
      {"slct.f32.f32 d, a, b, c;", "f32", {"f32", "f32", "f32"}},
      Cross({Bits(1.0f)}, {Bits(2.0f)}, Floats32()),
      [](const Operands& x) { return F32(x[2]) >= 0 ? x[0] : x[1]; }, As::kF32);
}

TEST(CompareOps, GuardedInstructionsOnlyTouchTheirLanes) {
  Check({"setp.lt.s32 p, a, b; mov.u32 d, 7; @p mov.u32 d, 8; @!p add.u32 d, d, 2;",
         "b32",
         {"b32", "b32"}},
        Cross(Ints32(), Ints32()), [](const Operands& x) {
          return static_cast<std::int32_t>(x[0]) < static_cast<std::int32_t>(x[1]) ? 8 : 9;
        });
}

}  // namespace
}  // namespace grove::emulator::opcodes
