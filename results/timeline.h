// What happened in a run, in order: the events that the search wrote down, and between them what
// the rows tell: when the run and its rounds began and ended, and what people said to it. Pure
// function.
#pragma once

#include <vector>

#include "results/rows.h"

namespace grove::results {

// By time, oldest first; rows that are no events have id 0 and the kinds "run", "round" (with what
// came of it and who seeds the next) or that of a hint. Texts are foreign: show them by Visible().
std::vector<EventRow> Timeline(const RunData& run);

}  // namespace grove::results
