// Loads and stores: widths, sign extension, vectors, shared, local, constant and parameter space.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"

namespace grove::emulator::opcodes {
namespace {

std::vector<std::uint8_t> Pattern(std::size_t n) {
  std::vector<std::uint8_t> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::uint8_t>(i * 37 + 11);
  return v;
}

template <typename T>
bool RunBytes(const std::string& text, std::vector<T>* in, std::vector<T>* out,
              std::int64_t threads) {
  return RunModule(text, std::as_writable_bytes(std::span(*in)),
                   std::as_writable_bytes(std::span(*out)), threads);
}

std::uint64_t Read(const std::vector<std::uint8_t>& v, std::size_t at, std::size_t bytes) {
  std::uint64_t x = 0;
  std::memcpy(&x, v.data() + at, bytes);
  return x;
}

TEST(MemoryOps, NarrowLoadsExtendByTheirSign) {
  for (const int width : {8, 16, 32, 64}) {
    for (const char sign : {'s', 'u'}) {
      for (const char* space : {".global", "", ".global.nc", ".relaxed.gpu.global",
                                ".acquire.gpu.global", ".volatile.global"}) {
        auto in = Pattern(64 * 8);
        std::vector<std::uint8_t> out(64 * 8);
        const std::string text = ModuleText(
            ".reg .b64 x;\n", fmt::format("add.u64 in, in, t8; add.u64 out, out, t8;\n"
                                          "ld{}.{}{} x, [in];\nst.global.b64 [out], x;\n",
                                          space, sign, width));
        ASSERT_TRUE(RunBytes(text, &in, &out, 64)) << space;
        for (std::size_t i = 0; i < 64; ++i) {
          std::uint64_t want = Read(in, 8 * i, static_cast<std::size_t>(width) / 8);
          if (sign == 's') {
            want = static_cast<std::uint64_t>(static_cast<std::int64_t>(want << (64 - width)) >>
                                              (64 - width));
          }
          ASSERT_EQ(Read(out, 8 * i, 8), want) << sign << width << space;
        }
      }
    }
  }
}

TEST(MemoryOps, NarrowStoresWriteOnlyTheirBytes) {
  for (const int width : {8, 16, 32, 64}) {
    auto in = Pattern(32 * 8);
    std::vector<std::uint8_t> out(32 * 8, 0xee);
    const std::string text = ModuleText(
        ".reg .b64 x;\n", fmt::format("add.u64 in, in, t8; add.u64 out, out, t8;\n"
                                      "ld.global.u64 x, [in];\nst.global.u{} [out], x;\n",
                                      width));
    ASSERT_TRUE(RunBytes(text, &in, &out, 32));
    for (std::size_t i = 0; i < 32 * 8; ++i) {
      const bool written = i % 8 < static_cast<std::size_t>(width) / 8;
      ASSERT_EQ(out[i], written ? in[i] : 0xee) << width << " byte " << i;
    }
  }
}

TEST(MemoryOps, VectorsKeepTheirOrder) {
  struct Form {
    int count;
    const char* type;
    const char* reg;
    int bytes;
  };
  for (const Form& f :
       {Form{2, "u8", "b16", 1}, Form{4, "u8", "b16", 1}, Form{2, "u16", "b16", 2},
        Form{4, "u16", "b16", 2}, Form{2, "u32", "b32", 4}, Form{4, "u32", "b32", 4},
        Form{4, "f32", "f32", 4}, Form{2, "f32", "f32", 4}, Form{2, "f64", "f64", 8},
        Form{2, "u64", "b64", 8}}) {
    for (const char* space : {".global", ".global.nc", ".shared"}) {
      const bool shared = std::string(space) == ".shared";
      const int bytes = f.count * f.bytes;
      auto in = Pattern(static_cast<std::size_t>(64 * bytes));
      std::vector<std::uint8_t> out(in.size());
      std::string list, reversed;
      for (int i = 0; i < f.count; ++i) {
        list += fmt::format("{}v{}", i ? ", " : "", i);
        reversed += fmt::format("{}v{}", i ? ", " : "", f.count - 1 - i);
      }
      std::string body = fmt::format(
          "mul.wide.u32 t8, tid, {}; add.u64 in, in, t8; "
          "add.u64 out, out, t8;\n",
          bytes);
      if (shared) {
        body += fmt::format(
            "mul.lo.u32 s, tid, {0}; mov.u32 base, buf; add.u32 s, s, base;\n"
            "ld.global.v{1}.{2} {{{3}}}, [in];\nst.shared.v{1}.{2} [s], {{{3}}};\n"
            "bar.sync 0;\nld.shared.v{1}.{2} {{{3}}}, [s];\n",
            bytes, f.count, f.type, list);
      } else {
        body += fmt::format("ld{}.v{}.{} {{{}}}, [in];\n", space, f.count, f.type, list);
      }
      body += fmt::format("st.global.v{}.{} [out], {{{}}};\n", f.count, f.type, reversed);
      const std::string declarations = fmt::format(
          ".reg .{} v0, v1, v2, v3; .reg .b32 s, base; .shared .align 16 .b8 buf[1024];\n", f.reg);
      ASSERT_TRUE(RunBytes(ModuleText(declarations, body), &in, &out, 64)) << f.type << space;
      for (std::size_t i = 0; i < 64; ++i) {
        for (int k = 0; k < f.count; ++k) {
          const std::size_t base = i * static_cast<std::size_t>(bytes);
          const std::size_t unit = static_cast<std::size_t>(f.bytes);
          ASSERT_EQ(Read(out, base + static_cast<std::size_t>(k) * unit, unit),
                    Read(in, base + static_cast<std::size_t>(f.count - 1 - k) * unit, unit))
              << "v" << f.count << "." << f.type << space;
        }
      }
    }
  }
}

TEST(MemoryOps, SharedReversalAcrossWarps) {
  auto in = Pattern(256 * 8);
  std::vector<std::uint8_t> out(256 * 8);
  const std::string text =
      ModuleText(".reg .b64 x, w; .reg .b32 s, base; .shared .align 8 .b8 buf[2048];\n",
                 "add.u64 in, in, t8; add.u64 out, out, t8; ld.global.u64 x, [in];\n"
                 "mov.u32 base, buf; shl.b32 s, tid, 3; add.u32 s, s, base; st.shared.u64 [s], x;\n"
                 "bar.sync 0;\nsub.u32 s, 255, tid; shl.b32 s, s, 3; add.u32 s, s, base;\n"
                 "ld.shared.u64 x, [s]; st.global.u64 [out], x;\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 256));
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(Read(out, 8 * i, 8), Read(in, 8 * (255 - i), 8));
}

TEST(MemoryOps, GenericAddressesReachSharedMemory) {
  auto in = Pattern(64 * 8);
  std::vector<std::uint8_t> out(64 * 8);
  const std::string text = ModuleText(
      ".reg .b64 x, w; .reg .pred g; .shared .align 8 .b8 buf[512];\n",
      "add.u64 in, in, t8; add.u64 out, out, t8; ld.u64 x, [in];\n"
      "mov.u64 w, buf; cvta.shared.u64 w, w; add.u64 w, w, t8; st.u64 [w], x; bar.sync 0;\n"
      "cvta.to.shared.u64 w, w; ld.shared.u64 x, [w]; st.u64 [out], x;\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 64));
  EXPECT_EQ(in, out);
}

TEST(MemoryOps, DynamicSharedMemoryFollowsStatic) {
  std::string text = ModuleText(
      ".reg .b32 s, base, v; .reg .b64 x; .shared .align 4 .b8 fixed[64];\n",
      "add.u64 out, out, t8; shl.b32 s, tid, 2; mov.u32 base, fixed; add.u32 base, base, s;\n"
      "setp.lt.u32 p, tid, 16; @p st.shared.u32 [base], tid;\n"
      "mov.u32 base, dyn; add.u32 base, base, s; add.u32 v, tid, 1000; st.shared.u32 [base], v;\n"
      "bar.sync 0; ld.shared.u32 v, [base]; cvt.u64.u32 x, v;\n"
      "mov.u32 base, fixed; @p ld.shared.u32 v, [base+4]; @p mad.wide.u32 x, v, 65536, x;\n"
      "st.global.u64 [out], x;\n");
  text.insert(text.find(".visible"), ".extern .shared .align 16 .b8 dyn[];\n");
  std::vector<std::uint64_t> in(64), out(64);
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 64, 1, 256));
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], 1000 + i + (i < 16 ? 65536 : 0));
}

