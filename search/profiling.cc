#include "search/profiling.h"

#include <chrono>

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

}  // namespace grove::search
