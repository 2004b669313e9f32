// Hostile and odd module text.
#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

std::string Kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
         ".reg .pred %p<9>;\n.reg .b32 %r<99>;\n.reg .f32 %f<99>;\n.reg .b64 %rd<99>;\n"
         "ld.param.u64 %rd1, [p];\n" +
         body + "\nret;\n}\n";
}

TEST(Text, HandWrittenModules) {
  Machine m(
      Kernel("mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;"
             "mad.lo.s32 %r2, %ctaid.x, 5, %r1; st.global.u32 [%rd3], %r2;"));
  std::vector<int> out(32);
  m.Good("k", m.Map(out));
  EXPECT_EQ(out[31], 31);
}

TEST(Text, AnUnknownInstructionFaultsOnlyWhenReached) {
  const std::string body =
      "setp.eq.u64 %p1, %rd1, 0; @%p1 bra L; bra M;\nL: frobnicate.u32 %r1, %r2;\nM:";
  Machine m(Kernel(body));
  std::vector<int> out(32);
  m.Good("k", m.Map(out));
  const Fault f = m.Bad(Fault::Kind::kUnsupported, "k", std::uint64_t{0});
  EXPECT_NE(f.instruction.find("frobnicate.u32"), std::string::npos);
}

TEST(Text, GuardedUnknownInstruction) {
  Machine m(Kernel("setp.eq.u64 %p1, %rd1, 0; @%p1 frobnicate.u32 %r1; @!%p1 bra M; trap;\nM:"));
  std::vector<int> out(32);
  m.Good("k", m.Map(out));
  m.Bad(Fault::Kind::kUnsupported, "k", std::uint64_t{0});
}

TEST(Text, GarbageIsAnErrorWithALine) {
  for (const char* text :
       {"", "hello", ".version 8.0\n.entry k(\n", ".version 8.0\n.entry k() { add.u32 %r1",
        ".version 8.0\n.entry k() { .reg .b32 %r<2>; @@@ }", "\x01\x02\xff",
        ".version 8.0\n.global .b8 x[99999999999];", ".version 8.0 .shared .b8 y[-1];"}) {
    auto module = LoadModule(text);
    ASSERT_FALSE(module.has_value()) << text;
    EXPECT_EQ(module.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(module.error().message.find("line"), std::string::npos) << module.error().message;
  }
}

TEST(Text, EveryPrefixOfAModuleIsAnErrorOrAModule) {
  const std::string text = ReadPtx("tensor");
  for (std::size_t n = 0; n < text.size(); n += 97) {
    auto module = LoadModule(std::string_view(text).substr(0, n));
    if (!module) {
      EXPECT_FALSE(module.error().message.empty());
    }
  }
}

TEST(Text, RegistersOfTheWrongWidthAreRefused) {
  for (const char* body :
       {"add.u64 %rd2, %r1, %rd1;", "add.u32 %r1, %rd1, %r2;", "ld.global.u64 %r1, [%rd1];",
        "add.f32 %f1, %p1, %f2;", "bra NOWHERE;", "shl.b64 %rd2, %rd1, %rd1;",
        "mov.u32 %r1, %nosuch.x;", "mov.u64 %rd2, nosuch;", "ld.param.u32 %r1, [p+8];",
        "setp.lt.s32 %r1, %r2, %r3;", "mov.b64 {%r1, %rd2}, %rd1;"}) {
    Machine m(Kernel(body));
    ASSERT_EQ(m.error(), "") << body;
    std::vector<int> out(32);
    const LaunchOutcome outcome = m.Launch("k", m.Map(out));
    EXPECT_TRUE(outcome.fault.has_value()) << body;
  }
}

TEST(Text, WildAddressesOfEverySpaceFault) {
  for (const char* body :
       {"mov.u64 %rd2, 0xfffffffffffffffc; ld.global.u32 %r1, [%rd2];",
        "mov.u32 %r1, 0x7ffffffc; ld.shared.u32 %r2, [%r1];",
        "mov.u32 %r1, -4; st.shared.u32 [%r1], %r2;",
        "mov.u32 %r1, 0xfffffff0; st.local.v4.u32 [%r1], {%r1,%r1,%r1,%r1};",
        "mov.u64 %rd2, 0x01ffffff; ld.u8 %r1, [%rd2];",
        "mov.u64 %rd2, 0x02000010; ld.u32 %r1, [%rd2];",
        "mov.u64 %rd2, 0x03000008; ld.u32 %r1, [%rd2];",
        "mov.u64 %rd2, 0x8000000000000000; st.u64 [%rd2], %rd1;",
        "ld.global.u32 %r1, [%rd1+9223372036854775804];", "ld.global.u32 %r1, [%rd1-4];",
        "atom.global.add.u32 %r1, [%rd1+4096], 1;",
        "cp.async.ca.shared.global [%r1], [%rd1], 4;"}) {
    Machine m(Kernel(body));
    std::vector<int> out(32);
    m.Bad(Fault::Kind::kOutOfBounds, "k", m.Map(out));
  }
}

TEST(Text, InlineAssemblyScopesHideNames) {
  Machine m(
      Kernel("mov.u32 %r1, 5; { .reg .b32 t; mov.u32 t, 7; bra L; trap; L: add.u32 %r1, %r1, t; }"
             "{ .reg .b32 t; mov.u32 t, 30; bra L; trap; L: add.u32 %r1, %r1, t; } st.global.u32 "
             "[%rd1], %r1;"));
  std::vector<int> out(1);
  m.config.block = {1, 1, 1};
  m.Good("k", m.Map(out));
  EXPECT_EQ(out[0], 42);
}

TEST(Text, BarrierInsideDivergentCodeThatAllThreadsReach) {
  Machine m(
      Kernel("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B;\n"
             "A: bar.sync 0;\nB: st.global.u32 [%rd1], %r1;"));
  std::vector<int> out(1);
  m.Good("k", m.Map(out));
}

TEST(Text, ExitedThreadsCountAsArrived) {
  Machine m(
      Kernel("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0; st.global.u32 "
             "[%rd1], %r1;"));
  std::vector<int> out(1);
  m.config.block = {64, 1, 1};
  m.Good("k", m.Map(out));
  EXPECT_EQ(out[0], 63);
}

}  // namespace
}  // namespace grove::emulator
