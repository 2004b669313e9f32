// What compute-sanitizer says of a candidate: NVIDIA's own tool for accesses out of bounds, races
// in shared memory and reads of what nobody wrote, around a process that executes the candidate
// once on each of a few cases (profile_run.h). For holding our verdicts against another judge's.
// Thread-safe; several may run at once.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {

enum class SanitizerTool {
  kMemcheck,   // out of bounds, misaligned
  kRacecheck,  // shared memory
  kInitcheck,  // global memory that nobody wrote
  kSynccheck,  // barriers
};
std::string_view Name(SanitizerTool tool);
std::optional<SanitizerTool> SanitizerToolFromName(std::string_view name);

struct SanitizerReport {
  int errors = 0;
  int warnings = 0;                   // racecheck's hazards that need not be wrong
  std::vector<std::string> findings;  // the first lines of the first three
};

// What the worker prints once every job has run: without it and without a finding, a run proves
// nothing.
inline constexpr std::string_view kSanitizeDone = "grove-gpu-worker: all jobs have run";

// The tool's output with the worker's in it. kUnavailable when it has no summary, or one without an
// error although the worker did not get to its end; the message has the tool's or worker's words.
Result<SanitizerReport> ParseSanitizer(std::string_view text);

// Runs `jobs` in one process under `sanitizer` (the program; FindTool("compute-sanitizer")).
// kUnavailable also when it did not end within `deadline`: it is killed.
Result<SanitizerReport> RunSanitizer(const std::filesystem::path& sanitizer, SanitizerTool tool,
                                     const std::filesystem::path& worker, int ordinal,
                                     const std::string& support_cubin, const std::vector<Job>& jobs,
                                     std::chrono::milliseconds deadline);

}  // namespace grove::cuda
