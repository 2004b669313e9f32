// Two kernels side by side: what changed in source, plan and numbers. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "results/rows.h"
#include "results/show.h"

namespace grove::results {

// As `diff -u` prints it, with `context` unchanged lines around each change; empty when there is
// none. Text is made visible (format.h).
std::string UnifiedDiff(std::string_view before, std::string_view after, std::string_view from,
                        std::string_view to, int context, bool color);

// One side of the comparison.
struct DiffSide {
  const RunData* run = nullptr;
  const CandidateRow* candidate = nullptr;
  CandidateTexts texts;
};
struct DiffOptions {
  int width = 100;
  bool color = false;
  int context = 3;
};
// Verdicts, times per case (a gain only between times of one kind), registers and shared memory,
// then the sources and the plans.
std::string RenderDiff(const DiffSide& before, const DiffSide& after, const DiffOptions& options);
std::string DiffJson(const DiffSide& before, const DiffSide& after);

}  // namespace grove::results
