#include "codegen/nvcc_source.h"

#include <algorithm>

#include <gmock/gmock.h>

namespace grove::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(std::string_view source) {
  const auto result = ForNvcc(source);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->text : "";
}

TEST(NvccSource, KernelsLoseTheirCLinkage) {
  EXPECT_EQ(Text("extern \"C\" __global__ void k(int n) { if (n) {} }"),
            " __global__ void k(int n) { if (n) {} }");
  EXPECT_EQ(Text("extern \"C\" {\n__global__ void k() {}\n}\n"),
            "inline namespace kernels  {\n__global__ void k() {}\n}\n");
}

TEST(NvccSource, FunctionsWithoutASpaceBecomeDeviceCode) {
  EXPECT_EQ(Text("float f(float x) { return x; }"), "__device__ float f(float x) { return x; }");
  EXPECT_EQ(Text("template <typename T, int N = (1 > 2)> T f(T x) { return x; }"),
            "template <typename T, int N = (1 > 2)> __device__ T f(T x) { return x; }");
  EXPECT_EQ(Text("float f(float);"), "__device__ float f(float);");
  EXPECT_EQ(Text("namespace a { static inline int g() { return 1; } }"),
            "namespace a { __device__ static inline int g() { return 1; } }");
  EXPECT_EQ(
      Text("struct S { int a; S(int x) : a{x} {} bool operator==(S o) const { return a == o.a; } "
           "};"),
      "struct S { int a; __device__ S(int x) : a{x} {} __device__ bool operator==(S o) const { "
      "return a == o.a; } };");
}

TEST(NvccSource, WhatSaysItsSpaceStays) {
  for (const char* source :
       {"__device__ __forceinline__ float f(float x) { return x; }",
        "template <int N> __device__ void g(float (&x)[N]) {}", "__host__ __device__ int h();",
        "__constant__ float table[4];", "__device__ float counter = 0;",
        "__global__ void __launch_bounds__(256, 2) k(float* x) {}",
        "constexpr int Twice(int x) { return 2 * x; }", "constexpr int kTile = 64;",
        "using T = float; typedef int I; static_assert(sizeof(T) == 4, \"{\");",
        "enum { kA, kB }; enum class E : int { kC };", "struct P { float a[4]; int b = 1; };",
        "struct Q { Q() = default; };", "namespace cg = cooperative_groups;", "struct Later;",
        "template <typename T> struct V { T v; };"}) {
    EXPECT_EQ(Text(source), source);
  }
}

TEST(NvccSource, TablesBecomeDeviceMemory) {
  EXPECT_EQ(Text("constexpr float kTable[2] = {1, 2};"),
            "__device__ constexpr float kTable[2] = {1, 2};");
  EXPECT_EQ(Text("int counter;"), "__device__ int counter;");
}

TEST(NvccSource, BodiesCommentsAndStringsAreLeftAlone) {
  const char* source =
      "// float f() {}\n__device__ void f() { const char* s = \"}{\"; auto g = [](int x) { return "
      "x; "
      "}; g(1); } /* int h() {} */\n";
  EXPECT_EQ(Text(source), source);
}

TEST(NvccSource, IncludesMoveOutAndLinesStay) {
  const auto result = ForNvcc(
      "#pragma once\n#include <mma.h>\n#include \"cuda_fp16.h\"\n#include <mma.h>\n#define TILE "
      "64\n"
      "#define ADD(a, b) ((a) + \\\n  (b))\nint x;\n");
  ASSERT_TRUE(result);
  EXPECT_THAT(result->includes, ElementsAre("<mma.h>", "\"cuda_fp16.h\""));
  EXPECT_THAT(result->macros, ElementsAre("TILE", "ADD"));
  EXPECT_THAT(result->text, Not(HasSubstr("#include")));
  EXPECT_THAT(result->text, Not(HasSubstr("once")));
  EXPECT_EQ(std::count(result->text.begin(), result->text.end(), '\n'), 8);
}

TEST(NvccSource, BracesThatDoNotMatchAreRefused) {
  for (const char* source : {"}", "void f() {", "struct S {", "namespace a { void f() {} "}) {
    const auto result = ForNvcc(source);
    EXPECT_FALSE(result) << source;
  }
}

}  // namespace
}  // namespace grove::codegen
