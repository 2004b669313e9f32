// Which kernels seed the next round, behind one interface. A policy is a pure function of what is
// stored: it keeps no state of its own, so a run that was killed, resumed or replayed chooses the
// same kernels again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::search {

class Policy {
 public:
  virtual ~Policy() = default;
  // The frontier after round `index` (from 1), best place first; never empty, since the seed
  // passed. `data` holds every evaluated candidate of that round and the rounds before, and their
  // frontiers. Each entry says in words why it was kept.
  virtual std::vector<results::FrontierEntry> Select(const results::RunData& data,
                                                     int index) const = 0;
};

// The policy that `config` names. kInvalidInput for an unknown one.
Result<std::unique_ptr<Policy>> MakePolicy(const SearchConfig& config);

// The `size` fastest passed kernels among `candidates`, best first, each program once (by
// identity); ties go to the older. Those without a score are passed over.
std::vector<results::FrontierEntry> SelectFastest(
    const std::vector<const results::CandidateRow*>& candidates, int size);

}  // namespace grove::search
