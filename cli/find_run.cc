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
  std::error_code ignored;
  if (results::CheckRunName(name) && std::filesystem::is_directory(runs / name, ignored)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} has no run.db: deleted in part, or no run of grove",
                            (runs / name).string()));
  }
  return Fail(ErrorCode::kNotFound, UnknownName("run", name, names) + " in " + runs.string());
}

Result<OpenedRun> OpenRun(const std::filesystem::path& runs, const std::string& name) {
  std::filesystem::path folder;
  std::error_code ignored;
  if (name.find('/') != std::string::npos && std::filesystem::exists(name, ignored)) {
    folder = name;
  } else {
    auto found = FindRun(runs, name);
    if (!found) return Failure(std::move(found.error()));
    folder = runs / *found;
  }
  auto reader = results::Reader::Open(folder);
  if (!reader) return Failure(std::move(reader.error()));
  auto data = (*reader)->Load();
  if (!data) return Failure(std::move(data.error()));
  return OpenedRun{std::move(*reader), std::move(*data)};
}

Result<const results::CandidateRow*> FindKernel(const results::RunData& data,
                                                const std::string& name) {
  const results::CandidateRow* candidate = name == "best" ? data.Best() : data.FindCandidate(name);
  if (candidate != nullptr) return candidate;
  if (name == "best") return Fail(ErrorCode::kNotFound, "no kernel has passed yet");
  std::vector<std::string> names = {"best"};
  for (const results::CandidateRow& row : data.candidates) names.push_back(row.name);
  std::string message = fmt::format("unknown kernel '{}' in run {}", name, data.run.name);
  if (const std::string near = Nearest(name, names); !near.empty()) {
    message += fmt::format("; did you mean '{}'?", near);
  }
  return Fail(ErrorCode::kNotFound,
              message + fmt::format(" (grove tree {} lists them)", data.run.name));
}

}  // namespace grove::cli
