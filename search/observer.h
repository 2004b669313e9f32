// What a search says while it runs. The search never prints: it tells an Observer, which a
// terminal, a pipe or a test implements. Calls come from many threads; an implementation locks.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"
#include "results/rows.h"

namespace grove::search {

// Where a search stands, for one live line.
struct LiveState {
  int round = 0;
  int rounds = 0;
  int ideas = 0;                                          // of this round
  int candidates = 0;                                     // of this round
  int evaluated = 0;                                      // of this round
  int passed = 0;                                         // of this round
  std::optional<Nanoseconds> best;                        // so far, over the whole run
  std::optional<Nanoseconds> seed;                        // of the task's own seed
  results::TimeKind kind = results::TimeKind::kModelled;  // of both
  Tokens tokens;                                          // spent so far
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Something finished: one plain line, without a newline.
  virtual void Line(std::string_view text) = 0;
  // Something moved.
  virtual void Update(const LiveState& state) = 0;
};

}  // namespace grove::search
