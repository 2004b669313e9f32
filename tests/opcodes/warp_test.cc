// Warp-level instructions: shuffles, votes, match, reductions and activemask, also in divergent
// code.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"

namespace grove::emulator::opcodes {
namespace {

// One warp, or a few; every lane reads in[tid] (u64) and writes out[tid] (u64).
std::vector<std::uint64_t> Warp(const std::string& declarations, const std::string& body,
                                std::vector<std::uint64_t> in) {
  std::vector<std::uint64_t> out(in.size(), 0xdeadbeefdeadbeef);
  const std::string text = ModuleText(".reg .b32 a, d, e, m; .reg .b64 a64, d64;\n" + declarations,
                                      "add.u64 in, in, t8; add.u64 out, out, t8;\n"
                                      "ld.global.b64 a64, [in]; cvt.u32.u64 a, a64;\n"
                                      "mov.u32 d, 0; mov.u64 d64, 0;\n" +
                                          body);
  const bool ok =
      RunModule(text, std::as_writable_bytes(std::span(in)), std::as_writable_bytes(std::span(out)),
                static_cast<std::int64_t>(in.size()));
  return ok ? out : std::vector<std::uint64_t>{};
}
const char kStore32[] = "cvt.u64.u32 d64, d; st.global.b64 [out], d64;\n";

std::vector<std::uint64_t> Numbers(std::size_t n = 32) {
  std::vector<std::uint64_t> v;
  for (const Operands& x : RandomLanes(n, 71)) v.push_back(x[0] & 0xffffffff);
  return v;
}

// The ISA's definition of shfl, lane by lane.
struct Source {
  int lane;
  bool in_range;
};
Source ShuffleSource(const std::string& mode, int lane, int b, int c) {
  const int bval = b & 31, cval = c & 31, mask = (c >> 8) & 31;
  const int max_lane = (lane & mask) | (cval & ~mask);
  const int min_lane = lane & mask;
  int j = 0;
  bool p = false;
  if (mode == "up") {
    j = lane - bval;
    p = j >= max_lane;
  } else if (mode == "down") {
    j = lane + bval;
    p = j <= max_lane;
  } else if (mode == "bfly") {
    j = lane ^ bval;
    p = j <= max_lane;
  } else {
    j = min_lane | (bval & ~mask);
    p = j <= max_lane;
  }
  return {p ? j : lane, p};
}

TEST(WarpOps, ShuffleAllModesWithClampAndSegments) {
  const auto in = Numbers();
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    // Full warp, segments of 16, 8 and 4 lanes as the compiler encodes them, and an odd clamp.
    for (const int width : {32, 16, 8, 4, 2}) {
      const int segment = (32 - width) << 8;
      for (const int clamp : mode == "up" ? std::vector<int>{0, 3} : std::vector<int>{31, 20}) {
        for (const int b : {0, 1, 2, 5, 16, 31, 33}) {
          const int c = segment | clamp;
          const auto out = Warp("",
                                fmt::format("shfl.sync.{}.b32 d|p, a, {}, {:#x}, 0xffffffff;\n"
                                            "selp.u32 e, 1, 0, p; mov.b64 d64, {{d, e}};\n"
                                            "st.global.b64 [out], d64;\n",
                                            mode, b, c),
                                in);
          ASSERT_EQ(out.size(), 32u);
          for (int lane = 0; lane < 32; ++lane) {
            const Source s = ShuffleSource(mode, lane, b, c);
            const std::uint64_t got = out[static_cast<std::size_t>(lane)];
            ASSERT_EQ(got & 0xffffffff, in[static_cast<std::size_t>(s.lane)])
                << mode << " b=" << b << " c=" << c << " lane " << lane;
            ASSERT_EQ(got >> 32, s.in_range ? 1u : 0u)
                << mode << " b=" << b << " c=" << c << " lane " << lane;
          }
        }
      }
    }
  }
}

TEST(WarpOps, ShuffleWithOperandsThatDifferByLane) {
  const auto in = Numbers();
  const auto out = Warp("",
                        std::string("sub.u32 e, 31, tid; xor.b32 e, e, 5;\n"
                                    "shfl.sync.idx.b32 d, a, e, 31, 0xffffffff;\n") +
                            kStore32,
                        in);
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], in[(31 - lane) ^ 5]);
}

TEST(WarpOps, ShuffleAmongTheLanesOfABranch) {
  // Only the even lanes shuffle, with their own mask.
  const auto in = Numbers();
  const auto out = Warp("",
                        std::string("and.b32 e, tid, 1; setp.ne.u32 p, e, 0; @p bra DONE;\n"
                                    "shfl.sync.bfly.b32 d, a, 2, 31, 0x55555555;\nDONE:\n") +
                            kStore32,
                        in);
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], lane % 2 == 0 ? in[lane ^ 2] : 0) << lane;
  }
}

