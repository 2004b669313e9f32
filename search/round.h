// One round of a search, without a barrier inside: an idea that a reply holds whole is implemented
// at once, a program whose reply has ended is compiled at once, checked when compiled, timed when
// correct, and sent back for repair when it failed; each step waits for its own input only. Model
// calls block threads of a CallPool, evaluations run in Stages.
//
// What comes of it does not depend on the order in which things finish: numbers follow the place of
// the parent and the place of the idea in its reply; of equal programs the one with the lowest name
// has the verdict and the others are its duplicates, whichever came first, and it is evaluated
// once. A program that failed is judged for each of its candidates, since each may repair it
// another way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "search/call_pool.h"
#include "search/config.h"
#include "search/early.h"
#include "search/model_calls.h"
#include "search/observer.h"
#include "search/prompts.h"
#include "search/run_tree.h"
#include "search/stages.h"

namespace grove::search {

class Elsewhere;
class Steering;

// A question for ideas is asked so often at most: again when ideas were refused, or none was there.
inline constexpr int kIdeaTurns = 2;

// What the rounds of a search share; borrowed.
struct RoundParts {
  const SearchConfig& config;
  RunTree& tree;
  const Prompts& prompts;
  ModelCalls& calls;
  CallPool& pool;
  Stages& stages;
  Observer& observer;
  // Tells the observer what moved; locks.
  std::function<void(const std::function<void(LiveState&)>&)> update;
  // Asks everything in flight to end: the user's stop, or an error.
  std::stop_source& halt;
  EarlyCalls& early;
  // Called once, on a thread for model calls, when the round's candidates up to `last` have their
  // verdicts and `eager` says so. May be empty.
  std::function<Status(RoundId round, CandidateId last)> on_share;
  const Steering* steering = nullptr;  // asked before each question to a model; may be none
  // The device is a GPU, whose seconds are counted.
  bool measured = false;
  Elsewhere* elsewhere = nullptr;  // programs are evaluated on another machine
};

struct RoundPlan {
  int index = 0;
  std::vector<CandidateId> parents;            // in order of place
  bool radical = false;                        // ask the adviser
  std::string goal;                            // for the prompts; may be empty
  std::map<CandidateId, EarlyQuestion> early;  // asked before the round began, by parent
};

class Round {
 public:
  Round(const RoundParts& parts, RoundPlan plan);
  ~Round();  // REQUIRES: Run has returned
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // Runs until every candidate of the round has its verdict, or nothing is in flight any more after
  // an error, a stop (kCancelled) or the end of the budget. The round is begun in the store, not
  // finished: what comes next is the caller's decision.
  Status Run();
  RoundId id() const;
  // Candidates whose programs are awaited from another machine: then the round is not at its end.
  int awaited() const;
  // Why nothing new was started; none while the budget lasts.
  std::optional<std::string> budget() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::search
