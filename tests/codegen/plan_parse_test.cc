#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/plan.h"
#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kFull = R"j({
  "version": 1,
  "variants": [
    {"when": "N <= 1024 && f32",
     "workspace": [{"name": "partial", "dtype": "f32", "shape": ["M", "ceil_div(N, 1024)"],
                    "init": "zero"
}],
     "tensor_maps": [{"name": "tx", "tensor": "x", "box": [64, 32], "swizzle": "128B",
                      "l2_promotion": "256B", "element_strides": [1, 2]}],
     "launches": [
       {"kernel": "softmax", "grid": ["M"], "block": [256], "shared": "4 * N", "cluster": [2],
        "cooperative": true, "dependent": true,
        "args": ["x", "y", "tx", {"i32": "N"}, {"f32": 1.5}, "N + 1", 7, {"i64": "M * N"},
                 {"f64": "eps"}]},
       {"repeat": {"var": "k", "from": 0, "to": "N", "step": 64,
                   "launches": [{"kernel": "panel", "grid": 1, "block": "32", "args": ["k"]}]}}]
},
    {"launches": [{"kernel": "other", "grid": [1, 2, 3], "block": [32, 4]}]}
  ]
})j";

TEST(PlanParseTest, ReadsEveryField) {
  const Result<LaunchPlan> plan = ParsePlan(kFull);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->variants.size(), 2U);
  const Variant& first = plan->variants[0];
  EXPECT_EQ(first.when->text(), "N <= 1024 && f32");
  ASSERT_EQ(first.workspaces.size(), 1U);
  EXPECT_EQ(first.workspaces[0].name, "partial");
  EXPECT_EQ(first.workspaces[0].dtype, DType::kF32);
  EXPECT_EQ(first.workspaces[0].shape[1].text(), "ceil_div(N, 1024)");
  EXPECT_TRUE(first.workspaces[0].zero);
  ASSERT_EQ(first.tensor_maps.size(), 1U);
  EXPECT_EQ(first.tensor_maps[0].swizzle, "128B");
  EXPECT_EQ(first.tensor_maps[0].interleave, "none");
  EXPECT_EQ(first.tensor_maps[0].l2_promotion, "256B");
  EXPECT_EQ(first.tensor_maps[0].element_strides.size(), 2U);
  ASSERT_EQ(first.steps.size(), 2U);
  const Launch& launch = std::get<Launch>(first.steps[0].action);
  EXPECT_EQ(launch.kernel, "softmax");
  EXPECT_EQ(launch.grid[0].text(), "M");
  EXPECT_EQ(launch.grid[1].text(), "1");
  EXPECT_EQ(launch.shared_bytes.text(), "4 * N");
  EXPECT_EQ((*launch.cluster)[0].text(), "2");
  EXPECT_TRUE(launch.cooperative);
  EXPECT_TRUE(launch.dependent);
  const Repeat& repeat = std::get<Repeat>(first.steps[1].action);
  EXPECT_EQ(repeat.var, "k");
  EXPECT_EQ(repeat.step.text(), "64");
  EXPECT_EQ(repeat.steps.size(), 1U);
}

TEST(PlanParseTest, ArgumentsGetTheirKinds) {
  const Result<LaunchPlan> plan = ParsePlan(kFull);
  ASSERT_TRUE(plan);
  const auto& args = std::get<Launch>(plan->variants[0].steps[0].action).args;
  ASSERT_EQ(args.size(), 9U);
  EXPECT_EQ(args[0].kind, Arg::Kind::kBuffer);
  EXPECT_EQ(args[2].kind, Arg::Kind::kTensorMap);
  EXPECT_EQ(args[3].kind, Arg::Kind::kScalar);
  EXPECT_EQ(args[3].type, ScalarType::kI32);
  EXPECT_EQ(args[4].type, ScalarType::kF32);
  EXPECT_EQ(args[4].real, 1.5);
  EXPECT_EQ(args[5].kind, Arg::Kind::kScalar);
  EXPECT_EQ(args[5].expression.text(), "N + 1");
  EXPECT_EQ(args[6].expression.text(), "7");
  EXPECT_EQ(args[7].type, ScalarType::kI64);
  EXPECT_EQ(args[8].type, ScalarType::kF64);
  EXPECT_FALSE(args[8].real);
  // A loop variable is a number, never a buffer.
  const Repeat& repeat = std::get<Repeat>(plan->variants[0].steps[1].action);
  EXPECT_EQ(std::get<Launch>(repeat.steps[0].action).args[0].kind, Arg::Kind::kScalar);
}

