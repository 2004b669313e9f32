// Integer arithmetic, opcode by opcode, against host integers.
#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"

namespace grove::emulator::opcodes {
namespace {

// __int128 is needed for the high half of 64-bit products.
__extension__ using Wide = __int128;
__extension__ using UWide = unsigned __int128;

std::int64_t Sign(std::uint64_t bits, int width) {
  return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}
std::uint64_t Mask(int width) {
  return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}
Wide Value(std::uint64_t bits, int width, bool is_signed) {
  if (is_signed) return Sign(bits, width);
  return static_cast<Wide>(bits & Mask(width));
}
std::uint64_t Low(Wide value) { return static_cast<std::uint64_t>(value); }

struct IntType {
  int width;
  bool is_signed;
  std::string name() const { return fmt::format("{}{}", is_signed ? 's' : 'u', width); }
  std::string bits() const { return fmt::format("b{}", width); }
};

class IntegerOp : public testing::TestWithParam<IntType> {
 protected:
  int width() const { return GetParam().width; }
  std::string type() const { return GetParam().name(); }
  std::string reg() const { return GetParam().bits(); }
  Wide V(std::uint64_t bits) const { return Value(bits, width(), GetParam().is_signed); }
  std::vector<std::uint64_t> values() const {
    return width() == 16 ? Ints16() : width() == 32 ? Ints32() : Ints64();
  }
  std::vector<Operands> pairs() const {
    auto lanes = Cross(values(), values());
    const auto random = RandomLanes(256, 7);
    lanes.insert(lanes.end(), random.begin(), random.end());
    return lanes;
  }
  std::vector<Operands> triples() const {
    const auto v = Thin(values(), 12);
    auto lanes = Cross(v, v, v);
    const auto random = RandomLanes(256, 8);
    lanes.insert(lanes.end(), random.begin(), random.end());
    return lanes;
  }
  void Binary(const std::string& op, const std::function<Wide(Wide, Wide)>& f) {
    Check({fmt::format("{}.{} d, a, b;", op, type()), reg(), {reg(), reg()}}, pairs(),
          [&](const Operands& x) { return Low(f(V(x[0]), V(x[1]))); });
  }
  // Both halves of the product in one 128-bit (or narrower) value.
  UWide Product(std::uint64_t a, std::uint64_t b) const {
    if (GetParam().is_signed) return static_cast<UWide>(V(a) * V(b));
    return static_cast<UWide>(V(a)) * static_cast<UWide>(V(b));
  }
};

TEST_P(IntegerOp, AddSubMul) {
  Binary("add", [](Wide a, Wide b) { return a + b; });
  Binary("sub", [](Wide a, Wide b) { return a - b; });
}

TEST_P(IntegerOp, MulLoAndHi) {
  Check({"mul.lo." + type() + " d, a, b;", reg(), {reg(), reg()}}, pairs(),
        [&](const Operands& x) { return static_cast<std::uint64_t>(Product(x[0], x[1])); });
  Check({"mul.hi." + type() + " d, a, b;", reg(), {reg(), reg()}}, pairs(), [&](const Operands& x) {
    return static_cast<std::uint64_t>(Product(x[0], x[1]) >> width());
  });
}

TEST_P(IntegerOp, MulWide) {
  if (width() == 64) GTEST_SKIP() << "no mul.wide for 64-bit operands in PTX";
  const std::string wide = fmt::format("b{}", 2 * width());
  Check({"mul.wide." + type() + " d, a, b;", wide, {reg(), reg()}}, pairs(),
        [&](const Operands& x) { return static_cast<std::uint64_t>(Product(x[0], x[1])); });
  Check({"mad.wide." + type() + " d, a, b, c;", wide, {reg(), reg(), wide}}, triples(),
        [&](const Operands& x) { return static_cast<std::uint64_t>(Product(x[0], x[1])) + x[2]; });
}

TEST_P(IntegerOp, MadLoAndHi) {
  Check({"mad.lo." + type() + " d, a, b, c;", reg(), {reg(), reg(), reg()}}, triples(),
        [&](const Operands& x) { return static_cast<std::uint64_t>(Product(x[0], x[1])) + x[2]; });
  Check({"mad.hi." + type() + " d, a, b, c;", reg(), {reg(), reg(), reg()}}, triples(),
        [&](const Operands& x) {
          return static_cast<std::uint64_t>(Product(x[0], x[1]) >> width()) + x[2];
        });
}

TEST_P(IntegerOp, DivAndRem) {
  std::vector<Operands> lanes;
  for (const Operands& x : pairs()) {
    if ((x[1] & Mask(width())) != 0) lanes.push_back(x);
  }
  for (const char* op : {"div", "rem"}) {
    const bool div = std::string(op) == "div";
    Check({fmt::format("{}.{} d, a, b;", op, type()), reg(), {reg(), reg()}}, lanes,
          [&](const Operands& x) { return Low(div ? V(x[0]) / V(x[1]) : V(x[0]) % V(x[1])); });
  }
}

TEST_P(IntegerOp, DivisionByZeroDoesNotEndTheProgram) {
  // The result is unspecified; all that is asked is that there is one.
  const std::vector<Operands> lanes = Cross(values(), {0});
  EXPECT_EQ(Execute({"div." + type() + " d, a, b;", reg(), {reg(), reg()}}, lanes).size(),
            lanes.size());
  EXPECT_EQ(Execute({"rem." + type() + " d, a, b;", reg(), {reg(), reg()}}, lanes).size(),
            lanes.size());
}

TEST_P(IntegerOp, MinAndMax) {
  Binary("min", [](Wide a, Wide b) { return std::min(a, b); });
  Binary("max", [](Wide a, Wide b) { return std::max(a, b); });
}

TEST_P(IntegerOp, AbsAndNeg) {
  if (!GetParam().is_signed) GTEST_SKIP() << "abs and neg are signed in PTX";
  Check({"abs." + type() + " d, a;", reg(), {reg()}}, Cross(values()),
        [&](const Operands& x) { return Low(V(x[0]) < 0 ? -V(x[0]) : V(x[0])); });
  Check({"neg." + type() + " d, a;", reg(), {reg()}}, Cross(values()),
        [&](const Operands& x) { return Low(-V(x[0])); });
}

TEST_P(IntegerOp, ShiftRightClampsItsAmount) {
  auto lanes = Cross(
      values(), {0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000000, 0xffffffff});
  Check({"shr." + type() + " d, a, b;", reg(), {reg(), "b32"}}, lanes, [&](const Operands& x) {
    const int n = static_cast<int>(std::min<std::uint64_t>(x[1], 64));
    return Low(V(x[0]) >> n);
  });
}

TEST_P(IntegerOp, Sad) {
  Check({"sad." + type() + " d, a, b, c;", reg(), {reg(), reg(), reg()}}, triples(),
        [&](const Operands& x) {
          const Wide a = V(x[0]), b = V(x[1]);
          return Low(a < b ? b - a : a - b) + x[2];
        });
}

INSTANTIATE_TEST_SUITE_P(Types, IntegerOp,
                         testing::Values(IntType{16, false}, IntType{16, true}, IntType{32, false},
                                         IntType{32, true}, IntType{64, false}, IntType{64, true}),
                         [](const auto& test) { return test.param.name(); });

TEST(IntegerOps, SaturatingAddAndSub) {
  const auto clamp = [](std::int64_t v) {
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(v, INT32_MIN, INT32_MAX));
  };
  const auto lanes = Cross(Ints32(), Ints32());
  Check({"add.sat.s32 d, a, b;", "b32", {"b32", "b32"}}, lanes,
        [&](const Operands& x) { return clamp(Sign(x[0], 32) + Sign(x[1], 32)); });
  Check({"sub.sat.s32 d, a, b;", "b32", {"b32", "b32"}}, lanes,
        [&](const Operands& x) { return clamp(Sign(x[0], 32) - Sign(x[1], 32)); });
}

TEST(IntegerOps, Mul24) {
  const auto lanes = Cross(Ints32(), Ints32());
  const auto product = [](const Operands& x, bool is_signed) {
    if (is_signed) return static_cast<std::uint64_t>(Sign(x[0], 24) * Sign(x[1], 24));
    return (x[0] & 0xffffff) * (x[1] & 0xffffff);
  };
  for (const bool is_signed : {false, true}) {
    const std::string t = is_signed ? "s32" : "u32";
    Check({"mul24.lo." + t + " d, a, b;", "b32", {"b32", "b32"}}, lanes,
          [&](const Operands& x) { return product(x, is_signed); });
    Check({"mul24.hi." + t + " d, a, b;", "b32", {"b32", "b32"}}, lanes,
          [&](const Operands& x) { return product(x, is_signed) >> 16; });
    Check({"mad24.lo." + t + " d, a, b, c;", "b32", {"b32", "b32", "b32"}}, RandomLanes(512, 3),
          [&](const Operands& x) { return product(x, is_signed) + x[2]; });
  }
}

TEST(IntegerOps, AddCarryChain) {
  Op op{"add.cc.u32 d, a, c; addc.u32 e, b, f;", "b32", {"b32", "b32", "b32", "b32"}, "b32"};
  auto lanes = RandomLanes(1024, 11);
  for (const Operands& x : Cross(Thin(Ints32(), 9), Thin(Ints32(), 9), Thin(Ints32(), 9))) {
    lanes.push_back({x[0], x[1], x[2], 0xffffffff});
  }
  for (Operands& x : lanes) {
    for (auto& v : x) v &= 0xffffffff;
  }
  const auto got = Execute(op, lanes);
  ASSERT_EQ(got.size(), lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Operands& x = lanes[i];
    const std::uint64_t want = ((x[1] << 32) | x[0]) + ((x[3] << 32) | x[2]);
    ASSERT_EQ((got[i][1] << 32) | got[i][0], want) << i;
  }
}

TEST(IntegerOps, SubtractBorrowChain) {
  Op op{"sub.cc.u32 d, a, c; subc.u32 e, b, f;", "b32", {"b32", "b32", "b32", "b32"}, "b32"};
  auto lanes = RandomLanes(1024, 12);
  lanes.push_back({0, 1, 1, 0});
  lanes.push_back({0, 0, 0, 0});
  lanes.push_back({5, 0, 5, 0});
  for (Operands& x : lanes) {
    for (auto& v : x) v &= 0xffffffff;
  }
  const auto got = Execute(op, lanes);
  ASSERT_EQ(got.size(), lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Operands& x = lanes[i];
    const std::uint64_t want = ((x[1] << 32) | x[0]) - ((x[3] << 32) | x[2]);
    ASSERT_EQ((got[i][1] << 32) | got[i][0], want) << i;
  }
}

TEST(IntegerOps, CarryRunsThroughThreeWords) {
  // d = carry out of the middle word of (a, b, 0) + (c, f, 0).
  Op op{"add.cc.u32 t, a, c; addc.cc.u32 e, b, f; addc.u32 d, 0, 0;",
        "b32",
        {"b32", "b32", "b32", "b32"},
        "b32",
        ".reg .b32 t;"};
  Check(op, RandomLanes(512, 13), [](const Operands& x) {
    const std::uint64_t m = 0xffffffff;
    const std::uint64_t low = ((x[0] & m) + (x[2] & m)) >> 32;
    return ((x[1] & m) + (x[3] & m) + low) >> 32;
  });
  Op ones{"add.cc.u32 t, a, c; addc.cc.u32 e, b, f; addc.u32 d, 0, 0;",
          "b32",
          {"b32", "b32", "b32", "b32"},
          "b32",
          ".reg .b32 t;"};
  Check(ones, std::vector<Operands>{{0xffffffff, 0xffffffff, 1, 0}},
        [](const Operands&) { return 1; });
}

TEST(IntegerOps, MultiplyAddCarryChain) {
  // The 64-bit product of two words plus a 64-bit addend, as compilers write it.
  Op op{"mad.lo.cc.u32 d, a, b, c; madc.hi.u32 e, a, b, f;",
        "b32",
        {"b32", "b32", "b32", "b32"},
        "b32"};
  auto lanes = RandomLanes(512, 14);
  for (Operands& x : lanes) {
    for (auto& v : x) v &= 0xffffffff;
  }
  const auto got = Execute(op, lanes);
  ASSERT_EQ(got.size(), lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Operands& x = lanes[i];
    const std::uint64_t want = x[0] * x[1] + ((x[3] << 32) | x[2]);
    ASSERT_EQ((got[i][1] << 32) | got[i][0], want) << i;
  }
}

TEST(IntegerOps, CarryChainIn64Bits) {
  Op op{"add.cc.u64 d, a, c; addc.u64 e, b, f;", "b64", {"b64", "b64", "b64", "b64"}, "b64"};
  const auto lanes = RandomLanes(512, 15);
  const auto got = Execute(op, lanes);
  ASSERT_EQ(got.size(), lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Operands& x = lanes[i];
    const UWide want =
        ((static_cast<UWide>(x[1]) << 64) | x[0]) + ((static_cast<UWide>(x[3]) << 64) | x[2]);
    ASSERT_EQ(got[i][0], static_cast<std::uint64_t>(want)) << i;
    ASSERT_EQ(got[i][1], static_cast<std::uint64_t>(want >> 64)) << i;
  }
}

TEST(IntegerOps, DotProducts) {
  for (const char a_type : {'u', 's'}) {
    for (const char b_type : {'u', 's'}) {
      const auto byte = [](std::uint64_t v, int i, char t) -> std::int64_t {
        const std::uint64_t b = (v >> (8 * i)) & 0xff;
        return t == 's' ? Sign(b, 8) : static_cast<std::int64_t>(b);
      };
      const auto half = [](std::uint64_t v, int i, char t) -> std::int64_t {
        const std::uint64_t b = (v >> (16 * i)) & 0xffff;
        return t == 's' ? Sign(b, 16) : static_cast<std::int64_t>(b);
      };
      Check(
          {fmt::format("dp4a.{}32.{}32 d, a, b, c;", a_type, b_type), "b32", {"b32", "b32", "b32"}},
          RandomLanes(512, 16), [&](const Operands& x) {
            std::int64_t sum = static_cast<std::int64_t>(x[2] & 0xffffffff);
            for (int i = 0; i < 4; ++i) sum += byte(x[0], i, a_type) * byte(x[1], i, b_type);
            return static_cast<std::uint64_t>(sum);
          });
      for (const int hi : {0, 1}) {
        Check({fmt::format("dp2a.{}.{}32.{}32 d, a, b, c;", hi ? "hi" : "lo", a_type, b_type),
               "b32",
               {"b32", "b32", "b32"}},
              RandomLanes(512, 17), [&](const Operands& x) {
                std::int64_t sum = static_cast<std::int64_t>(x[2] & 0xffffffff);
                for (int i = 0; i < 2; ++i) {
                  sum += half(x[0], i, a_type) * byte(x[1], i + 2 * hi, b_type);
                }
                return static_cast<std::uint64_t>(sum);
              });
      }
    }
  }
}

TEST(IntegerOps, PackedHalfwords) {
  // sm_90: two 16-bit lanes in one register.
  const auto lanes = RandomLanes(1024, 18);
  const auto pair = [](const Operands& x, auto f) {
    std::uint64_t d = 0;
    for (int i = 0; i < 2; ++i) {
      d |= (f((x[0] >> (16 * i)) & 0xffff, (x[1] >> (16 * i)) & 0xffff) & 0xffff) << (16 * i);
    }
    return d;
  };
  const Op add{"add.u16x2 d, a, b;", "b32", {"b32", "b32"}};
  Check(add, lanes, [&](const Operands& x) {
    return pair(x, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  });
  Check({"min.u16x2 d, a, b;", "b32", {"b32", "b32"}}, lanes, [&](const Operands& x) {
    return pair(x, [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); });
  });
  Check({"max.s16x2 d, a, b;", "b32", {"b32", "b32"}}, lanes, [&](const Operands& x) {
    return pair(x, [](std::uint64_t a, std::uint64_t b) {
      return static_cast<std::uint64_t>(std::max(Sign(a, 16), Sign(b, 16)));
    });
  });
}

}  // namespace
}  // namespace grove::emulator::opcodes
