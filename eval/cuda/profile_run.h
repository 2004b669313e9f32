// `grove-gpu-worker profile FILE`: one execution of one candidate on one case between the driver's
// profiler start and stop, for a profiler around this process (counters.h). Before it, the same
// execution once without, so that loading is over.
//
// `grove-gpu-worker sanitize FILE...`: one execution of each job, one after the other, for
// compute-sanitizer around this process (sanitizer.h). Every buffer is an allocation of its own and
// nothing but the inputs is written before the candidate runs, so that the tool sees what lies
// outside and what nobody wrote.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {

struct ProfileJob {
  int ordinal = 0;
  std::string support_cubin;
  TimeJob job;  // its case, candidate, seed and deadline; the rest is not used
};
// The file's content; of the same build as its reader, as everything of protocol.h.
std::string EncodeProfileJob(int ordinal, const std::string& support_cubin, const Job& job);
Result<ProfileJob> DecodeProfileJob(std::string_view bytes);

// Runs it; an Error says what failed, the candidate's own faults included.
Status RunProfileJob(const std::filesystem::path& file);
// The same without a profiler. REQUIRES: all jobs are of one GPU.
Status RunSanitizeJobs(const std::vector<std::filesystem::path>& files);

}  // namespace grove::cuda
