#include "search/profiling.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "search/candidate.h"

namespace grove::search {

Status ProfileParents(const ProfilingParts& parts, const std::vector<CandidateId>& parents,
                      int round, const std::stop_token& stop) {
  for (const CandidateId parent : parents) {
    const results::CandidateRow& row = *parts.tree.data().Find(parent);
    if (!row.profile.empty()) continue;
    const auto note = [&](const std::string& why) {
      return parts.tree.store().AddEvent("profile", fmt::format("{}: {}", row.name, why));
    };
    auto program = ProgramOf(parts.tree, row);
    if (!program) return Failure(std::move(program.error()));
    auto hold = parts.ledger.ReserveGpu(fmt::format("profile {}", row.name), {round, 0, CallId()},
                                        true, stop);
    if (!hold) {
      if (hold.error().code != ErrorCode::kBudget) return Failure(std::move(hold.error()));
      return note(hold.error().message);
    }
    const auto begun = std::chrono::steady_clock::now();
    auto profile = parts.profiler(*program);
    const Seconds took = std::chrono::steady_clock::now() - begun;
    if (auto settled = hold->Settle(took); !settled) return settled;
    if (!profile) {
      if (auto noted = note(profile.error().message); !noted) return noted;
      continue;
    }
    const std::string name = row.name;
    if (auto kept = parts.tree.SetProfile(parent, profile->summary, profile->report); !kept) {
      return kept;
    }
    parts.observer.Line(fmt::format("  {:<10} profiled", name));
  }
  return {};
}

std::vector<std::string> ProfilePackage(const Profiler& profiler,
                                        const eval::EvaluationPackage& package,
                                        eval::PackageResult& result, std::size_t most,
                                        std::chrono::seconds limit, const std::stop_token& stop) {
  std::vector<std::string> lines;
  std::vector<std::string> problems;
  const auto begun = std::chrono::steady_clock::now();
  for (const eval::PackagedProgram* packed : eval::WorthProfiling(package, result, most)) {
    if (stop.stop_requested()) break;
    if (std::chrono::steady_clock::now() - begun > limit) {
      problems.push_back(fmt::format("no more after {} s", limit.count()));
      break;
    }
    auto program = codegen::MakeProgram(packed->source, packed->plan);
    auto profile = program ? profiler(*program) : Failure(std::move(program.error()));
    if (!profile) {
      problems.push_back(std::move(profile.error().message));
      continue;
    }
    // Longer ones would be refused where the result is taken in.
    profile->summary.resize(std::min(profile->summary.size(), eval::kLongestSummary));
    profile->report.resize(std::min(profile->report.size(), eval::kLongestReport));
    result.profiles.push_back(
        {packed->identity, std::move(profile->summary), std::move(profile->report)});
    lines.push_back(fmt::format("  {:<10} profiled", packed->name));
  }
  for (auto problem = problems.begin(); problem != problems.end(); ++problem) {
    if (std::find(problems.begin(), problem, *problem) != problem) continue;
    lines.push_back("  not profiled: " + *problem);
  }
  return lines;
}

Status TakeProfiles(RunTree& tree, const Elsewhere& elsewhere) {
  std::map<Hash, const eval::PackageResult::Profile*> newest;
  for (const eval::PackageResult& result : elsewhere.results()) {
    for (const auto& profile : result.profiles) newest[profile.identity] = &profile;
  }
  if (newest.empty()) return {};
  std::vector<std::pair<CandidateId, const eval::PackageResult::Profile*>> found;
  for (const results::CandidateRow& row : tree.data().candidates) {
    if (!row.identity || !results::ScoreOf(row)) continue;
    const auto profile = newest.find(*row.identity);
    if (profile == newest.end() || row.profile == profile->second->summary) continue;
    found.emplace_back(row.id, profile->second);
  }
  for (const auto& [id, profile] : found) {
    if (auto kept = tree.SetProfile(id, profile->summary, profile->report); !kept) return kept;
  }
  return {};
}

}  // namespace grove::search
