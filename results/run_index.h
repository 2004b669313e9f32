// Who belongs to whom in a run, found once instead of searched for again and again: what report,
// harvest and exports walk along. Holds pointers into a RunData, which must outlive it and stay
// unchanged. Safe to share for reading.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "results/rows.h"

namespace grove::results {

class RunIndex {
 public:
  explicit RunIndex(const RunData& data);

  // In ascending order of id; empty when there is none.
  const std::vector<const CandidateRow*>& ChildrenOf(IdeaId idea) const;
  const std::vector<const IdeaRow*>& IdeasFor(CandidateId parent) const;
  const std::vector<const AttemptRow*>& AttemptsOf(CandidateId candidate) const;
  const std::vector<const FrontierRow*>& FrontierOf(CandidateId candidate) const;
  // The requests that led to the candidate's program: code first, then its repairs by turn.
  const std::vector<const CallRow*>& CallsOf(const CandidateRow& candidate) const;
  const CallRow* FindCall(CallId id) const;

  const RoundRow* RoundOf(const CandidateRow& candidate) const;
  const IdeaRow* IdeaOf(const CandidateRow& candidate) const;
  const CandidateRow* ParentOf(const CandidateRow& candidate) const;

  // From the candidate up to the seed, both included. Ends where a damaged file's links go round in
  // a circle.
  std::vector<const CandidateRow*> Lineage(const CandidateRow& candidate) const;

  // Tokens of every answered call that ended no later than the last call of the candidate: what the
  // search had spent when it was written. 0 for the seed.
  Tokens TokensUntil(const CandidateRow& candidate) const;

 private:
  using CallPlace = std::tuple<int, int, int>;  // round index, idea number, branch
  const RunData& data_;
  std::unordered_map<IdeaId, std::vector<const CandidateRow*>> children_;
  std::unordered_map<CandidateId, std::vector<const IdeaRow*>> ideas_;
  std::unordered_map<CandidateId, std::vector<const AttemptRow*>> attempts_;
  std::unordered_map<CandidateId, std::vector<const FrontierRow*>> frontier_;
  std::map<CallPlace, std::vector<const CallRow*>> calls_;
  std::unordered_map<CallId, const CallRow*> call_by_id_;
  std::vector<std::pair<WallTime, std::int64_t>> spent_;  // moment, tokens up to and with it
};

}  // namespace grove::results