TEST(PlanParseTest, AcceptsASingleVariantAtTheTop) {
  const Result<LaunchPlan> plan =
      ParsePlan(R"({"version": 1, "workspace": [{"name": "w", "dtype": "f16", "shape": 4}],
                    "launches": [{"kernel": "k", "grid": [1], "block": [32], "args": ["w"]}]})");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->variants.size(), 1U);
  EXPECT_FALSE(plan->variants[0].when);
  EXPECT_EQ(plan->variants[0].workspaces[0].dtype, DType::kF16);
}

TEST(PlanParseTest, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(ParseComplaint("{\n  \"launches\": [,]}"),
              StartsWith("line 2, column 16: not JSON: "));
  EXPECT_THAT(ParseComplaint("{\"launches\": ["), HasSubstr("not JSON"));
  EXPECT_THAT(ParseComplaint("[1, 2] x"), HasSubstr("not JSON"));
  EXPECT_THAT(ParseComplaint("{\"a\": 1e999}"), HasSubstr("not JSON"));
  EXPECT_THAT(ParseComplaint("{\"a\": \"\xff\"}"), HasSubstr("not JSON"));
}

TEST(PlanParseTest, WhatIsNotAPlanIsRefused) {
  EXPECT_EQ(ParseComplaint(""), "the launch plan is empty");
  EXPECT_EQ(ParseComplaint(" \n"), "the launch plan is empty");
  EXPECT_THAT(ParseComplaint("[]"), HasSubstr("expected a launch plan"));
  EXPECT_EQ(ParseComplaint("{}"), "'launches' is missing");
  EXPECT_THAT(ParseComplaint(R"({"variants": []})"), HasSubstr("1 to 64 variants"));
  EXPECT_THAT(ParseComplaint(R"({"launches": []})"), HasSubstr("at least one launch"));
  EXPECT_THAT(ParseComplaint(R"({"launches": [3]})"), HasSubstr("launches[0]: expected a launch"));
  EXPECT_THAT(ParseComplaint(R"({"version": 2, "launches": []})"),
              HasSubstr("version: expected 1 (the only version there is), found the number 2"));
}

TEST(PlanParseTest, UnknownFieldsAreErrorsWithTheNearest) {
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("shard": 1)")),
              HasSubstr("launches[0]: unknown field 'shard'; did you mean 'shared'?"));
  EXPECT_THAT(ParseComplaint(R"({"launchs": []})"), HasSubstr("did you mean 'launches'"));
  EXPECT_THAT(ParseComplaint(R"({"variants": [{"whem": 1}]})"),
              HasSubstr("variants[0]: unknown field 'whem'; did you mean 'when'"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [{"f16": 1}])")),
              HasSubstr("launches[0].args[0]: unknown field 'f16'"));
}

TEST(PlanParseTest, ExpressionErrorsHavePathAndColumn) {
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("grid": ["M", "N +"])")),
              StartsWith("launches[0].grid[1], column 4: expected"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"j("shared": "cdiv(N, 2)")j")),
              StartsWith("launches[0].shared, column 1: unknown function 'cdiv'"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": ["x +"])")),
              StartsWith("launches[0].args[0], column 4: "));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [{"f32": "0.5"}])")),
              HasSubstr("f32 and f64 take a number, an integer expression or a scalar"));
}

TEST(PlanParseTest, WrongTypesSayWhatWasExpected) {
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("grid": 1.5)")),
              HasSubstr("expected an integer or an expression in a string, found the number 1.5"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("grid": [])")), HasSubstr("1 to 3 entries"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("grid": [1,1,1,1])")), HasSubstr("found a list of 4"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("cooperative": 1)")), HasSubstr("true or false"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": "x")")), HasSubstr("args: expected a list"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [null])")), HasSubstr("found null"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [{}])")), HasSubstr("exactly one of"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [{"i32": 1, "f32": 2}])")),
              HasSubstr("exactly one of"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("grid": 99999999999999999999)")),
              HasSubstr("expected an integer"));
  EXPECT_THAT(ParseComplaint(R"({"launches": [{"kernel": "a b", "grid": 1, "block": 1}]})"),
              HasSubstr("launches[0].kernel: expected a name"));
  EXPECT_THAT(ParseComplaint(R"({"launches": [{"kernel": "k", "block": 1}]})"),
              HasSubstr("launches[0]: 'grid' is missing"));
}

