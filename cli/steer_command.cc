#include "cli/steer_command.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/suggest.h"
#include "cli/batch_command.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "results/format.h"
#include "results/store.h"
#include "search/config.h"
#include "search/goals.h"

namespace grove::cli {
namespace {

using results::CandidateRow;
using results::RunData;
using Json = nlohmann::ordered_json;

// "paused", "stopping" or nothing: the last thing that the run said since it was started.
std::string HeardOf(const RunData& data) {
  if (!data.run.live) return "";
  std::string heard;
  for (const results::EventRow& event : data.events) {
    if (event.kind != "control" || event.time < data.run.status_since) continue;
    if (event.text.starts_with("paused")) heard = "paused";
    if (event.text.starts_with("stopping")) heard = "stopping";
    if (event.text.starts_with("continued")) heard.clear();
  }
  return heard;
}

struct RunStatusView {
  const RunData& data;
  search::SearchConfig config;
  search::GoalsState goals;
  std::vector<results::ControlMessage> waiting;
  std::int64_t tokens = 0;
};

void PrintJson(const RunStatusView& view) {
  const RunData& data = view.data;
  Json json;
  json["run"] = data.run.name;
  json["task"] = data.task.name;
  json["status"] = results::Name(data.run.effective_status());
  json["live"] = data.run.live;
  if (const std::string heard = HeardOf(data); !heard.empty()) json["control"] = heard;
  json["reason"] = data.run.reason;
  json["round"] = data.rounds.empty() ? 0 : data.rounds.back().index;
  json["rounds"] = view.config.rounds;
  json["candidates"] = data.candidates.size();
  json["tokens"] = view.tokens;
  json["random_seed"] = data.run.seed;
  if (const CandidateRow* best = data.Best(); best != nullptr) {
    json["best"] = best->name;
    json["best_time_ns"] = results::ScoreOf(*best)->count();
    json["time_kind"] = results::Name(best->evaluation->score_kind);
    if (const CandidateRow* seed = data.Seed(); seed != nullptr) {
      if (const auto gain = results::SpeedUp(*seed, *best)) json["speedup_over_seed"] = *gain;
    }
  }
  json["goals"] = Json::array();
  for (const search::GoalProgress& goal : view.goals.goals) {
    json["goals"].push_back({{"goal", goal.goal.text},
                             {"met", goal.met},
                             {"reached", goal.reached},
                             {"kernel", goal.kernel},
                             {"text", goal.text}});
  }
  json["hints"] = Json::array();
  for (const results::HintRow& hint : data.hints) {
    const results::RoundRow* round = hint.round ? data.Find(hint.round) : nullptr;
    Json row = {{"kind", hint.kind}, {"text", hint.text}};
    row["round"] = round != nullptr ? Json(round->index) : Json(nullptr);
    json["hints"].push_back(std::move(row));
  }
  json["waiting"] = Json::array();
  for (const auto& message : view.waiting) {
    json["waiting"].push_back({{"kind", results::Name(message.kind)}, {"text", message.text}});
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void PrintText(const RunStatusView& view) {
  const RunData& data = view.data;
  std::string head =
      fmt::format("{}: {}, {}", results::Visible(data.run.name), results::Visible(data.task.title),
                  results::Name(data.run.effective_status()));
  if (const std::string heard = HeardOf(data); !heard.empty()) head += " (" + heard + ")";
  if (!data.run.reason.empty()) head += ": " + results::Visible(data.run.reason);
  fmt::print("{}\n", head);
  int evaluated = 0, passed = 0, asked = 0;
  const RoundId last = data.rounds.empty() ? RoundId() : data.rounds.back().id;
  for (const CandidateRow& candidate : data.candidates) {
    if (candidate.round != last || !last) continue;
    ++asked;
    if (!candidate.evaluation) continue;
    ++evaluated;
    if (candidate.evaluation->verdict.passed()) ++passed;
  }
  fmt::print(
      "round {}/{}: {}/{} candidates evaluated, {} pass; {} tokens so far; random "
      "seed {}\n",
      data.rounds.empty() ? 0 : data.rounds.back().index, view.config.rounds, evaluated, asked,
      passed, results::FormatCount(view.tokens), data.run.seed);
  if (const CandidateRow* best = data.Best(); best != nullptr) {
    std::string line =
        fmt::format("best {}: {}", best->name,
                    results::FormatTime(*results::ScoreOf(*best), best->evaluation->score_kind));
    if (const CandidateRow* seed = data.Seed(); seed != nullptr) {
      if (const auto gain = results::SpeedUp(*seed, *best)) {
        line += fmt::format(", {} the seed", results::FormatRatio(*gain));
      }
    }
    fmt::print("{}\n", line);
  }
  for (const search::GoalProgress& goal : view.goals.goals) {
    fmt::print("goal {}: {}{}\n", results::Visible(goal.goal.text),
               goal.met ? "met: "
                        : fmt::format("{} of the way: ",
                                      results::FormatShare(std::min(goal.reached, 1.0))),
               results::Visible(goal.text));
  }
  for (const results::HintRow& hint : data.hints) {
    if (hint.kind == "goal") continue;
    const results::RoundRow* round = hint.round ? data.Find(hint.round) : nullptr;
    fmt::print("{} {}: {}\n", hint.kind,
               round != nullptr ? fmt::format("since round {}", round->index)
                                : std::string("for the next round"),
               results::Visible(hint.text));
  }
  for (const auto& message : view.waiting) {
    fmt::print("waiting: {}{}{}\n", results::Name(message.kind), message.text.empty() ? "" : ": ",
               results::Visible(message.text));
  }
}

}  // namespace

int StatusCommand(const std::string& run, const Common& common) {
  if (IsBatch(common, run)) return BatchStatusCommand(run, common);
  auto name = FindRun(common.runs, run);
  if (!name) return Complain(name.error());
  auto reader = results::Reader::Open(common.runs / *name);
  if (!reader) return Complain(reader.error());
  auto data = (*reader)->Load();
  if (!data) return Complain(data.error());
  auto config = search::ConfigFromJson(data->run.config);
  if (!config) return Complain(config.error());
  auto inbox = results::ReadControl(common.runs / *name);
  if (!inbox) return Complain(inbox.error());
  RunStatusView view{*data, *config, search::JudgeAll(config->goals, *data),
                     std::move(inbox->messages)};
  for (const results::CallRow& call : data->calls) view.tokens += call.usage.total().value;
  if (common.json) {
    PrintJson(view);
  } else {
    PrintText(view);
  }
  return kExitDone;
}

int ControlCommand(const std::string& run, const results::ControlMessage& message,
                   const Common& common) {
  auto name = FindRun(common.runs, run);
  if (!name) return Complain(name.error());
  auto reader = results::Reader::Open(common.runs / *name);
  if (!reader) return Complain(reader.error());
  auto data = (*reader)->Load();
  if (!data) return Complain(data.error());
  using results::ControlKind;
  const bool keeps = message.kind == ControlKind::kHint || message.kind == ControlKind::kGoal;
  const std::string kind(results::Name(message.kind));
  if (!data->run.live && !keeps) {
    return Complain({ErrorCode::kInvalidInput,
                     fmt::format("run {} is not running ({}); there is nothing to {}", *name,
                                 results::Name(data->run.effective_status()), kind)});
  }
  if (!message.branch.empty() && data->FindCandidate(message.branch) == nullptr &&
      data->FindIdea(message.branch) == nullptr) {
    std::vector<std::string> names;
    for (const auto& candidate : data->candidates) names.push_back(candidate.name);
    for (const auto& idea : data->ideas) names.push_back(idea.name);
    std::string text = fmt::format("run {} has no idea or kernel '{}'", *name, message.branch);
    if (const auto near = Nearest(message.branch, names); !near.empty()) {
      text += fmt::format("; did you mean '{}'?", near);
    }
    return Complain({ErrorCode::kNotFound, std::move(text)});
  }
  if (message.kind == ControlKind::kGoal) {
    const auto goal = search::ParseGoal(message.text);
    if (!goal) return Complain(goal.error());
    std::vector<std::string> scored;
    for (const auto& row : data->cases) {
      if (row.role == "scored") scored.push_back(row.name);
    }
    if (auto fits = search::CheckGoal(*goal, scored); !fits) return Complain(fits.error());
  }
  const SystemClock clock;
  auto key = results::PostControl(common.runs / *name, message, clock);
  if (!key) return Complain(key.error());
  if (common.json) {
    const Json json = {{"run", *name}, {"kind", kind}, {"key", *key}, {"live", data->run.live}};
    fmt::print("{}\n", json.dump(2));
  } else if (data->run.live) {
    fmt::print("told {}: {}\n", *name, kind);
  } else {
    fmt::print("{} is not running; the {} waits for: grove resume {}\n", *name, kind, *name);
  }
  return kExitDone;
}

}  // namespace grove::cli
