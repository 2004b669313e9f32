// Hardware counters by Nsight Compute: its command-line program `ncu` profiles a worker that runs
// one candidate once (profile_run.h), and its CSV becomes a table for people and a few lines for an
// idea prompt. Chosen over CUPTI's range profiler: ncu decides the passes, knows every architecture
// and needs no library in our process. Pure functions but for RunCounters.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {

// One metric of one launch, as ncu words it.
struct CounterRow {
  int launch = 0;       // from 0, in the order of execution
  std::string kernel;   // entry point
  std::string section;  // "GPU Speed Of Light Throughput", ...
  std::string metric;   // "DRAM Throughput"
  std::string unit;     // "%", "us", "byte/second"
  double value = 0;
};

// The rows of `ncu --csv --page details`. Lines before the header (ncu's own messages, a program's
// output) and rows whose value is no number are passed over. kUnavailable with one clear line when
// the text says that counters are not permitted or that nothing was profiled.
Result<std::vector<CounterRow>> ParseCounters(std::string_view csv);

// A table: one line per metric, launches apart.
std::string CounterTable(const std::vector<CounterRow>& rows);
// One line per kernel, slowest first, at most three: "softmax: 531 us, DRAM 84% of peak, ...".
std::string CounterSummary(const std::vector<CounterRow>& rows);

// Runs ncu around `worker` on the job. kUnavailable with one line when there is no ncu, when
// counters are not permitted, or when it does not end in time. Needs the GPU to itself.
Result<std::vector<CounterRow>> RunCounters(const std::filesystem::path& worker, int ordinal,
                                            const std::string& support_cubin, const Job& job,
                                            std::chrono::milliseconds deadline);

}  // namespace grove::cuda
