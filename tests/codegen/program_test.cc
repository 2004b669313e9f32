#include "codegen/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPlan = R"({"launches": [{"kernel": "k", "grid": 1, "block": 32}]})";

std::string IdentityOf(std::string_view source, std::string_view plan = kPlan) {
  const Result<KernelProgram> program = MakeProgram(source, plan);
  EXPECT_TRUE(program) << program.error().message;
  return program ? program->identity().Hex() : "";
}

TEST(ProgramTest, KeepsSourceAndPlanAsWritten) {
  const std::string source = "// note\n__global__ void k() {}\n";
  const Result<KernelProgram> program = MakeProgram(source, kPlan);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->source, source);
  EXPECT_EQ(program->plan_json, kPlan);
  EXPECT_EQ(program->plan.variants.size(), 1U);
}

TEST(ProgramTest, ErrorsSayWhichText) {
  EXPECT_THAT(MakeProgram("#include <iostream>", kPlan).error().message,
              HasSubstr("source: line 1"));
  EXPECT_THAT(MakeProgram("int a;", "{").error().message, HasSubstr("launch plan: line 1"));
  EXPECT_EQ(MakeProgram(" \n", kPlan).error().message, "the source is empty");
  EXPECT_THAT(MakeProgram("__global__ void k() {}", "").error().message,
              HasSubstr("no launch plan"));
}

TEST(ProgramTest, AnEmptyPlanIsMadeFromTheComments) {
  const Result<KernelProgram> program =
      MakeProgram("// grove: grid=M block=64\n__global__ void k() {}", " \n");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(program->plan_json, HasSubstr("\"grid\":[\"M\"]"));
}

TEST(ProgramIdentityTest, CommentsAndBlanksDoNotCount) {
  const std::string base = IdentityOf("__global__ void k(int* a) { a[0] = a[1] + 2; }");
  EXPECT_EQ(IdentityOf("// hello\n__global__   void k( int *a )\n{\n  a[0]=a[1]+2; /* two */\n}\n"),
            base);
  EXPECT_EQ(IdentityOf("\r\n__global__ void k(int*a){a[0]=a[1]+2;}\r\n"), base);
}

TEST(ProgramIdentityTest, ThePlansFormattingDoesNotCount) {
  EXPECT_EQ(
      IdentityOf("int a;",
                 R"({"version": 1, "launches":[{"block":[32,1],"grid":["1"],"kernel":"k"}]})"),
      IdentityOf("int a;"));
}

TEST(ProgramIdentityTest, EveryMeaningfulDifferenceCounts) {
  const std::string base = IdentityOf("int f(int a) { return a + +a; }\n#define F (a)\n");
  for (const std::string_view source : {"int f(int b) { return b + +b; }\n#define F (a)\n",
                                        "int f(int a) { return a++a; }\n#define F (a)\n",
                                        "int f(int a) { return a + +a; }\n#define F(a)\n",
                                        "int f(int a) { return a + +a; } #define F (a)\n"}) {
    EXPECT_NE(IdentityOf(source), base) << source;
  }
  EXPECT_NE(IdentityOf("int a;", R"({"launches": [{"kernel": "k", "grid": 2, "block": 32}]})"),
            IdentityOf("int a;"));
}

TEST(ProgramIdentityTest, NamesOfItsOwnDoNotCount) {
  constexpr std::string_view kOne =
      "template <typename T, int Rows> __device__ T Sum(const T* values, float scale) {\n"
      "  T total = 0;\n  for (int i = 0; i < Rows; ++i) total += values[i] * scale;\n"
      "  return total;\n}\n"
      "extern \"C\" __global__ void k(const float* a, float* b) {\n"
      "  __shared__ float tile[256];\n  tile[threadIdx.x] = Sum<float, 4>(a, 2.f);\n"
      "  b[0] = tile[0] + dim::N;\n}\n";
  constexpr std::string_view kOther =
      "template <typename Element, int N4> __device__ Element Add(const Element* p, float s) {\n"
      "  Element acc = 0;\n  for (int row = 0; row < N4; ++row) acc += p[row] * s;\n"
      "  return acc;\n}\n"
      "extern \"C\" __global__ void go(const float* in, float* out) {\n"
      "  __shared__ float cache[256];\n  cache[threadIdx.x] = Add<float, 4>(in, 2.f);\n"
      "  out[0] = cache[0] + dim::N;\n}\n";
  EXPECT_EQ(IdentityOf(kOne),
            IdentityOf(kOther, R"({"launches": [{"kernel": "go", "grid": 1, "block": 32}]})"));
}

TEST(ProgramIdentityTest, NamesThatMeanSomethingElsewhereCount) {
  // Members, namespaces, called library functions, macros, builtins, types of the library.
  const auto differ = [](std::string_view a, std::string_view b) {
    EXPECT_NE(IdentityOf(a), IdentityOf(b)) << a;
  };
  differ("__device__ float f(float4 v) { float x = v.x; return x; }",
         "__device__ float f(float4 v) { float y = v.y; return y; }");
  differ("int a = dim::M;", "int a = dim::N;");
  differ("float a = expf(1.f);", "float a = sinf(1.f);");
  differ("int max; int a = max(1, 2);", "int min; int a = min(1, 2);");
  differ("#define A b\nint b = 1; int a = A;", "#define A c\nint b = 1; int a = A;");
  differ("__device__ int f() { return threadIdx.x; }",
         "__device__ int f() { return threadIdx.y; }");
  differ("half a;", "float2 a;");
  differ("int a = sizeof(float2);", "int a = sizeof(float4);");
  // The same names in other places are another program.
  differ("__device__ int f(int a, int b) { return a - b; }",
         "__device__ int f(int a, int b) { return b - a; }");
}

TEST(ProgramIdentityTest, StringsAreKeptAsTheyAre) {
  EXPECT_NE(IdentityOf("const char* a = \"x  y\";"), IdentityOf("const char* a = \"x y\";"));
  EXPECT_NE(IdentityOf("const char* a = \"// x\";"), IdentityOf("const char* a = \"\";"));
  EXPECT_NE(IdentityOf("const char* a = R\"(a\n b)\";"),
            IdentityOf("const char* a = R\"(a\nb)\";"));
}

TEST(ProgramIdentityTest, DirectivesKeepTheirLines) {
  EXPECT_NE(IdentityOf("#define A 1\nint a;"), IdentityOf("#define A 1 int a;"));
  EXPECT_EQ(IdentityOf("#define A 1\n\n\nint  a;"), IdentityOf("#define A 1 // one\nint a;"));
  EXPECT_EQ(IdentityOf("#define A \\\n  1\nint a;"), IdentityOf("#define A 1\nint a;"));
}

}  // namespace
}  // namespace grove::codegen
