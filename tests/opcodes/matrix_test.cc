// Matrix instructions against a host matrix product. Operands are small whole numbers, so every sum
// is exact in any order and results are compared bit by bit.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"
#include "tests/opcodes/reference.h"

namespace grove::emulator::opcodes {
namespace {

// How a number is stored in a matrix.
struct Element {
  const char* name;
  int bits;
  std::function<std::uint64_t(int)> encode;
  std::function<double(std::uint64_t)> decode;
  bool is_signed = true;
};

Element FloatElement(const char* name, Format f, int bits, int shift = 0) {
  return {name, bits, [=](int v) { return RoundTo(v, f, Round::kNearest) << shift; },
          [=](std::uint64_t b) { return Decode(b >> shift, f); }};
}
const Element kElementF16 = FloatElement("f16", kHalf, 16);
const Element kElementBF16 = FloatElement("bf16", kBFloat, 16);
const Element kElementTf32 = FloatElement("tf32", kTf32, 32, 13);
const Element kElementF32 = FloatElement("f32", kSingle, 32);
const Element kElementE5m2 = FloatElement("e5m2", {5, 2}, 8);
// e4m3 differs from an IEEE {4,3} only above 240; the numbers here are at most 4.
const Element kElementE4m3 = FloatElement("e4m3", {4, 3}, 8);
const Element kElementF64{"f64", 64, [](int v) { return Bits(static_cast<double>(v)); },
                          [](std::uint64_t b) { return F64(b); }};
const Element kElementS8{
    "s8", 8, [](int v) { return static_cast<std::uint64_t>(v) & 0xff; },
    [](std::uint64_t b) { return static_cast<double>(static_cast<std::int8_t>(b)); }};
const Element kElementU8{"u8", 8, [](int v) { return static_cast<std::uint64_t>(v) & 0xff; },
                         [](std::uint64_t b) { return static_cast<double>(b & 0xff); }, false};
const Element kElementS32{
    "s32", 32, [](int v) { return static_cast<std::uint64_t>(v) & 0xffffffff; },
    [](std::uint64_t b) { return static_cast<double>(static_cast<std::int32_t>(b)); }};

struct Matrix {
  int rows, columns;
  std::vector<int> v;
  int at(int r, int c) const { return v[static_cast<std::size_t>(r * columns + c)]; }
};

Matrix Random(int rows, int columns, const Element& e, unsigned seed) {
  Matrix m{rows, columns, std::vector<int>(static_cast<std::size_t>(rows * columns))};
  std::mt19937 rng(seed);
  for (int& x : m.v) x = static_cast<int>(rng() % 9) - (e.is_signed ? 4 : 0);
  return m;
}

Matrix Product(const Matrix& a, const Matrix& b, const Matrix& c) {
  Matrix d = c;
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < b.columns; ++j) {
      for (int k = 0; k < a.columns; ++k) {
        d.v[static_cast<std::size_t>(i * d.columns + j)] += a.at(i, k) * b.at(k, j);
      }
    }
  }
  return d;
}

void Put(std::vector<std::uint8_t>* out, std::size_t at, std::uint64_t value, int bits) {
  std::memcpy(out->data() + at, &value, static_cast<std::size_t>(bits) / 8);
}
std::uint64_t Get(const std::vector<std::uint8_t>& in, std::size_t at, int bits) {
  std::uint64_t value = 0;
  std::memcpy(&value, in.data() + at, static_cast<std::size_t>(bits) / 8);
  return value;
}

std::string List(const std::string& prefix, int n) {
  std::string s;
  for (int i = 0; i < n; ++i) s += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return s;
}

bool RunWarp(const std::string& declarations, const std::string& body,
             std::vector<std::uint8_t>* in, std::vector<std::uint8_t>* out) {
  return RunModule(ModuleText(declarations, body), std::as_writable_bytes(std::span(*in)),
                   std::as_writable_bytes(std::span(*out)), 32);
}

// --- wmma ---------------------------------------------------------------------------------------

