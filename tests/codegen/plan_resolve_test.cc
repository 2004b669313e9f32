#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename T>
T As(const ResolvedArg& arg) {
  T value;
  EXPECT_EQ(arg.size, sizeof(T));
  std::memcpy(&value, arg.bytes.data(), sizeof(T));
  return value;
}

TEST(PlanResolveTest, EvaluatesSizesForTheCase) {
  const Result<ResolvedPlan> plan = Resolved(
      R"j({"workspace": [{"name": "partial", "dtype": "f16", "shape": ["M", "ceil_div(N, 256)"],
                         "init": "zero"}],
          "launches": [{"kernel": "k", "grid": ["M / 2", 3], "block": ["min(N, 256)"],
                        "shared": "max_shared / 2", "args": ["partial"]}]
})j");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->workspaces.size(), 1U);
  EXPECT_EQ(plan->workspaces[0].elements, 4096 * 4);
  EXPECT_EQ(plan->workspaces[0].bytes().value, 4096 * 4 * 2);
  EXPECT_TRUE(plan->workspaces[0].zero);
  ASSERT_EQ(plan->launches.size(), 1U);
  EXPECT_THAT(plan->launches[0].grid, ElementsAre(2048, 3, 1));
  EXPECT_THAT(plan->launches[0].block, ElementsAre(256, 1, 1));
  EXPECT_EQ(plan->launches[0].shared_bytes, 116224);
  EXPECT_EQ(plan->launches[0].place, "launches[0]");
}

TEST(PlanResolveTest, ArgumentsAreLaidOut) {
  const Result<ResolvedPlan> plan = Resolved(
      R"({"workspace": [{"name": "w", "dtype": "f32", "shape": [1]}],
          "launches": [{"kernel": "k", "grid": 1, "block": 32,
            "args": ["y", "x", "w", "N", "-M", 7, {"i64": "M * M * M"}, {"f32": 0.1}, {"f64": 0.1},
                     {"f32": "eps"}, {"f64": "eps"}, {"f32": "M / 2"}, "k_max + 1", "sm_count"]}]})");
  ASSERT_TRUE(plan) << plan.error().message;
  const auto& args = plan->launches[0].args;
  EXPECT_EQ(args[0].kind, ResolvedArg::Kind::kTensor);
  EXPECT_EQ(args[0].index, 1U);
  EXPECT_EQ(args[0].size, 8U);
  EXPECT_EQ(args[1].index, 0U);
  EXPECT_EQ(args[2].kind, ResolvedArg::Kind::kWorkspace);
  EXPECT_EQ(As<std::int32_t>(args[3]), 1000);
  EXPECT_EQ(As<std::int32_t>(args[4]), -4096);
  EXPECT_EQ(As<std::int32_t>(args[5]), 7);
  EXPECT_EQ(As<std::int64_t>(args[6]), std::int64_t{1} << 36);
  EXPECT_EQ(As<float>(args[7]), 0.1F);
  EXPECT_EQ(As<double>(args[8]), 0.1);
  EXPECT_EQ(As<float>(args[9]), 1e-5F);
  EXPECT_EQ(As<double>(args[10]), 1e-5);
  EXPECT_EQ(As<float>(args[11]), 2048.0F);
  EXPECT_EQ(As<std::int32_t>(args[12]), 8);
  EXPECT_EQ(As<std::int32_t>(args[13]), 132);
}

TEST(PlanResolveTest, TheFirstVariantThatHoldsIsUsed) {
  constexpr std::string_view kPlan =
      R"({"variants": [{"when": "N > 1000", "launches": [{"kernel": "a", "grid": 1, "block": 1}]},
                       {"when": "N % 8 == 0 && f32", "launches": [{"kernel": "b", "grid": 1, "block": 1}]},
                       {"launches": [{"kernel": "c", "grid": 1, "block": 1}]}]})";
  seeds::Case sample = SampleCase();
  EXPECT_EQ(Resolved(kPlan, sample)->launches[0].kernel, "b");
  EXPECT_EQ(Resolved(kPlan, sample)->launches[0].place, "variants[1].launches[0]");
  sample.dims[1].value = 1001;
  EXPECT_EQ(Resolved(kPlan, sample)->launches[0].kernel, "a");
  sample.dims[1].value = 1000;
  sample.tensors[0].dtype = DType::kBF16;
  EXPECT_EQ(Resolved(kPlan, sample)->launches[0].kernel, "c");
}

TEST(PlanResolveTest, NoVariantThatHoldsIsAnError) {
  EXPECT_EQ(ResolveComplaint(
                R"({"when": "N > M", "launches": [{"kernel": "a", "grid": 1, "block": 1}]})"),
            "variants: no \"when\" holds for case 'sample'");
}

