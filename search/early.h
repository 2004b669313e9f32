// The next round's ideas asked for before a round is over (`eager`): once every idea of the round
// is known and the first share of its candidates, by number, has its verdicts, the frontier is
// chosen from those and ideas are asked for its kernels. When the round is over the frontier is
// chosen from all of it; an early answer is used where its kernel is in, and was paid in vain where
// it is not.
//
// By number, not by time: what is asked follows from the tree alone, so that a resumed run finds
// the same questions answered and a replay asks them again. The decision is also an event of the
// run
// ("eager"), for people. Thread-safe.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "search/call_pool.h"
#include "search/model_calls.h"
#include "search/policy.h"
#include "search/prompts.h"
#include "search/run_tree.h"

namespace grove::search {

// A question that was, or would have been, asked early.
struct EarlyQuestion {
  results::CallKey key;
  llm::Request request;
};

// The early questions of round `index` + 1 by parent, when the round's candidates up to `last` have
// verdicts. REQUIRES: nothing writes to `tree`, or the caller holds its lock.
Result<std::map<CandidateId, EarlyQuestion>> EarlyQuestions(const RunTree& tree,
                                                            const Policy& policy,
                                                            const Prompts& prompts,
                                                            const SearchConfig& config, int index,
                                                            RoundId round, CandidateId last);

// Which candidate ends the share: the id at place ceil(share x n) of `sorted`. Sorted, not empty.
CandidateId EndOfShare(const std::vector<CandidateId>& sorted, int percent);

// Early calls in flight. An answer is asked for once, whoever wants it.
class EarlyCalls {
 public:
  EarlyCalls(ModelCalls& calls, CallPool& pool, std::stop_token stop)
      : calls_(calls), pool_(pool), stop_(std::move(stop)) {}
  void Start(const EarlyQuestion& question);
  // Waits for a call that was started, else asks now.
  Result<ModelCalls::Answer> Get(const EarlyQuestion& question);

 private:
  ModelCalls& calls_;
  CallPool& pool_;
  const std::stop_token stop_;
  std::mutex mutex_;
  std::map<results::CallKey, std::shared_future<Result<ModelCalls::Answer>>> started_;
};

}  // namespace grove::search
