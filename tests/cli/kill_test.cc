// A run killed with SIGKILL at random instants and resumed each time ends with the tree that it would
// have had, and its store is whole after every kill.
#include <filesystem>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "results/store.h"
#include "tests/support/program.h"

namespace grove {
namespace {

using testing::ProgramOptions;
using testing::ProgramResult;
using testing::RunProgram;

constexpr int kKills = 10;
const std::string kTasks = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks";

ProgramOptions In(const std::filesystem::path& folder) {
  ProgramOptions options;
  options.folder = folder;
  options.environment.push_back("GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache");
  return options;
}

std::vector<std::string> RunArguments(const std::string& name) {
  return {"run",     "softmax_small", "--tasks",    kTasks, "--name",     name, "--rounds", "3",
          "--ideas", "2",             "--branches", "2",    "--frontier", "2",  "--quiet"};
}

// Every candidate with its verdict and time: what must not depend on kills.
std::map<std::string, std::string> Outcome(const std::filesystem::path& run) {
  auto reader = results::Reader::Open(run);
  EXPECT_TRUE(reader);
  auto data = (*reader)->Load();
  EXPECT_TRUE(data);
  std::map<std::string, std::string> outcome;
  for (const results::CandidateRow& candidate : data->candidates) {
    std::string text(results::Name(candidate.status));
    if (candidate.evaluation) {
      text += " " + std::string(eval::Name(candidate.evaluation->verdict.kind));
      if (candidate.evaluation->score) {
        text += " " + std::to_string(candidate.evaluation->score->count());
      }
    }
    EXPECT_TRUE(outcome.emplace(candidate.name, text).second) << "doubled: " << candidate.name;
  }
  return outcome;
}

TEST(KillTest, TenKillsAtRandomInstantsLoseDoubleAndHalveNothing) {
  const testing::ScratchFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult whole = RunProgram("grove", RunArguments("whole"), In(folder.path()));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto duration = std::chrono::steady_clock::now() - start;
  const auto expected = Outcome(folder.path() / "runs" / "whole");
  ASSERT_GT(expected.size(), 10U);

  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  std::uniform_int_distribution<long> instant(1, std::max<long>(milliseconds / 3, 2));
  const auto killed = folder.path() / "runs" / "killed";
  int kills = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    ProgramOptions options = In(folder.path());
    if (kills < kKills) options.kill_after = std::chrono::milliseconds(instant(random));
    const bool begun = std::filesystem::exists(killed / "run.db");
    const ProgramResult result = RunProgram(
        "grove",
        begun ? std::vector<std::string>{"resume", "killed", "--tasks", kTasks, "--quiet"}
              : RunArguments("killed"),
        options);
    if (result.signal != 0) ++kills;
    if (std::filesystem::exists(killed / "run.db")) {
      const auto whole_store = results::CheckStore(killed);
      ASSERT_TRUE(whole_store) << "seed " << seed << ", kill " << kills << ": "
                               << whole_store.error().message;
    }
    if (result.exit_code == 0 && kills >= kKills) break;
    ASSERT_TRUE(result.signal != 0 || result.exit_code == 0)
        << "seed " << seed << ": " << result.err;
  }
  EXPECT_GE(kills, kKills) << "seed " << seed;
  EXPECT_EQ(Outcome(killed), expected) << "seed " << seed;
}

}  // namespace
}  // namespace grove
