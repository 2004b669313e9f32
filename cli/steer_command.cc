#include "cli/steer_command.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
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
#include "search/batch.h"
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

namespace {

bool IsKept(const results::ControlMessage& message) {
  return message.kind == results::ControlKind::kHint || message.kind == results::ControlKind::kGoal;
}

Result<RunData> LoadRun(const std::string& name, const Common& common) {
  auto reader = results::Reader::Open(common.runs / name);
  if (!reader) return Failure(std::move(reader.error()));
  return (*reader)->Load();
}

// Whether the run can take the message.
Status Fits(const RunData& data, const results::ControlMessage& message) {
  const std::string& name = data.run.name;
  if (!data.run.live && !IsKept(message)) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("run {} is not running ({}); there is nothing to {}", name,
                    results::Name(data.run.effective_status()), results::Name(message.kind)));
  }
  if (!message.branch.empty() && data.FindCandidate(message.branch) == nullptr &&
      data.FindIdea(message.branch) == nullptr) {
    std::vector<std::string> names;
    for (const auto& candidate : data.candidates) names.push_back(candidate.name);
    for (const auto& idea : data.ideas) names.push_back(idea.name);
    std::string text = fmt::format("run {} has no idea or kernel '{}'", name, message.branch);
    if (const auto near = Nearest(message.branch, names); !near.empty()) {
      text += fmt::format("; did you mean '{}'?", near);
    }
    return Fail(ErrorCode::kNotFound, std::move(text));
  }
  if (message.kind != results::ControlKind::kGoal) return {};
  const auto goal = search::ParseGoal(message.text);
  if (!goal) return Failure(goal.error());
  std::vector<std::string> scored;
  for (const auto& row : data.cases) {
    if (row.role == "scored") scored.push_back(row.name);
  }
  return search::CheckGoal(*goal, scored);
}

Status Tell(const RunData& data, const results::ControlMessage& message, const Common& common,
            Json& told) {
  const SystemClock clock;
  const std::string& name = data.run.name;
  const std::string kind(results::Name(message.kind));
  auto key = results::PostControl(common.runs / name, message, clock);
  if (!key) return Failure(std::move(key.error()));
  told = {{"run", name}, {"kind", kind}, {"key", *key}, {"live", data.run.live}};
  if (common.json) return {};
  if (data.run.live) {
    fmt::print("told {}: {}\n", name, kind);
  } else {
    fmt::print("{} is not running; the {} waits for: grove resume {}\n", name, kind, name);
  }
  return {};
}

// A hint or goal goes to the run of every task that has begun, the rest to the one that is live.
int ControlBatch(const std::string& batch, const results::ControlMessage& message,
                 const Common& common) {
  auto spec = search::ReadBatch(common.runs, batch);
  if (!spec) return Complain(spec.error());
  if (!message.branch.empty()) {
    return Complain({ErrorCode::kInvalidInput,
                     fmt::format("{} is a batch; --branch is of one task's run: grove hint {} ...",
                                 batch, search::RunOf(batch, spec->tasks.front()))});
  }
  std::vector<RunData> runs;
  std::vector<std::string> later;
  for (const search::BatchTask& task : spec->tasks) {
    const std::string name = search::RunOf(batch, task);
    std::error_code ignored;
    if (!std::filesystem::exists(common.runs / name, ignored)) {
      later.push_back(name);
      continue;
    }
    auto data = LoadRun(name, common);
    if (!data) return Complain(data.error());
    if (data->run.live || IsKept(message)) runs.push_back(*std::move(data));
  }
  if (runs.empty()) {
    return Complain({ErrorCode::kInvalidInput,
                     IsKept(message)
                         ? fmt::format("no task of batch {} has begun yet", batch)
                         : fmt::format("no task of batch {} is running at this moment; there is "
                                       "nothing to {}",
                                       batch, results::Name(message.kind))});
  }
  for (const RunData& data : runs) {
    if (Status fits = Fits(data, message); !fits) return Complain(fits.error());
  }
  Json all = Json::array();
  for (const RunData& data : runs) {
    Json told;
    if (Status done = Tell(data, message, common, told); !done) return Complain(done.error());
    all.push_back(std::move(told));
  }
  if (common.json) {
    fmt::print("{}\n", all.dump(2));
  } else if (IsKept(message)) {
    for (const std::string& name : later) {
      fmt::print("{} has not begun and was not told\n", name);
    }
  }
  return kExitDone;
}

}  // namespace

int ControlCommand(const std::string& run, const results::ControlMessage& message,
                   const Common& common) {
  if (IsBatch(common, run)) return ControlBatch(run, message, common);
  auto name = FindRun(common.runs, run);
  if (!name) return Complain(name.error());
  auto data = LoadRun(*name, common);
  if (!data) return Complain(data.error());
  if (Status fits = Fits(*data, message); !fits) return Complain(fits.error());
  Json told;
  if (Status done = Tell(*data, message, common, told); !done) return Complain(done.error());
  if (common.json) fmt::print("{}\n", told.dump(2));
  return kExitDone;
}

}  // namespace grove::cli
