#include "codegen/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

CompileRequest With(std::string option) { return {"", "sm_90", {std::move(option)}}; }

TEST(CompileOptions, ArchitecturesAreChecked) {
  for (const char* good : {"sm_75", "sm_90", "sm_90a", "sm_100f", "sm_120"}) {
    EXPECT_TRUE(CheckRequest({"", good, {}})) << good;
  }
  for (const char* bad :
       {"", "sm_", "sm_9", "sm_90b", "compute_90", "sm_90 -I/etc", "sm_1000", "sm_90aa"}) {
    EXPECT_FALSE(CheckRequest({"", bad, {}})) << bad;
  }
}

TEST(CompileOptions, WhatReadsWritesOrChangesTheOutputIsRefused) {
  for (const char* bad :
       {"-I/etc", "--include-path=/etc", "-include=/etc/passwd", "--pre-include=/etc/passwd",
        "--pch", "--create-pch=x", "--time=/tmp/x", "--fdevice-time-trace=/tmp/x", "-rdc=true",
        "-dlto", "-G", "-lineinfo", "--gpu-architecture=sm_70", "--ptxas-options=--output-file=x",
        "-D", "--fmad=", "", "--use_fast_math2", "-DA\n-I/etc"}) {
    const auto checked = CheckRequest(With(bad));
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidInput);
  }
}

TEST(CompileOptions, HarmlessOnesPass) {
  for (const char* good : {"--use_fast_math", "--fmad=false", "-DN=3", "--maxrregcount=64",
                           "--std=c++20", "--ptxas-options=-O1"}) {
    EXPECT_TRUE(CheckRequest(With(good))) << good;
  }
}

TEST(CompileOptions, TheRefusedOptionIsNamed) {
  EXPECT_THAT(CheckRequest(With("-I/etc")).error().message, HasSubstr("'-I/etc'"));
}

TEST(CompileOptions, ARequestMayChooseItsStandardOnce) {
  EXPECT_THAT(AllOptions(With("-DA"), 13, {}), Contains("--std=c++17"));
  const auto options = AllOptions(With("--std=c++20"), 13, {});
  EXPECT_THAT(options, Contains("--std=c++20"));
  EXPECT_THAT(options, Not(Contains("--std=c++17")));
}

TEST(CompileOptions, OptionsOfNewerCompilersAreLeftOutForOlderOnes) {
  EXPECT_THAT(AllOptions(With("-DA"), 13, {}), Contains("--no-cache"));
  EXPECT_THAT(AllOptions(With("-DA"), 12, {}), Not(Contains("--no-cache")));
}

}  // namespace
}  // namespace grove::codegen
