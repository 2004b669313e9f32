// Library steps: what is read, what the resolved product is, and that nothing outside a buffer, no
// input and no overlap ever reaches a library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// h: 2 x 8 x 8 output, a: the same as input; n = 8, batch = 2. The task permits gemm.
seeds::Case SquareCase(bool permitted = true) {
  seeds::Case c;
  c.name = "square";
  c.dims = {{"batch", 2}, {"n", 8}};
  seeds::Tensor a;
  a.name = "a";
  a.shape = {2, 8, 8};
  seeds::Tensor h = a;
  h.name = "h";
  h.role = seeds::TensorRole::kOutput;
  c.tensors = {a, h};
  if (permitted) c.library = {"gemm"};
  return c;
}

// A product w = v^T h with workspaces v (2 x 8 x 2), w (2 x 2 x 8); `fields` replace or are added.
std::string Plan(const std::string& a, const std::string& b, const std::string& c,
                 const std::string& sizes, const std::string& more = "") {
  return R"({"workspace": [{"name": "v", "dtype": "f32", "shape": [2, "n", 2]},
                           {"name": "w", "dtype": "f32", "shape": [2, 2, "n"]},
                           {"name": "half", "dtype": "f16", "shape": [2, "n", "n"]}],
            "launches": [{"library": "gemm", "batch": "batch", )" +
         sizes + ", \"a\": {" + a + "}, \"b\": {" + b + "}, \"c\": {" + c + "}" + more + "}]}";
}
const std::string kV = R"("buffer": "v", "ld": 2, "stride": "2 * n", "transpose": true)";
const std::string kH = R"("buffer": "h", "ld": "n", "stride": "n * n")";
const std::string kW = R"("buffer": "w", "ld": "n", "stride": "2 * n")";
const std::string kSizes = R"("m": 2, "n": "n", "k": "n")";

std::string Complaint(const std::string& plan, bool permitted = true) {
  return ResolveComplaint(plan, SquareCase(permitted));
}

TEST(PlanLibrary, AProductResolvesToItsNumbers) {
  const auto plan =
      Resolved(Plan(kV, kH, kW, kSizes, R"(, "alpha": -1, "compute": "tf32")"), SquareCase());
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->launches.size(), 1U);
  const ResolvedLaunch& step = plan->launches[0];
  EXPECT_EQ(step.kernel, kGemmStep);
  ASSERT_TRUE(step.gemm);
  EXPECT_EQ(step.gemm->m, 2);
  EXPECT_EQ(step.gemm->n, 8);
  EXPECT_EQ(step.gemm->k, 8);
  EXPECT_EQ(step.gemm->batch, 2);
  EXPECT_EQ(step.gemm->alpha, -1);
  EXPECT_EQ(step.gemm->beta, 0);
  EXPECT_EQ(step.gemm->compute, GemmCompute::kTf32);
  EXPECT_TRUE(step.gemm->a.transpose);
  EXPECT_EQ(step.gemm->a.kind, ResolvedArg::Kind::kWorkspace);
  EXPECT_EQ(step.gemm->b.kind, ResolvedArg::Kind::kTensor);
  EXPECT_EQ(step.gemm->b.stride, 64);
  EXPECT_TRUE(HasLibrarySteps(*plan));
  EXPECT_TRUE(ValidatePlan(*plan, {}, {})) << "no kernel is asked for";
}

TEST(PlanLibrary, ATaskThatDoesNotPermitItIsToldWhatToDo) {
  EXPECT_THAT(Complaint(Plan(kV, kH, kW, kSizes), false),
              AllOf(HasSubstr("launches[0]: "), HasSubstr("permits no library step 'gemm'"),
                    HasSubstr("as a kernel")));
}

TEST(PlanLibrary, InARepeatTheShrinkingPartIsFollowedAndEmptyStepsAreDropped) {
  const auto plan = Resolved(
      R"json({"workspace": [{"name": "v", "dtype": "f32", "shape": [2, "n", 2]},
                        {"name": "w", "dtype": "f32", "shape": [2, 2, "n"]}],
          "launches": [{"repeat": {"var": "p", "from": 0, "to": "n", "step": 2, "launches": [
            {"library": "gemm", "m": 2, "n": "max(0, n - p - 2)", "k": "n - p", "batch": 2,
             "a": {"buffer": "v", "ld": 2, "stride": 16, "transpose": true},
             "b": {"buffer": "h", "offset": "p * n + p + 2", "ld": "n", "stride": "n * n"},
             "c": {"buffer": "w", "ld": "n", "stride": 16}}]}}]})json",
      SquareCase());
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->launches.size(), 3U);  // of four iterations the last has no columns left
  EXPECT_EQ(plan->launches[2].gemm->n, 2);
  EXPECT_EQ(plan->launches[2].gemm->b.offset, 4 * 8 + 6);
  EXPECT_EQ(plan->launches[2].place, "launches[0].repeat.launches[0] (p=4)");
}

TEST(PlanLibrary, TheTrailingPartMayBeUpdatedByTheColumnsBesideIt) {
  // c: columns 2..7, a: columns 0..1 of the same matrices: no element in common.
  EXPECT_EQ(Complaint(Plan(R"("buffer": "h", "ld": "n", "stride": "n * n")",
                           R"("buffer": "w", "ld": "n", "stride": 16)",
                           R"("buffer": "h", "offset": 2, "ld": "n", "stride": "n * n")",
                           R"("m": "n", "n": 6, "k": 2)", R"(, "beta": 1)")),
            "");
}

