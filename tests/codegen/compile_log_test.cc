#include "codegen/compile_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const PathNames kNames = {{"/opt/cuda/include/cccl", "<cuda>"}, {"/opt/cuda/include", "<cuda>"}};
const std::vector<std::string> kRoots = {"home", "opt", "etc"};

std::string Clean(std::string_view log) { return SanitiseLog(log, kNames, kRoots); }

TEST(CompileLog, IncludeFoldersGetTheirShortName) {
  EXPECT_EQ(Clean("/opt/cuda/include/cccl/cuda/std/array(3): error: x\n"),
            "<cuda>/cuda/std/array(3): error: x\n");
  EXPECT_EQ(Clean("included from \"/opt/cuda/include/mma.h\"\n"),
            "included from \"<cuda>/mma.h\"\n");
}

TEST(CompileLog, OtherHostPathsKeepOnlyTheirFileName) {
  EXPECT_EQ(Clean("at \"/home/me/secret project/x.h\"\n"), "at \"<host>/secret project/x.h\"\n");
  EXPECT_EQ(Clean("-I/home/me/a.h\n"), "-I<host>/a.h\n");
  EXPECT_EQ(Clean("<cuda>/home/opt/a.h\n"), "<cuda>/home/opt/a.h\n");
  EXPECT_EQ(Clean("path=/home/me/a.h, (/etc/passwd)\n"), "path=<host>/a.h, (<host>/passwd)\n");
}

TEST(CompileLog, DivisionsAndCommentsOfQuotedSourceStay) {
  EXPECT_EQ(Clean("  x = a /b/ c; // home/opt\n"), "  x = a /b/ c; // home/opt\n");
}

TEST(CompileLog, StatisticsOfPtxasAreDropped) {
  EXPECT_EQ(Clean("ptxas info    : Used 8 registers\nptxas         .     0 bytes stack frame\n"
                  "ptxas error   : too much\n"),
            "ptxas error   : too much\n");
}

TEST(CompileLog, WhatPtxasSaysOfLostPerformanceStays) {
  const std::string lost =
      "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to non wgmma instructions reading accumulator registers\n";
  EXPECT_EQ(Clean(lost + "ptxas info    : Used 168 registers\n"), lost);
}

TEST(CompileLog, WhatPtxasRepeatsOfOneFaultIsCounted) {
  std::string log;
  for (int line = 100; line < 130; ++line) {
    log += "ptxas kernel, line " + std::to_string(line) + "; error   : not supported\n";
  }
  log += "ptxas kernel, line 7; error   : another\n";
  EXPECT_EQ(Clean(log),
            "ptxas kernel, line 100; error   : not supported\n"
            "ptxas kernel, line 101; error   : not supported\n"
            "ptxas kernel, line 102; error   : not supported\n"
            "ptxas kernel, line 7; error   : another\n"
            "[27 lines of ptxas like these left out]\n");
}

TEST(CompileLog, AnEmptyLogStaysEmpty) {
  EXPECT_EQ(Clean(""), "");
  EXPECT_EQ(Clean("\n\n"), "");
  EXPECT_EQ(Clean("ptxas info    : 0 bytes gmem\n\n"), "");
}

TEST(CompileLog, ControlCharactersAreReplaced) {
  EXPECT_EQ(Clean("a\x1b[31m\tb\r\n"), "a?[31m\tb?\n");
}

TEST(CompileLog, ALongLineIsCutBetweenCharacters) {
  const std::string line = std::string(kLogLineLimit - 1, 'x') + "\xc3\xa9" + "tail";
  EXPECT_EQ(Clean(line + "\n"), std::string(kLogLineLimit - 1, 'x') + "...\n");
}

TEST(CompileLog, ALongLogKeepsItsFirstErrors) {
  std::string log;
  for (int i = 0; i < 4000; ++i) log += "kernel.cu(1): warning #177-D: unused variable number x\n";
  log += "kernel.cu(7): error: the first\n";
  for (int i = 0; i < 4000; ++i) log += "kernel.cu(9): error: a later one of very many errors\n";
  const std::string clean = Clean(log);
  EXPECT_LE(clean.size(), kLogLimit);
  EXPECT_GT(clean.size(), kLogLimit / 2);
  EXPECT_THAT(clean, HasSubstr("error: the first\n"));
  EXPECT_THAT(clean, HasSubstr("bytes of warnings left out]\n"));
  EXPECT_TRUE(clean.ends_with("bytes left out]\n"));
}

TEST(CompileLog, ALongLogThatBeginsWithErrorsKeepsItsBeginning) {
  std::string log = "kernel.cu(7): error: the first\n";
  for (int i = 0; i < 4000; ++i) log += "kernel.cu(9): error: a later one of very many errors\n";
  const std::string clean = Clean(log);
  EXPECT_LE(clean.size(), kLogLimit);
  EXPECT_TRUE(clean.starts_with("kernel.cu(7): error: the first\n"));
}

constexpr std::string_view kPtxas =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'spill' for 'sm_90'\n"
    "ptxas info    : Function properties for spill\n"
    "ptxas         .     520 bytes stack frame, 1100 bytes spill stores, 1128 bytes spill loads\n"
    "ptxas info    : Function properties for helper\n"
    "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 1 barriers, 528 bytes cumulative stack size, 1024 "
    "bytes "
    "smem, 400 bytes cmem[0]\n"
    "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
    "ptxas info    : Function properties for k\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 14 registers, used 0 barriers\n";

TEST(CompileLog, PtxasTellsRegistersSpillsStackAndShared) {
  const auto infos = ReadPtxas(kPtxas);
  ASSERT_EQ(infos.size(), 2u);
  const PtxasInfo& spill = infos.at("spill");
  EXPECT_EQ(spill.registers, 32);
  EXPECT_EQ(spill.spill_stores, 1100);
  EXPECT_EQ(spill.spill_loads, 1128);
  EXPECT_EQ(spill.stack, 528);
  EXPECT_EQ(spill.static_shared, 1024);
  EXPECT_EQ(infos.at("k").registers, 14);
  EXPECT_EQ(infos.at("k").static_shared, 0);
}

TEST(CompileLog, WhatTheSourceMadeUpIsOverriddenByPtxas) {
  const std::string log =
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     9 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads\n" +
      std::string(kPtxas);
  EXPECT_EQ(ReadPtxas(log).at("k").spill_stores, 0);
}

TEST(CompileLog, HalfWrittenStatisticsDoNoHarm) {
  for (std::size_t cut = 0; cut < kPtxas.size(); ++cut) {
    EXPECT_LE(ReadPtxas(kPtxas.substr(0, cut)).size(), 2u);
  }
  EXPECT_TRUE(ReadPtxas("ptxas info    : Used 99999999999999999999999 registers\n").empty());
}

}  // namespace
}  // namespace grove::codegen