struct Wmma {
  int m, n, k;
  Element a;  // of A and B
  Element c;  // of C and D
  int a_regs, b_regs, c_regs;
  std::string mma_types;  // what follows the shape in wmma.mma
};

// Element (r, c) of a matrix stored with a leading dimension in the given layout.
std::size_t Place(bool row_major, int r, int c, int leading, int bits) {
  return static_cast<std::size_t>(row_major ? r * leading + c : c * leading + r) *
         static_cast<std::size_t>(bits) / 8;
}

void CheckWmma(const Wmma& w, bool a_row, bool b_row, bool d_row, bool shared) {
  const Matrix a = Random(w.m, w.k, w.a, 1), b = Random(w.k, w.n, w.a, 2);
  const Matrix c = Random(w.m, w.n, w.c, 3);
  const Matrix want = Product(a, b, c);
  // Leading dimensions larger than the matrix, multiples of 16 bytes as required.
  const int lda = (a_row ? w.k : w.m) + 128 / w.a.bits;
  const int ldb = (b_row ? w.n : w.k) + 128 / w.a.bits;
  const int ldc = (d_row ? w.n : w.m) + 128 / w.c.bits;
  const std::size_t b_at = 8192, c_at = 16384, size = 24576;
  std::vector<std::uint8_t> in(size), out(8192, 0xee);
  for (int i = 0; i < w.m; ++i) {
    for (int k = 0; k < w.k; ++k) {
      Put(&in, Place(a_row, i, k, lda, w.a.bits), w.a.encode(a.at(i, k)), w.a.bits);
    }
  }
  for (int k = 0; k < w.k; ++k) {
    for (int j = 0; j < w.n; ++j) {
      Put(&in, b_at + Place(b_row, k, j, ldb, w.a.bits), w.a.encode(b.at(k, j)), w.a.bits);
    }
  }
  for (int i = 0; i < w.m; ++i) {
    for (int j = 0; j < w.n; ++j) {
      Put(&in, c_at + Place(d_row, i, j, ldc, w.c.bits), w.c.encode(c.at(i, j)), w.c.bits);
    }
  }
  const std::string shape = fmt::format("m{}n{}k{}", w.m, w.n, w.k);
  const std::string c_name = w.c.name;
  const bool wide = w.a.bits == 64;
  const std::string ab_reg = wide ? "f64" : "b32";
  const std::string c_reg = wide ? "f64" : c_name == "f32" ? "f32" : "b32";
  const auto layout = [](bool row) { return row ? "row" : "col"; };
  std::string declarations = fmt::format(
      ".reg .{} {}, {}; .reg .{} {}, {};\n.reg .b64 pa, pb, pc, o; .reg .b32 x, i;\n", ab_reg,
      List("a", w.a_regs), List("b", w.b_regs), c_reg, List("c", w.c_regs), List("d", w.c_regs));
  std::string body;
  std::string space = ".global";
  if (shared) {
    declarations += ".shared .align 32 .b8 buf[24576];\n";
    space = ".shared";
    body += fmt::format(
        "mov.u32 i, tid; mov.u64 pa, buf;\n"
        "COPY: mul.wide.u32 o, i, 4; add.u64 pb, in, o; add.u64 pc, pa, o;\n"
        "ld.global.u32 x, [pb]; st.shared.u32 [pc], x; add.u32 i, i, 32;\n"
        "setp.lt.u32 p, i, {}; @p bra COPY;\nbar.sync 0;\n",
        size / 4);
  } else {
    body += "mov.u64 pa, in;\n";
  }
  body += fmt::format("add.u64 pb, pa, {}; add.u64 pc, pa, {};\n", b_at, c_at);
  body += fmt::format("wmma.load.a.sync.aligned.{}.{}{}.{} {{{}}}, [pa], {};\n", layout(a_row),
                      shape, space, w.a.name, List("a", w.a_regs), lda);
  body += fmt::format("wmma.load.b.sync.aligned.{}.{}{}.{} {{{}}}, [pb], {};\n", layout(b_row),
                      shape, space, w.a.name, List("b", w.b_regs), ldb);
  body += fmt::format("wmma.load.c.sync.aligned.{}.{}{}.{} {{{}}}, [pc], {};\n", layout(d_row),
                      shape, space, c_name, List("c", w.c_regs), ldc);
  body += fmt::format("wmma.mma.sync.aligned.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n",
                      layout(a_row), layout(b_row), shape, w.mma_types, List("d", w.c_regs),
                      List("a", w.a_regs), List("b", w.b_regs), List("c", w.c_regs));
  body += fmt::format("wmma.store.d.sync.aligned.{}.{}.global.{} [out], {{{}}}, {};\n",
                      layout(d_row), shape, c_name, List("d", w.c_regs), ldc);
  ASSERT_TRUE(RunWarp(declarations, body, &in, &out)) << body;
  std::vector<bool> written(out.size());
  for (int i = 0; i < w.m; ++i) {
    for (int j = 0; j < w.n; ++j) {
      const std::size_t at = Place(d_row, i, j, ldc, w.c.bits);
      for (int k = 0; k < w.c.bits / 8; ++k) written[at + static_cast<std::size_t>(k)] = true;
      ASSERT_EQ(w.c.decode(Get(out, at, w.c.bits)), want.at(i, j))
          << shape << "." << w.mma_types << " " << layout(a_row) << " " << layout(b_row) << " ("
          << i << ", " << j << ")";
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(written[i] || out[i] == 0xee) << "byte between the columns written: " << i;
  }
}

void CheckWmmaLayouts(const Wmma& w) {
  for (const bool a_row : {true, false}) {
    for (const bool b_row : {true, false}) {
      for (const bool d_row : {true, false}) {
        for (const bool shared : {true, false}) CheckWmma(w, a_row, b_row, d_row, shared);
      }
    }
  }
}

TEST(WmmaOps, HalfWithSingleAccumulator) {
  for (const auto& [m, n] : {std::pair{16, 16}, {32, 8}, {8, 32}}) {
    CheckWmmaLayouts({m, n, 16, kElementF16, kElementF32, 8, 8, 8, "f32.f32"});
  }
}

TEST(WmmaOps, HalfWithHalfAccumulator) {
  for (const auto& [m, n] : {std::pair{16, 16}, {32, 8}, {8, 32}}) {
    CheckWmmaLayouts({m, n, 16, kElementF16, kElementF16, 8, 8, 4, "f16.f16"});
  }
}

TEST(WmmaOps, BFloat) {
  CheckWmmaLayouts({16, 16, 16, kElementBF16, kElementF32, 4, 4, 8, "f32.bf16.bf16.f32"});
  CheckWmmaLayouts({32, 8, 16, kElementBF16, kElementF32, 8, 2, 8, "f32.bf16.bf16.f32"});
  CheckWmmaLayouts({8, 32, 16, kElementBF16, kElementF32, 2, 8, 8, "f32.bf16.bf16.f32"});
}

TEST(WmmaOps, Tf32) {
  CheckWmmaLayouts({16, 16, 8, kElementTf32, kElementF32, 4, 4, 8, "f32.tf32.tf32.f32"});
}

TEST(WmmaOps, Bytes) {
  CheckWmmaLayouts({16, 16, 16, kElementS8, kElementS32, 2, 2, 8, "s32.s8.s8.s32"});
  CheckWmmaLayouts({16, 16, 16, kElementU8, kElementS32, 2, 2, 8, "s32.u8.u8.s32"});
}

TEST(WmmaOps, Double) {
  CheckWmmaLayouts({8, 8, 4, kElementF64, kElementF64, 1, 1, 2, "f64.f64.f64.f64"});
}

// --- mma.sync -----------------------------------------------------------------------------------

struct Mma {
  int m, k;  // n = 8
  Element a, b, c;
  std::string types;  // d.a.b.c
};

void CheckMma(const Mma& t) {
  const Matrix a = Random(t.m, t.k, t.a, 4), b = Random(t.k, 8, t.b, 5), c = Random(t.m, 8, t.c, 6);
  const Matrix want = Product(a, b, c);
  const bool wide = t.a.bits == 64;
  const int reg_bits = wide ? 64 : 32;
  const int ea = reg_bits / t.a.bits;       // elements of A or B in a register
  const int ec = wide ? 1 : 32 / t.c.bits;  // elements of C in a register
  const int halves = t.m / 8;               // rows g and g + 8
  const int a_regs = t.m * t.k / 32 / ea;
  const int b_regs = t.k * 8 / 32 / ea;
  const int c_regs = t.m * 8 / 32 / ec;
  const std::size_t reg_bytes = static_cast<std::size_t>(reg_bits) / 8;
  const std::size_t per_lane = static_cast<std::size_t>(a_regs + b_regs + c_regs) * reg_bytes;
  std::vector<std::uint8_t> in(32 * per_lane);
  std::vector<std::uint8_t> out(32 * static_cast<std::size_t>(c_regs) * reg_bytes);
  // Fragment layouts of the ISA: g = lane / 4 is the group, u = lane % 4 the thread in it.
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, u = lane % 4;
    const std::size_t base = static_cast<std::size_t>(lane) * per_lane;
    const auto put = [&](int reg, int i, std::uint64_t bits, int width) {
      Put(&in,
          base + static_cast<std::size_t>(reg) * reg_bytes +
              static_cast<std::size_t>(i * width) / 8,
          bits, width);
    };
    for (int r = 0; r < a_regs; ++r) {
      for (int i = 0; i < ea; ++i) {
        const int row = g + 8 * (r % halves), column = r / halves * 4 * ea + u * ea + i;
        put(r, i, t.a.encode(a.at(row, column)), t.a.bits);
      }
    }
    for (int r = 0; r < b_regs; ++r) {
      for (int i = 0; i < ea; ++i) {
        put(a_regs + r, i, t.b.encode(b.at(r * 4 * ea + u * ea + i, g)), t.b.bits);
      }
    }
    for (int e = 0; e < c_regs * ec; ++e) {
      put(a_regs + b_regs + e / ec, e % ec, t.c.encode(c.at(g + 8 * (e / 2), u * 2 + e % 2)),
          t.c.bits);
    }
  }
  const std::string type = wide ? "f64" : "b32";
  const std::string c_type = wide ? "f64" : std::string(t.c.name) == "f32" ? "f32" : "b32";
  std::string body = fmt::format(
      "mul.wide.u32 t8, tid, {}; add.u64 in, in, t8; mul.wide.u32 t8, tid, {}; "
      "add.u64 out, out, t8;\n",
      per_lane, static_cast<std::size_t>(c_regs) * reg_bytes);
  const auto load = [&](const char* name, int regs, int first, const std::string& reg_type) {
    for (int r = 0; r < regs; ++r) {
      body += fmt::format("ld.global.{} {}{}, [in+{}];\n", reg_type, name, r,
                          static_cast<std::size_t>(first + r) * reg_bytes);
    }
  };
  load("a", a_regs, 0, type);
  load("b", b_regs, a_regs, type);
  load("c", c_regs, a_regs + b_regs, c_type);
  body += fmt::format("mma.sync.aligned.m{}n8k{}.row.col.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n", t.m,
                      t.k, t.types, List("d", c_regs), List("a", a_regs), List("b", b_regs),
                      List("c", c_regs));
  for (int r = 0; r < c_regs; ++r) {
    body += fmt::format("st.global.{} [out+{}], d{};\n", c_type,
                        static_cast<std::size_t>(r) * reg_bytes, r);
  }
  const std::string declarations =
      fmt::format(".reg .{} {}, {}; .reg .{} {}, {};\n", type, List("a", a_regs), List("b", b_regs),
                  c_type, List("c", c_regs), List("d", c_regs));
  ASSERT_TRUE(RunWarp(declarations, body, &in, &out)) << t.types << " k" << t.k;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, u = lane % 4;
    for (int e = 0; e < c_regs * ec; ++e) {
      const std::size_t at = (static_cast<std::size_t>(lane * c_regs + e / ec)) * reg_bytes +
                             static_cast<std::size_t>(e % ec * t.c.bits) / 8;
      ASSERT_EQ(t.c.decode(Get(out, at, t.c.bits)), want.at(g + 8 * (e / 2), u * 2 + e % 2))
          << "m" << t.m << "n8k" << t.k << " " << t.types << " lane " << lane << " element " << e;
    }
  }
}