TEST(PlanLibrary, WhatLeavesABufferIsRefusedWithItsNumbers) {
  EXPECT_THAT(Complaint(Plan(kV, kH + R"(, "offset": 1)", kW, kSizes)),
              AllOf(HasSubstr("launches[0].b"), HasSubstr("past the 128 elements of 'h'")));
  EXPECT_THAT(Complaint(Plan(kV, R"("buffer": "h", "ld": "n", "stride": "n * n + 1")", kW, kSizes)),
              HasSubstr("past the 128 elements"));
  EXPECT_THAT(Complaint(Plan(kV, kH, kW, R"("m": 3, "n": "n", "k": "n")")),
              AllOf(HasSubstr("launches[0].a"), HasSubstr("ld is 2, expected 3")));
  EXPECT_THAT(Complaint(Plan(kV, kH + R"(, "offset": "0 - 1")", kW, kSizes)),
              HasSubstr("the offset is -1"));
  EXPECT_THAT(Complaint(Plan(kV, R"("buffer": "h", "ld": "n", "stride": "0 - 64")", kW, kSizes)),
              HasSubstr("the stride is -64"));
  EXPECT_THAT(
      Complaint(Plan(kV, R"("buffer": "h", "ld": "n", "stride": 9223372036854775807)", kW, kSizes)),
      HasSubstr("past the 128 elements"));
  EXPECT_THAT(Complaint(Plan(kV, kH, kW, R"("m": 2, "n": "n", "k": 2147483648)")),
              HasSubstr("expected 0 to 2147483647"));
  EXPECT_THAT(Complaint(Plan(kV, kH, kW, R"("m": 2, "n": "n", "k": 0)")), HasSubstr("k: is 0"));
}

TEST(PlanLibrary, InputsAreNotWrittenAndNothingOverlaps) {
  const std::string input = R"("buffer": "a", "ld": "n", "stride": "n * n")";
  EXPECT_THAT(Complaint(Plan(kH, kH, input, R"("m": "n", "n": "n", "k": "n")")),
              HasSubstr("'a' is an input"));
  EXPECT_THAT(Complaint(Plan(kH, input, kH, R"("m": "n", "n": "n", "k": "n")")),
              HasSubstr("overlaps a in 'h'"));
  EXPECT_THAT(Complaint(Plan(input, kH, R"("buffer": "h", "offset": 2, "ld": "n", "stride": 64)",
                             R"("m": 3, "n": 3, "k": "n")")),
              HasSubstr("overlaps b in 'h'"));
  EXPECT_THAT(Complaint(Plan(kV, kH, R"("buffer": "w", "ld": "n", "stride": 4)", kSizes)),
              HasSubstr("batch entries of c overlap"));
  // The same columns one row apart, with another leading dimension: not proven apart.
  EXPECT_THAT(Complaint(Plan(R"("buffer": "h", "ld": 4, "stride": 64)", kV + "",
                             R"("buffer": "h", "offset": 4, "ld": "n", "stride": 64)",
                             R"("m": 2, "n": 2, "k": 2)")),
              HasSubstr("overlaps a"));
}

TEST(PlanLibrary, TypesMustGoTogether) {
  EXPECT_THAT(Complaint(Plan(kV, R"("buffer": "half", "ld": "n", "stride": "n * n")", kW, kSizes)),
              HasSubstr("a is f32, b f16 and c f32"));
  EXPECT_THAT(Complaint(Plan(kV, kH, kW, kSizes, R"(, "compute": "fp64")")),
              AllOf(HasSubstr("launches[0].compute"), HasSubstr("fp64 does not go with f32")));
}

TEST(PlanLibrary, MisspeltStepsAreErrorsWithTheirPlace) {
  EXPECT_THAT(ParseComplaint(R"({"launches": [{"library": "gem"}]})"),
              HasSubstr("launches[0].library: expected one of gemm"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW, kSizes, R"(, "kernel": "k")")),
              HasSubstr("unknown field 'kernel'"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW, R"("m": 2, "n": 2)")), HasSubstr("'k' is missing"));
  EXPECT_THAT(ParseComplaint(Plan(kV, R"("buffer": "h")", kW, kSizes)),
              HasSubstr("launches[0].b: 'ld' is missing"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW + R"(, "transpose": true)", kSizes)),
              HasSubstr("c cannot be transposed"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW, kSizes, R"(, "alpha": "1")")),
              HasSubstr("launches[0].alpha: expected a number"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW, kSizes, R"(, "alpha": 1e300)")),
              HasSubstr("fits f32"));
  EXPECT_THAT(ParseComplaint(Plan(kV, kH, kW, kSizes, R"(, "compute": "int8")")),
              HasSubstr("expected one of fp32, tf32"));
  EXPECT_THAT(Complaint(Plan(kV, R"("buffer": "hh", "ld": 8)", kW, kSizes)),
              HasSubstr("did you mean 'h'"));
}

TEST(PlanLibrary, TheIdentityOfAPlanKeepsEveryFieldOfAProduct) {
  const auto first = ParsePlan(Plan(kV, kH, kW, kSizes, R"(, "beta": 1)"));
  ASSERT_TRUE(first);
  const auto again = ParsePlan(CanonicalJson(*first));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(CanonicalJson(*first), CanonicalJson(*again));
  for (const std::string& other :
       {Plan(kV, kH, kW, kSizes, R"(, "beta": 2)"), Plan(kV, kH, kW, kSizes, R"(, "alpha": 2)"),
        Plan(kV, kH, kW, kSizes, R"(, "beta": 1, "compute": "tf32")"),
        Plan(kV, kH + R"(, "offset": 1)", kW, kSizes, R"(, "beta": 1)")}) {
    const auto plan = ParsePlan(other);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_NE(CanonicalJson(*first), CanonicalJson(*plan));
  }
}

}  // namespace
}  // namespace grove::codegen
