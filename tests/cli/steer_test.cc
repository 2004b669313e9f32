// Steering and batches as a user meets them: whole commands, their output and exit codes.
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "results/store.h"
#include "tests/support/program.h"

namespace grove {
namespace {

using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::RunProgram;

class SteerTest : public ::testing::Test {
 protected:
  ProgramResult Grove(std::vector<std::string> arguments) {
    ProgramOptions options;
    options.folder = folder_.path();
    options.environment.push_back("GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache");
    options.environment.push_back("GROVE_TASKS=" + std::string(GROVE_SOURCE_DIR) +
                                  "/tests/data/tasks");
    return RunProgram("grove", arguments, options);
  }
  testing::ScratchFolder folder_;
};

TEST_F(SteerTest, GoalsHintsStatusAndExplanationsOfARun) {
  const ProgramResult bad = Grove({"run", "softmax_small", "--goal", "case nowhere < 1us"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("unknown case 'nowhere'"));
  const ProgramResult wrong = Grove({"run", "softmax_small", "--goal", "< 5 minutes"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("column 5"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));

  const ProgramResult run =
      Grove({"run", "softmax_small", "--name", "one", "--rounds", "5", "--ideas", "2", "--branches",
             "1", "--frontier", "1", "--goal", "1.01x over seed"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("every goal is met"));

  const ProgramResult status = Grove({"status", "one"});
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_THAT(status.out, HasSubstr("goal 1.01x over seed: met"));
  const auto json = nlohmann::json::parse(Grove({"status", "one", "--json"}).out);
  EXPECT_TRUE(json["goals"][0]["met"].get<bool>());
  EXPECT_FALSE(json["live"].get<bool>());
  EXPECT_EQ(json["random_seed"], 1);
  EXPECT_THAT(Grove({"ledger", "one"}).out, HasSubstr("random seed 1"));

  EXPECT_EQ(Grove({"stop", "one"}).exit_code, 2);  // nobody would hear it
  EXPECT_EQ(Grove({"hint", "one", "x", "--branch", "r9.i9"}).exit_code, 2);
  const ProgramResult hint = Grove({"hint", "one", "try float4", "--rounds", "2"});
  EXPECT_EQ(hint.exit_code, 0) << hint.err;
  EXPECT_THAT(hint.out, HasSubstr("waits"));
  EXPECT_THAT(Grove({"status", "one"}).out, HasSubstr("waiting: hint: try float4"));

  const ProgramResult tree = Grove({"tree", "one", "--explain"});
  EXPECT_THAT(tree.out, HasSubstr("kept after round 1, number 1 by time"));
}

TEST_F(SteerTest, ADryRunOfABatchSpendsNothingAndSaysWhatItWould) {
  std::ofstream(folder_.path() / "two.toml")
      << "tokens = 500_000\n[[task]]\nname = \"softmax\"\nweight = 0.7\n"
         "[[task]]\nname = \"rmsnorm\"\n";
  const auto dry = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    for (const char* more : {"--tasks", GROVE_SOURCE_DIR "/seeds/tasks", "--dry-run"}) {
      arguments.emplace_back(more);
    }
    const ProgramResult result = Grove(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string said = dry({"--batch", "two.toml"});
  EXPECT_THAT(said, HasSubstr("softmax"));
  EXPECT_THAT(said, HasSubstr("rmsnorm"));
  const auto together = nlohmann::json::parse(dry({"softmax", "rmsnorm=2", "--json"}));
  const auto limited = nlohmann::json::parse(dry({"--batch", "two.toml", "--json"}));
  ASSERT_EQ(together["tasks"].size(), 2U);
  EXPECT_EQ(together["tasks"][1]["weight"], 2);
  EXPECT_EQ(together["expected"]["calls"].get<int>(),
            together["tasks"][0]["expected"]["calls"].get<int>() +
                together["tasks"][1]["expected"]["calls"].get<int>());
  EXPECT_GT(together["largest"]["tokens"], 500000);
  EXPECT_EQ(limited["largest"]["tokens"], 500000);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs")) << "a dry run leaves nothing";
}

TEST_F(SteerTest, ABatchSharesItsRoundsAndIsResumed) {
  std::ofstream(folder_.path() / "two.toml")
      << "rounds = 2\n[[task]]\nname = \"softmax_small\"\nweight = 0.7\n";
  const std::vector<std::string> options = {"--ideas",    "1", "--branches",           "1",
                                            "--frontier", "1", "--budget-evaluations", "9"};
  std::vector<std::string> start = {"run", "--batch", "two.toml", "--name", "b"};
  start.insert(start.end(), options.begin(), options.end());
  const ProgramResult run = Grove(start);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 rounds of 2"));
  const auto reader = results::Reader::Open(folder_.path() / "runs" / "b.softmax_small");
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->Load()->rounds.size(), 2U);

  const ProgramResult status = Grove({"status", "b"});
  EXPECT_THAT(status.out, HasSubstr("random seed 1"));
  EXPECT_THAT(status.out, HasSubstr("of 9 evaluations spent"));
  EXPECT_THAT(status.out, HasSubstr("round 2/"));
  EXPECT_THAT(status.out, HasSubstr("100.0% of the whole's time now"));
  const auto json = nlohmann::json::parse(Grove({"status", "b", "--json"}).out);
  EXPECT_EQ(json["budgets"][0]["kind"], "evaluations");
  EXPECT_EQ(json["budgets"][0]["most"], 9);
  EXPECT_EQ(json["tasks"][0]["share_of_time_now"], 1.0);

  EXPECT_EQ(Grove(start).exit_code, 2);  // the name is taken
  EXPECT_EQ(Grove({"resume", "b"}).exit_code, 0);
  EXPECT_EQ((*reader)->Load()->rounds.size(), 2U);  // nothing was left to do
  const ProgramResult more = Grove({"resume", "b", "--rounds", "3"});
  EXPECT_EQ(more.exit_code, 2);
  EXPECT_THAT(more.err, HasSubstr("'b' is a batch"));
  EXPECT_EQ(Grove({"run", "softmax_small", "sofmax_small=2"}).exit_code, 2);
  EXPECT_EQ(Grove({"run", "softmax_small", "softmax_small=x"}).exit_code, 2);
}

// Which task has the next round follows from times that only the other machine knows.
TEST_F(SteerTest, WhatIsSaidToABatchReachesItsRuns) {
  std::ofstream(folder_.path() / "one.toml") << "[[task]]\nname = \"softmax_small\"\n";
  ProgramResult batch;
  std::jthread running([&] {
    batch = Grove({"run", "--batch", "one.toml", "--name", "b", "--rounds", "40", "--patience",
                   "40", "--ideas", "2", "--branches", "1", "--frontier", "1"});
  });
  const auto said = [&](std::vector<std::string> words) {
    // Between two rounds no run of a batch is live.
    for (int turn = 0; turn < 600; ++turn) {
      const ProgramResult result = Grove(words);
      if (result.exit_code == 0) return result.out;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return std::string("refused");
  };
  EXPECT_THAT(said({"hint", "b", "use float4"}), HasSubstr(": hint"));
  EXPECT_EQ(Grove({"hint", "b", "x", "--branch", "r1.i1"}).exit_code, 2);
  EXPECT_THAT(said({"stop", "b"}), HasSubstr(": stop"));
  running.join();
  EXPECT_EQ(batch.exit_code, 130) << batch.err;
  EXPECT_THAT(batch.err, HasSubstr("grove resume b"));
  const ProgramResult late = Grove({"stop", "b"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_THAT(late.err, HasSubstr("no task of batch b is running"));
  EXPECT_THAT(Grove({"status", "b.softmax_small"}).out, HasSubstr("use float4"));
}

TEST_F(SteerTest, ABatchIsNotForAnotherMachineAndSaysWhatToDoInstead) {
  const ProgramResult refused = Grove(
      {"run", "softmax_small", "matmul=2", "--until", "evaluate", "--gpu", "H200", "--name", "b"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--until evaluate is for one task"));
  EXPECT_THAT(refused.err, HasSubstr("grove run TASK --until evaluate --name NAME.TASK"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs" / "b"));
}

}  // namespace
}  // namespace grove
