// Atomics of every type and operation: returned old values, stored new values, contention.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

struct AtomicCase {
  const char* op;   // "add.u32"
  const char* reg;  // register type
  std::function<std::uint64_t(std::uint64_t old, std::uint64_t b, std::uint64_t c)> f;
  As as = As::kBits;
  int operands = 1;
};

int Width(const AtomicCase& c) {
  const std::string reg = c.reg;
  return reg == "b16" ? 16 : reg == "b64" || reg == "f64" ? 64 : 32;
}

std::int64_t S(std::uint64_t v, int width) {
  return static_cast<std::int64_t>(v << (64 - width)) >> (64 - width);
}

std::uint64_t Halfwise(std::uint64_t a, std::uint64_t b, Format f) {
  std::uint64_t d = 0;
  for (int i = 0; i < 2; ++i) {
    const double sum =
        AddToOdd(Decode((a >> (16 * i)) & 0xffff, f), Decode((b >> (16 * i)) & 0xffff, f));
    d |= RoundTo(sum, f, Round::kNearest) << (16 * i);
  }
  return d;
}

const std::vector<AtomicCase>& Cases() {
  static const std::vector<AtomicCase> cases{
      {"add.u32", "b32", [](auto a, auto b, auto) { return a + b; }},
      {"add.s32", "b32", [](auto a, auto b, auto) { return a + b; }},
      {"add.u64", "b64", [](auto a, auto b, auto) { return a + b; }},
      {"add.f32", "f32", [](auto a, auto b, auto) { return Bits(F32(a) + F32(b)); }, As::kF32},
      {"add.f64", "f64", [](auto a, auto b, auto) { return Bits(F64(a) + F64(b)); }, As::kF64},
      {"add.noftz.f16x2", "b32", [](auto a, auto b, auto) { return Halfwise(a, b, kHalf); },
       As::kF16x2},
      {"add.noftz.bf16x2", "b32", [](auto a, auto b, auto) { return Halfwise(a, b, kBFloat); },
       As::kBF16x2},
      {"add.noftz.f16", "b16", [](auto a, auto b, auto) { return Halfwise(a, b, kHalf) & 0xffff; },
       As::kF16},
      {"min.u32", "b32", [](auto a, auto b, auto) { return std::min(a, b); }},
      {"max.u32", "b32", [](auto a, auto b, auto) { return std::max(a, b); }},
      {"min.s32", "b32", [](auto a, auto b, auto) { return S(a, 32) < S(b, 32) ? a : b; }},
      {"max.s32", "b32", [](auto a, auto b, auto) { return S(a, 32) > S(b, 32) ? a : b; }},
      {"min.u64", "b64", [](auto a, auto b, auto) { return std::min(a, b); }},
      {"max.u64", "b64", [](auto a, auto b, auto) { return std::max(a, b); }},
      {"min.s64", "b64", [](auto a, auto b, auto) { return S(a, 64) < S(b, 64) ? a : b; }},
      {"max.s64", "b64", [](auto a, auto b, auto) { return S(a, 64) > S(b, 64) ? a : b; }},
      {"and.b32", "b32", [](auto a, auto b, auto) { return a & b; }},
      {"or.b32", "b32", [](auto a, auto b, auto) { return a | b; }},
      {"xor.b32", "b32", [](auto a, auto b, auto) { return a ^ b; }},
      {"and.b64", "b64", [](auto a, auto b, auto) { return a & b; }},
      {"or.b64", "b64", [](auto a, auto b, auto) { return a | b; }},
      {"xor.b64", "b64", [](auto a, auto b, auto) { return a ^ b; }},
      {"exch.b32", "b32", [](auto, auto b, auto) { return b; }},
      {"exch.b64", "b64", [](auto, auto b, auto) { return b; }},
      {"cas.b16", "b16", [](auto a, auto b, auto c) { return a == b ? c : a; }, As::kBits, 2},
      {"cas.b32", "b32", [](auto a, auto b, auto c) { return a == b ? c : a; }, As::kBits, 2},
      {"cas.b64", "b64", [](auto a, auto b, auto c) { return a == b ? c : a; }, As::kBits, 2},
      {"inc.u32", "b32", [](auto a, auto b, auto) { return a >= b ? 0 : a + 1; }},
      {"dec.u32", "b32", [](auto a, auto b, auto) { return a == 0 || a > b ? b : a - 1; }},
  };
  return cases;
}

