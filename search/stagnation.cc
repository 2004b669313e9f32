#include "search/stagnation.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace grove::search {

using results::CandidateRow;
using results::RunData;

void Stagnation::Start(double seed_time) {
  reached_ = seed_time;
  stale_ = 0;
}

void Stagnation::Round(std::optional<double> best) {
  if (best && *best < reached_ * (1 - kNoise)) {
    reached_ = *best;
    stale_ = 0;
  } else {
    ++stale_;
  }
}

IdeaId FamilyOf(const RunData& data, const CandidateRow& candidate) {
  IdeaId family;
  for (const CandidateRow* step = &candidate; step != nullptr && step->idea;
       step = data.Find(step->parent)) {
    family = step->idea;
  }
  return family;
}

std::optional<CandidateId> BestOfAnotherFamily(
    const RunTree& tree, const std::vector<results::FrontierEntry>& frontier) {
  const RunData& data = tree.data();
  std::set<IdeaId> held;
  for (const auto& entry : frontier) held.insert(FamilyOf(data, *data.Find(entry.candidate)));
  // Parents come before children, so a family is its parent's: linear in the run.
  std::unordered_map<std::int64_t, IdeaId> families;
  const CandidateRow* best = nullptr;
  for (const CandidateRow& row : data.candidates) {
    IdeaId family;
    if (row.idea) {
      family = families[row.parent.value];
      if (!family) family = row.idea;
    }
    families[row.id.value] = family;
    const auto score = results::ScoreOf(row);
    if (!score || !family || held.contains(family)) continue;
    if (best == nullptr || *score < *results::ScoreOf(*best)) best = &row;
  }
  if (best == nullptr) best = data.Seed();
  if (best == nullptr || std::any_of(frontier.begin(), frontier.end(), [&](const auto& entry) {
        return entry.candidate == best->id;
      })) {
    return std::nullopt;
  }
  return best->id;
}

}  // namespace grove::search
