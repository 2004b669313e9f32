// The case portfolio: when different kernels win different scored cases, their combination may beat
// each of them. It is a candidate like any other: an idea and a program in the tree, compiled,
// checked and timed, kept or pruned by the policy.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/evaluator.h"
#include "results/rows.h"
#include "search/ledger.h"
#include "search/observer.h"
#include "search/run_tree.h"

namespace grove::search {

struct PortfolioPart {
  const results::CandidateRow* kernel = nullptr;
  std::string when;                // over dims; empty = every other case, the last part's
  std::vector<std::string> cases;  // the scored ones that it is for
};
struct Portfolio {
  std::vector<PortfolioPart> parts;  // two or more
  double gain = 1;                   // expected, over the best kernel: ratio of times
  std::string title;                 // "Combine by case: r2.i1.b1 for n512, seed for the rest"
};

// What combining pays: a case goes to another kernel than the best one where that is faster by more
// than 1% and the noise; none when that gains less than 1% over all, or no dim tells the cases
// apart. Conditions are thresholds halfway between the cases' dims where one dim separates them,
// so that the sizes in between are covered, else the exact dims. Kernels that are combinations
// themselves are not taken apart or nested. Pure function.
std::optional<Portfolio> PlanPortfolio(const results::RunData& data);

// Without a value: it is awaited from another machine.
using EvaluateProgram = std::function<Result<std::optional<eval::Evaluation>>(
    const std::string& name, const codegen::KernelProgram& program)>;

struct PortfolioParts {
  RunTree& tree;
  EvaluateProgram evaluate;
  Ledger& ledger;
  Observer& observer;
  bool on_gpu = false;  // its seconds are counted
};

// Builds, evaluates and records the combination as a candidate of the round, when there is one to
// build that the run has not tried and the budget has room for. `number`: of its idea in the round.
// Called again after a kill it does what is left. false: it is awaited from another machine, and
// this is to be called again when that has answered. REQUIRES: nothing else writes to the tree.
Result<bool> AddPortfolio(const PortfolioParts& parts, RoundId round, int number,
                          const std::stop_token& stop);

}  // namespace grove::search