// Each lane works on its own word: old value and new value are both known.
void CheckPrivate(const AtomicCase& c, const std::string& prefix, bool shared) {
  std::vector<std::uint64_t> values = Width(c) == 16   ? Halves()
                                      : Width(c) == 64 ? Ints64()
                                                       : Ints32();
  if (c.as == As::kF32) values = Floats32();
  if (c.as == As::kF64) values = Floats64();
  auto lanes = Cross(values, Thin(values, 12));
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i][2] = values[i % values.size()];
    if (c.operands == 2 && i % 2 == 0) lanes[i][1] = lanes[i][0];  // cas that succeeds
  }
  const std::string operands = c.operands == 2 ? "b, c" : "b";
  Op op;
  op.out = op.out2 = c.reg;
  op.in = {c.reg, c.reg, c.reg};
  if (shared) {
    op.declarations = ".reg .b32 s, base; .shared .align 8 .b8 buf[1024];\n";
    op.body = fmt::format(
        "shl.b32 s, tid, 3; mov.u32 base, buf; add.u32 s, s, base; st.shared.{0} [s], a;\n"
        "atom.shared.{1} d, [s], {2}; ld.shared.{0} e, [s];",
        c.reg, c.op, operands);
  } else {
    op.body = fmt::format(
        "st.global.{0} [out+8], a; atom{3}.{1} d, [out+8], {2}; "
        "ld.global.{0} e, [out+8];",
        c.reg, c.op, operands, prefix);
  }
  const auto got = Execute(op, lanes);
  ASSERT_EQ(got.size(), lanes.size()) << c.op;
  const std::uint64_t mask =
      Width(c) == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << Width(c)) - 1;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Operands& x = lanes[i];
    ASSERT_EQ(got[i][0], x[0] & mask) << op.body;
    const std::uint64_t want = c.f(x[0], x[1], x[2]) & mask;
    const bool nan = (c.as == As::kF32 && std::isnan(F32(want))) ||
                     (c.as == As::kF64 && std::isnan(F64(want))) || c.as == As::kF16x2 ||
                     c.as == As::kBF16x2 || c.as == As::kF16;
    if (!nan) {
      ASSERT_EQ(got[i][1], want) << op.body << " " << std::hex << x[0] << " " << x[1];
    } else if (c.as == As::kF32) {
      ASSERT_TRUE(std::isnan(F32(got[i][1])));
    } else if (c.as == As::kF64) {
      ASSERT_TRUE(std::isnan(F64(got[i][1])));
    } else {
      const Format f = c.as == As::kBF16x2 ? kBFloat : kHalf;
      for (int half = 0; half < Width(c) / 16; ++half) {
        const double g = Decode((got[i][1] >> (16 * half)) & 0xffff, f);
        const double w = Decode((want >> (16 * half)) & 0xffff, f);
        ASSERT_TRUE(g == w || (std::isnan(g) && std::isnan(w)))
            << op.body << " " << std::hex << x[0] << " " << x[1] << ": " << got[i][1]
            << ", expected " << want;
      }
    }
  }
}

TEST(AtomicOps, GlobalOldAndNewValues) {
  for (const AtomicCase& c : Cases()) CheckPrivate(c, ".global", false);
}

TEST(AtomicOps, SharedOldAndNewValues) {
  for (const AtomicCase& c : Cases()) CheckPrivate(c, "", true);
}

