#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;

EntryPoint Kernel(std::vector<std::size_t> params = {}) {
  EntryPoint entry;
  entry.name = "k";
  entry.param_sizes = std::move(params);
  return entry;
}

std::string Complaint(std::string_view fields, const EntryPoint& entry) {
  const Result<ResolvedPlan> plan = Resolved(OneLaunch(fields));
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return "unresolved";
  const Status status = ValidatePlan(*plan, {entry}, DeviceLimits{});
  return status ? "" : status.error().message;
}

TEST(PlanValidateTest, AcceptsWhatAgrees) {
  EXPECT_EQ(Complaint(R"("args": ["x", "N", {"f64": 1}])", Kernel({8, 4, 8})), "");
}

TEST(PlanValidateTest, AMissingKernelIsNamedWithTheNearest) {
  EntryPoint other = Kernel();
  other.name = "kk";
  EXPECT_THAT(Complaint("", other), HasSubstr("launches[0].kernel: unknown kernel 'k'"));
  const Result<ResolvedPlan> plan = Resolved(OneLaunch(""));
  EXPECT_THAT(ValidatePlan(*plan, {}, DeviceLimits{}).error().message,
              HasSubstr("no extern \"C\" __global__ function"));
}

TEST(PlanValidateTest, AWrongNumberOfArguments) {
  EXPECT_THAT(Complaint(R"("args": ["x"])", Kernel({8, 8})),
              HasSubstr("takes 2 parameters, the plan passes 1"));
  EXPECT_THAT(Complaint(R"("args": ["x"])", Kernel()),
              HasSubstr("takes 0 parameters, the plan passes 1"));
}

TEST(PlanValidateTest, APointerWhereAFloatIsWanted) {
  EXPECT_EQ(
      Complaint(R"("args": ["x", "y"])", Kernel({8, 4})),
      "launches[0].args[1]: parameter 2 of kernel 'k' has 4 bytes, the plan passes a tensor's "
      "pointer of 8");
  EXPECT_THAT(Complaint(R"("args": [{"f32": 1}])", Kernel({8})), HasSubstr("a scalar of 4"));
}

TEST(PlanValidateTest, MoreThreadsThanTheLaunchBounds) {
  EntryPoint entry = Kernel();
  entry.max_threads = 128;
  EXPECT_THAT(Complaint(R"("block": [256])", entry), HasSubstr("compiled for at most 128"));
  EXPECT_EQ(Complaint(R"("block": [128])", entry), "");
}

TEST(PlanValidateTest, StaticAndDynamicSharedMemoryTogether) {
  EntryPoint entry = Kernel();
  entry.static_shared = 40000;
  EXPECT_THAT(Complaint(R"("shared": 200000)", entry), HasSubstr("40000 static + 200000 dynamic"));
  EXPECT_EQ(Complaint(R"("shared": 192448)", entry), "");
}

TEST(PlanValidateTest, RegistersOfABlockMustFitTheFile) {
  EntryPoint entry = Kernel();
  entry.registers = 255;
  EXPECT_THAT(Complaint(R"("block": [512])", entry), HasSubstr("use fewer threads"));
  EXPECT_EQ(Complaint(R"("block": [256])", entry), "");
  entry.registers = 64;
  EXPECT_EQ(Complaint(R"("block": [1024])", entry), "");
  // Registers are given out in units of 8 per thread: 65 cost 72.
  entry.registers = 65;
  EXPECT_THAT(Complaint(R"("block": [1024])", entry), HasSubstr("need 73728 of 65536"));
}

TEST(PlanValidateTest, ACooperativeLaunchMustBeResident) {
  EntryPoint entry = Kernel();
  entry.registers = 32;
  EXPECT_EQ(Complaint(R"("grid": [264], "block": [1024], "cooperative": true)", entry), "");
  EXPECT_THAT(Complaint(R"("grid": [265], "block": [1024], "cooperative": true)", entry),
              HasSubstr("at most 264 fit on 132 multiprocessors"));
  EXPECT_THAT(
      Complaint(R"("grid": [133], "block": [32], "shared": 200000, "cooperative": true)", entry),
      HasSubstr("at most 132 fit"));
  EXPECT_EQ(Complaint(R"("grid": [100000], "block": [1024])", entry), "");
}

}  // namespace
}  // namespace grove::codegen
