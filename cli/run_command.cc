// `grove run` and `grove resume`.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/share.h"
#include "cli/clients.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/spending.h"
#include "cli/terminal.h"
#include "llm/playbook_client.h"
#include "llm/pricing.h"
#include "results/format.h"
#include "results/store.h"
#include "results/tree.h"
#include "search/estimate.h"
#include "search/model_calls.h"
#include "search/search.h"

namespace grove::cli {
namespace {

// TASK-N with the first N that no run has.
std::string FreeName(const std::filesystem::path& runs, const std::string& task) {
  for (int n = 1;; ++n) {
    std::string name = fmt::format("{}-{}", task, n);
    if (!std::filesystem::exists(runs / name)) return name;
  }
}

std::vector<results::EnvironmentRow> EnvironmentOf(Workbench& bench) {
  std::vector<results::EnvironmentRow> rows;
  rows.push_back({"device", bench.device->name()});
  rows.push_back({"gpu", bench.device->spec().name});
  rows.push_back({"arch", bench.device->spec().arch});
  if (auto version = bench.compiler->Version()) rows.push_back({"compiler", *version});
  return rows;
}

void PrintSummary(const std::string& run, const search::SearchSummary& summary,
                  const Common& common) {
  if (common.json) {
    nlohmann::ordered_json json;
    json["run"] = run;
    json["status"] = results::Name(summary.status);
    json["reason"] = summary.reason;
    json["rounds"] = summary.rounds;
    json["best"] = summary.best;
    if (summary.best_time) json["best_time_ns"] = summary.best_time->count();
    if (summary.seed_time) json["seed_time_ns"] = summary.seed_time->count();
    if (summary.best_time && summary.seed_time) {
      json["speedup_over_seed"] = *summary.seed_time / *summary.best_time;
    }
    json["time_kind"] = results::Name(summary.kind);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  auto reader = results::Reader::Open(common.runs / run);
  if (!reader) return;
  auto data = (*reader)->Load();
  if (!data) return;
  results::TreeOptions options;
  if (const int width = TerminalWidth(stdout); width > 0) {
    options.width = width;
    options.color = true;
  }
  fmt::print("{}", results::RenderTree(*data, options));
  fmt::print("\n{}: {}\n", run, summary.reason);
  if (summary.best_time && summary.seed_time) {
    fmt::print("best {}: {}, {} the seed's {}   (grove show {}/{})\n", summary.best,
               results::FormatTime(*summary.best_time, summary.kind),
               results::FormatRatio(*summary.seed_time / *summary.best_time),
               results::FormatTime(*summary.seed_time), run, summary.best);
  }
  if (summary.status == results::RunStatus::kInterrupted) {
    fmt::print("go on with: grove resume {}\n", run);
  }
}

// What the clients say of failed attempts, on their own thread, goes where the search's lines go.
class ClientLog {
 public:
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (observer_ != nullptr) observer_->Line(fmt::format("  {}", line));
    };
  }
  void To(search::Observer* observer) {
    const std::lock_guard lock(mutex_);
    observer_ = observer;
  }

 private:
  std::mutex mutex_;
  search::Observer* observer_ = nullptr;
};

bool UsesPlaybook(const search::SearchConfig& config) {
  const auto models = search::ModelsOf(config);
  return std::any_of(models.begin(), models.end(),
                     [](const auto& model) { return model.name == "playbook"; });
}

// A limit on dollars can be kept only where every model has a price.
Status CheckPriced(const search::SearchConfig& config) {
  const bool limited =
      std::any_of(config.limits.begin(), config.limits.end(),
                  [](const auto& limit) { return limit.kind == results::LedgerKind::kDollars; });
  if (!limited) return {};
  for (const search::ModelSpec& model : search::ModelsOf(config)) {
    if (model.price_in && model.price_out) continue;
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("the price of {} is unknown, so a limit on dollars cannot be kept: give "
                    "its [[model]] price_in and price_out, add it to "
                    "~/.config/grove/prices.toml, or limit tokens instead",
                    model.name));
  }
  return {};
}

Status SetPrices(search::SearchConfig& config) {
  auto prices = llm::LoadPrices();
  if (!prices) return Failure(std::move(prices.error()));
  // Kept with the run: what it costs does not change with the table.
  config.models = search::ModelsOf(config);
  search::FillPrices(config.models, *prices);
  return CheckPriced(config);
}

Result<search::SearchConfig> RecordedConfig(const std::filesystem::path& runs,
                                            const std::string& run) {
  auto name = FindRun(runs, run);
  if (!name) return Failure(std::move(name.error()));
  auto reader = results::Reader::Open(runs / *name);
  if (!reader) return Failure(std::move(reader.error()));
  auto data = (*reader)->Load();
  if (!data) return Failure(std::move(data.error()));
  auto config = search::ConfigFromJson(data->run.config);
  if (!config) return config;
  config->replay = std::filesystem::absolute(runs / *name).lexically_normal().string();
  return config;
}

int Search(const std::string& name, Workbench& bench, llm::Client& client, results::Store& store,
           const search::SearchConfig& config, ClientLog& log, const Common& common) {
  std::optional<search::SearchSummary> summary;
  {
    // The live line belongs to the search alone: it is gone before the summary is printed.
    TerminalObserver observer(stderr, common.quiet);
    observer.Line(
        fmt::format("{}: {} on {} by the {}; {} rounds x {} ideas x {} branches, frontier {}", name,
                    bench.task.title, bench.device->spec().name, bench.device->name(),
                    config.rounds, config.ideas, config.branches, config.frontier));
    const search::SearchParts parts{bench.task, *bench.evaluator, *bench.device, client,
                                    store,      observer};
    log.To(&observer);
    auto done = search::RunSearch(parts, config, common.stop);
    log.To(nullptr);
    if (!done) {
      observer.Line(fmt::format("the run is as it was; go on with: grove resume {}", name));
      return Complain(done.error());
    }
    summary = std::move(*done);
  }
  PrintSummary(name, *summary, common);
  if (summary->status == results::RunStatus::kInterrupted) return kExitInterrupted;
  return kExitDone;
}

