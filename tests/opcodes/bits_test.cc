// Logic, shifts and bit fields against bit-by-bit host versions.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"

namespace grove::emulator::opcodes {
namespace {

std::uint64_t Mask(int width) {
  return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}
std::vector<std::uint64_t> Values(int width) {
  return width == 16 ? Ints16() : width == 32 ? Ints32() : Ints64();
}
bool Bit(std::uint64_t v, std::uint64_t i) { return ((v >> i) & 1) != 0; }

TEST(BitOps, AndOrXorNotCnot) {
  for (const int width : {16, 32, 64}) {
    const std::string t = fmt::format("b{}", width);
    const auto lanes = Cross(Values(width), Values(width));
    Check({"and." + t + " d, a, b;", t, {t, t}}, lanes,
          [](const Operands& x) { return x[0] & x[1]; });
    Check({"or." + t + " d, a, b;", t, {t, t}}, lanes,
          [](const Operands& x) { return x[0] | x[1]; });
    Check({"xor." + t + " d, a, b;", t, {t, t}}, lanes,
          [](const Operands& x) { return x[0] ^ x[1]; });
    Check({"not." + t + " d, a;", t, {t}}, lanes, [](const Operands& x) { return ~x[0]; });
    Check({"cnot." + t + " d, a;", t, {t}}, lanes,
          [](const Operands& x) { return x[0] == 0 ? 1 : 0; });
  }
}

TEST(BitOps, PredicateLogic) {
  const Op op{R"(setp.ne.u32 p, a, 0; setp.ne.u32 q, b, 0;
    and.pred t, p, q; selp.u32 d, 1, 0, t;
    or.pred t, p, q; selp.u32 e, 2, 0, t; add.u32 d, d, e;
    xor.pred t, p, q; selp.u32 e, 4, 0, t; add.u32 d, d, e;
    not.pred t, p; selp.u32 e, 8, 0, t; add.u32 d, d, e;
    mov.pred t, q; selp.u32 e, 16, 0, t; add.u32 d, d, e;)",
              "b32",
              {"b32", "b32"},
              "b32",
              ".reg .pred t;"};
  Check(op, Cross({0, 1}, {0, 1}), [](const Operands& x) {
    const bool a = x[0] != 0, b = x[1] != 0;
    return (a && b ? 1 : 0) + (a || b ? 2 : 0) + (a != b ? 4 : 0) + (!a ? 8 : 0) + (b ? 16 : 0);
  });
}

TEST(BitOps, ShiftLeftClampsItsAmount) {
  for (const int width : {16, 32, 64}) {
    const std::string t = fmt::format("b{}", width);
    Check({"shl." + t + " d, a, b;", t, {t, "b32"}},
          Cross(Values(width), {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 256, 0xffffffff}),
          [&](const Operands& x) {
            return x[1] >= static_cast<std::uint64_t>(width) ? 0 : x[0] << x[1];
          });
    Check({"shr." + t + " d, a, b;", t, {t, "b32"}},
          Cross(Values(width), {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 256, 0xffffffff}),
          [&](const Operands& x) {
            return x[1] >= static_cast<std::uint64_t>(width) ? 0 : (x[0] & Mask(width)) >> x[1];
          });
  }
}

TEST(BitOps, FunnelShifts) {
  const auto lanes = Cross(Thin(Ints32(), 10), Thin(Ints32(), 10),
                           {0, 1, 5, 16, 31, 32, 33, 40, 63, 64, 0xffffffff});
  for (const bool wrap : {false, true}) {
    const auto amount = [&](std::uint64_t c) {
      return wrap ? c & 31 : std::min<std::uint64_t>(c, 32);
    };
    const std::string mode = wrap ? "wrap" : "clamp";
    Check({"shf.l." + mode + ".b32 d, a, b, c;", "b32", {"b32", "b32", "b32"}}, lanes,
          [&](const Operands& x) { return (((x[1] << 32) | x[0]) << amount(x[2])) >> 32; });
    Check({"shf.r." + mode + ".b32 d, a, b, c;", "b32", {"b32", "b32", "b32"}}, lanes,
          [&](const Operands& x) { return ((x[1] << 32) | x[0]) >> amount(x[2]); });
  }
}

TEST(BitOps, BitFieldExtract) {
  const std::vector<std::uint64_t> places{0, 1, 7, 8, 15, 31, 32, 33, 63, 64, 100, 255, 256, 0x1ff};
  for (const int width : {32, 64}) {
    for (const bool is_signed : {false, true}) {
      const std::string t = fmt::format("{}{}", is_signed ? 's' : 'u', width);
      const std::string r = fmt::format("b{}", width);
      Check({"bfe." + t + " d, a, b, c;", r, {r, "b32", "b32"}},
            Cross(Thin(Values(width), 12), places, places), [&](const Operands& x) {
              const std::uint64_t msb = static_cast<std::uint64_t>(width - 1);
              const std::uint64_t pos = x[1] & 0xff, len = x[2] & 0xff;
              bool sign = false;
              if (is_signed && len != 0) sign = Bit(x[0], std::min(pos + len - 1, msb));
              std::uint64_t d = 0;
              for (std::uint64_t i = 0; i <= msb; ++i) {
                const bool bit = i < len && pos + i <= msb ? Bit(x[0], pos + i) : sign;
                d |= static_cast<std::uint64_t>(bit) << i;
              }
              return d;
            });
    }
  }
}

TEST(BitOps, BitFieldInsert) {
  const std::vector<std::uint64_t> places{0, 1, 8, 15, 31, 32, 33, 63, 64, 255, 256};
  for (const int width : {32, 64}) {
    const std::string t = fmt::format("b{}", width);
    std::vector<Operands> lanes;
    const auto values = Thin(Values(width), 6);
    for (const auto a : values) {
      for (const auto b : values) {
        for (const auto pos : places) {
          for (const auto len : places) lanes.push_back({a, b, pos, len});
        }
      }
    }
    Check({"bfi." + t + " d, a, b, c, f;", t, {t, t, "b32", "b32"}}, lanes, [&](const Operands& x) {
      std::uint64_t d = x[1];
      const std::uint64_t pos = x[2] & 0xff, len = x[3] & 0xff;
      for (std::uint64_t i = 0; i < len && pos + i < static_cast<std::uint64_t>(width); ++i) {
        d &= ~(std::uint64_t{1} << (pos + i));
        d |= static_cast<std::uint64_t>(Bit(x[0], i)) << (pos + i);
      }
      return d;
    });
  }
}

TEST(BitOps, CountAndReverse) {
  for (const int width : {32, 64}) {
    const std::string t = fmt::format("b{}", width);
    auto values = Values(width);
    for (const Operands& x : RandomLanes(128, 21)) values.push_back(x[0] & Mask(width));
    const auto lanes = Cross(values);
    Check({"popc." + t + " d, a;", "b32", {t}}, lanes,
          [](const Operands& x) { return static_cast<std::uint64_t>(std::popcount(x[0])); });
    Check({"clz." + t + " d, a;", "b32", {t}}, lanes, [&](const Operands& x) {
      return static_cast<std::uint64_t>(std::countl_zero(x[0]) - (64 - width));
    });
    Check({"brev." + t + " d, a;", t, {t}}, lanes, [&](const Operands& x) {
      std::uint64_t d = 0;
      for (int i = 0; i < width; ++i) {
        d |= static_cast<std::uint64_t>(Bit(x[0], static_cast<std::uint64_t>(i)))
             << (width - 1 - i);
      }
      return d;
    });
  }
}

TEST(BitOps, FindLeadingBit) {
  for (const int width : {32, 64}) {
    for (const bool is_signed : {false, true}) {
      const std::string t = fmt::format("{}{}", is_signed ? 's' : 'u', width);
      const std::string r = fmt::format("b{}", width);
      const auto find = [&](std::uint64_t v) -> std::uint64_t {
        v &= Mask(width);
        if (is_signed && Bit(v, static_cast<std::uint64_t>(width - 1))) v = ~v & Mask(width);
        if (v == 0) return 0xffffffff;
        return static_cast<std::uint64_t>(63 - std::countl_zero(v));
      };
      auto lanes = Cross(Values(width));
      const auto random = RandomLanes(128, 22);
      lanes.insert(lanes.end(), random.begin(), random.end());
      Check({"bfind." + t + " d, a;", "b32", {r}}, lanes,
            [&](const Operands& x) { return find(x[0]); });
      Check({"bfind.shiftamt." + t + " d, a;", "b32", {r}}, lanes, [&](const Operands& x) {
        const std::uint64_t at = find(x[0]);
        return at == 0xffffffff ? at : static_cast<std::uint64_t>(width - 1) - at;
      });
    }
  }
}

TEST(BitOps, Prmt) {
  auto lanes = RandomLanes(1024, 23);
  for (auto& x : lanes) {
    for (auto& v : x) v &= 0xffffffff;
  }
  const auto byte = [](const Operands& x, std::uint64_t i) {
    return (((x[1] << 32) | x[0]) >> (8 * (i & 7))) & 0xff;
  };
  Check({"prmt.b32 d, a, b, c;", "b32", {"b32", "b32", "b32"}}, lanes, [&](const Operands& x) {
    std::uint64_t d = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t selector = (x[2] >> (4 * i)) & 0xf;
      std::uint64_t b = byte(x, selector);
      if ((selector & 8) != 0) b = (b & 0x80) != 0 ? 0xff : 0;  // the sign, replicated
      d |= b << (8 * i);
    }
    return d;
  });
  // The table of the ISA: which byte of {b, a} goes where, by mode and selector, lowest byte first.
  struct Mode {
    const char* name;
    int bytes[4][4];
  };
  const Mode modes[] = {
      {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
      {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
      {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
      {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
      {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}},
  };
  for (const Mode& mode : modes) {
    Check({fmt::format("prmt.b32.{} d, a, b, c;", mode.name), "b32", {"b32", "b32", "b32"}}, lanes,
          [&](const Operands& x) {
            std::uint64_t d = 0;
            for (int i = 0; i < 4; ++i) {
              d |= byte(x, static_cast<std::uint64_t>(mode.bytes[x[2] & 3][i])) << (8 * i);
            }
            return d;
          });
  }
}

TEST(BitOps, Lop3ForEveryTable) {
  const std::vector<Operands> lanes = RandomLanes(32, 24);
  for (int table = 0; table < 256; ++table) {
    Check({fmt::format("lop3.b32 d, a, b, c, {:#x};", table), "b32", {"b32", "b32", "b32"}}, lanes,
          [&](const Operands& x) {
            std::uint64_t d = 0;
            for (std::uint64_t i = 0; i < 32; ++i) {
              const int row =
                  (Bit(x[0], i) ? 4 : 0) + (Bit(x[1], i) ? 2 : 0) + (Bit(x[2], i) ? 1 : 0);
              d |= static_cast<std::uint64_t>((table >> row) & 1) << i;
            }
            return d;
          });
  }
}

TEST(BitOps, PackAndUnpack) {
  Check({"mov.b32 d, {a, b};", "b32", {"b16", "b16"}}, Cross(Ints16(), Ints16()),
        [](const Operands& x) { return x[0] | (x[1] << 16); });
  Check({"mov.b64 d, {a, b};", "b64", {"b32", "b32"}}, Cross(Ints32(), Ints32()),
        [](const Operands& x) { return x[0] | (x[1] << 32); });
  Check({"mov.b64 {t, d}, a;", "b32", {"b64"}, "", ".reg .b32 t;"}, Cross(Ints64()),
        [](const Operands& x) { return x[0] >> 32; });
  Check({"mov.b32 {d, t}, a;", "b16", {"b32"}, "", ".reg .b16 t;"}, Cross(Ints32()),
        [](const Operands& x) { return x[0]; });
  Check({"mov.b16 t, 7; mov.b64 d, {a, t, b, a};", "b64", {"b16", "b16"}, "", ".reg .b16 t;"},
        Cross(Ints16(), Ints16()), [](const Operands& x) {
          return x[0] | (std::uint64_t{7} << 16) | (x[1] << 32) | (x[0] << 48);
        });
}

}  // namespace
}  // namespace grove::emulator::opcodes
