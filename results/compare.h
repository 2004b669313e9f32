// Runs beside each other: best per case, tokens to a target, and what runs that differ in nothing
// but their seed say together. Times of two kinds are never compared. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/rows.h"

namespace grove::results {

struct CompareOptions {
  int width = 100;
  // Speed-up over the seed that counts as the target; none = the most that all runs reached.
  std::optional<double> target;
};

struct RunFigures {
  const RunData* run = nullptr;
  std::string group;  // the configuration without name and seed: equal for repetitions
  TimeKind kind = TimeKind::kModelled;
  int rounds = 0, candidates = 0, evaluated = 0, correct = 0;
  std::optional<Nanoseconds> seed, best;
  std::optional<double> over_seed;
  Tokens tokens;
  double dollars = 0;
  // Tokens and kernels that had been spent when a kernel first reached the target; none = never.
  std::optional<Tokens> tokens_to_target;
  std::optional<int> kernels_to_target;
};
// `target` is what options give, or the most that all runs reached; none when some run has no best.
std::optional<double> TargetOf(const std::vector<const RunData*>& runs,
                               const CompareOptions& options);
RunFigures FiguresOf(const RunData& run, std::optional<double> target);

std::string RenderComparison(const std::vector<const RunData*>& runs,
                             const CompareOptions& options);
std::string ComparisonJson(const std::vector<const RunData*>& runs, const CompareOptions& options);

}  // namespace grove::results
