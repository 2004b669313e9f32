// Plans that try to break the evaluator: each must be refused with a reason, at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::HasSubstr;

std::string RepeatOf(std::string_view bounds,
                     std::string_view body = R"({"kernel": "k", "grid": 1, "block": 1})") {
  return R"({"launches": [{"repeat": {"var": "i", )" + std::string(bounds) + R"(, "launches": [)" +
         std::string(body) + "]}}]}";
}

TEST(PlanAbuseTest, AGridOf2To40Blocks) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [1099511627776])")),
              HasSubstr("launches[0].grid[0]: 1099511627776 is 1099511627776, expected 1 to"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [33554432, 32768])")),
              HasSubstr("blocks, more than"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [2147483647, 65535, 65535])")),
              HasSubstr("blocks, more than"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [1, 65536])")),
              HasSubstr("expected 1 to 65535"));
}

TEST(PlanAbuseTest, ZeroAndNegativeSizes) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": [0])")), HasSubstr("0 is 0, expected 1 to"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": ["M - 5000"])")),
              HasSubstr("M - 5000 is -904, expected 1 to"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("block": [0])")), HasSubstr("block[0]"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("shared": -1)")), HasSubstr("expected 0 to 232448"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("shared": 232449)")),
              HasSubstr("expected 0 to 232448"));
}

TEST(PlanAbuseTest, TooManyThreads) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("block": [1025])")), HasSubstr("expected 1 to 1024"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("block": [1024, 2])")), HasSubstr("2048 threads"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("block": [1, 1, 65])")), HasSubstr("expected 1 to 64"));
}

TEST(PlanAbuseTest, ARepeatOf10To12Iterations) {
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": 1000000000000)")),
              HasSubstr("launches[0].repeat: 1000000000000 iterations"));
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": 9223372036854775807)")), HasSubstr("iterations"));
}

TEST(PlanAbuseTest, RepeatsThatMultiply) {
  const std::string nested = RepeatOf(
      R"("to": 99999)",
      R"({"repeat": {"var": "j", "to": 99999, "launches": [{"kernel": "k", "grid": 1, "block": 1}]}})");
  EXPECT_THAT(ResolveComplaint(nested), HasSubstr("more than 100000 launches"));
}

TEST(PlanAbuseTest, RepeatsThatMultiplyAndLaunchNothing) {
  const std::string nested =
      RepeatOf(R"("to": 99999)",
               R"({"repeat": {"var": "j", "to": 99999, "launches": [{"repeat": {"var": "l", "to": 0,
          "launches": [{"kernel": "k", "grid": 1, "block": 1}]}}]}})");
  EXPECT_THAT(ResolveComplaint(nested), HasSubstr("iterations"));
}

TEST(PlanAbuseTest, RepeatBoundsThatOverflow) {
  EXPECT_THAT(
      ResolveComplaint(RepeatOf(R"("from": "-9223372036854775807", "to": 9223372036854775807)")),
      HasSubstr("exceeds 64 bits"));
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": "9223372036854775807 + N")")),
              HasSubstr("launches[0].repeat.to, column 21: 64-bit overflow"));
  // The variable itself must not overflow on its last increment.
  const Result<ResolvedPlan> last =
      Resolved(RepeatOf(R"("from": 9223372036854775806, "to": 9223372036854775807, "step": 1000)"));
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->launches.size(), 1U);
}

TEST(PlanAbuseTest, StepsThatNeverArrive) {
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": 5, "step": 0)")),
              HasSubstr("expected at least 1"));
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": 5, "step": -1)")), HasSubstr("the step is -1"));
}

TEST(PlanAbuseTest, NothingToLaunch) {
  EXPECT_THAT(ResolveComplaint(RepeatOf(R"("to": 0)")), HasSubstr("no launch at all"));
  EXPECT_THAT(ParseComplaint(RepeatOf(R"("to": 4)", "")), HasSubstr("at least one launch"));
}

TEST(PlanAbuseTest, RepeatsNestedTooDeep) {
  std::string body = R"({"kernel": "k", "grid": 1, "block": 1})";
  for (int i = 0; i < 5; ++i) {
    body = R"({"repeat": {"var": "v)" + std::to_string(i) + R"(", "to": 1, "launches": [)" + body +
           "]}}";
  }
  EXPECT_THAT(ParseComplaint(R"({"launches": [)" + body + "]}"), HasSubstr("nested deeper than 4"));
  EXPECT_THAT(ParseComplaint(std::string(100000, '[')), HasSubstr("nested deeper than 32"));
  std::string objects;
  for (int i = 0; i < 10000; ++i) objects += "{\"a\":";
  EXPECT_THAT(ParseComplaint(objects), HasSubstr("nested deeper than 32"));
}

TEST(PlanAbuseTest, AHundredGigabyteWorkspace) {
  const auto with = [](std::string_view shape) {
    return ResolveComplaint(R"({"workspace": [{"name": "w", "dtype": "f64", "shape": )" +
                            std::string(shape) +
                            R"(}], "launches": [{"kernel": "k", "grid": 1, "block": 1}]})");
  };
  EXPECT_EQ(with("[1048576]"), "");
  EXPECT_THAT(with("[26843545600]"), HasSubstr("does not fit the device's"));
  EXPECT_THAT(with("[4294967296, 4294967296]"), HasSubstr("over 2^63 bytes"));
  EXPECT_THAT(with("[\"N - 1000\"]"), HasSubstr("expected 1 to"));
  EXPECT_THAT(with("[-4]"), HasSubstr("expected 1 to"));
}

