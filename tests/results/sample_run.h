// A small deterministic search against a real store: what the tests of results/ write and read.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "results/store.h"

namespace grove::results {

// Moves a millisecond at every look, so that times are told apart and runs repeat exactly.
class TestClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override { return {}; }
  std::chrono::system_clock::time_point WallTime() const override {
    return std::chrono::system_clock::time_point(std::chrono::seconds(1764439200)) +
           std::chrono::milliseconds(ticks_++);
  }

 private:
  mutable std::atomic<int> ticks_{0};
};

// A folder of this test alone, removed at its end.
class RunsFolder : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // A new store named `name`; fails the test when it cannot be made.
  std::unique_ptr<Store> Create(const std::string& name);
  std::unique_ptr<Store> Open(const std::string& name);
  RunData Load(const std::string& name);  // through a Reader

  std::filesystem::path runs_;
  TestClock clock_;
};

RunStart SampleStart(const std::string& name);
llm::Request SampleRequest(const CallKey& key);
// An evaluation with a row of each kind. `score` 0 = it failed.
EvaluationRow SampleEvaluation(double score_ns);

struct SearchSize {
  int rounds = 3;
  int ideas = 2;
  int branches = 2;
};
// Runs the whole search, or what is left of it. Every third candidate needs a repair turn, every
// fourth fails. `done` is told each transition that has returned, by a text that names it.
Status RunSampleSearch(Store& store, const SearchSize& size,
                       const std::function<void(const std::string&)>& done = {});

// Everything of a run but wall times, attempts and the ledger: equal for two runs of the same
// search, however often one of them was killed.
std::string Essence(const RunData& data);

}  // namespace grove::results