TEST(MmaOps, HalfWithSingleAccumulator) {
  CheckMma({16, 16, kElementF16, kElementF16, kElementF32, "f32.f16.f16.f32"});
  CheckMma({16, 8, kElementF16, kElementF16, kElementF32, "f32.f16.f16.f32"});
}

TEST(MmaOps, HalfWithHalfAccumulator) {
  CheckMma({16, 16, kElementF16, kElementF16, kElementF16, "f16.f16.f16.f16"});
  CheckMma({16, 8, kElementF16, kElementF16, kElementF16, "f16.f16.f16.f16"});
}

TEST(MmaOps, BFloat) {
  CheckMma({16, 16, kElementBF16, kElementBF16, kElementF32, "f32.bf16.bf16.f32"});
  CheckMma({16, 8, kElementBF16, kElementBF16, kElementF32, "f32.bf16.bf16.f32"});
}

TEST(MmaOps, Tf32) {
  CheckMma({16, 8, kElementTf32, kElementTf32, kElementF32, "f32.tf32.tf32.f32"});
  CheckMma({16, 4, kElementTf32, kElementTf32, kElementF32, "f32.tf32.tf32.f32"});
}

TEST(MmaOps, Bytes) {
  CheckMma({16, 32, kElementS8, kElementS8, kElementS32, "s32.s8.s8.s32"});
  CheckMma({16, 32, kElementU8, kElementS8, kElementS32, "s32.u8.s8.s32"});
  CheckMma({16, 32, kElementU8, kElementU8, kElementS32, "s32.u8.u8.s32"});
  CheckMma({16, 16, kElementS8, kElementS8, kElementS32, "s32.s8.s8.s32"});
  CheckMma({8, 16, kElementS8, kElementU8, kElementS32, "s32.s8.u8.s32"});
}

