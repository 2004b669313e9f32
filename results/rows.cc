#include "results/rows.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include <fmt/format.h>

namespace grove::results {
namespace {

template <typename E>
struct Word {
  E value;
  std::string_view name;
};

constexpr Word<RunStatus> kRunStatus[] = {{RunStatus::kRunning, "running"},
                                          {RunStatus::kStopped, "stopped"},
                                          {RunStatus::kFinished, "finished"},
                                          {RunStatus::kInterrupted, "interrupted"}};
constexpr Word<RoundStatus> kRoundStatus[] = {{RoundStatus::kRunning, "running"},
                                              {RoundStatus::kFinished, "finished"}};
constexpr Word<CandidateStatus> kCandidateStatus[] = {{CandidateStatus::kRequested, "requested"},
                                                      {CandidateStatus::kReceived, "received"},
                                                      {CandidateStatus::kEvaluated, "evaluated"}};
constexpr Word<CallStatus> kCallStatus[] = {{CallStatus::kPending, "pending"},
                                            {CallStatus::kAnswered, "answered"},
                                            {CallStatus::kFailed, "failed"}};
constexpr Word<TimeKind> kTimeKind[] = {{TimeKind::kModelled, "modelled"},
                                        {TimeKind::kMeasured, "measured"}};
constexpr Word<FrontierKind> kFrontierKind[] = {{FrontierKind::kFastest, "fastest"},
                                                {FrontierKind::kReserve, "reserve"}};
constexpr Word<LedgerKind> kLedgerKind[] = {
    {LedgerKind::kTokens, "tokens"},          {LedgerKind::kDollars, "dollars"},
    {LedgerKind::kGpuSeconds, "gpu_seconds"}, {LedgerKind::kEvaluations, "evaluations"},
    {LedgerKind::kTokensIn, "tokens_in"},     {LedgerKind::kTokensOut, "tokens_out"},
    {LedgerKind::kSeconds, "seconds"}};
constexpr Word<TimingMode> kTimingMode[] = {{TimingMode::kCold, "cold"},
                                            {TimingMode::kHot, "hot"},
                                            {TimingMode::kGraph, "graph"},
                                            {TimingMode::kHost, "host"}};

template <typename E, std::size_t N>
std::string_view NameIn(const Word<E> (&words)[N], E value) {
  for (const auto& word : words) {
    if (word.value == value) return word.name;
  }
  return "unknown";
}

template <typename E, std::size_t N>
std::optional<E> FindIn(const Word<E> (&words)[N], std::string_view name) {
  for (const auto& word : words) {
    if (word.name == name) return word.value;
  }
  return std::nullopt;
}

// For enums of other folders, which have Name() only: tries each value up to the last.
template <typename E>
std::optional<E> FindUpTo(E last, std::string_view name) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (Name(static_cast<E>(i)) == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

template <typename Row, typename RowId>
const Row* FindById(const std::vector<Row>& rows, RowId id) {
  const auto it = std::lower_bound(rows.begin(), rows.end(), id,
                                   [](const Row& row, RowId wanted) { return row.id < wanted; });
  return it != rows.end() && it->id == id ? &*it : nullptr;
}

template <typename Row>
const Row* FindByName(const std::vector<Row>& rows, std::string_view name) {
  const auto it =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

std::string_view Name(RunStatus value) { return NameIn(kRunStatus, value); }
std::string_view Name(RoundStatus value) { return NameIn(kRoundStatus, value); }
std::string_view Name(CandidateStatus value) { return NameIn(kCandidateStatus, value); }
std::string_view Name(CallStatus value) { return NameIn(kCallStatus, value); }
std::string_view Name(TimeKind value) { return NameIn(kTimeKind, value); }
std::string_view Name(FrontierKind value) { return NameIn(kFrontierKind, value); }
std::string_view Name(LedgerKind value) { return NameIn(kLedgerKind, value); }
std::string_view Name(TimingMode value) { return NameIn(kTimingMode, value); }

template <>
std::optional<RunStatus> FromName(std::string_view name) {
  return FindIn(kRunStatus, name);
}
template <>
std::optional<RoundStatus> FromName(std::string_view name) {
  return FindIn(kRoundStatus, name);
}
template <>
std::optional<CandidateStatus> FromName(std::string_view name) {
  return FindIn(kCandidateStatus, name);
}
template <>
std::optional<CallStatus> FromName(std::string_view name) {
  return FindIn(kCallStatus, name);
}
template <>
std::optional<TimeKind> FromName(std::string_view name) {
  return FindIn(kTimeKind, name);
}
template <>
std::optional<FrontierKind> FromName(std::string_view name) {
  return FindIn(kFrontierKind, name);
}
template <>
std::optional<LedgerKind> FromName(std::string_view name) {
  return FindIn(kLedgerKind, name);
}
template <>
std::optional<TimingMode> FromName(std::string_view name) {
  return FindIn(kTimingMode, name);
}
template <>
std::optional<eval::Stage> FromName(std::string_view name) {
  return FindUpTo(eval::Stage::kScreen, name);
}
template <>
std::optional<eval::VerdictKind> FromName(std::string_view name) {
  return eval::VerdictKindFromName(name);
}
template <>
std::optional<eval::Contest> FromName(std::string_view name) {
  return FindUpTo(eval::Contest::kFault, name);
}
template <>
std::optional<llm::Role> FromName(std::string_view name) {
  return FindUpTo(llm::Role::kAdviser, name);
}
template <>
std::optional<llm::FinishReason> FromName(std::string_view name) {
  return FindUpTo(llm::FinishReason::kOther, name);
}

RunStatus RunInfo::effective_status() const {
  return status == RunStatus::kRunning && !live ? RunStatus::kInterrupted : status;
}

std::string ToString(const CallKey& key) {
  return fmt::format("{} r{}.p{}.i{}.b{}.t{}", llm::Name(key.role), key.round, key.parent, key.idea,
                     key.branch, key.turn);
}

const RoundRow* RunData::Find(RoundId id) const { return FindById(rounds, id); }
const IdeaRow* RunData::Find(IdeaId id) const { return FindById(ideas, id); }
const CandidateRow* RunData::Find(CandidateId id) const { return FindById(candidates, id); }
const CandidateRow* RunData::FindCandidate(std::string_view name) const {
  return FindByName(candidates, name);
}
const IdeaRow* RunData::FindIdea(std::string_view name) const { return FindByName(ideas, name); }
const CandidateRow* RunData::Seed() const { return FindCandidate("seed"); }

const CandidateRow* RunData::Best(std::optional<TimeKind> kind) const {
  if (!kind) {
    const CandidateRow* seed = Seed();
    if (seed != nullptr && ScoreOf(*seed)) {
      kind = seed->evaluation->score_kind;
    } else {
      const CandidateRow* measured = Best(TimeKind::kMeasured);
      return measured != nullptr ? measured : Best(TimeKind::kModelled);
    }
  }
  std::set<CandidateId> losers;
  for (const PromotionRow& contest : promotions) losers.insert(LoserOf(contest));
  const CandidateRow* best = nullptr;
  bool lost = false;  // whether `best` did
  for (const CandidateRow& candidate : candidates) {
    const auto score = ScoreOf(candidate);
    if (!score || candidate.evaluation->score_kind != *kind) continue;
    const bool loser = losers.contains(candidate.id);
    if (best == nullptr || loser < lost || (loser == lost && *score < *ScoreOf(*best))) {
      best = &candidate;
      lost = loser;
    }
  }
  return best;
}

CandidateId LoserOf(const PromotionRow& contest) {
  return contest.promoted ? contest.incumbent : contest.challenger;
}

std::optional<Nanoseconds> ScoreOf(const CandidateRow& candidate) {
  if (!candidate.evaluation || !candidate.evaluation->verdict.passed()) return std::nullopt;
  const auto& score = candidate.evaluation->score;
  if (!score || !(score->count() > 0) || !std::isfinite(score->count())) return std::nullopt;
  return score;
}

std::optional<double> SpeedUp(const CandidateRow& from, const CandidateRow& to) {
  const auto a = ScoreOf(from);
  const auto b = ScoreOf(to);
  if (!a || !b || from.evaluation->score_kind != to.evaluation->score_kind) return std::nullopt;
  return *a / *b;
}

std::optional<double> ShareOfFloor(const CaseTimeRow& row) {
  if (!(row.floor.count() > 0) || !(row.time.count() > 0)) return std::nullopt;
  return row.floor / row.time;
}

IdeaCredit CreditOf(const std::vector<const CandidateRow*>& siblings) {
  IdeaCredit credit;
  for (const CandidateRow* candidate : siblings) {
    ++credit.candidates;
    if (!candidate->evaluation) continue;
    ++credit.evaluated;
    const eval::Verdict& verdict = candidate->evaluation->verdict;
    // These two say nothing of the idea or the compiler, whatever their stage.
    if (verdict.kind == eval::VerdictKind::kDuplicate) {
      ++credit.duplicates;
      continue;
    }
    if (verdict.kind == eval::VerdictKind::kInfrastructure) {
      ++credit.undecided;
      continue;
    }
    if (verdict.passed() || verdict.stage > eval::Stage::kCompile) ++credit.compiled;
    if (verdict.passed()) ++credit.correct;
    const auto score = ScoreOf(*candidate);
    if (score && (credit.best == nullptr || *score < *ScoreOf(*credit.best))) {
      credit.best = candidate;
    }
  }
  if (credit.best == nullptr) return credit;
  std::vector<Nanoseconds> scores;
  for (const CandidateRow* candidate : siblings) {
    if (SpeedUp(*credit.best, *candidate)) scores.push_back(*ScoreOf(*candidate));
  }
  std::sort(scores.begin(), scores.end());
  const std::size_t n = scores.size();
  credit.worst = scores.back();
  credit.median = n % 2 == 1 ? scores[n / 2] : (scores[n / 2 - 1] + scores[n / 2]) / 2.0;
  return credit;
}

}  // namespace grove::results
