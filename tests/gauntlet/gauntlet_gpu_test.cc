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
  for (const auto& program : json["programs"]) {
    if (program["status"] != "ok" && program["status"] != "skipped")
      ADD_FAILURE() << program.dump(1);
  }
  EXPECT_EQ(result.exit_code, 0);
}

}  // namespace
}  // namespace grove
