// The tree of a live run in memory, beside its store: every transition goes through here, is stored
// in one transaction and then applied to the rows in memory, so that nothing is read back while a
// search runs and a step costs the same in the first round and in the last. The store has a
// transition a moment before data() shows it: writers wait for the store alone, not for each other.
//
// Thread-safe: transitions may come from any thread. A reader of data() holds Lock(), or knows that
// no transition is under way (between rounds). Pointers into data() end with the next transition.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ideas/novelty.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/makeup.h"

namespace grove::search {

class RunTree {
 public:
  // Reads what the store holds; borrows it.
  static Result<std::unique_ptr<RunTree>> Open(results::Store& store);

  [[nodiscard]] std::unique_lock<std::mutex> Lock() const {
    return std::unique_lock<std::mutex>(mutex_);
  }
  // Rows sorted by id. Of calls and ledger only what was there at the start.
  const results::RunData& data() const { return data_; }
  results::Store& store() const { return store_; }
  // A text of the store. Those asked for last are kept: one round's prompts read the same kernels
  // again and again. Needs no Lock().
  Result<std::string> Text(const Hash& hash) const;

  // Indexed, so that none of these costs more as the run grows.
  std::vector<const results::CandidateRow*> SiblingsOf(IdeaId idea) const;
  std::vector<const results::IdeaRow*> IdeasFrom(CandidateId parent) const;  // oldest first
  // Whether anything is known of an idea of a finished round: not when the budget, or its share of
  // it, was spent before anybody wrote or evaluated a program of it.
  bool WasTried(const results::IdeaRow& idea) const;
  // What novelty compares of the ideas that were tried from `parent` in other rounds. They live as
  // long as this.
  std::vector<const ideas::Gist*> GistsFrom(CandidateId parent, RoundId except) const;
  const results::CandidateRow* Best() const;  // as RunData::Best
  // The oldest candidate of another round with this program and a verdict of its own; nullptr when
  // there is none.
  const results::CandidateRow* WithProgram(const Hash& identity, RoundId except) const;
  std::vector<const results::AttemptRow*> AttemptsOf(CandidateId candidate) const;  // by turn
  // What `kernel` is made of. Valid as long as this.
  const Makeup& MakeupOf(const results::CandidateRow& kernel) const;
  // The oldest candidate that passed and is made of the ideas of `parent`'s lineage and `title`, in
  // whatever order; nullptr when there is none, or when the title is in the lineage already.
  const results::CandidateRow* MadeOf(CandidateId parent, std::string_view title) const;

  // A copy as of a moment at which of round `round` only the candidates up to `last`, and the ideas
  // that have one of them, were there, and of later rounds nothing. For reading. Linear in the run.
  // REQUIRES: as data().
  std::unique_ptr<RunTree> Until(RoundId round, CandidateId last) const;

  // --- transitions, as those of results::Store ---
  Result<CandidateId> RecordSeed(const results::ProgramDraft& program);
  Result<RoundId> BeginRound(int index);
  // Marks the hints that nobody used yet as used in `round`, and shows all of its hints in data().
  Status TakeHints(RoundId round);
  Status FinishRound(RoundId round, const std::vector<results::FrontierEntry>& frontier,
                     bool cut = false);
  // See Store::ReopenRound.
  Result<bool> ReopenRound(RoundId round);
  // REQUIRES: draft.number and draft.ordinal are set. The stored idea, when the ordinal has one.
  // What call it came from, Link says.
  Result<results::IdeaRow> AddIdea(RoundId round, CandidateId parent,
                                   const results::IdeaDraft& draft);
  // See Store::LinkIdeas.
  Status Link(std::span<const IdeaId> ideas, CallId call);
  // Branches 1 to `branches` of an idea. Copies of the rows, which may be further on when a run is
  // resumed.
  Result<std::vector<results::CandidateRow>> Request(const results::IdeaRow& idea, int branches);
  Status Receive(CandidateId candidate, const results::ProgramDraft& program);
  Status Attempt(CandidateId candidate, const results::ProgramDraft& program,
                 const eval::Verdict& verdict, const std::string& report);
  // See Store::RecordVerdict.
  Status Conclude(CandidateId candidate, const results::EvaluationRow& evaluation,
                  std::span<const results::Amount> cost = {},
                  const results::LedgerScope& scope = {});
  // See Store::MoveVerdict.
  Status Move(CandidateId from, CandidateId to);
  // See Store::RecordProfile.
  Status SetProfile(CandidateId candidate, const std::string& summary, const std::string& report);
  // A contest for the first place; Best follows it. Linear in the run.
  Status RecordContest(const results::PromotionRow& contest);

 private:
  explicit RunTree(results::Store& store) : store_(store) {}
  static std::unique_ptr<RunTree> From(results::Store& store, results::RunData data);
  results::CandidateRow& Row(CandidateId id);
  void Index(const results::CandidateRow& row);
  void Rank(const results::CandidateRow& row);
  void Make(const results::CandidateRow& row);
  void AddMakeup(const results::IdeaRow& idea);

  results::Store& store_;
  mutable std::mutex mutex_;
  results::RunData data_;
  std::unordered_map<std::int64_t, std::vector<CandidateId>> siblings_;  // by idea
  std::unordered_map<std::int64_t, std::vector<IdeaId>> ideas_;          // by parent
  std::unordered_map<std::int64_t, std::vector<results::AttemptRow>> attempts_;
  std::unordered_map<std::uint64_t, std::vector<CandidateId>> programs_;  // by identity.low
  std::unordered_map<std::int64_t, Makeup> makeups_;  // by idea, of its candidates
  std::map<Makeup, std::vector<CandidateId>> made_;   // of candidates that passed
  std::optional<CandidateId> best_;
  mutable std::unordered_map<std::int64_t, ideas::Gist> gists_;  // by idea, those asked for
  mutable std::mutex texts_mutex_;
  mutable std::deque<std::pair<Hash, std::string>> texts_;  // GUARDED_BY(texts_mutex_)
};

}  // namespace grove::search
