// Which kernels' changes stand in a prompt, and how large a difference of time must be to say
// anything. Functions of the rounds before the one that asks, so that a resumed run asks the same.
// REQUIRES of all: nothing writes to the tree, or the caller holds its lock.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ideas/changes.h"
#include "results/rows.h"
#include "search/run_tree.h"

namespace grove::search {

// One line: from which difference on two times count, by the rules of selection.h (ties),
// stagnation.h (what lists call a win) and eval/promotion.h (the first place). Empty without a
// time.
std::string WhatCounts(const results::CandidateRow& kernel);

struct ChangesInPrompt {
  // Kernels outside the parent's lineage whose times tie with the parent's, by score or side by
  // side; the best of each idea, fastest first.
  std::vector<ideas::Change> ties;
  // The best of other ideas: those that changed the parent, then those that changed kernels about
  // as fast, in both the farthest from its own parent first; then others, the fastest first; last
  // those within the noise of their own parents. Rewritten programs are left out.
  std::vector<ideas::Change> others;
};
// Both are limited in number, and to the newest candidates of a long run. Reads texts of the store.
Result<ChangesInPrompt> ChangesBeside(const RunTree& tree, const results::CandidateRow& parent,
                                      int round);

// The kernels of rounds before `round` that the idea's title or rationale names ("r2.i1.b1"), but
// for the parent and those that it came from, in the order in which they are named; at most four.
Result<std::vector<ideas::Change>> ChangesNamedBy(const RunTree& tree,
                                                  const results::CandidateRow& parent,
                                                  const results::IdeaRow& idea, int round);

}  // namespace grove::search