WorkbenchOptions BenchOptions(const search::SearchConfig& config, const Common& common) {
  WorkbenchOptions options = common.bench;
  options.device = config.device;
  options.gpu = config.gpu;
  // Named at the command line again, the folder has moved; else it is where the run found it.
  if (options.tasks.empty()) options.tasks = config.tasks;
  options.seed = config.seed;
  options.suite = config.suite;
  options.cases = config.cases;
  return options;
}

}  // namespace

int RunCommand(const RunOptions& options, const Common& common) {
  search::SearchConfig config = options.config;
  std::map<std::string, std::string> flags = options.settings.flags;
  const auto replay = flags.find("replay");
  if (replay != flags.end()) {
    // The recorded run says everything but what is to be different.
    auto recorded = RecordedConfig(common.runs, replay->second);
    if (!recorded) return Complain(recorded.error());
    const std::string task = config.task;
    config = std::move(*recorded);
    if (!task.empty() && task != config.task) {
      return Complain({ErrorCode::kInvalidInput,
                       fmt::format("the run to replay is about {}, not {}", config.task, task)});
    }
    flags.erase("replay");
    if (auto set = ApplyFlags(flags, config); !set) return Complain(set.error());
  } else {
    const std::string task = config.task;
    if (auto set = ApplySettings(options.settings, config); !set) return Complain(set.error());
    if (!task.empty()) config.task = task;
    if (!config.replay.empty()) {
      return Complain({ErrorCode::kInvalidInput, "name the run to replay with --replay"});
    }
  }
  if (config.task.empty()) {
    return Complain({ErrorCode::kInvalidInput, "name a task: grove run TASK (grove tasks)"});
  }
  if (!common.bench.tasks.empty()) {
    config.tasks = std::filesystem::absolute(common.bench.tasks).lexically_normal().string();
  }
  // Everything that can be wrong with the input is found before the run's folder exists.
  if (auto valid = search::Validate(config); !valid) return Complain(valid.error());
  if (!options.name.empty()) {
    if (auto valid = results::CheckRunName(options.name); !valid) return Complain(valid.error());
  }
  if (config.replay.empty()) {
    if (auto priced = SetPrices(config); !priced) return Complain(priced.error());
  }
  if (options.dry_run) {
    auto task = seeds::LoadTask(
        config.tasks.empty() ? seeds::DefaultTasksFolder() : std::filesystem::path(config.tasks),
        config.task);
    if (!task) return Complain(task.error());
    const search::Estimate estimate = search::EstimateSpend(*task, config);
    if (common.json) {
      fmt::print("{}\n", EstimateJson(estimate).dump(2));
    } else {
      fmt::print("{}", EstimateText(estimate));
    }
    return kExitDone;
  }
  const SystemClock clock;
  const std::string name = options.name.empty() ? FreeName(common.runs, config.task) : options.name;
  ClientLog log;
  auto client = MakeClients(config, common.runs / name, clock, log.sink());
  if (!client) return Complain(client.error());
  auto bench = MakeWorkbench(config.task, BenchOptions(config, common));
  if (!bench) return Complain(bench.error());
  if (config.replay.empty() && UsesPlaybook(config)) {
    const auto known = llm::CheckPlaybookKnows((*bench)->task, ShareFolder("playbook"));
    if (!known) return Complain(known.error());
  }

  auto start = search::MakeRunStart(name, (*bench)->task, config, GROVE_VERSION);
  start.environment = EnvironmentOf(**bench);
  auto store = results::Store::Create(common.runs, start, clock);
  if (!store) return Complain(store.error());
  return Search(name, **bench, **client, **store, config, log, common);
}

int ResumeCommand(const std::string& run, const std::map<std::string, std::string>& flags,
                  const Common& common) {
  auto name = FindRun(common.runs, run);
  if (!name) return Complain(name.error());
  auto reader = results::Reader::Open(common.runs / *name);
  if (!reader) return Complain(reader.error());
  auto data = (*reader)->Load();
  if (!data) return Complain(data.error());
  auto config = search::ConfigFromJson(data->run.config);
  if (!config) return Complain(config.error());
  if (auto set = ApplyFlags(flags, *config); !set) return Complain(set.error());
  if (auto priced = CheckPriced(*config); !priced) return Complain(priced.error());
  const SystemClock clock;
  ClientLog log;
  auto client = MakeClients(*config, common.runs / *name, clock, log.sink());
  if (!client) return Complain(client.error());
  auto bench = MakeWorkbench(config->task, BenchOptions(*config, common));
  if (!bench) return Complain(bench.error());

  auto store = results::Store::Open(common.runs, *name, clock);
  if (!store) return Complain(store.error());
  if (!flags.empty()) {
    if (auto set = (*store)->SetConfig(search::ToJson(*config)); !set) return Complain(set.error());
  }
  if (auto running = (*store)->SetStatus(results::RunStatus::kRunning, "resumed"); !running) {
    return Complain(running.error());
  }
  return Search(*name, **bench, **client, **store, *config, log, common);
}

}  // namespace grove::cli
