#include "cli/find_run.h"

#include <vector>

#include <fmt/format.h>

#include "base/suggest.h"
#include "results/store.h"

namespace grove::cli {

Result<std::string> FindRun(const std::filesystem::path& runs, const std::string& name) {
  auto all = results::ListRuns(runs);
  if (!all) return Failure(std::move(all.error()));
  if (name.empty()) {
    for (const results::RunSummary& run : *all) {
      if (run.problem.empty()) return run.name;
    }
    return Fail(ErrorCode::kNotFound,
                fmt::format("no run in {} (start one with: grove run TASK)", runs.string()));
  }
  std::vector<std::string> names;
  for (const results::RunSummary& run : *all) {
    if (run.name == name) return name;
    names.push_back(run.name);
  }
  return Fail(ErrorCode::kNotFound, UnknownName("run", name, names) + " in " + runs.string());
}

}  // namespace grove::cli