TEST(PlanResolveTest, RepeatsUnrollInOrder) {
  const Result<ResolvedPlan> plan = Resolved(
      R"({"launches": [{"repeat": {"var": "k", "to": "N", "step": 400, "launches": [
            {"kernel": "panel", "grid": 1, "block": 32, "args": ["k"]},
            {"repeat": {"var": "j", "from": "k", "to": "k + 2", "launches": [
              {"kernel": "update", "grid": "j + 1", "block": 32, "args": ["k", "j"]}]}}]}}]})");
  ASSERT_TRUE(plan) << plan.error().message;
  std::vector<std::string> order;
  for (const ResolvedLaunch& launch : plan->launches) {
    order.push_back(launch.kernel + std::to_string(As<std::int32_t>(launch.args.back())));
  }
  EXPECT_THAT(order, ElementsAre("panel0", "update0", "update1", "panel400", "update400",
                                 "update401", "panel800", "update800", "update801"));
  EXPECT_EQ(plan->launches[4].place,
            "launches[0].repeat.launches[1].repeat.launches[0] (k=400, j=400)");
}

TEST(PlanResolveTest, AnEmptyRepeatIsFineBesideOtherLaunches) {
  const Result<ResolvedPlan> plan = Resolved(
      R"({"launches": [{"kernel": "a", "grid": 1, "block": 1},
                       {"repeat": {"var": "k", "from": 5, "to": 5, "launches": [
                         {"kernel": "b", "grid": 1, "block": 1}]}}]})");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->launches.size(), 1U);
}

TEST(PlanResolveTest, UnknownNamesCarryPlaceColumnAndAdvice) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": ["M + NN"])")),
              StartsWith("launches[0].grid[0], column 5: unknown name 'NN'; did you mean 'N'? "
                         "(valid: M, N, k_max, sm_count"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": "x")")),
              HasSubstr("it names a buffer, expected an integer"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": "f32 + 1")")),
              HasSubstr("dtype tests are known in \"when\" only"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("args": ["eps"])")),
              HasSubstr("pass it as {\"f32\": \"eps\"}"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("args": ["z"])")),
              HasSubstr("launches[0].args[0]: unknown name 'z'"));
}

TEST(PlanResolveTest, LoopVariablesEndWithTheirRepeat) {
  EXPECT_THAT(ResolveComplaint(R"({"launches": [
      {"repeat": {"var": "k", "to": 2, "launches": [{"kernel": "a", "grid": 1, "block": 1}]}},
      {"kernel": "b", "grid": "k", "block": 1}]})"),
              HasSubstr("launches[1].grid[0], column 1: unknown name 'k'"));
}

TEST(PlanResolveTest, I32ArgumentsMustFit) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("args": ["M * M * M"])")),
              HasSubstr("68719476736 does not fit i32; pass it as {\"i64\": ...}"));
}

TEST(PlanResolveTest, ClustersDivideTheGrid) {
  const Result<ResolvedPlan> plan = Resolved(OneLaunch(R"("grid": [8, 2], "cluster": [4, 2])"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(*plan->launches[0].cluster, ElementsAre(4, 2, 1));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [6], "cluster": [4])")),
              HasSubstr("grid.x is 6, expected a multiple of the cluster's 4"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [32, 32], "cluster": [16, 2])")),
              HasSubstr("32 blocks, more than 16"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("cluster": [0])")), HasSubstr("expected 1 to 16"));
}

std::string WithMap(std::string_view fields) {
  return R"({"workspace": [{"name": "w", "dtype": "f16", "shape": [64, 64]}],
             "tensor_maps": [{"name": "t", )" +
         std::string(fields) +
         R"(}], "launches": [{"kernel": "k", "grid": 1, "block": 128, "args": ["t"]}]})";
}

TEST(PlanResolveTest, TensorMapsTakeShapeAndDtypeOfTheirTensor) {
  const Result<ResolvedPlan> plan =
      Resolved(WithMap(R"("tensor": "x", "box": [8, 32], "swizzle": "128B")"));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->tensor_maps.size(), 1U);
  EXPECT_THAT(plan->tensor_maps[0].shape, ElementsAre(4096, 1000));
  EXPECT_THAT(plan->tensor_maps[0].box, ElementsAre(8, 32));
  EXPECT_THAT(plan->tensor_maps[0].element_strides, ElementsAre(1, 1));
  EXPECT_EQ(plan->launches[0].args[0].kind, ResolvedArg::Kind::kTensorMap);
  EXPECT_EQ(plan->launches[0].args[0].size, 128U);
  const Result<ResolvedPlan> over_workspace = Resolved(WithMap(R"("tensor": "w", "box": [8, 8])"));
  ASSERT_TRUE(over_workspace) << over_workspace.error().message;
  EXPECT_EQ(over_workspace->tensor_maps[0].dtype, DType::kF16);
}

TEST(PlanResolveTest, TensorMapsFollowTheDriversRules) {
  const auto complaint = [](std::string_view fields) { return ResolveComplaint(WithMap(fields)); };
  EXPECT_THAT(complaint(R"("tensor": "q", "box": [8, 8])"),
              HasSubstr("unknown tensor or workspace"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [8])"), HasSubstr("expected 2 entries"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [512, 8])"), HasSubstr("expected 1 to 256"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [8, 3])"), HasSubstr("a multiple of 16"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [8, 64], "swizzle": "128B")"),
              HasSubstr("256 bytes, more than the swizzle 128B"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [8, 8], "interleave": "16B")"),
              HasSubstr("at least 3 dimensions"));
  EXPECT_THAT(complaint(R"("tensor": "x", "box": [8, 8], "element_strides": [1, 9])"),
              HasSubstr("expected 1 to 8"));
}

}  // namespace
}  // namespace grove::codegen
