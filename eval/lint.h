// Whether a task is fit to be searched: its text, its cases, its reference and its seed. What a
// search takes for granted is tried here, on the check cases alone and in the emulator:
//   text        summary, contract that names every tensor, baselines, cost, a case for every stage
//   reference   is finite in the type of its outputs, has a scale (its outputs are not all zero in
//               smoke and sweep cases), and depends on every input that is not constant
//   answers     that read nothing are refused in every smoke and sweep case: zeros, the mean of the
//               right answer everywhere, and the right answer for other inputs (where a checker
//               decides instead of a reference: zeros, by a program that writes them)
//   seed        passes every check
// Baselines by another implementation are a matter of tests (tests/seeds/independent_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/device.h"
#include "seeds/task.h"

namespace grove::eval {

struct LintOptions {
  // Of each suite only the smoke case and the cheapest sweep, stability and edge case.
  bool small = false;
  std::uint64_t seed = 1;  // of the inputs
};

struct LintFinding {
  std::string check;      // "text", "reference", "answers" or "seed"
  std::string suite;      // empty for the whole task
  std::string case_name;  // empty for all
  std::string message;    // what is wrong and what to do
};

struct LintReport {
  std::vector<LintFinding> findings;  // empty: the task is fit
  int cases = 0;                      // that were run
  // Smallest and largest root mean square of an output over smoke and sweep cases.
  double smallest_scale = 0, largest_scale = 0;
};

// An Error is ours (no compiler) or a task that cannot run at all: a reference that does not
// compile or faults is a finding.
Result<LintReport> Lint(const seeds::Task& task, codegen::Compiler& compiler,
                        const LintOptions& options);

// The reference of one case compiled, for EmulateReference (eval/emulator_device.h). The task is
// borrowed by the result. kInvalidInput when it does not compile or fit the case.
Result<CaseContext> PrepareReference(const seeds::Task& task, std::size_t case_index,
                                     codegen::Compiler& compiler, const std::string& arch);

// The findings about the text alone; no compiler needed.
std::vector<LintFinding> LintText(const seeds::Task& task);

}  // namespace grove::eval
