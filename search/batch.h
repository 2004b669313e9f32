// Many tasks, one budget, one device. A batch is a plan and a set of ordinary runs, one per task:
// runs/NAME/batch.json says what was asked, runs/NAME.TASK/ is the run of a task, with its own
// store, so that tree, show, hint and harvest work on it as on any other. Nothing else is kept: the
// scheduler's state is what the runs have stored, so a batch that was killed goes on by reading
// them.
//
// One round at a time. The next one goes to the task of which it is expected to save the most of
// the whole's time for its tokens (Amdahl): weight x (time now / time at first) x (1 - 1/gain) /
// cost, where gain is what the task's last rounds gained, the newer the more, and a prior for what
// has not been tried. A task whose gains dry up is left, and returned to when the others have dried
// up more. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "search/config.h"

namespace grove::search {

struct BatchTask {
  std::string name;                // of the task, and of its run after "BATCH."
  double weight = 1;               // share of the whole's time that the operation takes
  std::string suite;               // as SearchConfig
  std::vector<std::string> cases;  // as SearchConfig
};

struct BatchSpec {
  std::vector<BatchTask> tasks;  // names are unique
  SearchConfig config;           // of every run but for task, suite and cases; rounds = at most,
                                 // for each task
                                 // its limits of the run (budget.tokens, ...) bound all together
  std::int64_t tokens = 0;       // shared limit; 0 = none
  int rounds = 0;                // of all tasks together; 0 = no limit
};

// From a batch file:
//   tokens = 7_000_000          # shared budget, optional
//   rounds = 40                 # of all tasks together, optional
//   [[task]]
//   name = "softmax"
//   weight = 0.4                # optional, 1
//   suite = "crfm"              # optional
//   cases = ["crfm"]            # optional
// kInvalidInput as "FILE:LINE:COLUMN: what was expected"; unknown keys are errors.
Result<BatchSpec> ParseBatch(std::string_view toml, std::string_view file);
// kInvalidInput for no task, a name twice, a weight that is not above 0 and finite.
Status Validate(const BatchSpec& spec);

// batch.json. FromJson refuses what ToJson does not write.
std::string ToJson(const BatchSpec& spec);
Result<BatchSpec> BatchFromJson(std::string_view json);
// runs/NAME/batch.json; kNotFound when it is not there.
Result<BatchSpec> ReadBatch(const std::filesystem::path& runs, const std::string& name);
Status WriteBatch(const std::filesystem::path& runs, const std::string& name,
                  const BatchSpec& spec);
// "NAME.TASK".
std::string RunOf(const std::string& batch, const BatchTask& task);
// What the task's own run is told, but for its limits and rounds, which are shared.
SearchConfig ConfigOf(const BatchSpec& spec, const BatchTask& task);

// How a task stands, from its run.
struct TaskStanding {
  std::string task;
  double weight = 1;
  int rounds = 0;             // finished
  bool ended = false;         // converged, goals met, or its rounds are used up
  double share = 1;           // time now / time of its seed; 1 before the first
  std::vector<double> gains;  // ln(best before / best after) of each finished round
  std::vector<double> costs;  // tokens of each finished round
  double spent = 0;           // tokens, unfinished rounds included
  // What its ledger holds of each kind, reservations included: what counts against the budget.
  std::map<results::LedgerKind, double> paid;
};
// `data` is nullptr for a run that does not exist yet.
TaskStanding StandingOf(const BatchTask& task, const results::RunData* data, int max_rounds);

// The expected share of a factor (1 - 1/gain) that the next round saves, and its expected tokens.
struct Expectation {
  double saving = 0;  // of the task's own time now, 0 to 1
  double cost = 0;    // tokens
  double value = 0;   // weight x share x saving / cost
};
// `typical_cost` is a round's of any task, for one that has had none.
Expectation Expect(const TaskStanding& standing, double typical_cost);

// The limits of the next round of task `next`. What all share is nested in the task's own ledger:
// its limit is what it has spent plus what is left of the whole (LedgerSpan::kTask), so that no
// round can pass the budget of the batch, however many requests are in flight. One task runs at a
// time.
std::vector<results::LedgerLimit> LimitsOf(std::span<const TaskStanding> standings,
                                           const BatchSpec& spec, std::size_t next);

// What all tasks may spend together, and what they have spent or reserved of it.
struct SharedBudget {
  results::LedgerLimit limit;
  double spent = 0;
};
std::vector<SharedBudget> BudgetsOf(std::span<const TaskStanding> standings, const BatchSpec& spec);

// Index of the task whose round is next; none when all have ended or the budget is spent.
// Ties go to the first.
std::optional<std::size_t> NextTask(std::span<const TaskStanding> standings, const BatchSpec& spec);

}  // namespace grove::search