TEST(MmaOps, EightBitFloats) {
  CheckMma({16, 32, kElementE4m3, kElementE4m3, kElementF32, "f32.e4m3.e4m3.f32"});
  CheckMma({16, 32, kElementE5m2, kElementE4m3, kElementF32, "f32.e5m2.e4m3.f32"});
  CheckMma({16, 32, kElementE5m2, kElementE5m2, kElementF32, "f32.e5m2.e5m2.f32"});
}

TEST(MmaOps, Double) { CheckMma({8, 4, kElementF64, kElementF64, kElementF64, "f64.f64.f64.f64"}); }

TEST(MmaOps, Tf32IgnoresTheLowBitsOfItsOperands) {
  // 1 + 2^-11 has bits that tf32 does not have; the unit drops them.
  std::vector<std::uint8_t> in(8), out(32 * 16);
  const std::string body =
      "mul.wide.u32 t8, tid, 16; add.u64 out, out, t8;\n"
      "mov.b32 a0, 0x3f801000; mov.b32 b0, 0x3f800000; mov.f32 c0, 0f00000000;\n"
      "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {d0, d1, d2, d3}, {a0, a0}, {b0}, "
      "{c0, c0, c0, c0};\nst.global.v4.f32 [out], {d0, d1, d2, d3};\n";
  ASSERT_TRUE(RunWarp(".reg .b32 a0, b0; .reg .f32 c0, d0, d1, d2, d3;\n", body, &in, &out));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(F32(Get(out, 4 * i, 32)), 4.0f);
}

