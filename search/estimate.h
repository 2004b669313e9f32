// What a search will spend, before it begins: how many questions its configuration asks and how
// long they are. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "search/config.h"
#include "seeds/task.h"

namespace grove::search {

struct Spend {
  std::int64_t calls = 0;
  std::int64_t tokens_in = 0;
  std::int64_t tokens_out = 0;
  std::int64_t evaluations = 0;
  std::optional<double> dollars;  // none = a price is unknown
};

struct Estimate {
  // One reply per question, half the repair turns, replies of the usual length.
  Spend expected;
  // Every repair turn, every repeated question, every reply as long as it may be, prompts that
  // carry programs as long as those replies; then cut to the limits, which the ledger keeps.
  Spend largest;
};

// REQUIRES: a valid configuration. Prompts are the task's contract and seed beside a fixed part
// (measured on the tasks at hand: docs/models.md); a repeated attempt after an outage is not in it.
Estimate EstimateSpend(const seeds::Task& task, const SearchConfig& config);

}  // namespace grove::search