TEST(AtomicOps, GenericAddressesScopesAndOrders) {
  const AtomicCase add = Cases()[0];
  for (const char* prefix :
       {"", ".relaxed.gpu.global", ".acquire.cta.global", ".release.sys.global", ".acq_rel.gpu"}) {
    CheckPrivate(add, prefix, false);
  }
}

TEST(AtomicOps, EveryTicketIsGivenOnce) {
  // 4 blocks of 64 threads draw tickets from one counter.
  std::vector<std::uint64_t> in(1), out(1 + 256);
  const std::string text = ModuleText(
      ".reg .b32 n; .reg .b64 w, x;\n",
      "atom.global.add.u32 n, [out], 1; mul.wide.u32 w, n, 8; add.u64 w, w, out;\n"
      "mov.u32 cta, %ctaid.x; mad.lo.u32 n, cta, 64, tid; cvt.u64.u32 x, n; add.u64 x, x, 1;\n"
      "st.global.u64 [w+8], x;\n");
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 64, 4));
  EXPECT_EQ(out[0], 256u);
  std::sort(out.begin() + 1, out.end());
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i + 1], i + 1);
}

TEST(AtomicOps, ContendedFloatSumOfIntegersIsExact) {
  std::vector<std::uint64_t> in(1), out(2);
  const std::string text = ModuleText(".reg .f32 x; .reg .f64 y;\n",
                                      "cvt.rn.f32.u32 x, tid; red.global.add.f32 [out], x;\n"
                                      "cvt.rn.f64.u32 y, tid; red.global.add.f64 [out+8], y;\n");
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 256, 3));
  EXPECT_EQ(F32(out[0]), 3.0f * 255 * 128);
  EXPECT_EQ(F64(out[1]), 3.0 * 255 * 128);
}

TEST(AtomicOps, RedOfEveryIntegerOperation) {
  struct Red {
    const char* op;
    std::uint32_t start, want;
  };
  // 64 threads, operand tid.
  for (const Red& r : {Red{"add.u32", 5, 5 + 2016}, Red{"min.u32", 7, 0}, Red{"max.s32", 7, 63},
                       Red{"or.b32", 0, 63}, Red{"and.b32", 0xff, 0}, Red{"xor.b32", 1, 1}}) {
    std::vector<std::uint64_t> in(1), out{r.start};
    const std::string text = ModuleText("", fmt::format("red.global.{} [out], tid;\n", r.op));
    ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                          std::as_writable_bytes(std::span(out)), 64));
    EXPECT_EQ(out[0], r.want) << r.op;
  }
}

TEST(AtomicOps, CompareAndSwapLoopInOneWarp) {
  // The classic float maximum by cas: lanes of one warp contend, the loop must end.
  std::vector<std::uint64_t> in(1), out{0};
  const std::string text = ModuleText(
      ".reg .b32 old, seen, next;\n",
      "ld.global.u32 old, [out];\nLOOP: max.u32 next, old, tid;\n"
      "atom.global.cas.b32 seen, [out], old, next; setp.ne.u32 p, seen, old; mov.u32 old, seen;\n"
      "@p bra LOOP;\n");
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 128));
  EXPECT_EQ(out[0], 127u);
}

TEST(AtomicOps, SpinLockBetweenBlocksEnds) {
  // Thread 0 of each block takes a lock with cas, adds without atomics, and releases with exch.
  std::vector<std::uint64_t> in(1), out(2);
  const std::string text = ModuleText(
      ".reg .b32 old; .reg .b64 x;\n",
      "setp.ne.u32 p, tid, 0; @p ret;\nSPIN: atom.acquire.gpu.global.cas.b32 old, [out], 0, 1;\n"
      "setp.ne.u32 p, old, 0; @p bra SPIN;\n"
      "ld.volatile.global.u64 x, [out+8]; add.u64 x, x, 1; st.volatile.global.u64 [out+8], x;\n"
      "membar.gl; atom.release.gpu.global.exch.b32 old, [out], 0;\n");
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 32, 16));
  EXPECT_EQ(out[1], 16u);
}

}  // namespace
}  // namespace grove::emulator::opcodes
