// A run killed with SIGKILL at random instants and resumed each time ends with the tree that it
// would have had, and its store is whole after every kill.
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
  return {"run",    "softmax_small", "--tasks", kTasks,       "--name", name,         "--rounds",
          "3",      "--ideas",       "2",       "--branches", "2",      "--frontier", "2",
          "--quiet"};
}

// Whether the run's first transaction is there. A run killed before it has nothing to lose, and the
// same command starts it again.
bool HasBegun(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "run.db")) return false;
  auto reader = results::Reader::Open(run);
  if (!reader) return false;
  auto data = (*reader)->Load();
  return data && !data->run.name.empty();
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
  const auto run_whole = [&] {
    return RunProgram("grove", RunArguments("whole"), In(folder.path()));
  };
  ASSERT_EQ(run_whole().exit_code, 0);
  const auto expected = Outcome(folder.path() / "runs" / "whole");
  ASSERT_GT(expected.size(), 10U);
  // Again, now that everything is compiled: the instants are spread over what a run takes.
  std::filesystem::remove_all(folder.path() / "runs" / "whole");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run_whole().exit_code, 0);
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);

  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<long> instant(1, std::max<long>(duration.count(), 2));
  const auto killed = folder.path() / "runs" / "killed";
  int kills = 0;
  for (int attempt = 0; attempt < 200; ++attempt) {
    ProgramOptions options = In(folder.path());
    options.kill_after = std::chrono::milliseconds(instant(random));
    const bool begun = HasBegun(killed);
    const ProgramResult result = RunProgram(
        "grove",
        begun ? std::vector<std::string>{"resume", "killed", "--quiet"} : RunArguments("killed"),
        options);
    if (result.signal != 0) ++kills;
    if (HasBegun(killed)) {
      const auto whole_store = results::CheckStore(killed);
      ASSERT_TRUE(whole_store) << "seed " << seed << ", kill " << kills << ": "
                               << whole_store.error().message;
    }
    ASSERT_TRUE(result.signal != 0 || result.exit_code == 0)
        << "seed " << seed << ": " << result.err;
    if (result.exit_code != 0) continue;
    // It came to its end between two kills: as if it had never been killed.
    ASSERT_EQ(Outcome(killed), expected) << "seed " << seed;
    if (kills >= kKills) return;
    std::filesystem::remove_all(killed);
  }
  FAIL() << "only " << kills << " kills in 200 attempts, seed " << seed;
}

}  // namespace
}  // namespace grove
