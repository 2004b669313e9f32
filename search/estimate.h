// What a search will spend, before it begins: how many questions its configuration asks and how
// long they are. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ideas/knowledge.h"
#include "search/config.h"
#include "seeds/task.h"

namespace grove::search {

struct Spend {
  std::int64_t calls = 0;
  std::int64_t tokens_in = 0;
  std::int64_t tokens_out = 0;
  // Of both; less than their sum where a limit binds the two together.
  std::int64_t tokens = 0;
  std::int64_t evaluations = 0;
  std::optional<double> dollars;  // none = a price is unknown
};

struct Estimate {
  // One reply per question, half the repair turns, prompts and replies of the usual length.
  Spend expected;
  // No attempt fails: every question and repair turn is asked, every reply is as long as it may be,
  // every prompt carries programs as long as those replies, and a prompt's byte is a token.
  Spend calm;
  // The same with every attempt but the last failing, billed in full each time (kMostPaid attempts
  // of a call in model_calls.h). A bound of what one session books, by the ledger's own counts; not
  // in it are hints given while the run goes on, programs of more than 8 bytes per token of the
  // longest reply, and a provider that counts more than it was allowed. A run that was interrupted
  // may ask the questions again that were in flight.
  Spend largest;
};

// Each is cut to the limits, which the ledger keeps. REQUIRES: a valid configuration.
Estimate EstimateSpend(const seeds::Task& task, const SearchConfig& config,
                       const ideas::Library& library);
// A task of a batch.
struct TaskEstimate {
  Estimate alone;       // EstimateSpend, with all the rounds that it may have
  Estimate last_round;  // EstimateLastRound of the same
};
// What the last of the configured rounds adds, without limits: no round costs more.
Estimate EstimateLastRound(const seeds::Task& task, SearchConfig config,
                           const ideas::Library& library);
// All tasks of a batch: their sum, but no more than `rounds` rounds of the dearest task (expected:
// of the mean of them), where they share so many (0 = they do not); cut to the limits that they
// share: those of `config`, and `tokens` tokens (0 = no such limit).
Estimate EstimateTogether(std::span<const TaskEstimate> tasks, int rounds,
                          const SearchConfig& config, std::int64_t tokens);

}  // namespace grove::search
