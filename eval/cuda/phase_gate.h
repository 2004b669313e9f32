// A gate between two phases that must never overlap: any number of holders of one phase, or any
// number (up to its capacity) of the other. Used by the head (checks of many candidates | one
// timing at a time, so that nothing else runs on the GPU while it is timed) and inside a worker
// (candidate code | reference code, so that a reference result never exists while a candidate
// runs). Thread-safe. Fair: when both phases are wanted they alternate, each lasting at least until
// its queue at the time of the switch is served, so that switching stays rare.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace grove::cuda {

class PhaseGate {
 public:
  // At most `capacity[p]` holders of phase p at a time.
  PhaseGate(int capacity0, int capacity1) : capacity_{capacity0, capacity1} {}

  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(phase_, other.phase_);
      return *this;
    }
    ~Hold() { Release(); }
    void Release() {
      if (gate_ != nullptr) std::exchange(gate_, nullptr)->Leave(phase_);
    }

   private:
    friend class PhaseGate;
    PhaseGate* gate_ = nullptr;
    int phase_ = 0;
  };

  // Blocks until the phase (0 or 1) may be entered.
  [[nodiscard]] Hold Enter(int phase);

  int holders(int phase) const;

 private:
  void Leave(int phase);
  bool MayEnter(int phase) const;

  const std::array<int, 2> capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<int, 2> inside_{0, 0};
  std::array<int, 2> waiting_{0, 0};
  int turn_ = 0;    // whose turn it is while both are wanted
  int served_ = 0;  // entries in this turn while the other phase waited
};

}  // namespace grove::cuda