// --- moving fragments ---------------------------------------------------------------------------

// Four 8 x 8 matrices of b16 in shared memory, one row 16 bytes; element value =
// matrix*64+row*8+col.
const char kFillShared[] =
    "mov.u32 base, buf; mov.u32 i, tid;\n"
    "FILL: shl.b32 x, i, 1; add.u32 x, x, base; cvt.u16.u32 h, i; st.shared.u16 [x], h;\n"
    "add.u32 i, i, 32; setp.lt.u32 p, i, 256; @p bra FILL;\nbar.sync 0;\n";
const char kFragmentRegisters[] =
    ".reg .b32 r0, r1, r2, r3, base, i, x; .reg .b16 h; .shared .align 16 .b8 buf[1024];\n";

TEST(FragmentOps, Ldmatrix) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      std::vector<std::uint8_t> in(8), out(32 * 16, 0);
      const std::string body =
          std::string(kFillShared) +
          "shl.b32 x, tid, 4; add.u32 x, x, base; mul.wide.u32 t8, tid, 16; add.u64 out, out, "
          "t8;\n" +
          fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [x];\n", count,
                      transposed ? ".trans" : "", List("r", count)) +
          (count < 4 ? "mov.u32 r3, 0; " : "") + (count < 3 ? "mov.u32 r2, 0; " : "") +
          (count < 2 ? "mov.u32 r1, 0; " : "") + "st.global.v4.u32 [out], {r0, r1, r2, r3};\n";
      ASSERT_TRUE(RunWarp(kFragmentRegisters, body, &in, &out));
      for (int lane = 0; lane < 32; ++lane) {
        for (int m = 0; m < count; ++m) {
          for (int i = 0; i < 2; ++i) {
            int row = lane / 4, column = lane % 4 * 2 + i;
            if (transposed) std::swap(row, column);
            const std::size_t at = static_cast<std::size_t>(lane * 16 + m * 4 + i * 2);
            ASSERT_EQ(Get(out, at, 16), static_cast<std::uint64_t>(m * 64 + row * 8 + column))
                << "x" << count << (transposed ? " trans" : "") << " lane " << lane;
          }
        }
      }
    }
  }
}

