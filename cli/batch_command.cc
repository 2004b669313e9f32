#include "cli/batch_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/complain.h"
#include "cli/exit_code.h"
#include "results/control.h"
#include "results/format.h"
#include "results/lock.h"
#include "results/store.h"

namespace grove::cli {
namespace {

using search::BatchSpec;
using search::BatchTask;
using search::TaskStanding;

// How every task stands; a run that is not there yet has no data.
Result<std::vector<TaskStanding>> Standings(const std::string& batch, const BatchSpec& spec,
                                            const Common& common) {
  std::vector<TaskStanding> standings;
  for (const BatchTask& task : spec.tasks) {
    const auto folder = common.runs / search::RunOf(batch, task);
    std::error_code error;
    if (!std::filesystem::is_regular_file(folder / "run.db", error)) {
      standings.push_back(search::StandingOf(task, nullptr, spec.config.rounds));
      continue;
    }
    auto reader = results::Reader::Open(folder);
    if (!reader) return Failure(std::move(reader.error()));
    auto data = (*reader)->Load();
    if (!data) return Failure(std::move(data.error()));
    standings.push_back(search::StandingOf(task, &*data, spec.config.rounds));
  }
  return standings;
}

std::string Rounded(double amount) {
  return amount == std::floor(amount) ? results::FormatCount(static_cast<std::int64_t>(amount))
                                      : fmt::format("{:.4g}", amount);
}

// Whether somebody told the run to stop, be it too late for it to hear.
bool StoppedSince(const std::filesystem::path& run, std::chrono::system_clock::time_point moment) {
  if (const auto inbox = results::ReadControl(run)) {
    for (const results::ControlMessage& message : inbox->messages) {
      if (message.kind != results::ControlKind::kStop || message.time < moment) continue;
      return results::RemoveControl(run, message.key).has_value();
    }
  }
  auto reader = results::Reader::Open(run);
  if (!reader) return false;
  const auto data = (*reader)->Load();
  if (!data) return false;
  return std::any_of(data->events.begin(), data->events.end(), [&](const auto& event) {
    return event.kind == "control" && event.time >= moment && event.text.starts_with("stopping");
  });
}

int GoOn(const std::string& name, const BatchSpec& spec, const RunOne& run_one,
         const Common& common) {
  auto lock = results::RunLock::Take(common.runs / name / "lock");
  if (!lock) return Complain(lock.error());
  while (true) {
    auto standings = Standings(name, spec, common);
    if (!standings) return Complain(standings.error());
    const auto next = search::NextTask(*standings, spec);
    if (!next) break;
    if (common.stop.stop_requested()) return kExitInterrupted;
    const BatchTask& task = spec.tasks[*next];
    search::SearchConfig config = search::ConfigOf(spec, task);
    config.limits = search::LimitsOf(*standings, spec, *next);
    if (!common.quiet) {
      fmt::print(stderr, "batch {}: round {} of {}\n", name, (*standings)[*next].rounds + 1,
                 task.name);
    }
    const std::string run = search::RunOf(name, task);
    const auto began = std::chrono::system_clock::now();
    int code = run_one(run, config, (*standings)[*next].rounds + 1);
    // A stop that came when its round had asked everything found nothing to end there.
    if (code == kExitDone && StoppedSince(common.runs / run, began)) code = kExitInterrupted;
    if (code != kExitDone) {
      fmt::print(stderr, "grove: the batch is as it was; go on with: grove resume {}\n", name);
      return code;
    }
  }
  return BatchStatusCommand(name, common);
}

}  // namespace

bool IsBatch(const Common& common, const std::string& name) {
  std::error_code error;
  return results::CheckRunName(name) &&
         std::filesystem::is_regular_file(common.runs / name / "batch.json", error);
}

int BatchCommand(const std::string& name, const BatchSpec& spec, const RunOne& run_one,
                 const Common& common) {
  if (auto valid = search::Validate(spec); !valid) return Complain(valid.error());
  if (auto valid = results::CheckRunName(name); !valid) return Complain(valid.error());
  for (const BatchTask& task : spec.tasks) {
    if (auto valid = results::CheckRunName(search::RunOf(name, task)); !valid) {
      return Complain(valid.error());
    }
  }
  std::error_code error;
  if (std::filesystem::exists(common.runs / name, error)) {
    return Complain({ErrorCode::kInvalidInput,
                     fmt::format("'{}' exists; resume it or choose another name", name)});
  }
  if (auto written = search::WriteBatch(common.runs, name, spec); !written) {
    return Complain(written.error());
  }
  return GoOn(name, spec, run_one, common);
}

int ResumeBatchCommand(const std::string& name, const RunOne& run_one, const Common& common) {
  auto spec = search::ReadBatch(common.runs, name);
  if (!spec) return Complain(spec.error());
  return GoOn(name, *spec, run_one, common);
}

int BatchStatusCommand(const std::string& name, const Common& common) {
  auto spec = search::ReadBatch(common.runs, name);
  if (!spec) return Complain(spec.error());
  auto standings = Standings(name, *spec, common);
  if (!standings) return Complain(standings.error());
  double spent = 0, costs = 0, weights = 0, left = 0;
  int rounds = 0, counted = 0;
  for (const TaskStanding& standing : *standings) {
    spent += standing.spent;
    rounds += standing.rounds;
    weights += standing.weight;
    left += standing.weight * standing.share;
    for (const double cost : standing.costs) costs += cost;
    counted += static_cast<int>(standing.costs.size());
  }
  const double typical = counted > 0 ? costs / counted : 50000;
  const auto budgets = search::BudgetsOf(*standings, *spec);
  const auto next = search::NextTask(*standings, *spec);
  if (common.json) {
    nlohmann::ordered_json json;
    json["batch"] = name;
    json["tokens"] = spent;
    json["token_limit"] = spec->tokens;
    json["rounds"] = rounds;
    json["round_limit"] = spec->rounds;
    json["time_share_left"] = left / weights;
    json["random_seed"] = spec->config.seed;
    json["finished"] = !next;
    json["budgets"] = nlohmann::ordered_json::array();
    for (const search::SharedBudget& budget : budgets) {
      json["budgets"].push_back({{"kind", results::Name(budget.limit.kind)},
                                 {"most", budget.limit.most},
                                 {"spent", budget.spent}});
    }
    for (std::size_t i = 0; i < standings->size(); ++i) {
      const TaskStanding& s = (*standings)[i];
      const auto expected = search::Expect(s, typical);
      json["tasks"].push_back({{"task", s.task},
                               {"run", search::RunOf(name, spec->tasks[i])},
                               {"weight", s.weight},
                               {"rounds", s.rounds},
                               {"round_limit", spec->config.rounds},
                               {"ended", s.ended},
                               {"speedup_over_seed", 1 / s.share},
                               {"share_of_time_now", s.weight * s.share / left},
                               {"tokens", s.spent},
                               {"share_of_tokens", spent > 0 ? s.spent / spent : 0},
                               {"expected_saving", expected.saving},
                               {"next", next && *next == i}});
    }
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  fmt::print(
      "{}: {} tasks, {} rounds{}, {} tokens; the whole takes {} of its time at first; random seed "
      "{}\n",
      name, standings->size(), rounds,
      spec->rounds > 0 ? fmt::format(" of {}", spec->rounds) : std::string(),
      results::FormatCount(static_cast<std::int64_t>(spent)), results::FormatShare(left / weights),
      spec->config.seed);
  for (const search::SharedBudget& budget : budgets) {
    fmt::print("  {} of {} {} spent ({})\n", Rounded(budget.spent), Rounded(budget.limit.most),
               results::Name(budget.limit.kind),
               results::FormatShare(budget.limit.most > 0 ? budget.spent / budget.limit.most : 1));
  }
  for (std::size_t i = 0; i < standings->size(); ++i) {
    const TaskStanding& s = (*standings)[i];
    const auto expected = search::Expect(s, typical);
    fmt::print(
        "  {:<20} weight {:<6.4g} round {}/{}  {} the seed, {} of the whole's time now; {} tokens "
        "({}); {}\n",
        s.task, s.weight, s.rounds, spec->config.rounds, results::FormatRatio(1 / s.share),
        results::FormatShare(s.weight * s.share / left),
        results::FormatCount(static_cast<std::int64_t>(s.spent)),
        results::FormatShare(spent > 0 ? s.spent / spent : 0),
        s.ended ? std::string("ended")
                : fmt::format("next round may save {} of its time{}",
                              results::FormatShare(expected.saving),
                              next && *next == i ? "; is next" : ""));
  }
  return kExitDone;
}

}  // namespace grove::cli
