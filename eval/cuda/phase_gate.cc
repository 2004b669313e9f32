#include "eval/cuda/phase_gate.h"

namespace grove::cuda {

// While the other phase waits, a phase may take in this many more before it must drain.
constexpr int kTurnLength = 16;

bool PhaseGate::MayEnter(int phase) const {
  const auto self = static_cast<std::size_t>(phase);
  const std::size_t other = 1 - self;
  if (inside_[other] > 0 || inside_[self] >= capacity_[self]) return false;
  if (waiting_[other] == 0) return true;
  if (turn_ != phase) return inside_[self] == 0 && inside_[other] == 0 && served_ >= kTurnLength;
  return served_ < kTurnLength;
}

PhaseGate::Hold PhaseGate::Enter(int phase) {
  const auto self = static_cast<std::size_t>(phase);
  const std::size_t other = 1 - self;
  std::unique_lock lock(mutex_);
  ++waiting_[self];
  // A phase that finds the gate empty takes the turn.
  if (inside_[0] + inside_[1] == 0 && waiting_[other] == 0 && turn_ != phase) {
    turn_ = phase;
    served_ = 0;
  }
  changed_.wait(lock, [&] { return MayEnter(phase); });
  --waiting_[self];
  ++inside_[self];
  if (turn_ != phase) {
    turn_ = phase;
    served_ = 0;
  }
  if (waiting_[other] > 0) ++served_;
  Hold hold;
  hold.gate_ = this;
  hold.phase_ = phase;
  return hold;
}

void PhaseGate::Leave(int phase) {
  const auto self = static_cast<std::size_t>(phase);
  const std::size_t other = 1 - self;
  {
    const std::lock_guard lock(mutex_);
    --inside_[self];
    // The turn passes when this phase has drained and has no one left, or has had its share.
    if (inside_[self] == 0 && waiting_[other] > 0 &&
        (waiting_[self] == 0 || served_ >= kTurnLength)) {
      turn_ = 1 - phase;
      served_ = 0;
    }
  }
  changed_.notify_all();
}

int PhaseGate::holders(int phase) const {
  const std::lock_guard lock(mutex_);
  return inside_[static_cast<std::size_t>(phase)];
}

}  // namespace grove::cuda
