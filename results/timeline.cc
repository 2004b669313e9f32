#include "results/timeline.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "results/format.h"

namespace grove::results {
namespace {

std::string Ended(const RunData& run, const RoundRow& round) {
  std::vector<const CandidateRow*> candidates;
  for (const CandidateRow& candidate : run.candidates) {
    if (candidate.round == round.id) candidates.push_back(&candidate);
  }
  const IdeaCredit credit = CreditOf(candidates);
  std::string text =
      fmt::format("round {} ended: {} candidate{}, {} correct", round.index, credit.candidates,
                  credit.candidates == 1 ? "" : "s", credit.correct);
  if (credit.best != nullptr) {
    text += fmt::format(", best {} {}", credit.best->name,
                        FormatTime(*ScoreOf(*credit.best), credit.best->evaluation->score_kind));
  }
  std::vector<std::string> places;
  for (const FrontierRow& row : run.frontier) {
    const CandidateRow* candidate = run.Find(row.candidate);
    if (row.round != round.id || candidate == nullptr) continue;
    places.push_back(candidate->name + (row.kind == FrontierKind::kReserve ? " (reserve)" : ""));
  }
  if (!places.empty()) text += fmt::format("; frontier {}", fmt::join(places, ", "));
  return text;
}

std::string Said(const RunData& run, const HintRow& hint) {
  std::string text = hint.text;
  const RoundRow* round = run.Find(hint.round);
  text += round == nullptr ? " (not used yet)" : fmt::format(" (used in round {})", round->index);
  if (!hint.answer.empty()) text += ": " + hint.answer;
  return text;
}

}  // namespace

std::vector<EventRow> Timeline(const RunData& run) {
  std::vector<EventRow> rows;
  const auto add = [&](WallTime time, std::string kind, std::string text) {
    rows.push_back({.id = 0, .time = time, .kind = std::move(kind), .text = std::move(text)});
  };
  add(run.run.created, "run",
      fmt::format("began: {}, grove {}", run.task.name, run.run.program_version));
  for (const RoundRow& round : run.rounds) {
    add(round.started, "round", fmt::format("round {} began", round.index));
    if (round.finished) add(*round.finished, "round", Ended(run, round));
  }
  for (const HintRow& hint : run.hints) add(hint.time, hint.kind, Said(run, hint));
  rows.insert(rows.end(), run.events.begin(), run.events.end());
  if (run.run.status != RunStatus::kRunning) {
    const std::string status(Name(run.run.status));
    const std::string& why = run.run.reason;
    add(run.run.status_since, "run", why.empty() || why == status ? status : status + ": " + why);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const EventRow& a, const EventRow& b) { return a.time < b.time; });
  return rows;
}

}  // namespace grove::results
