#include "eval/cuda/sass.h"

#include <gtest/gtest.h>

#include "eval/cuda/tool.h"

namespace grove::cuda {
namespace {

// As cuobjdump -sass prints it (shortened).
constexpr const char* kCuobjdump = R"(
Fatbin elf code:
================
	code for sm_90
		Function : softmax
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000fe20000000800 */
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;        /* 0x0000000402040981 */
                                                                           /* 0x000ea8000c1e1d00 */
        /*0020*/                   FFMA R4, R5, R6, R7 ;                   /* 0x0000000605047223 */
        /*0030*/                   FADD.FTZ R4, R4, 1 ;                    /* 0x3f80000004047421 */
        /*0040*/                   STG.E desc[UR4][R2.64], R4 ;            /* 0x0000000402007986 */
        /*0050*/              @P1  EXIT ;                                  /* 0x000000000000194d */
        /*0060*/                   NOP ;                                   /* 0x0000000000007918 */
		..........
		Function : tail
        /*0000*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
        /*0010*/                   LDL R2, [R1] ;
)";

TEST(Sass, TheListingOfCuobjdumpIsCountedByKind) {
  const auto mixes = ParseSass(kCuobjdump);
  ASSERT_EQ(mixes.size(), 2U);
  EXPECT_EQ(mixes[0].kernel, "softmax");
  EXPECT_EQ(mixes[0].total, 6);  // without the NOP
  EXPECT_EQ(mixes[0].kinds.at("fp32"), 2);
  EXPECT_EQ(mixes[0].kinds.at("global load"), 1);
  EXPECT_EQ(mixes[0].kinds.at("global store"), 1);
  EXPECT_EQ(mixes[0].kinds.at("control"), 1);
  EXPECT_EQ(mixes[0].kinds.at("constant"), 1);
  EXPECT_EQ(mixes[1].kinds.at("tensor"), 1);
  EXPECT_EQ(mixes[1].kinds.at("local (spill)"), 1);
}

TEST(Sass, TheListingOfNvdisasmIsReadAsWell) {
  const auto mixes = ParseSass(
      "\t.section\t.text.softmax,\"ax\",@progbits\n"
      ".text.softmax:\n"
      "        /*0000*/                   MUFU.EX2 R3, R4 ;\n"
      "        /*0010*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;\n"
      "        /*0020*/               {   ATOMS.ADD RZ, [R2], R3 ;\n");
  ASSERT_EQ(mixes.size(), 1U);
  EXPECT_EQ(mixes[0].kernel, "softmax");
  EXPECT_EQ(mixes[0].kinds.at("special function"), 1);
  EXPECT_EQ(mixes[0].kinds.at("barrier"), 1);
  EXPECT_EQ(mixes[0].kinds.at("atomic"), 1);
}

// The listing of one function with these instructions.
SassMix MixOf(const std::vector<std::string>& instructions) {
  std::string listing = "Function : k\n";
  for (const std::string& one : instructions) {
    listing += "/*0000*/ " + one + " ;  /* 0x0000000402040981 */\n";
  }
  const auto mixes = ParseSass(listing);
  return mixes.empty() ? SassMix() : mixes.front();
}

TEST(Sass, LoadsAreUnderWayUntilTheirRegistersAreNamed) {
  const SassMix ahead =
      MixOf({"LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R8, desc[UR4][R2.64+0x10]",
             "LDG.E R12, desc[UR4][R2.64+0x20]", "FADD R20, R4, R8"});
  EXPECT_EQ(ahead.loads_in_flight, 3);
  EXPECT_EQ(ahead.bytes_in_flight, 36);
  // The second load was moved below the use of the first.
  const SassMix sunk = MixOf({"LDG.E.128 R4, desc[UR4][R2.64]", "FADD R20, R7, R20",
                              "LDG.E.128 R8, desc[UR4][R2.64+0x10]", "FADD R20, R8, R20"});
  EXPECT_EQ(sunk.loads_in_flight, 1);
  EXPECT_EQ(sunk.bytes_in_flight, 16);
}

TEST(Sass, AUseOfALaterLoadEndsTheEarlierOnesToo) {
  const SassMix mix = MixOf({"LDG.E R4, [R2.64]", "LDG.E R5, [R2.64]", "FADD R9, R5, 1",
                             "LDG.E R6, [R2.64]", "LDG.E R7, [R2.64]"});
  EXPECT_EQ(mix.loads_in_flight, 2);
}

TEST(Sass, WideStoresAndProductsReadMoreThanTheyName) {
  const SassMix store = MixOf({"LDG.E R6, [R2.64]", "STG.E.128 [R10.64], R4", "LDG.E R8, [R2.64]"});
  EXPECT_EQ(store.loads_in_flight, 1);
  const SassMix product =
      MixOf({"LDG.E R7, [R2.64]", "HMMA.16816.F32 R20, R4, R24, R20", "LDG.E R8, [R2.64]"});
  EXPECT_EQ(product.loads_in_flight, 1);
}

TEST(Sass, NarrowLoadsAndUniformRegisters) {
  const SassMix mix =
      MixOf({"LDG.E.U16 R4, desc[UR4][R2.64]", "MOV R9, UR4", "LDG.E.U8 R5, [R2.64]"});
  EXPECT_EQ(mix.loads_in_flight, 2);  // UR4 is no R4
  EXPECT_EQ(mix.bytes_in_flight, 3);
  EXPECT_EQ(MixOf({"LDG.E RZ, [UR2]", "FADD R1, R2, R3"}).loads_in_flight, 0);
  EXPECT_EQ(MixOf({"LDG.E R99999999999, [UR2]"}).loads_in_flight, 0);  // no such register
}

TEST(Sass, KindsAreToldByTheMnemonic) {
  EXPECT_EQ(KindOfSass("LDGSTS.E.BYPASS.128"), "async copy");
  EXPECT_EQ(KindOfSass("LDSM.16.M88.4"), "shared");
  EXPECT_EQ(KindOfSass("UTMALDG.2D"), "bulk copy");
  EXPECT_EQ(KindOfSass("IMAD.WIDE.U32"), "int");
  EXPECT_EQ(KindOfSass("HFMA2.MMA"), "fp16");
  EXPECT_EQ(KindOfSass("HMMA.16816.F32"), "tensor");
  EXPECT_EQ(KindOfSass("DFMA"), "fp64");
  EXPECT_EQ(KindOfSass("SOMETHING_NEW"), "other");
}

TEST(Sass, WordsNameTheLargestKindFirst) {
  SassMix mix{"k", 4, {{"int", 1}, {"fp32", 3}}};
  EXPECT_EQ(Describe(mix), "4 instructions: fp32 3 (75%), int 1 (25%)");
  mix.loads_in_flight = 2;
  mix.bytes_in_flight = 32;
  EXPECT_EQ(Describe(mix),
            "4 instructions: fp32 3 (75%), int 1 (25%); at most 2 global loads (32 bytes) of a "
            "thread under way at once");
}

TEST(Sass, WhatIsNoListingGivesNothing) {
  EXPECT_TRUE(ParseSass("").empty());
  EXPECT_TRUE(ParseSass("cuobjdump fatal: no such file\n").empty());
  EXPECT_TRUE(ParseSass("Function : empty\n").empty());
  EXPECT_TRUE(ParseSass("/*0000*/ FFMA R1 ;\n").empty());  // of no function
}

TEST(Sass, NothingToDisassembleIsOneLine) {
  const auto mixes = DisassembleCubin("no cubin");
  ASSERT_FALSE(mixes);
  EXPECT_EQ(mixes.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(mixes.error().message.find('\n'), std::string::npos) << mixes.error().message;
}

}  // namespace
}  // namespace grove::cuda
