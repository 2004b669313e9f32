// The idea tree as text: rounds, their ideas with credit, the ideas' candidates with verdict and
// time. Pure functions of the plain rows. Text of models is made visible (format.h) and cut to the
// width; names, verdicts and times are cut last.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "results/rows.h"

namespace grove::results {

struct TreeOptions {
  int width = 100;           // columns of the terminal; at least 20 are used
  bool color = false;        // ANSI colours; they take no columns
  bool ascii = false;        // branches of the tree as |-- and `-- instead of box characters
  std::optional<int> round;  // this round only (its index)
  bool best_path = false;    // only what leads from the seed to the best candidate
  int depth = 3;             // 1 = rounds, 2 = and ideas, 3 = and candidates
  // Why a candidate was kept or not (search/policy.h); a line of its own below it unless empty.
  std::function<std::string(const CandidateRow&)> explain;
};

// Lines end with '\n'; none is wider than the width.
std::string RenderTree(const RunData& data, const TreeOptions& options);

// The whole tree for programs: JSON, UTF-8 (what is no UTF-8 is replaced), units in the names.
std::string TreeJson(const RunData& data);

}  // namespace grove::results
