#include "eval/gauntlet.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace grove::eval {
namespace {

using testing::RunProgram;
using testing::ScratchFolder;

const std::filesystem::path kFolder = std::filesystem::path(GROVE_SOURCE_DIR) / "tests/gauntlet";

TEST(GauntletTest, TheSuiteHasItsEightyHostileAndFortyHonestProgramsOverFiveTasks) {
  const auto gauntlet = LoadGauntlet(kFolder, "");
  ASSERT_TRUE(gauntlet) << gauntlet.error().message;
  int honest = 0;
  std::set<std::string> tasks;
  std::set<std::int64_t> items;
  for (const GauntletEntry& entry : gauntlet->entries) {
    honest += entry.expected.honest() ? 1 : 0;
    EXPECT_EQ(entry.expected.honest(), entry.name.rfind("honest_", 0) == 0) << entry.name;
    tasks.insert(entry.task);
    items.insert(entry.catalogue.begin(), entry.catalogue.end());
  }
  EXPECT_GE(honest, 40);
  EXPECT_GE(static_cast<int>(gauntlet->entries.size()) - honest, 80);
  EXPECT_GE(tasks.size(), 5U);
  // What programs can show of the catalogue; 5, 15 to 19 and 23 are shown by tests of their own.
  for (const std::int64_t item :
       {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 24, 25, 26, 27, 28}) {
    EXPECT_TRUE(items.contains(item)) << "item " << item;
  }
}

TEST(GauntletTest, OnTheEmulatorNoneIsFalselyAcceptedOrRejected) {
  const ScratchFolder scratch;
  const auto result = RunProgram(
      "grove",
      {"--json", "--quiet", "--cache", scratch.path().string(), "gauntlet", "--device", "emulator"},
      {.deadline = std::chrono::seconds(880)});
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out.substr(0, 2000) << result.err;
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(json["false_accepts"], 0);
  EXPECT_EQ(json["false_rejects"], 0);
  EXPECT_EQ(json["other_verdicts"], 0);
  EXPECT_GE(json["hostile"], 80);
  EXPECT_GE(json["honest"], 40);
  // Every program of the suite, and none left out but what says that it needs a GPU.
  const auto gauntlet = LoadGauntlet(kFolder, "");
  ASSERT_TRUE(gauntlet) << gauntlet.error().message;
  ASSERT_EQ(json["programs"].size(), gauntlet->entries.size());
  for (std::size_t i = 0; i < gauntlet->entries.size(); ++i) {
    const auto& program = json["programs"][i];
    EXPECT_EQ(program["name"], gauntlet->entries[i].name);
    const bool here = gauntlet->entries[i].runs_on("emulator");
    EXPECT_EQ(program["status"], here ? "ok" : "skipped") << program.dump(1);
    // What goes back to a model says nothing of the host.
    const std::string message = program.value("message", "");
    EXPECT_EQ(message.find(GROVE_SOURCE_DIR), std::string::npos) << message;
    EXPECT_EQ(message.find("/usr/local"), std::string::npos) << message;
    EXPECT_EQ(message.find("/root"), std::string::npos) << message;
    // Verdicts on values name the element.
    if (program.value("got", "") == "wrong_result" || program.value("got", "") == "unstable") {
      EXPECT_GE(program["element"], 0) << program.dump(1);
      EXPECT_NE(program["seed"], 0) << program.dump(1);
    }
  }
}

// A copy of one program with another expectation.
int RunWith(const std::string& name, const std::string& expect, std::string* out) {
  const ScratchFolder scratch;
  std::filesystem::copy(kFolder / "tasks.toml", scratch.path() / "tasks.toml");
  std::filesystem::copy(kFolder / name, scratch.path() / name);
  std::ofstream(scratch.path() / name / "expect.toml") << expect;
  const auto result =
      RunProgram("grove", {"--cache", (scratch.path() / "cache").string(), "gauntlet", "--device",
                           "emulator", "--folder", scratch.path().string()});
  *out = result.out;
  return result.exit_code;
}

TEST(GauntletTest, AnAcceptedProgramThatMustNotPassIsAFalseAccept) {
  std::string out;
  EXPECT_EQ(RunWith("honest_reduce_block", "task = 'reduce'\nwhy = 'x'\nverdict = 'wrong_result'\n",
                    &out),
            1);
  EXPECT_NE(out.find("FALSE ACCEPT"), std::string::npos) << out;
  EXPECT_NE(out.find("1 false accepts"), std::string::npos) << out;
}

TEST(GauntletTest, ARejectedProgramThatMustPassIsAFalseReject) {
  std::string out;
  EXPECT_EQ(RunWith("zeros_reduce", "task = 'reduce'\nwhy = 'x'\nverdict = 'pass'\n", &out), 1);
  EXPECT_NE(out.find("FALSE REJECT"), std::string::npos) << out;
}

TEST(GauntletTest, AnotherVerdictThanExpectedFailsToo) {
  std::string out;
  EXPECT_EQ(RunWith("zeros_reduce", "task = 'reduce'\nwhy = 'x'\nverdict = 'trap'\n", &out), 1);
  EXPECT_NE(out.find("OTHER VERDICT"), std::string::npos) << out;
}

TEST(GauntletTest, AMisspeltExpectationIsAnErrorWithItsFile) {
  std::string out;
  EXPECT_EQ(RunWith("zeros_reduce", "task = 'reduce'\nwhy = 'x'\nverdit = 'trap'\n", &out), 2);
}

TEST(GauntletTest, OnlyTakesAGlob) {
  const auto some = LoadGauntlet(kFolder, "zeros_*");
  ASSERT_TRUE(some) << some.error().message;
  for (const GauntletEntry& entry : some->entries) EXPECT_EQ(entry.name.rfind("zeros_", 0), 0U);
  EXPECT_GE(some->entries.size(), 3U);
  EXPECT_FALSE(LoadGauntlet(kFolder, "nothing_like_this"));
}

}  // namespace
}  // namespace grove::eval
