// Several programs as one, each for some cases: the case portfolio's combination. Every program
// keeps its own text: since each case is compiled by itself, the source of the others is cut out by
// the preprocessor, so that entry points, helpers and macros of equal names never meet, and the
// plan's variants are chosen by the same condition. Nothing is renamed. Thread-safe, pure.
//
//   #if GROVE_DIM_N <= 1280          {"variants": [{"when": "N<=1280", ...first's plan...},
//   ...first's source...                           {...second's plan...}]}
//   #else
//   ...second's source...
//   #endif
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/program.h"

namespace grove::codegen {

struct CombinePart {
  std::string name;                        // "r2.i3.b1", for the comment above its source
  const KernelProgram* program = nullptr;  // borrowed
  // Over dims and dtype names as in a plan's `when`; empty = all other cases (the last part's).
  std::string when;
};

// `when` as the preprocessor reads it, by the macros of the prelude: "N <= 4 && f32" becomes
// "GROVE_DIM_N <= 4 && GROVE_IS_f32". kInvalidInput for what is no expression, or uses functions
// or ?:, which the preprocessor has not.
Result<std::string> PreprocessorCondition(std::string_view when);

// REQUIRES: two parts or more, each but the last with a condition. kInvalidInput when one is
// missing or wrong, or the whole is too large for a program.
Result<KernelProgram> Combine(std::span<const CombinePart> parts);

}  // namespace grove::codegen
