// The search over one task: rounds of ideas, candidates, evaluation and selection, written to the
// run's store step by step. Running it again on the store of a run that stopped or was killed goes
// on where it was: what was answered is not asked again, what was evaluated is not evaluated again.
//
// A round:  frontier kernel -> ideas -> candidates (ideas x branches) -> verdicts -> next frontier
// without a barrier between the steps (search/round.h). The same replies give the same tree:
// numbers follow the place in the frontier, never the order in which things finish.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "eval/evaluator.h"
#include "llm/client.h"
#include "results/store.h"
#include "search/config.h"
#include "search/observer.h"
#include "search/profiling.h"
#include "seeds/task.h"

namespace grove::search {

class Elsewhere;
class Steering;

// How long the store of a live search may keep a transition for others to be committed with it
// (results/store.h). Short beside any reply, long beside a transition.
inline constexpr std::chrono::milliseconds kLinger{5};

// Everything a search works with; borrowed, must outlive it.
struct SearchParts {
  const seeds::Task& task;
  const eval::Evaluator& evaluator;
  const eval::Device& device;
  llm::Client& client;
  results::Store& store;
  Observer& observer;
  Steering* steering = nullptr;  // what the user tells a live run (search/steering.h); may be none
  Profiler profiler = {};        // for kernels of the frontier on a GPU; may be empty
  // Programs are evaluated on another machine (search/elsewhere.h); `evaluator` compiles and
  // screens only, and `device` is an emulator of the GPU that is there.
  Elsewhere* elsewhere = nullptr;
};

struct SearchSummary {
  results::RunStatus status = results::RunStatus::kFinished;
  std::string reason;  // why it ended, in words
  bool spent = false;  // a limit of its budget is why
  int rounds = 0;      // finished
  std::string best;    // name of the best kernel
  std::optional<Nanoseconds> best_time, seed_time;
  results::TimeKind kind = results::TimeKind::kModelled;  // of both
  bool awaits = false;  // it stopped because another machine is to evaluate programs
};

class RunTree;

// One search, round by round, for those who share a machine or a budget between several. Not
// thread-safe. The parts are borrowed and must outlive it.
class Search {
 public:
  Search(const SearchParts& parts, const SearchConfig& config);
  ~Search();  // waits for what is in flight
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Reads the run and evaluates the task's seed if that is not done. kInvalidInput when the seed
  // does not pass or the configuration is wrong. First, once.
  Status Open();
  // Why there is no next round: its rounds are done, it has converged, its budget is spent.
  std::optional<std::string> Ended() const;
  // One more round, or the rest of the one that was interrupted. After an Error (kCancelled on a
  // stop) the run is resumable and this object is at its end. REQUIRES: not Ended().
  Status RunRound(std::stop_token stop);
  // Open or RunRound ended with kCancelled because of programs that another machine is to evaluate.
  bool Awaits() const;
  SearchSummary Summary() const;  // status and reason are the caller's to fill
  const RunTree& tree() const;    // REQUIRES: Open succeeded

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs to the configured number of rounds, until it has converged (search/stagnation.h), to the end
// of its budget (status kFinished, reason "budget: ..."), to a stop request (status kInterrupted,
// resumable), or until nothing goes on without what another machine finds (kStopped, resumable).
// kInvalidInput when the task's own seed does not pass. Any other Error (disk, device, model
// endpoint) leaves the run resumable as well; its status says why.
Result<SearchSummary> RunSearch(const SearchParts& parts, const SearchConfig& config,
                                std::stop_token stop);

// The first message of a run: what results::Store::Create needs to know.
results::RunStart MakeRunStart(const std::string& name, const seeds::Task& task,
                               const SearchConfig& config, const std::string& program_version);

}  // namespace grove::search