TEST(PlanAbuseTest, ManyWorkspacesTogether) {
  std::string list;
  for (int i = 0; i < 20; ++i) {
    list += std::string(i ? "," : "") + R"({"name": "w)" + std::to_string(i) +
            R"(", "dtype": "u8", "shape": [10000000000]})";
  }
  EXPECT_THAT(ResolveComplaint(R"({"workspace": [)" + list +
                               R"(], "launches": [{"kernel": "k", "grid": 1, "block": 1}]})"),
              HasSubstr("workspace 'w1"));
}

TEST(PlanAbuseTest, AWorkspaceNamedLikeSomethingOfTheTask) {
  for (const auto& [name, what] :
       {std::pair{"x", "tensor"}, std::pair{"N", "dim"}, std::pair{"eps", "scalar"}}) {
    EXPECT_THAT(ResolveComplaint(std::string(R"({"workspace": [{"name": ")") + name +
                                 R"(", "dtype": "f32", "shape": [1]}],
                                 "launches": [{"kernel": "k", "grid": 1, "block": 1}]})"),
                HasSubstr(std::string("already that of a ") + what + " of the task"));
  }
}

TEST(PlanAbuseTest, AClashInAVariantThatIsNotUsed) {
  EXPECT_THAT(ResolveComplaint(
                  R"({"variants": [{"launches": [{"kernel": "k", "grid": 1, "block": 1}]},
                      {"workspace": [{"name": "y", "dtype": "f32", "shape": [1]}],
                       "launches": [{"kernel": "k", "grid": 1, "block": 1}]}]})"),
              HasSubstr("variants[1].workspace[0].name: the name 'y' is already that of a tensor"));
}

TEST(PlanAbuseTest, DuplicateNames) {
  EXPECT_THAT(ParseComplaint(R"({"workspace": [{"name": "w", "dtype": "f32", "shape": [1]},
                                               {"name": "w", "dtype": "f32", "shape": [1]}],
                                 "launches": [{"kernel": "k", "grid": 1, "block": 1}]})"),
              HasSubstr("workspace[1].name: the name 'w' is already taken"));
  EXPECT_THAT(ParseComplaint(R"({"workspace": [{"name": "w", "dtype": "f32", "shape": [1]}],
                                 "tensor_maps": [{"name": "w", "tensor": "x", "box": [1]}],
                                 "launches": [{"kernel": "k", "grid": 1, "block": 1}]})"),
              HasSubstr("tensor_maps[0].name: the name 'w' is already taken"));
  EXPECT_THAT(ParseComplaint(OneLaunch(R"("shared": 1, "shared": 2)")),
              HasSubstr("the key 'shared' is written twice"));
}

TEST(PlanAbuseTest, LoopVariablesThatShadow) {
  EXPECT_THAT(ParseComplaint(RepeatOf(R"("to": 2)", R"({"repeat": {"var": "i", "to": 2,
              "launches": [{"kernel": "k", "grid": 1, "block": 1}]}})")),
              HasSubstr("the name 'i' is already taken"));
  EXPECT_THAT(ResolveComplaint(R"({"launches": [{"repeat": {"var": "N", "to": 2, "launches": [
              {"kernel": "k", "grid": 1, "block": 1}]}}]})"),
              HasSubstr("launches[0].repeat.var: the name 'N' is already that of a dim"));
  EXPECT_THAT(ParseComplaint(R"({"launches": [{"repeat": {"var": "sm_count", "to": 2, "launches": [
              {"kernel": "k", "grid": 1, "block": 1}]}}]})"),
              HasSubstr("reserved"));
}

TEST(PlanAbuseTest, OverflowInASize) {
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"("grid": ["M * M * M * M * M * M"])")),
              HasSubstr("64-bit overflow"));
  EXPECT_THAT(ResolveComplaint(OneLaunch(R"j("grid": ["M / (N - 1000)"])j")),
              HasSubstr("launches[0].grid[0], column 3: division by zero"));
}

TEST(PlanAbuseTest, ListsWithoutEnd) {
  std::string args = "[0";
  for (int i = 0; i < 200; ++i) args += ",0";
  EXPECT_THAT(ParseComplaint(OneLaunch("\"args\": " + args + "]")),
              HasSubstr("at most 128 entries"));
  std::string launches;
  for (int i = 0; i < 5000; ++i) {
    launches += std::string(i ? "," : "") + R"({"kernel":"k","grid":1,"block":1})";
  }
  EXPECT_THAT(ParseComplaint(R"({"launches": [)" + launches + "]}"),
              HasSubstr("more than 4096 steps"));
  EXPECT_THAT(ParseComplaint(std::string((std::size_t{1} << 20) + 1, ' ') + "{}"),
              HasSubstr("at most 1048576 are read"));
}

TEST(PlanAbuseTest, ArgumentsThatFillTheMemory) {
  std::string args = "[0";
  for (int i = 0; i < 100; ++i) args += ",0";
  EXPECT_THAT(
      ResolveComplaint(RepeatOf(
          R"("to": 90000)", R"({"kernel": "k", "grid": 1, "block": 1, "args": )" + args + "]}")),
      HasSubstr("more than 2000000 arguments"));
}

TEST(PlanAbuseTest, HostCodeHasNoPlaceInAPlan) {
  for (const std::string_view field :
       {R"j("host": "system(\"id\")")j", R"("stream": 1)", R"("python": "import os")",
        R"("callback": "f")", R"("command": "sh")"}) {
    EXPECT_THAT(ParseComplaint(OneLaunch(field)), HasSubstr("unknown field")) << field;
  }
}

}  // namespace
}  // namespace grove::codegen