TEST(PlanParseTest, WorkspaceErrors) {
  const auto with = [](std::string_view workspace) {
    return ParseComplaint(R"({"workspace": [)" + std::string(workspace) +
                          R"(], "launches": [{"kernel": "k", "grid": 1, "block": 1}]})");
  };
  EXPECT_EQ(with(R"({"name": "w", "dtype": "f32", "shape": [4]})"), "");
  EXPECT_THAT(with(R"({"name": "w", "dtype": "float32", "shape": [4]})"),
              HasSubstr("workspace[0].dtype: unknown dtype 'float32'"));
  EXPECT_THAT(with(R"({"name": "w", "shape": [4]})"), HasSubstr("'dtype' is missing"));
  EXPECT_THAT(with(R"({"name": "w", "dtype": "f32"})"), HasSubstr("'shape' is missing"));
  EXPECT_THAT(with(R"({"name": "w", "dtype": "f32", "shape": []})"), HasSubstr("1 to 8 entries"));
  EXPECT_THAT(with(R"({"name": "w", "dtype": "f32", "shape": [4], "init": "ones"})"),
              HasSubstr("init: expected one of none, zero, found the string 'ones'"));
  EXPECT_THAT(with(R"({"name": "sm_count", "dtype": "f32", "shape": [4]})"),
              HasSubstr("reserved for a device constant"));
  EXPECT_THAT(with(R"({"name": "f32", "dtype": "f32", "shape": [4]})"),
              HasSubstr("reserved for a dtype test"));
}

TEST(PlanParseTest, FloatsBeyondF32AreRefused) {
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("args": [{"f32": 1e300}])")),
              HasSubstr("does not fit f32"));
  EXPECT_EQ(ParseComplaint(OneLaunch(R"("args": [{"f64": 1e300}])")), "");
}

TEST(PlanParseTest, HostileTextInMessagesIsMadePrintable) {
  const std::string complaint = ParseComplaint("{\"\\u001b[31m\\nIgnore\": 1}");
  EXPECT_THAT(complaint, HasSubstr("?[31m?Ignore"));
  EXPECT_EQ(complaint.find('\n'), std::string::npos);
  EXPECT_LT(ParseComplaint("{\"" + std::string(100000, 'a') + "\": 1}").size(), 500U);
}

TEST(PlanCanonicalTest, FormattingDoesNotMatter) {
  const Result<LaunchPlan> a = ParsePlan(
      R"({"version":1,"launches":[{"kernel":"k","grid":["N/4",1],"block":[256,1,1],
          "shared":"0","args":["x",{"i32":"N"}]}]})");
  const Result<LaunchPlan> b = ParsePlan(
      R"({"launches": [{"args": ["x", {"i32": " N "}], "block": 256, "grid": " N / 4 ",
          "cooperative": false, "kernel": "k"}]})");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(CanonicalJson(*a), CanonicalJson(*b));
  EXPECT_EQ(CanonicalJson(*a), R"({"launches":[{"args":["x",{"i32":"N"}],"block":[256],)"
                               R"("grid":["N/4"],"kernel":"k"}],"version":1})");
}

TEST(PlanCanonicalTest, EveryMeaningfulChangeShows) {
  const auto canonical = [](std::string_view fields) {
    const Result<LaunchPlan> plan = ParsePlan(OneLaunch(fields));
    EXPECT_TRUE(plan) << fields;
    return plan ? CanonicalJson(*plan) : "";
  };
  const std::string base = canonical("");
  for (const std::string_view fields :
       {R"("grid": [2])", R"("block": [1, 32])", R"("shared": 4)", R"("cluster": [1])",
        R"("cooperative": true)", R"("dependent": true)", R"("args": ["x"])",
        R"("args": [{"f32": 1}])", R"("args": [{"f64": 1}])"}) {
    EXPECT_NE(canonical(fields), base) << fields;
  }
  EXPECT_NE(canonical(R"("args": [{"f32": 1}])"), canonical(R"("args": [{"f64": 1}])"));
}

TEST(PlanCanonicalTest, IsAFixedPoint) {
  const Result<LaunchPlan> plan = ParsePlan(kFull);
  ASSERT_TRUE(plan);
  const std::string once = CanonicalJson(*plan);
  const Result<LaunchPlan> again = ParsePlan(once);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(CanonicalJson(*again), once);
}

// Every truncation and every single-byte change of a plan either parses or gives an error message.
TEST(PlanRandomTest, MutationsNeverMisbehave) {
  std::mt19937 random(11);
  const std::string text(kFull);
  int parsed = 0;
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    EXPECT_FALSE(ParsePlan(text.substr(0, cut))) << cut;
  }
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = text;
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      mutated[random() % mutated.size()] = static_cast<char>(random() % 256);
    }
    const Result<LaunchPlan> plan = ParsePlan(mutated);
    if (!plan) {
      EXPECT_FALSE(plan.error().message.empty());
      EXPECT_EQ(plan.error().code, ErrorCode::kInvalidInput) << plan.error().message;
      continue;
    }
    ++parsed;
    const std::string canonical = CanonicalJson(*plan);
    ASSERT_TRUE(ParsePlan(canonical)) << canonical;
    (void)ResolvePlan(*plan, SampleCase(), {});
  }
  EXPECT_GT(parsed, 20);
}

}  // namespace
}  // namespace grove::codegen
