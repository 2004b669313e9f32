#include "eval/cuda/phase_gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace grove::cuda {
namespace {

TEST(PhaseGate, ManyMayHoldOnePhase) {
  PhaseGate gate(8, 1);
  const auto a = gate.Enter(0);
  const auto b = gate.Enter(0);
  EXPECT_EQ(gate.holders(0), 2);
}

TEST(PhaseGate, AHoldIsGivenBackOnceWhenMoved) {
  PhaseGate gate(8, 8);
  auto a = gate.Enter(0);
  auto b = std::move(a);
  EXPECT_EQ(gate.holders(0), 1);
  b.Release();
  b.Release();
  EXPECT_EQ(gate.holders(0), 0);
}

// Many threads of both phases: never both inside, never more than the capacity, and all get in.
TEST(PhaseGate, PhasesNeverOverlapAndNobodyStarves) {
  PhaseGate gate(4, 1);
  std::atomic<int> inside[2] = {0, 0};
  std::atomic<int> most[2] = {0, 0};
  std::atomic<bool> overlap{false};
  std::atomic<int> entries{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, phase = t % 2] {
      for (int i = 0; i < 200; ++i) {
        const auto hold = gate.Enter(phase);
        const int now = ++inside[phase];
        int seen = most[phase].load();
        while (now > seen && !most[phase].compare_exchange_weak(seen, now)) {
        }
        if (inside[1 - phase] != 0) overlap = true;
        ++entries;
        std::this_thread::yield();
        --inside[phase];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlap);
  EXPECT_EQ(entries, 1600);
  EXPECT_LE(most[0], 4);
  EXPECT_EQ(most[1], 1);
}

TEST(PhaseGate, AWaitingPhaseGetsItsTurnWhileTheOtherKeepsComing) {
  PhaseGate gate(4, 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> checks;
  for (int t = 0; t < 4; ++t) {
    checks.emplace_back([&] {
      while (!stop) const auto hold = gate.Enter(0);
    });
  }
  for (int i = 0; i < 20; ++i) const auto hold = gate.Enter(1);  // hangs if it starves
  stop = true;
  for (std::thread& thread : checks) thread.join();
  EXPECT_EQ(gate.holders(0), 0);
  EXPECT_EQ(gate.holders(1), 0);
}

}  // namespace
}  // namespace grove::cuda