TEST(MemoryOps, LocalMemoryBelongsToItsThread) {
  auto in = Pattern(64 * 8);
  std::vector<std::uint8_t> out(64 * 8);
  const std::string text = ModuleText(
      ".reg .b64 x, w; .reg .b32 i; .local .align 8 .b8 stack[64];\n",
      "add.u64 in, in, t8; add.u64 out, out, t8; ld.global.u64 x, [in]; mov.u64 w, stack;\n"
      "and.b32 i, tid, 7; mul.wide.u32 t8, i, 8; add.u64 w, w, t8; st.local.u64 [w], x;\n"
      "bar.sync 0; cvta.local.u64 w, w; ld.u64 x, [w]; st.global.u64 [out], x;\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 64));
  EXPECT_EQ(in, out);
}

TEST(MemoryOps, ConstantAndGlobalVariables) {
  std::string text =
      ModuleText(".reg .b64 x, y, w; .reg .b32 i;\n",
                 "add.u64 out, out, t8; and.b32 i, tid, 3; mul.wide.u32 w, i, 8;\n"
                 "mov.u64 x, table; add.u64 x, x, w; ld.const.u64 y, [x];\n"
                 "mov.u64 x, counts; cvta.global.u64 x, x; add.u64 x, x, w; ld.u64 w, [x];\n"
                 "add.u64 y, y, w; st.global.u64 [out], y;\n");
  text.insert(text.find(".visible"),
              ".const .align 8 .u64 table[4] = {10, 20, 30, 40};\n"
              ".global .align 8 .u64 counts[4] = {1, 2, 3, 4};\n");
  std::vector<std::uint64_t> in(32), out(32);
  ASSERT_TRUE(RunModule(text, std::as_writable_bytes(std::span(in)),
                        std::as_writable_bytes(std::span(out)), 32));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 11 * (i % 4 + 1));
}

