#include "results/run_index.h"

#include <algorithm>
#include <set>

namespace grove::results {
namespace {

template <typename Map, typename Key>
const typename Map::mapped_type& FindOrEmpty(const Map& map, const Key& key) {
  static const typename Map::mapped_type kNone;
  const auto it = map.find(key);
  return it == map.end() ? kNone : it->second;
}

}  // namespace

RunIndex::RunIndex(const RunData& data) : data_(data) {
  for (const CandidateRow& row : data.candidates) {
    if (row.idea) children_[row.idea].push_back(&row);
  }
  for (const IdeaRow& row : data.ideas) ideas_[row.parent].push_back(&row);
  for (const AttemptRow& row : data.attempts) attempts_[row.candidate].push_back(&row);
  for (const FrontierRow& row : data.frontier) frontier_[row.candidate].push_back(&row);
  std::vector<std::pair<WallTime, std::int64_t>> ended;
  for (const CallRow& row : data.calls) {
    call_by_id_[row.id] = &row;
    if (row.key.role == llm::Role::kCode || row.key.role == llm::Role::kRepair) {
      calls_[{row.key.round, row.key.idea, row.key.branch}].push_back(&row);
    }
    if (row.ended && row.reply) ended.emplace_back(*row.ended, row.usage.total().value);
  }
  for (auto& [place, list] : calls_) {
    std::stable_sort(list.begin(), list.end(), [](const CallRow* a, const CallRow* b) {
      return std::pair(a->key.role == llm::Role::kRepair, a->key.turn) <
             std::pair(b->key.role == llm::Role::kRepair, b->key.turn);
    });
  }
  std::sort(ended.begin(), ended.end());
  std::int64_t total = 0;
  for (const auto& [moment, tokens] : ended) spent_.emplace_back(moment, total += tokens);
}

const std::vector<const CandidateRow*>& RunIndex::ChildrenOf(IdeaId idea) const {
  return FindOrEmpty(children_, idea);
}
const std::vector<const IdeaRow*>& RunIndex::IdeasFor(CandidateId parent) const {
  return FindOrEmpty(ideas_, parent);
}
const std::vector<const AttemptRow*>& RunIndex::AttemptsOf(CandidateId candidate) const {
  return FindOrEmpty(attempts_, candidate);
}
const std::vector<const FrontierRow*>& RunIndex::FrontierOf(CandidateId candidate) const {
  return FindOrEmpty(frontier_, candidate);
}

const std::vector<const CallRow*>& RunIndex::CallsOf(const CandidateRow& candidate) const {
  const RoundRow* round = RoundOf(candidate);
  const IdeaRow* idea = IdeaOf(candidate);
  // No call has this key, so the seed has none.
  if (round == nullptr || idea == nullptr) return FindOrEmpty(calls_, CallPlace{-1, -1, -1});
  return FindOrEmpty(calls_, CallPlace{round->index, idea->number, candidate.branch});
}

const CallRow* RunIndex::FindCall(CallId id) const {
  const auto it = call_by_id_.find(id);
  return it == call_by_id_.end() ? nullptr : it->second;
}

const RoundRow* RunIndex::RoundOf(const CandidateRow& candidate) const {
  return candidate.round ? data_.Find(candidate.round) : nullptr;
}
const IdeaRow* RunIndex::IdeaOf(const CandidateRow& candidate) const {
  return candidate.idea ? data_.Find(candidate.idea) : nullptr;
}
const CandidateRow* RunIndex::ParentOf(const CandidateRow& candidate) const {
  return candidate.parent ? data_.Find(candidate.parent) : nullptr;
}

std::vector<const CandidateRow*> RunIndex::Lineage(const CandidateRow& candidate) const {
  std::vector<const CandidateRow*> path;
  std::set<CandidateId> seen;
  for (const CandidateRow* at = &candidate; at != nullptr && seen.insert(at->id).second;) {
    path.push_back(at);
    at = ParentOf(*at);
  }
  return path;
}

Tokens RunIndex::TokensUntil(const CandidateRow& candidate) const {
  std::optional<WallTime> moment;
  for (const CallRow* call : CallsOf(candidate)) {
    if (call->ended) moment = std::max(moment.value_or(*call->ended), *call->ended);
  }
  if (!moment) return Tokens(0);
  const auto after =
      std::upper_bound(spent_.begin(), spent_.end(), *moment,
                       [](const WallTime& time, const auto& entry) { return time < entry.first; });
  return Tokens(after == spent_.begin() ? 0 : std::prev(after)->second);
}

}  // namespace grove::results
