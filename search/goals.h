// Goals: when a search has done what it was started for. Grammar, one goal per text:
//
//   [case NAME] < NUMBER ns|us|ms|s        "case n512 < 5000us", "below 1.2 ms"
//   [case NAME] NUMBER x over BASELINE     "2.0x over cublas", "case n512 1.5x over seed"
//   [case NAME] NUMBER % of floor|sol      "90% of floor"
//
// `<` may be `<=`, `below` or `under`. Without a case a goal is about the score: the geometric mean
// over the scored cases. `floor` is the floor of the demanded class, `sol` the impossible-floor.
// A goal of a case is met by any kernel that passed, a goal of the score by the best one.
// Modelled and measured times are never compared: a goal over a measured baseline stays open in a
// run whose times are modelled, and says why. Pure functions, thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "results/rows.h"

namespace grove::search {

struct Goal {
  enum class Kind { kTime, kRatio, kShare };
  Kind kind = Kind::kTime;
  std::string text;         // as written
  std::string case_name;    // empty = the score
  Nanoseconds time{0};      // kTime: below this
  double ratio = 0;         // kRatio: baseline's time over the kernel's, at least
  std::string baseline;     // kRatio
  double share = 0;         // kShare: floor over time, at least; 0 to 1
  bool class_floor = true;  // kShare: else the impossible-floor
};

// kInvalidInput: "goal 'case n512 < 5000', column 17: expected a unit (ns, us, ms or s)".
Result<Goal> ParseGoal(std::string_view text);
// Whether the goal's case is one of `scored`; kNotFound with the nearest name.
Status CheckGoal(const Goal& goal, std::span<const std::string> scored);

// What somebody else takes for a case.
struct NamedTime {
  std::string name;  // "cublas", "torch_compile"
  std::string case_name;
  Nanoseconds time{0};
  results::TimeKind kind = results::TimeKind::kMeasured;
};
// The times of the task's own seed, under the name "seed".
std::vector<NamedTime> SeedTimes(const results::RunData& data);

struct GoalProgress {
  Goal goal;
  bool met = false;
  double reached = 0;  // share of the way by ratio of times: 0.5 = twice too slow, 1 or more = met
  std::string kernel;  // that stands for it; empty when none does
  std::string text;    // "6.10 ms modelled, wanted below 5.00 ms", or why it cannot be judged
};
// `baselines` beside the seed's times and those that the run has stored.
GoalProgress Judge(const Goal& goal, const results::RunData& data,
                   std::span<const NamedTime> baselines = {});

// The goals of a run: those it was started with (`configured`, checked then) and those that the
// user added since (hints of kind "goal"; texts that are none are passed over).
std::vector<Goal> GoalsOf(std::span<const std::string> configured, const results::RunData& data);
// The goals as the prompts of round `index` say them: those that were given before it. May be
// empty.
std::string GoalText(std::span<const std::string> configured, const results::RunData& data,
                     int index);
// Every goal's progress, and whether there are goals and all are met.
struct GoalsState {
  std::vector<GoalProgress> goals;
  bool all_met = false;
};
GoalsState JudgeAll(std::span<const std::string> configured, const results::RunData& data,
                    std::span<const NamedTime> baselines = {});

}  // namespace grove::search
