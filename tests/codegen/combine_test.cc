#include "codegen/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;

KernelProgram Program(const std::string& body, const std::string& plan) {
  auto program =
      MakeProgram("__device__ int helper() { return " + body +
                      "; }\nextern \"C\" __global__ void go(float* x) { x[0] = helper(); }\n",
                  plan);
  EXPECT_TRUE(program) << program.error().message;
  return *program;
}

constexpr const char* kPlan =
    R"({"launches": [{"kernel": "go", "grid": [1], "block": [32], "args": ["x"]}]})";
constexpr const char* kTwoVariants =
    R"({"variants": [{"when": "N > 7", "launches": [{"kernel": "go", "grid": [2], "block": [32], "args": ["x"]}]},
                     {"launches": [{"kernel": "go", "grid": [3], "block": [32], "args": ["x"]}]}]})";

TEST(PreprocessorConditionTest, DimsAndDtypesBecomeMacros) {
  EXPECT_EQ(*PreprocessorCondition("N <= 1280"), "GROVE_DIM_N <= 1280");
  EXPECT_EQ(*PreprocessorCondition("(M==4&&N>0x1F)||f16"),
            "(GROVE_DIM_M==4&&GROVE_DIM_N>0x1F)||GROVE_IS_f16");
}

TEST(PreprocessorConditionTest, WhatThePreprocessorHasNotIsRefused) {
  for (const char* when :
       {"min(N, 4) > 2", "N ? 1 : 0", "ceil_div(N, 2) > 4", "N >", "N\n#endif"}) {
    EXPECT_FALSE(PreprocessorCondition(when)) << when;
  }
}

TEST(CombineTest, EachProgramKeepsItsTextBetweenItsOwnConditions) {
  const KernelProgram small = Program("1", kPlan), large = Program("2", kPlan);
  const std::vector<CombinePart> parts = {{"r1.i1.b1", &small, "N <= 8"}, {"seed", &large, ""}};
  const auto combined = Combine(parts);
  ASSERT_TRUE(combined) << combined.error().message;
  EXPECT_EQ(combined->source, "#if GROVE_DIM_N <= 8\n// r1.i1.b1\n" + small.source +
                                  "#else\n// seed\n" + large.source + "#endif\n");
  ASSERT_EQ(combined->plan.variants.size(), 2U);
  EXPECT_EQ(combined->plan.variants[0].when->text(), "N <= 8");
  EXPECT_FALSE(combined->plan.variants[1].when);
}

TEST(CombineTest, VariantsOfAPartHoldWithinItsCondition) {
  const KernelProgram a = Program("1", kTwoVariants), b = Program("2", kTwoVariants);
  const std::vector<CombinePart> parts = {{"a", &a, "N <= 8"}, {"b", &b, ""}};
  const auto combined = Combine(parts);
  ASSERT_TRUE(combined) << combined.error().message;
  const auto& variants = combined->plan.variants;
  ASSERT_EQ(variants.size(), 4U);
  EXPECT_EQ(variants[0].when->text(), "(N <= 8) && (N>7)");
  EXPECT_EQ(variants[1].when->text(), "N <= 8");
  EXPECT_EQ(variants[2].when->text(), "N>7");
  EXPECT_FALSE(variants[3].when);
}

TEST(CombineTest, ACombinationCanBeCombinedAgain) {
  const KernelProgram a = Program("1", kPlan), b = Program("2", kPlan), c = Program("3", kPlan);
  const std::vector<CombinePart> inner = {{"a", &a, "N <= 8"}, {"b", &b, ""}};
  const auto first = Combine(inner);
  ASSERT_TRUE(first);
  const std::vector<CombinePart> outer = {{"c", &c, "M > 100"}, {"ab", &*first, ""}};
  const auto second = Combine(outer);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->plan.variants.size(), 3U);
}

TEST(CombineTest, ConditionsAreForAllButTheLast) {
  const KernelProgram a = Program("1", kPlan), b = Program("2", kPlan);
  EXPECT_FALSE(Combine(std::vector<CombinePart>{{"a", &a, ""}}));
  EXPECT_FALSE(Combine(std::vector<CombinePart>{{"a", &a, ""}, {"b", &b, ""}}));
  EXPECT_FALSE(Combine(std::vector<CombinePart>{{"a", &a, "N > 1"}, {"b", &b, "N > 2"}}));
}

TEST(CombineTest, ANameThatIsNoneStaysOutOfTheSource) {
  const KernelProgram a = Program("1", kPlan), b = Program("2", kPlan);
  const auto combined =
      Combine(std::vector<CombinePart>{{"x\n#error no", &a, "N > 1"}, {"b", &b, ""}});
  ASSERT_TRUE(combined);
  EXPECT_EQ(combined->source.find("#error"), std::string::npos);
}

}  // namespace
}  // namespace grove::codegen
