#include "search/selection.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "results/format.h"

namespace grove::search {

std::vector<results::FrontierEntry> SelectFastest(
    const std::vector<const results::CandidateRow*>& candidates, int size) {
  std::vector<const results::CandidateRow*> scored;
  for (const results::CandidateRow* candidate : candidates) {
    if (results::ScoreOf(*candidate)) scored.push_back(candidate);
  }
  std::sort(scored.begin(), scored.end(), [](const auto* a, const auto* b) {
    const auto time_a = results::ScoreOf(*a)->count();
    const auto time_b = results::ScoreOf(*b)->count();
    return time_a != time_b ? time_a < time_b : a->id < b->id;
  });
  std::vector<results::FrontierEntry> frontier;
  std::set<Hash> programs;
  std::set<CandidateId> ids;
  for (const results::CandidateRow* candidate : scored) {
    if (static_cast<int>(frontier.size()) == size) break;
    if (!ids.insert(candidate->id).second) continue;
    if (candidate->identity && !programs.insert(*candidate->identity).second) continue;
    results::FrontierEntry entry;
    entry.candidate = candidate->id;
    entry.why = fmt::format("number {} by time: {}", frontier.size() + 1,
                            results::FormatTime(*results::ScoreOf(*candidate)));
    frontier.push_back(std::move(entry));
  }
  return frontier;
}

}  // namespace grove::search
