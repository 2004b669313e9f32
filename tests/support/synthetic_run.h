// A large run made up without models, compilers or devices: what report, harvest and the live page
// are tried with. Deterministic in its options.
#pragma once

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "results/store.h"

namespace grove::testing {

// Time that moves by 40 ms at every look, so that the same run has the same moments.
class SteppingClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override { return {}; }
  std::chrono::system_clock::time_point WallTime() const override {
    return std::chrono::system_clock::time_point(std::chrono::seconds(1790000000)) +
           std::chrono::milliseconds(40 * ticks_++);
  }

 private:
  mutable std::int64_t ticks_ = 0;
};

struct SyntheticRun {
  std::string name = "synthetic";
  int candidates = 60;   // about so many; 12 per round at least
  bool hostile = false;  // texts that try to be markup, script, escape sequences
  bool measured = true;  // with samples, else modelled
  int source_lines = 90;
};

// Makes `runs`/NAME. The store is closed when it returns.
Status MakeSyntheticRun(const std::filesystem::path& runs, const SyntheticRun& options);

// What the hostile run calls its ideas; a page that runs it sets window.owned.
extern const char* const kHostileTitle;

}  // namespace grove::testing
