#include "codegen/grove_comment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/plan.h"

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;

// The canonical plan made of the source, or the error.
std::string Made(std::string_view source) {
  const Result<std::string> json = PlanFromComments(source);
  if (!json) return "error: " + json.error().message;
  const Result<LaunchPlan> plan = ParsePlan(*json);
  return plan ? CanonicalJson(*plan) : "bad plan: " + plan.error().message;
}

std::string Canonical(std::string_view json) {
  const Result<LaunchPlan> plan = ParsePlan(json);
  EXPECT_TRUE(plan) << json;
  return plan ? CanonicalJson(*plan) : "";
}

TEST(GroveCommentTest, EveryKeyIsRead) {
  EXPECT_EQ(
      Made("// grove: grid=(M, ceil_div(N, 4)) block=256 shared=4*N cluster=(2) cooperative=true "
           "dependent args=x, y, N, f32:1.5, i64:M*N, f32:eps\n"
           "extern \"C\" __global__ void k(float* a) {}\n"),
      Canonical(R"j({"launches": [{"kernel": "k", "grid": ["M", "ceil_div(N, 4)"], "block": 256,
              "shared": "4*N", "cluster": 2, "cooperative": true, "dependent": true,
              "args": ["x", "y", "N", {"f32": 1.5}, {"i64": "M*N"}, {"f32": "eps"}]}]})j"));
}

TEST(GroveCommentTest, SpellingsOfLists) {
  const std::string wanted =
      Canonical(R"({"launches": [{"kernel": "k", "grid": ["M", 2], "block": 32}]})");
  for (const std::string_view options :
       {"grid=(M,2) block=(32)", "grid=M, 2 block=32", "grid=[M, 2], block=[32]",
        "grid = dim3(M, 2) block = dim3(32)", "block=32; grid=(M,2)"}) {
    EXPECT_EQ(Made("// grove: " + std::string(options) + "\n__global__ void k() {}\n"), wanted)
        << options;
  }
  EXPECT_EQ(Made("/* grove: grid=(M + 1) * 2 block=32 */\n__global__ void k() {}"),
            Canonical(R"({"launches": [{"kernel": "k", "grid": "(M + 1) * 2", "block": 32}]})"));
}

TEST(GroveCommentTest, ArgumentsAreInferredFromTheParameters) {
  EXPECT_EQ(
      Made("// grove: grid=1 block=32\n"
           "extern \"C\" __global__ void __launch_bounds__(32, 2)\n"
           "k(const tensor::x* __restrict__ x, float y[], int N, unsigned int M, long long big,\n"
           "  size_t s, const float eps, double d, const __half2 *const p) {}\n"),
      Canonical(R"({"launches": [{"kernel": "k", "grid": 1, "block": 32, "args": ["x", "y",
              {"i32": "N"}, {"i32": "M"}, {"i64": "big"}, {"i64": "s"}, {"f32": "eps"}, {"f64": "d"}, "p"]}]})"));
  EXPECT_EQ(Made("// grove: grid=1 block=32\n__global__ void k(void) {}"),
            Canonical(R"({"launches": [{"kernel": "k", "grid": 1, "block": 32}]})"));
}

TEST(GroveCommentTest, WhatCannotBeInferredMustBeWritten) {
  EXPECT_THAT(
      Made("// grove: grid=1 block=32\n__global__ void k(Params p) {}"),
      HasSubstr(
          "line 1, column 1: grove: what to pass as 'p' of type 'Params' cannot be inferred"));
  EXPECT_THAT(Made("// grove: grid=1 block=32\n__global__ void k(float*) {}"),
              HasSubstr("cannot be inferred"));
  EXPECT_THAT(Made("// grove: grid=1 block=32\n__global__ void k(short s) {}"),
              HasSubstr("type 'short'"));
}

TEST(GroveCommentTest, SeveralKernelsLaunchInTheirOrder) {
  EXPECT_EQ(
      Made("// grove: grid=1 block=32\n__global__ void a() { if (1) { } }\n"
           "__device__ int f(int n) { return n; }\n"
           "// A note.\n// grove: grid=2 block=64\n// Another note.\ntemplate <int n> struct S;\n"
           "__global__ void b() {}\n"),
      Canonical(R"({"launches": [{"kernel": "a", "grid": 1, "block": 32},
                                       {"kernel": "b", "grid": 2, "block": 64}]})"));
}

TEST(GroveCommentTest, DeclarationsAreNoKernels) {
  EXPECT_EQ(
      Made("__global__ void k(int* y);\n// grove: grid=1 block=32\n__global__ void k(int* y) {}\n"),
      Canonical(R"({"launches": [{"kernel": "k", "grid": 1, "block": 32, "args": ["y"]}]})"));
}

TEST(GroveCommentTest, ErrorsNameThePlace) {
  EXPECT_THAT(Made("int a;\n"), HasSubstr("no __global__ function"));
  EXPECT_THAT(
      Made("\n__global__ void k() {}\n"),
      HasSubstr(
          "line 2, column 17: there is no launch plan, and no `// grove: grid=... block=...`"));
  EXPECT_THAT(Made("// grove: grid=1 block=1\n__global__ void a() {}\n__global__ void b() {}"),
              HasSubstr("above kernel 'b'"));
  EXPECT_THAT(Made("// grove: grid=1 blok=1\n__global__ void a() {}"),
              HasSubstr("line 1, column 1: grove: unknown key 'blok'; did you mean 'block'?"));
  EXPECT_THAT(Made("// grove: grid=1\n__global__ void a() {}"), HasSubstr("'block=' is missing"));
  EXPECT_THAT(Made("// grove: fast please\n__global__ void a() {}"),
              HasSubstr("expected grid=... block=..."));
  EXPECT_THAT(Made("// grove: grid=1 grid=2 block=1\n__global__ void a() {}"),
              HasSubstr("given twice"));
  EXPECT_THAT(Made("// grove: grid=1 block=1\n__global__ void a() {}\n// grove: grid=1 block=1\n"
                   "__global__ void a() {}"),
              HasSubstr("kernel 'a' is defined twice"));
  EXPECT_THAT(Made("// grove: grid=N+ block=1\n__global__ void a() {}"),
              HasSubstr("bad plan: launches[0].grid[0], column 3"));
}

}  // namespace
}  // namespace grove::codegen