TEST(FragmentOps, StmatrixUndoesLdmatrix) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      std::vector<std::uint8_t> in(8), out(512, 0);
      const std::string t = transposed ? ".trans" : "";
      const std::string body =
          std::string(kFillShared) + "shl.b32 x, tid, 4; add.u32 x, x, base;\n" +
          fmt::format(
              "ldmatrix.sync.aligned.m8n8.x{0}.shared.b16 {{{1}}}, [x];\n"
              "stmatrix.sync.aligned.m8n8.x{0}{2}.shared.b16 [x+512], {{{1}}};\n",
              count, List("r", count), t) +
          "bar.sync 0; mul.wide.u32 t8, tid, 16; add.u64 out, out, t8;\n"
          "ld.shared.v4.u32 {r0, r1, r2, r3}, [x+512]; st.global.v4.u32 [out], {r0, r1, r2, r3};\n";
      ASSERT_TRUE(RunWarp(kFragmentRegisters, body, &in, &out));
      for (int m = 0; m < count; ++m) {
        for (int row = 0; row < 8; ++row) {
          for (int column = 0; column < 8; ++column) {
            const int want = transposed ? m * 64 + column * 8 + row : m * 64 + row * 8 + column;
            ASSERT_EQ(Get(out, static_cast<std::size_t>(m * 128 + row * 16 + column * 2), 16),
                      static_cast<std::uint64_t>(want));
          }
        }
      }
    }
  }
}

TEST(FragmentOps, MovmatrixTransposes) {
  std::vector<std::uint8_t> in(32 * 4), out(32 * 4);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i * 29);
  ASSERT_TRUE(RunWarp(".reg .b32 a, d;\n",
                      "mul.wide.u32 t8, tid, 4; add.u64 in, in, t8; add.u64 out, out, t8;\n"
                      "ld.global.b32 a, [in]; movmatrix.sync.aligned.m8n8.trans.b16 d, a;\n"
                      "st.global.b32 [out], d;\n",
                      &in, &out));
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(Get(out, (row * 8 + column) * 2, 16), Get(in, (column * 8 + row) * 2, 16));
    }
  }
}

}  // namespace
}  // namespace grove::emulator::opcodes
