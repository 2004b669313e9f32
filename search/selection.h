// Which kernels seed the next round.
#pragma once

#include <vector>

#include "results/rows.h"
#include "results/store.h"

namespace grove::search {

// The `size` fastest passed kernels among `candidates`, best first, each program once (by
// identity); ties go to the older. Those without a score are passed over.
std::vector<results::FrontierEntry> SelectFastest(
    const std::vector<const results::CandidateRow*>& candidates, int size);

}  // namespace grove::search
