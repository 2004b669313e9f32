// Which run the user means.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "results/rows.h"
#include "results/store.h"

namespace grove::cli {

// `name` when there is such a run, the run written last when it is empty. kNotFound with the
// nearest valid name.
Result<std::string> FindRun(const std::filesystem::path& runs, const std::string& name);

struct OpenedRun {
  std::unique_ptr<results::Reader> reader;
  results::RunData data;
};
// The same run, read. `name` may be a run's folder or run.db as well.
Result<OpenedRun> OpenRun(const std::filesystem::path& runs, const std::string& name);

// The kernel of that name ("r2.i3.b1", "seed"), or the best for "best". kNotFound names the
// nearest.
Result<const results::CandidateRow*> FindKernel(const results::RunData& data,
                                                const std::string& name);

}  // namespace grove::cli
