// One kernel closer: what its modes and launches say, the instructions of its cubin, and hardware
// counters where they are permitted. For `grove profile`, and for the frontier of a live run.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/workbench.h"
#include "search/profiling.h"

namespace grove::cli {

struct KernelLook {
  search::KernelProfile profile;
  eval::TimeOutcome outcome;     // without a fault
  std::string counters_problem;  // why there are no hardware counters; empty = there are
};
// Times `program` on `case_name`, a timed case of the bench's evaluator. kInvalidInput when it does
// not fit the case, kUnavailable when it does not run.
Result<KernelLook> LookAt(Workbench& bench, const codegen::KernelProgram& program,
                          const std::string& case_name, std::uint64_t seed);

// For a search on `bench`, which must outlive it: looks at the first timed case. Where kernels are
// evaluated `elsewhere`, the bench's own device says nothing of them: only their machine code does.
search::Profiler ProfilerOf(Workbench& bench, std::uint64_t seed, bool elsewhere);

}  // namespace grove::cli