TEST(WarpOps, ShuffleKeepsWarpsApart) {
  const auto in = Numbers(96);
  const auto out =
      Warp("", std::string("shfl.sync.idx.b32 d, a, 0, 31, 0xffffffff;\n") + kStore32, in);
  ASSERT_EQ(out.size(), 96u);
  for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(out[i], in[i / 32 * 32]);
}

TEST(WarpOps, ShuffleMayOverwriteItsOwnSource) {
  const auto in = Numbers();
  const auto out = Warp("",
                        std::string("shfl.sync.down.b32 a, a, 1, 31, 0xffffffff;\n"
                                    "mov.u32 d, a;\n") +
                            kStore32,
                        in);
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[std::min<std::size_t>(i + 1, 31)]);
}

TEST(WarpOps, Votes) {
  for (const std::uint64_t pattern : {0x0u, 0xffffffffu, 0x00000001u, 0xfffffffeu, 0x12345678u}) {
    std::vector<std::uint64_t> in(32);
    for (std::size_t i = 0; i < 32; ++i) in[i] = (pattern >> i) & 1;
    const auto out =
        Warp(".reg .b32 x;\n",
             "setp.ne.u32 p, a, 0;\n"
             "vote.sync.ballot.b32 d, p, 0xffffffff;\n"
             "vote.sync.all.pred q, p, 0xffffffff; selp.u32 e, 1, 0, q;\n"
             "vote.sync.any.pred q, p, 0xffffffff; selp.u32 x, 2, 0, q; or.b32 e, e, x;\n"
             "vote.sync.uni.pred q, p, 0xffffffff; selp.u32 x, 4, 0, q; or.b32 e, e, x;\n"
             "vote.sync.ballot.b32 x, !p, 0xffffffff; not.b32 x, x; setp.eq.u32 q, x, d;\n"
             "selp.u32 x, 8, 0, q; or.b32 e, e, x;\n"
             "mov.b64 d64, {d, e}; st.global.b64 [out], d64;\n",
             in);
    ASSERT_EQ(out.size(), 32u);
    const std::uint64_t flags = (pattern == 0xffffffff ? 1u : 0u) | (pattern != 0 ? 2u : 0u) |
                                (pattern == 0 || pattern == 0xffffffff ? 4u : 0u) | 8u;
    for (const std::uint64_t v : out) {
      EXPECT_EQ(v & 0xffffffff, pattern);
      EXPECT_EQ(v >> 32, flags);
    }
  }
}

TEST(WarpOps, BallotCountsOnlyMembers) {
  const auto out = Warp("",
                        std::string("setp.lt.u32 p, tid, 8; @!p bra DONE;\n"
                                    "setp.ge.u32 q, tid, 4;\n"
                                    "vote.sync.ballot.b32 d, q, 0xff;\nDONE:\n") +
                            kStore32,
                        Numbers());
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 8 ? 0xf0u : 0u);
}

TEST(WarpOps, ActivemaskInDivergentCode) {
  const auto out = Warp("",
                        std::string("setp.lt.u32 p, tid, 5; @p bra LOW;\n"
                                    "activemask.b32 d; bra.uni DONE;\n"
                                    "LOW: activemask.b32 d;\nDONE:\n") +
                            kStore32,
                        Numbers());
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 5 ? 0x1fu : 0xffffffe0u) << i;
}

TEST(WarpOps, ActivemaskOfAPartWarp) {
  const auto out = Warp("", std::string("activemask.b32 d;\n") + kStore32, Numbers(40));
  ASSERT_EQ(out.size(), 40u);
  EXPECT_EQ(out[0], 0xffffffffu);
  EXPECT_EQ(out[39], 0xffu);
}

TEST(WarpOps, MatchAny) {
  std::vector<std::uint64_t> in(32);
  for (std::size_t i = 0; i < 32; ++i) in[i] = (i * 7) % 5 + (i % 2 ? std::uint64_t{1} << 40 : 0);
  for (const bool wide : {false, true}) {
    const auto out = Warp(
        "",
        fmt::format("match.any.sync.b{} d, {}, 0xffffffff;\n", wide ? 64 : 32, wide ? "a64" : "a") +
            kStore32,
        in);
    ASSERT_EQ(out.size(), 32u);
    for (std::size_t i = 0; i < 32; ++i) {
      std::uint64_t want = 0;
      for (std::size_t j = 0; j < 32; ++j) {
        const bool same = wide ? in[i] == in[j] : (in[i] & 0xffffffff) == (in[j] & 0xffffffff);
        want |= static_cast<std::uint64_t>(same) << j;
      }
      EXPECT_EQ(out[i], want) << i;
    }
  }
}

TEST(WarpOps, MatchAll) {
  for (const bool same : {false, true}) {
    std::vector<std::uint64_t> in(32, 42);
    if (!same) in[17] = 43;
    const auto out = Warp("",
                          "match.all.sync.b32 d|p, a, 0xffffffff; selp.u32 e, 1, 0, p;\n"
                          "mov.b64 d64, {d, e}; st.global.b64 [out], d64;\n",
                          in);
    ASSERT_EQ(out.size(), 32u);
    for (const std::uint64_t v : out) EXPECT_EQ(v, same ? 0x1ffffffffu : 0u);
  }
}

