// `grove run` and `grove resume`.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/share.h"
#include "cli/batch_command.h"
#include "cli/clients.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/known_baselines.h"
#include "cli/package_command.h"
#include "cli/profiler.h"
#include "cli/spending.h"
#include "cli/terminal.h"
#include "codegen/program.h"
#include "eval/device_group.h"
#include "ideas/knowledge.h"
#include "llm/playbook_client.h"
#include "llm/pricing.h"
#include "results/format.h"
#include "results/store.h"
#include "results/tree.h"
#include "search/estimate.h"
#include "search/goals.h"
#include "search/model_calls.h"
#include "search/search.h"
#include "search/steering.h"

namespace grove::cli {
namespace {

// TASK-N with the first N that no run has.
std::string FreeName(const std::filesystem::path& runs, const std::string& task) {
  for (int n = 1;; ++n) {
    std::string name = fmt::format("{}-{}", task, n);
    if (!std::filesystem::exists(runs / name)) return name;
  }
}

std::vector<results::EnvironmentRow> EnvironmentOf(const Workbench& bench) {
  std::vector<results::EnvironmentRow> rows = MachineRows(bench);
  rows.insert(rows.begin(), {"device", bench.device->name()});
  if (std::string demand = seeds::DescribeDemand(bench.task); !demand.empty()) {
    rows.push_back({std::string(results::kDemandKey), std::move(demand)});
  }
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
  if (summary.status != results::RunStatus::kFinished && !summary.awaits) {
    fmt::print("go on with: grove resume {}\n", run);
  } else if (summary.spent) {
    fmt::print("what was left undone comes first with a larger --budget...: grove resume {}\n",
               run);
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

bool Uses(const search::SearchConfig& config, std::string_view name) {
  const auto models = search::ModelsOf(config);
  return std::any_of(models.begin(), models.end(),
                     [&](const auto& model) { return model.name == name; });
}
bool UsesPlaybook(const search::SearchConfig& config) { return Uses(config, "playbook"); }

// A mailbox waits in silence otherwise, and nobody knows for what.
void SayWhereAnswersBelong(search::Observer& observer, const search::SearchConfig& config,
                           const std::filesystem::path& runs, const std::string& name) {
  if (!config.replay.empty() || !Uses(config, "mailbox")) return;
  observer.Line(fmt::format(
      "the mailbox is {}: each NNNN.prompt.md there waits for NNNN.reply.md; `grove mailbox {}` "
      "lists them, --check FILE tries a reply. Ctrl-C and `grove resume {}` lose nothing.",
      (runs / name / "mailbox").string(), name, name));
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

// The task's seed on every GPU of a group: times of one run are compared with each other, so the
// run's environment says how far the GPUs agree.
Status CompareMembers(Workbench& bench, results::Store& store, search::Observer& observer) {
  auto* group = dynamic_cast<eval::DeviceGroup*>(bench.device.get());
  if (group == nullptr) return {};
  auto seed = codegen::MakeProgram(bench.task.seed.source, bench.task.seed.plan);
  if (!seed) return Failure(std::move(seed.error()));
  std::vector<results::EnvironmentRow> rows;
  std::optional<Nanoseconds> first;
  for (std::size_t i = 0; i < group->size(); ++i) {
    eval::Device& member = group->member(i);
    eval::EvaluatorOptions options;
    options.arch = member.spec().arch;
    auto evaluator = eval::Evaluator::Create(bench.task, *bench.compiler, member, options);
    if (!evaluator) return Failure(std::move(evaluator.error()));
    auto evaluation = (*evaluator)->Evaluate(*seed);
    if (!evaluation) return Fail(std::move(evaluation.error()), member.name());
    if (!evaluation->score) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("the seed does not pass on {}: {}", member.name(),
                              evaluation->verdict.message));
    }
    const Nanoseconds time = *evaluation->score;
    if (!first) first = time;
    for (const eval::GpuIdentity& gpu : member.gpus()) {
      rows.push_back({"seed on " + gpu.uuid, results::FormatTime(time)});
    }
    observer.Line(fmt::format("{} runs the seed in {} ({:+.1f}% of {}'s time)", member.name(),
                              results::FormatTime(time), 100 * (time / *first - 1),
                              group->member(0).name()));
  }
  return store.SetEnvironment(rows);
}

int Search(const std::string& name, Workbench& bench, llm::Client& client, results::Store& store,
           const search::SearchConfig& config, ClientLog& log, const Common& common) {
  const std::vector<results::BaselineRow> baselines = KnownBaselines(bench, common);
  if (auto set = store.SetBaselines(baselines); !set) return Complain(set.error());
  std::unique_ptr<search::Elsewhere> elsewhere;
  if (!config.until.empty()) {
    auto opened = OpenElsewhere(store);
    if (!opened) return Complain(opened.error());
    elsewhere = std::move(*opened);
  }
  std::optional<search::SearchSummary> summary;
  std::string packed;
  {
    // The live line belongs to the search alone: it is gone before the summary is printed.
    TerminalObserver observer(stderr, common.quiet);
    observer.Line(
        fmt::format("{}: {} on {} by the {}; {} rounds x {} ideas x {} branches, frontier {}", name,
                    bench.task.title, bench.device->spec().name,
                    elsewhere ? "other machine" : bench.device->name(), config.rounds, config.ideas,
                    config.branches, config.frontier));
    if (!bench.device->gpus().empty() && baselines.empty()) {
      observer.Line(
          fmt::format("no baseline is known for this GPU; measure them with: grove "
                      "baseline {}",
                      bench.task.name));
    }
    if (auto compared = CompareMembers(bench, store, observer); !compared) {
      return Complain(compared.error());
    }
    search::SearchParts parts{bench.task, *bench.evaluator, *bench.device, client, store, observer};
    parts.profiler = ProfilerOf(bench, config.seed, elsewhere != nullptr);
    parts.elsewhere = elsewhere.get();
    SayWhereAnswersBelong(observer, config, common.runs, name);
    log.To(&observer);
    auto done = search::RunSteered(parts, config, common.stop);
    log.To(nullptr);
    if (!done) {
      observer.Line(fmt::format("the run is as it was; go on with: grove resume {}", name));
      return Complain(done.error());
    }
    summary = std::move(*done);
    if (elsewhere && !elsewhere->awaited().empty()) {
      auto waits = PackAwaited(*elsewhere, store, config, common);
      if (!waits) return Complain(waits.error());
      packed = std::move(*waits);
    }
  }
  PrintSummary(name, *summary, common);
  if (!packed.empty() && !common.json) fmt::print("{}\n", packed);
  if (summary->status == results::RunStatus::kInterrupted) return kExitInterrupted;
  return kExitDone;  // a stop that was asked for is no failure
}

WorkbenchOptions BenchOptions(const search::SearchConfig& config, const Common& common) {
  WorkbenchOptions options = common.bench;
  // What another machine evaluates is compiled and screened for its GPU here.
  options.device = config.until.empty() ? config.device : "emulator";
  options.gpu = config.gpu;
  // Named at the command line again, the folder has moved; else it is where the run found it.
  if (options.tasks.empty()) options.tasks = config.tasks;
  options.seed = config.seed;
  options.suite = config.suite;
  options.cases = config.cases;
  options.demanded = config.demanded;
  options.screen = config.screen != 0;
  return options;
}

}  // namespace

namespace {

// A task's next rounds in a batch: its run is made or gone on with until `rounds` are finished.
int RunOneOfBatch(const std::string& name, const search::SearchConfig& whole, int rounds,
                  const Common& common) {
  search::SearchConfig config = whole;
  const SystemClock clock;
  ClientLog log;
  auto client = MakeClients(config, common.runs / name, clock, log.sink());
  if (!client) return Complain(client.error());
  auto bench = MakeWorkbench(config.task, BenchOptions(config, common));
  if (!bench) return Complain(bench.error());
  std::error_code error;
  const bool there = std::filesystem::is_regular_file(common.runs / name / "run.db", error);
  auto start = search::MakeRunStart(name, (*bench)->task, config, GROVE_VERSION);
  start.environment = EnvironmentOf(**bench);
  const results::StoreOptions options{.linger = search::kLinger};
  auto store = there ? results::Store::Open(common.runs, name, clock, options)
                     : results::Store::Create(common.runs, start, clock, options);
  if (!store) return Complain(store.error());
  if (auto running = (*store)->SetStatus(results::RunStatus::kRunning, "its turn in the batch");
      !running) {
    return Complain(running.error());
  }
  // Goals may be about them.
  if (auto set = (*store)->SetBaselines(KnownBaselines(**bench, common)); !set) {
    return Complain(set.error());
  }
  config.rounds = rounds;
  TerminalObserver observer(stderr, common.quiet);
  const search::SearchParts parts{(*bench)->task,    *(*bench)->evaluator,
                                  *(*bench)->device, **client,
                                  **store,           observer,
                                  nullptr,           ProfilerOf(**bench, config.seed, false)};
  SayWhereAnswersBelong(observer, config, common.runs, name);
  log.To(&observer);
  auto summary = search::RunSteered(parts, config, common.stop);
  log.To(nullptr);
  if (!summary) return Complain(summary.error());
  if (summary->status != results::RunStatus::kFinished) return kExitInterrupted;
  // It has ended.
  if (summary->spent || summary->rounds < rounds || rounds >= whole.rounds) return kExitDone;
  if (auto waits =
          (*store)->SetStatus(results::RunStatus::kStopped, "waits for its turn in the batch");
      !waits) {
    return Complain(waits.error());
  }
  return kExitDone;
}

RunOne BatchRunner(const Common& common) {
  return [&common](const std::string& run, const search::SearchConfig& config, int rounds) {
    return RunOneOfBatch(run, config, rounds, common);
  };
}

// `grove run --dry-run` of several tasks: what each would spend, and all of them at most.
int EstimateOfBatch(const search::BatchSpec& spec, const std::vector<seeds::Task>& tasks,
                    const Common& common) {
  if (auto valid = search::Validate(spec); !valid) return Complain(valid.error());
  auto library = ideas::Library::Load();
  if (!library) return Complain(library.error());
  std::vector<search::TaskEstimate> estimates;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    search::SearchConfig config = search::ConfigOf(spec, spec.tasks[i]);
    if (spec.rounds > 0) config.rounds = std::min(config.rounds, spec.rounds);
    estimates.push_back({search::EstimateSpend(tasks[i], config, *library),
                         search::EstimateLastRound(tasks[i], config, *library)});
  }
  const search::Estimate together =
      search::EstimateTogether(estimates, spec.rounds, spec.config, spec.tokens);
  if (common.json) {
    nlohmann::ordered_json json = EstimateJson(together);
    json["tasks"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      nlohmann::ordered_json task = EstimateJson(estimates[i].alone);
      task["task"] = spec.tasks[i].name;
      task["weight"] = spec.tasks[i].weight;
      json["tasks"].push_back(std::move(task));
    }
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  fmt::print("{} tasks, each as if it were alone{}:\n", tasks.size(),
             spec.rounds > 0
                 ? fmt::format(" with what it may have of the {} shared rounds", spec.rounds)
                 : "");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    fmt::print("  {:<20} weight {:<6.4g} {} tokens expected, {} at most\n", spec.tasks[i].name,
               spec.tasks[i].weight, results::FormatCount(estimates[i].alone.expected.tokens),
               results::FormatCount(estimates[i].alone.largest.tokens));
  }
  fmt::print("\nall of them{}:\n{}",
             spec.rounds > 0 ? fmt::format(", {} rounds together", spec.rounds) : "",
             EstimateText(together));
  return kExitDone;
}

int StartBatch(const RunOptions& options, search::SearchConfig config, const Common& common) {
  if (!config.until.empty()) {
    return Complain(
        {ErrorCode::kInvalidInput,
         "--until evaluate is for one task: which task of a batch has the next round is decided by "
         "the times of the rounds before, and those come from the other machine; start a run for "
         "each (`grove run TASK --until evaluate --name NAME.TASK`) and carry their packages "
         "together (`grove eval-package` takes many)"});
  }
  search::BatchSpec spec;
  if (!options.batch.empty()) {
    auto text = ReadFile(options.batch, 1 << 20);
    if (!text) return Complain(text.error());
    auto parsed = search::ParseBatch(*text, options.batch.string());
    if (!parsed) return Complain(parsed.error());
    spec = std::move(*parsed);
  }
  for (const std::string& text : options.tasks) {
    search::BatchTask task;
    const auto equals = text.find('=');
    task.name = text.substr(0, equals);
    task.suite = config.suite;
    task.cases = config.cases;
    if (equals != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto [rest, bad] = std::from_chars(text.data() + equals + 1, end, task.weight);
      if (bad != std::errc() || rest != end) {
        return Complain({ErrorCode::kInvalidInput,
                         fmt::format("'{}': a task is written TASK or TASK=WEIGHT", text)});
      }
    }
    spec.tasks.push_back(std::move(task));
  }
  if (auto priced = SetPrices(config); !priced) return Complain(priced.error());
  spec.config = std::move(config);
  if (!common.bench.tasks.empty()) {
    spec.config.tasks = std::filesystem::absolute(common.bench.tasks).lexically_normal().string();
  }
  // Every task is there before anything is written.
  std::vector<seeds::Task> loaded_tasks;
  for (const search::BatchTask& task : spec.tasks) {
    auto loaded =
        seeds::LoadTask(spec.config.tasks.empty() ? seeds::DefaultTasksFolder()
                                                  : std::filesystem::path(spec.config.tasks),
                        task.name);
    if (!loaded) return Complain(loaded.error());
    auto cases = seeds::SelectCases(*loaded, task.suite, task.cases);
    if (!cases) return Complain(cases.error());
    auto fits = seeds::DemandClass(std::move(*cases), spec.config.demanded);
    if (!fits) return Complain(fits.error());
    loaded_tasks.push_back(*std::move(fits));
    if (UsesPlaybook(spec.config)) {
      if (auto known = llm::CheckPlaybookKnows(*loaded, ShareFolder("playbook")); !known) {
        return Complain(known.error());
      }
    }
  }
  if (options.dry_run) return EstimateOfBatch(spec, loaded_tasks, common);
  const std::string name = options.name.empty() ? FreeName(common.runs, "batch") : options.name;
  return BatchCommand(name, spec, BatchRunner(common), common);
}

}  // namespace

int RunCommand(const RunOptions& options, const Common& common) {
  search::SearchConfig config = options.config;
  if (options.tasks.size() > 1 || !options.batch.empty()) {
    if (auto set = ApplySettings(options.settings, config); !set) return Complain(set.error());
    return StartBatch(options, std::move(config), common);
  }
  if (!options.tasks.empty()) config.task = options.tasks[0];
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
    return Complain({ErrorCode::kInvalidInput, "name a task (grove tasks lists them) or --batch"});
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
    auto selected = seeds::SelectCases(*task, config.suite, config.cases);
    if (!selected) return Complain(selected.error());
    auto demanding = seeds::DemandClass(std::move(*selected), config.demanded);
    if (!demanding) return Complain(demanding.error());
    auto library = ideas::Library::Load();
    if (!library) return Complain(library.error());
    const search::Estimate estimate = search::EstimateSpend(*demanding, config, *library);
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
  if (!config.until.empty()) {
    if (auto packable = CheckPackable((*bench)->task); !packable) return Complain(packable.error());
  }
  if (config.replay.empty() && UsesPlaybook(config)) {
    const auto known = llm::CheckPlaybookKnows((*bench)->task, ShareFolder("playbook"));
    if (!known) return Complain(known.error());
  }

  std::vector<std::string> scored;
  for (const seeds::Case& task_case : (*bench)->task.cases) {
    if (task_case.role == seeds::CaseRole::kScored) scored.push_back(task_case.name);
  }
  for (const std::string& text : config.goals) {
    if (auto fits = search::CheckGoal(*search::ParseGoal(text), scored); !fits) {
      return Complain(fits.error());
    }
  }

  auto start = search::MakeRunStart(name, (*bench)->task, config, GROVE_VERSION);
  start.environment = EnvironmentOf(**bench);
  auto store = results::Store::Create(common.runs, start, clock, {.linger = search::kLinger});
  if (!store) return Complain(store.error());
  return Search(name, **bench, **client, **store, config, log, common);
}

int ResumeCommand(const std::string& run, const std::map<std::string, std::string>& flags,
                  const Common& common) {
  if (IsBatch(common, run)) {
    if (!flags.empty()) {
      return Complain(
          {ErrorCode::kInvalidInput,
           fmt::format("'{}' is a batch, whose settings stand in its file; --{} changes "
                       "those of a single run only",
                       run, flags.begin()->first)});
    }
    return ResumeBatchCommand(run, BatchRunner(common), common);
  }
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

  auto store = results::Store::Open(common.runs, *name, clock, {.linger = search::kLinger});
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
