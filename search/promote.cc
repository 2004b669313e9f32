#include "search/promote.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "codegen/program.h"
#include "eval/promotion.h"
#include "results/format.h"
#include "search/candidate.h"
#include "search/convert.h"
#include "search/selection.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::PromotionRow;
using results::RunData;

bool Measured(const CandidateRow& row) {
  return results::ScoreOf(row) && row.evaluation->score_kind == results::TimeKind::kMeasured;
}

double Score(const CandidateRow& row) { return results::ScoreOf(row)->count(); }

struct Challenger {
  const CandidateRow* row = nullptr;
  double time = 0;  // its score, or what it takes beside the champion at the champion's score
};

// Those of the round that look faster than the champion, the fastest first.
std::vector<Challenger> ChallengersOf(const PromoteParts& parts, const CandidateRow& champion,
                                      RoundId round) {
  const RunData& data = parts.tree.data();
  std::vector<Challenger> challengers;
  for (const CandidateRow& row : CandidatesOf(data, data.Find(round)->index)) {
    if (!Measured(row)) continue;
    double time = Score(row);
    if (parts.beside && champion.identity && row.identity) {
      if (const auto pairs = parts.beside(*champion.identity, *row.identity)) {
        const eval::Promotion seen = eval::Decide(*pairs);
        if (seen.outcome == eval::Contest::kFaster) time = seen.ratio * Score(champion);
      }
    }
    if (time < Score(champion)) challengers.push_back({&row, time});
  }
  std::sort(challengers.begin(), challengers.end(), [](const Challenger& a, const Challenger& b) {
    return a.time != b.time ? a.time < b.time : a.row->id < b.row->id;
  });
  return challengers;
}

const PromotionRow* Met(const RunData& data, CandidateId challenger, CandidateId incumbent) {
  for (const PromotionRow& contest : data.promotions) {
    if (contest.challenger == challenger && contest.incumbent == incumbent) return &contest;
  }
  return nullptr;
}

// Their times of two moments have to do.
Result<std::optional<bool>> NotMeasured(const PromoteParts& parts, const CandidateRow& challenger,
                                        const CandidateRow& incumbent, const Error& why) {
  const std::string text = fmt::format("{} was not measured beside {}: {}", challenger.name,
                                       incumbent.name, why.message);
  if (auto noted = parts.tree.store().AddEvent("contest", text); !noted) {
    return Failure(std::move(noted.error()));
  }
  parts.observer.Line("  " + text);
  return std::optional<bool>();
}

// Whether the challenger was promoted; none when the two cannot be measured side by side.
Result<std::optional<bool>> Contest(const PromoteParts& parts, const CandidateRow& incumbent,
                                    const CandidateRow& challenger, const std::stop_token& stop) {
  const RunData& data = parts.tree.data();
  if (const PromotionRow* met = Met(data, challenger.id, incumbent.id)) return met->promoted;
  auto old_program = ProgramOf(parts.tree, incumbent);
  if (!old_program) return Failure(std::move(old_program.error()));
  auto new_program = ProgramOf(parts.tree, challenger);
  if (!new_program) return Failure(std::move(new_program.error()));
  const results::LedgerScope scope{RoundOf(data, challenger), 0, CallId()};
  auto hold = parts.ledger.ReserveGpu(fmt::format("contest {} {}", challenger.name, incumbent.name),
                                      scope, parts.on_gpu, stop);
  if (!hold) {
    if (hold.error().code != ErrorCode::kBudget) return Failure(std::move(hold.error()));
    return NotMeasured(parts, challenger, incumbent, hold.error());
  }
  const auto begun = std::chrono::steady_clock::now();
  auto promotion = eval::Promote(
      parts.compare, {incumbent.name, &*old_program, *results::ScoreOf(incumbent), false},
      {challenger.name, &*new_program, *results::ScoreOf(challenger), false});
  const Seconds took = std::chrono::steady_clock::now() - begun;
  if (auto settled = hold->Settle(parts.on_gpu ? took : Seconds(0)); !settled) {
    return Failure(std::move(settled.error()));
  }
  if (!promotion && promotion.error().code == ErrorCode::kUnavailable) {
    return NotMeasured(parts, challenger, incumbent, promotion.error());
  }
  if (!promotion) return Failure(std::move(promotion.error()));
  const PromotionRow row = ToRow(*promotion, challenger.id, incumbent.id);
  if (auto recorded = parts.tree.RecordContest(row); !recorded) {
    return Failure(std::move(recorded.error()));
  }
  parts.observer.Line(fmt::format("  {:<10} beside {}: {}, {}", challenger.name, incumbent.name,
                                  row.promoted ? "promoted" : "not promoted",
                                  results::Visible(row.why)));
  return std::optional<bool>(row.promoted);
}

}  // namespace

const CandidateRow* ChampionBefore(const RunData& data, RoundId round) {
  std::set<CandidateId> losers;
  for (const PromotionRow& contest : data.promotions) {
    const CandidateRow* challenger = data.Find(contest.challenger);
    if (challenger != nullptr && challenger->round != round) {
      losers.insert(results::LoserOf(contest));
    }
  }
  const CandidateRow* best = nullptr;
  for (const CandidateRow& row : data.candidates) {
    if (row.round == round || !Measured(row) || losers.contains(row.id)) continue;
    if (best == nullptr || Score(row) < Score(*best)) best = &row;
  }
  return best;
}

Status PromoteWinners(const PromoteParts& parts, RoundId round, const std::stop_token& stop) {
  const RunData& data = parts.tree.data();
  const CandidateRow* champion = ChampionBefore(data, round);
  if (champion == nullptr) return {};
  const std::vector<Challenger> challengers = ChallengersOf(parts, *champion, round);
  int contests = 0;
  double to_beat = Score(*champion);
  for (const auto& [challenger, time] : challengers) {
    if (contests == kMostContests) break;
    // Clearly slower than one that has just won.
    if (to_beat < time && !IsTie(*champion, *challenger)) break;
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    ++contests;
    auto promoted = Contest(parts, *champion, *challenger, stop);
    if (!promoted) return Failure(std::move(promoted.error()));
    if (!promoted->value_or(false)) continue;
    champion = challenger;
    to_beat = time;
  }
  return {};
}

}  // namespace grove::search
