#include "search/policy.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/suggest.h"
#include "results/format.h"

namespace grove::search {
namespace {

// The fastest of the round and of the frontier that it started from.
class Beam : public Policy {
 public:
  explicit Beam(int size) : size_(size) {}
  std::vector<results::FrontierEntry> Select(const results::RunData& data,
                                             int index) const override {
    const auto number = [&](RoundId id) { return data.Find(id)->index; };
    std::vector<const results::CandidateRow*> pool;
    for (const results::FrontierRow& row : data.frontier) {
      if (number(row.round) == index - 1) pool.push_back(data.Find(row.candidate));
    }
    if (index == 1) pool.push_back(data.Seed());
    for (const results::CandidateRow& candidate : data.candidates) {
      if (candidate.round && number(candidate.round) == index) pool.push_back(&candidate);
    }
    return SelectFastest(pool, size_);
  }

 private:
  int size_;
};

}  // namespace

Result<std::unique_ptr<Policy>> MakePolicy(const SearchConfig& config) {
  if (config.policy == "beam") return std::make_unique<Beam>(config.frontier);
  static const std::vector<std::string> kPolicies = {"beam"};
  return Fail(ErrorCode::kInvalidInput, UnknownName("policy", config.policy, kPolicies));
}

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