TEST(MemoryOps, PrefetchAndFencesAreAccepted) {
  auto in = Pattern(32 * 8);
  std::vector<std::uint8_t> out(32 * 8);
  const std::string text = ModuleText(
      ".reg .b64 x;\n",
      "add.u64 in, in, t8; add.u64 out, out, t8; prefetch.global.L2 [in];\n"
      "ld.global.L1::no_allocate.u64 x, [in]; membar.gl; membar.cta; fence.acq_rel.gpu;\n"
      "fence.sc.cta; st.global.wt.u64 [out], x; bar.warp.sync 0xffffffff;\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 32));
  EXPECT_EQ(in, out);
}

TEST(MemoryOps, AsyncCopiesToShared) {
  auto in = Pattern(64 * 16);
  std::vector<std::uint8_t> out(64 * 16);
  const std::string text = ModuleText(
      ".reg .b32 s, base, v0, v1, v2, v3; .shared .align 16 .b8 buf[1024];\n",
      "mul.wide.u32 t8, tid, 16; add.u64 in, in, t8; add.u64 out, out, t8;\n"
      "mov.u32 base, buf; shl.b32 s, tid, 4; add.u32 s, s, base;\n"
      "cp.async.cg.shared.global [s], [in], 16; cp.async.commit_group; cp.async.wait_group 0;\n"
      "bar.sync 0;\nld.shared.v4.u32 {v0, v1, v2, v3}, [s];\n"
      "st.global.v4.u32 [out], {v0, v1, v2, v3};\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 64));
  EXPECT_EQ(in, out);
}

TEST(MemoryOps, AsyncCopyFillsTheRestWithZeros) {
  auto in = Pattern(32 * 16);
  std::vector<std::uint8_t> out(32 * 16, 0xee);
  const std::string text = ModuleText(
      ".reg .b32 s, base, v0, v1, v2, v3, n; .shared .align 16 .b8 buf[512];\n",
      "mul.wide.u32 t8, tid, 16; add.u64 in, in, t8; add.u64 out, out, t8;\n"
      "mov.u32 base, buf; shl.b32 s, tid, 4; add.u32 s, s, base; and.b32 n, tid, 15;\n"
      "cp.async.ca.shared.global [s], [in], 16, n; cp.async.wait_all; bar.sync 0;\n"
      "ld.shared.v4.u32 {v0, v1, v2, v3}, [s]; st.global.v4.u32 [out], {v0, v1, v2, v3};\n");
  ASSERT_TRUE(RunBytes(text, &in, &out, 32));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t thread = i / 16;
    EXPECT_EQ(out[i], i % 16 < (thread & 15) ? in[i] : 0) << i;
  }
}

}  // namespace
}  // namespace grove::emulator::opcodes
