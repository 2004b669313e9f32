// The whole gauntlet on the GPU of this machine.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace grove {
namespace {

TEST(GauntletGpuTest, OnAGpuNoneIsFalselyAcceptedOrRejected) {
  const auto result =
      testing::RunProgram("grove", {"--json", "--quiet", "gauntlet", "--device", "cuda"},
                          {.deadline = std::chrono::seconds(880)});
  if (result.exit_code == 3) GTEST_SKIP() << "no GPU: " << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out.substr(0, 2000) << result.err;
  EXPECT_EQ(json["false_accepts"], 0);
  EXPECT_EQ(json["false_rejects"], 0);
  EXPECT_EQ(json["other_verdicts"], 0);
  EXPECT_GE(json["hostile"], 80);
  EXPECT_GE(json["honest"], 40);
  for (const auto& program : json["programs"]) {
    EXPECT_EQ(program["status"], "ok") << program.dump(1);  // a GPU can tell all of them
  }
  EXPECT_EQ(result.exit_code, 0);
}

}  // namespace
}  // namespace grove
