// Kernels that go on, looked at closer: on a device that measures, what a profiler says of a kernel
// of the frontier (hardware counters, machine code, what launches cost) is stored with it and
// stands in every prompt that starts from it.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"
#include "eval/package.h"
#include "results/store.h"
#include "search/elsewhere.h"
#include "search/ledger.h"
#include "search/observer.h"
#include "search/run_tree.h"

namespace grove::search {

struct KernelProfile {
  std::string summary;  // a few lines, for prompts
  std::string report;   // the whole of it, for people
};
// Has the device to itself while it runs.
using Profiler = std::function<Result<KernelProfile>(const codegen::KernelProgram&)>;

struct ProfilingParts {
  RunTree& tree;
  const Profiler& profiler;
  Ledger& ledger;
  Observer& observer;
};

// Profiles those of a round's `parents` that have no profile yet. What cannot be profiled goes on
// without: an event of the run ("profile") says why, as it does when the budget refuses the GPU
// seconds. Errors are those of the store; kCancelled on a stop. REQUIRES: nothing else writes to
// the tree or uses the device.
Status ProfileParents(const ProfilingParts& parts, const std::vector<CandidateId>& parents,
                      int round, const std::stop_token& stop);

// What the profiler says of the programs that are WorthProfiling of an evaluated package goes into
// its result. Returns lines for people: who was profiled, and each reason once why one was not.
// Looks at no further program after `limit` or on a stop. Has the device to itself.
std::vector<std::string> ProfilePackage(const Profiler& profiler,
                                        const eval::EvaluationPackage& package,
                                        eval::PackageResult& result, std::size_t most,
                                        std::chrono::seconds limit, const std::stop_token& stop);

// Profiles that came back from another machine, stored with the candidates of their programs that
// passed; the newest of a program replaces what was known of it. REQUIRES: as ProfileParents.
Status TakeProfiles(RunTree& tree, const Elsewhere& elsewhere);

}  // namespace grove::search
