// Time is passed in, so that tests can move it.
#pragma once

#include <chrono>

namespace grove {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; for durations and deadlines.
  virtual std::chrono::steady_clock::time_point Now() const = 0;
  // Wall time; for the store.
  virtual std::chrono::system_clock::time_point WallTime() const = 0;
};

// The machine's clocks. Thread-safe.
class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::now();
  }
  std::chrono::system_clock::time_point WallTime() const override {
    return std::chrono::system_clock::now();
  }
};

}  // namespace grove