TEST(WarpOps, Redux) {
  const auto in = Numbers();
  struct Case {
    const char* op;
    std::function<std::uint64_t(std::uint64_t, std::uint64_t)> f;
  };
  const auto s = [](std::uint64_t v) { return static_cast<std::int32_t>(v); };
  const std::vector<Case> cases{
      {"add.s32", [](auto a, auto b) { return (a + b) & 0xffffffff; }},
      {"add.u32", [](auto a, auto b) { return (a + b) & 0xffffffff; }},
      {"min.u32", [](auto a, auto b) { return std::min(a, b); }},
      {"max.u32", [](auto a, auto b) { return std::max(a, b); }},
      {"min.s32", [&](auto a, auto b) { return s(a) < s(b) ? a : b; }},
      {"max.s32", [&](auto a, auto b) { return s(a) > s(b) ? a : b; }},
      {"and.b32", [](auto a, auto b) { return a & b; }},
      {"or.b32", [](auto a, auto b) { return a | b; }},
      {"xor.b32", [](auto a, auto b) { return a ^ b; }},
  };
  for (const Case& c : cases) {
    const auto out =
        Warp("", fmt::format("redux.sync.{} d, a, 0xffffffff;\n", c.op) + kStore32, in);
    ASSERT_EQ(out.size(), 32u) << c.op;
    std::uint64_t want = in[0];
    for (std::size_t i = 1; i < 32; ++i) want = c.f(want, in[i]);
    for (const std::uint64_t v : out) EXPECT_EQ(v, want) << c.op;
  }
}

TEST(WarpOps, ReduxOverSomeLanes) {
  std::vector<std::uint64_t> in(32);
  for (std::size_t i = 0; i < 32; ++i) in[i] = i;
  const auto out = Warp("",
                        std::string("setp.lt.u32 p, tid, 4; @!p bra DONE;\n"
                                    "redux.sync.add.u32 d, a, 0xf;\nDONE:\n") +
                            kStore32,
                        in);
  ASSERT_EQ(out.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 4 ? 6u : 0u);
}

TEST(WarpOps, ElectChoosesOneLane) {
  const auto out = Warp("",
                        "elect.sync d|p, 0xffffffff; selp.u32 e, 1, 0, p;\n"
                        "mov.b64 d64, {d, e}; st.global.b64 [out], d64;\n",
                        Numbers());
  ASSERT_EQ(out.size(), 32u);
  std::size_t elected = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    elected += out[i] >> 32;
    EXPECT_EQ(out[i] & 0xffffffff, out[0] & 0xffffffff);
    EXPECT_TRUE(out[i] >> 32 == 0 || (out[i] & 0xffffffff) == i);
  }
  EXPECT_EQ(elected, 1u);
}

TEST(WarpOps, LaneRegisters) {
  const auto out = Warp(".reg .b32 x;\n",
                        "mov.u32 d, %laneid; mov.u32 x, %lanemask_lt; popc.b32 x, x;\n"
                        "mov.u32 e, %lanemask_ge; popc.b32 e, e; add.u32 e, e, x;\n"
                        "mov.b64 d64, {d, e}; st.global.b64 [out], d64;\n",
                        Numbers(64));
  ASSERT_EQ(out.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i] & 0xffffffff, i % 32);
    EXPECT_EQ(out[i] >> 32, 32u);  // below plus at-or-above
  }
}

TEST(WarpOps, DivergentLoopReconverges) {
  // Lane i runs i iterations; afterwards all 32 vote.
  const auto out = Warp("",
                        std::string("mov.u32 e, 0;\nLOOP: setp.ge.u32 p, e, tid; @p bra OUT;\n"
                                    "add.u32 e, e, 1; bra LOOP;\nOUT:\n"
                                    "setp.eq.u32 p, e, tid;\n"
                                    "vote.sync.ballot.b32 d, p, 0xffffffff;\n") +
                            kStore32,
                        Numbers());
  ASSERT_EQ(out.size(), 32u);
  for (const std::uint64_t v : out) EXPECT_EQ(v, 0xffffffffu);
}

TEST(WarpOps, LaneZeroMayExitEarly) {
  const auto out = Warp(
      "", std::string("setp.eq.u32 p, tid, 0; @p ret;\nmov.u32 d, 1;\n") + kStore32, Numbers());
  ASSERT_EQ(out.size(), 32u);
  EXPECT_EQ(out[0], 0xdeadbeefdeadbeefu);
  for (std::size_t i = 1; i < 32; ++i) EXPECT_EQ(out[i], 1u);
}

}  // namespace
}  // namespace grove::emulator::opcodes
