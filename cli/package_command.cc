#include "cli/package_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <mutex>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/known_baselines.h"
#include "cli/profiler.h"
#include "cli/terminal.h"
#include "codegen/program.h"
#include "eval/baselines.h"
#include "eval/package.h"
#include "results/format.h"
#include "search/profiling.h"
#include "search/stages.h"
#include "seeds/live.h"

namespace grove::cli {
namespace {

namespace fs = std::filesystem;
using search::Elsewhere;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20;
constexpr std::uintmax_t kLargestTask = std::uintmax_t{64} << 20;
// Incumbents that travel with a package, and challengers that are measured beside the best of them.
constexpr std::size_t kIncumbents = 4;
constexpr std::size_t kChallengers = 4;
// A challenger slower than the incumbent by more than this is not worth a second measurement.
constexpr double kNear = 1.02;
constexpr std::chrono::seconds kBetweenWrites(5);
// After this no further program is profiled; one takes a few seconds, and two minutes at most.
constexpr std::chrono::seconds kProfiling(180);

// The plain files of the task's folder.
Result<std::vector<std::pair<std::string, std::string>>> FilesOf(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file()) continue;
    auto text = ReadFile(at->path(), kLargestTask);
    if (!text) return Failure(std::move(text.error()));
    total += text->size();
    files.emplace_back(at->path().filename().string(), std::move(*text));
  }
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot read {}: {}", folder.string(), error.message()));
  }
  if (total > kLargestTask) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the files of {} have {} bytes, a package takes {}", folder.string(),
                            total, kLargestTask));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The folder of a package's task below `tasks`, where LoadTask finds it by name.
Status WriteTask(const eval::EvaluationPackage& package, const fs::path& tasks) {
  std::error_code error;
  fs::create_directories(tasks / package.task, error);
  for (const auto& [name, content] : package.files) {
    if (auto written = WriteFileAtomic(tasks / package.task / name, content); !written) {
      return written;
    }
  }
  return {};
}

// The evaluation of one package: its result grows and is written every few seconds, so that what
// was measured survives whatever ends the process.
class PackageRun {
 public:
  // `profiles`: of so many of the fastest programs; 0 = none.
  PackageRun(const eval::EvaluationPackage& package, const Hash& hash, fs::path output,
             std::size_t profiles)
      : package_(package), output_(std::move(output)), profiles_(profiles) {
    result_.run = package.run;
    result_.run_key = package.run_key;
    result_.number = package.number;
    result_.package = hash;
    result_.version = GROVE_VERSION;
  }

  Status Run(Workbench& bench, const Common& common, search::Observer& observer) {
    result_.gpus = bench.device->gpus();
    for (const results::EnvironmentRow& row : MachineRows(bench)) {
      result_.environment.emplace_back(row.key, row.value);
    }
    result_.baselines = CurrentBaselines(result_.gpus.front(), bench.task, common);
    std::vector<codegen::KernelProgram> programs;
    for (const eval::PackagedProgram& packed : package_.programs) {
      auto program = codegen::MakeProgram(packed.source, packed.plan);
      if (!program) return Fail(std::move(program.error()), packed.name);
      programs.push_back(std::move(*program));
    }
    {
      search::Stages stages(*bench.evaluator, search::LimitsFor(*bench.device), common.stop);
      for (std::size_t i = 0; i < programs.size(); ++i) {
        const std::string& name = package_.programs[i].name;
        stages.Submit(name, programs[i],
                      [this, i, &observer](Result<std::optional<eval::Evaluation>> done) {
                        Take(i, std::move(done), observer);
                      });
      }
    }
    if (!error_ && !common.stop.stop_requested()) Compare(bench, programs, observer);
    result_.complete = result_.evaluations.size() == package_.programs.size();
    if (!error_ && profiles_ > 0 && !common.stop.stop_requested()) {
      // What was measured is safe before a profiler takes its time.
      if (auto written = Write(); !written) return written;
      Profile(bench, common, observer);
    }
    if (auto written = Write(); !written) return written;
    if (error_) return Failure(*error_);
    return {};
  }

  const eval::PackageResult& result() const { return result_; }

 private:
  struct Challenger {
    std::size_t index = 0;  // of the package's programs
    Nanoseconds score{0};
  };

  void Take(std::size_t index, Result<std::optional<eval::Evaluation>> done,
            search::Observer& observer) {
    const std::scoped_lock lock(mutex_);
    if (!done) {
      if (!error_ || error_->code == ErrorCode::kCancelled) error_ = done.error();
      return;
    }
    const eval::PackagedProgram& program = package_.programs[index];
    const eval::Evaluation& evaluation = **done;
    observer.Line(fmt::format(
        "  {:<10} {}{}", program.name, eval::Name(evaluation.verdict.kind),
        evaluation.score ? "  " + results::FormatTime(*evaluation.score) : std::string()));
    result_.evaluations.push_back({program.identity, evaluation});
    if (evaluation.verdict.passed() && evaluation.score) {
      challengers_.push_back({index, *evaluation.score});
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - written_ < kBetweenWrites) return;
    written_ = now;
    if (auto kept = Write(); !kept && !error_) error_ = kept.error();
  }

  // The fastest new kernels beside the best incumbent, which is where a search needs to know.
  void Compare(const Workbench& bench, const std::vector<codegen::KernelProgram>& programs,
               search::Observer& observer) {
    if (package_.incumbents.empty()) return;
    const auto incumbent =
        codegen::MakeProgram(package_.incumbents.front().source, package_.incumbents.front().plan);
    if (!incumbent) return;
    std::sort(challengers_.begin(), challengers_.end(),
              [](const auto& a, const auto& b) { return a.score < b.score; });
    if (challengers_.size() > kChallengers) challengers_.resize(kChallengers);
    // Each beside the incumbent, and the others beside the fastest: what a search may ask for.
    const Challenger* fastest = nullptr;
    const eval::PackagedProgram& best = package_.incumbents.front();
    for (const Challenger& challenger : challengers_) {
      const eval::PackagedProgram& packed = package_.programs[challenger.index];
      const codegen::KernelProgram& program = programs[challenger.index];
      if (packed.identity == best.identity) continue;
      const double ratio = Contest(bench, best, *incumbent, packed, program, observer);
      if (ratio > kNear) break;  // the ones after it are slower still
      if (fastest == nullptr) {
        fastest = &challenger;
      } else if (challenger.score / fastest->score < kNear) {
        Contest(bench, package_.programs[fastest->index], programs[fastest->index], packed, program,
                observer);
      }
    }
  }

  // The challenger's time over the incumbent's; infinite when they could not be measured.
  double Contest(const Workbench& bench, const eval::PackagedProgram& incumbent,
                 const codegen::KernelProgram& incumbent_program,
                 const eval::PackagedProgram& challenger,
                 const codegen::KernelProgram& challenger_program, search::Observer& observer) {
    auto pairs = bench.evaluator->ComparePair(incumbent_program, challenger_program);
    if (!pairs || pairs->empty()) {
      if (!pairs) {
        observer.Line(fmt::format("  {} beside {}: {}", challenger.name, incumbent.name,
                                  pairs.error().message));
      }
      return std::numeric_limits<double>::infinity();
    }
    const double ratio = pairs->front().outcome.ratio;
    observer.Line(fmt::format("  {:<10} beside {}: {:.3f} of its time", challenger.name,
                              incumbent.name, ratio));
    result_.contests.push_back({incumbent.identity, challenger.identity, std::move(*pairs)});
    return ratio;
  }

  void Profile(Workbench& bench, const Common& common, search::Observer& observer) {
    const auto cases = bench.evaluator->timed_cases();
    if (cases.empty()) return;
    std::string counters_problem;
    const search::Profiler profiler =
        [&](const codegen::KernelProgram& program) -> Result<search::KernelProfile> {
      auto look = LookAt(bench, program, cases.front(), package_.seed);
      if (!look) return Failure(std::move(look.error()));
      counters_problem = look->counters_problem;
      return std::move(look->profile);
    };
    for (const std::string& line :
         search::ProfilePackage(profiler, package_, result_, profiles_, kProfiling, common.stop)) {
      observer.Line(line);
    }
    if (!counters_problem.empty()) observer.Line("  no hardware counters: " + counters_problem);
  }

  Status Write() { return WriteFileAtomic(output_, Encode(result_)); }

  const eval::EvaluationPackage& package_;
  const fs::path output_;
  const std::size_t profiles_;
  std::mutex mutex_;
  eval::PackageResult result_;  // GUARDED_BY(mutex_) while Run evaluates, as are the next three
  std::vector<Challenger> challengers_;  // that passed
  std::optional<Error> error_;
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

int EvalOne(const fs::path& file, const EvalPackageOptions& options, const Common& common) {
  auto text = ReadFile(file, kLargestFile);
  if (!text) return Complain(text.error());
  auto package = eval::DecodePackage(*text);
  if (!package) return Complain(Error(std::move(package.error()).Context(file.string())));
  auto folder = TemporaryFolder::Make("grove-package");
  if (!folder) return Complain(folder.error());
  if (auto written = WriteTask(*package, folder->path()); !written) {
    return Complain(written.error());
  }
  WorkbenchOptions bench_options = common.bench;
  bench_options.tasks = folder->path();
  if (!options.device.empty()) bench_options.device = options.device;
  bench_options.suite = package->suite;
  bench_options.cases = package->cases;
  bench_options.demanded = package->demanded;
  bench_options.seed = package->seed;
  auto bench = MakeWorkbench(package->task, bench_options);
  if (!bench) return Complain(bench.error());
  if (auto packable = CheckPackable((*bench)->task); !packable) return Complain(packable.error());
  if ((*bench)->device->gpus().empty()) {
    return Complain({ErrorCode::kUnavailable,
                     "a package is evaluated on a GPU, and this machine has none (grove doctor)"});
  }
  fs::path output = file;
  output.replace_extension(".result");
  // Packages of several runs have the same names.
  if (!options.output.empty()) {
    output = options.output / fmt::format("{}-{:04}.result", package->run, package->number);
  }
  TerminalObserver observer(stderr, common.quiet);
  observer.Line(fmt::format("{}: package {:04}, {} programs for {}, on {}", package->run,
                            package->number, package->programs.size(), package->task,
                            (*bench)->device->spec().name));
  PackageRun run(*package, HashText(*text), output,
                 options.no_profile ? 0 : static_cast<std::size_t>(options.profile));
  const Status done = run.Run(**bench, common, observer);
  const eval::PackageResult& result = run.result();
  if (common.json) {
    nlohmann::ordered_json json;
    json["package"] = file.string();
    json["result"] = output.string();
    json["programs"] = package->programs.size();
    json["evaluated"] = result.evaluations.size();
    json["contests"] = result.contests.size();
    json["profiles"] = result.profiles.size();
    json["complete"] = result.complete;
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}: {} of {} programs evaluated; take it back and: grove absorb {}\n",
               output.string(), result.evaluations.size(), package->programs.size(),
               output.filename().string());
  }
  if (!done) return Complain(done.error());
  return kExitDone;
}

}  // namespace

Status CheckPackable(const seeds::Task& task) {
  if (std::none_of(task.cases.begin(), task.cases.end(), seeds::IsLive)) return {};
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("task {} is judged by its own module (reference = \"live\"), which no "
                          "package carries: import it with --reference kernels",
                          task.name));
}

Result<std::unique_ptr<Elsewhere>> OpenElsewhere(results::Store& store) {
  auto data = store.Load();
  if (!data) return Failure(std::move(data.error()));
  auto elsewhere = Elsewhere::Open(store.folder(), search::RunKey(data->run));
  if (!elsewhere) return elsewhere;
  for (const eval::PackageResult& result : (*elsewhere)->results()) {
    std::vector<results::EnvironmentRow> environment = {{"device", "elsewhere"}};
    for (const auto& [key, value] : result.environment) environment.push_back({key, value});
    if (auto set = store.SetEnvironment(environment); !set) return Failure(std::move(set.error()));
    std::vector<results::BaselineRow> baselines;
    for (const auto& known : result.baselines) {
      baselines.push_back(RowOf(known, result.gpus.front()));
    }
    if (auto set = store.SetBaselines(baselines); !set) return Failure(std::move(set.error()));
  }
  return elsewhere;
}

Result<std::string> PackAwaited(Elsewhere& elsewhere, results::Store& store,
                                const search::SearchConfig& config, const Common& common) {
  auto data = store.Load();
  if (!data) return Failure(std::move(data.error()));
  eval::EvaluationPackage draft;
  draft.run = data->run.name;
  draft.run_key = search::RunKey(data->run);
  draft.version = GROVE_VERSION;
  draft.task = config.task;
  const fs::path tasks = !common.bench.tasks.empty() ? common.bench.tasks
                         : !config.tasks.empty()     ? fs::path(config.tasks)
                                                     : seeds::DefaultTasksFolder();
  auto files = FilesOf(tasks / config.task);
  if (!files) return Failure(std::move(files.error()));
  draft.files = std::move(*files);
  draft.suite = config.suite;
  draft.cases = config.cases;
  draft.demanded = config.demanded;
  draft.gpu = config.gpu;
  draft.seed = config.seed;
  auto incumbents = search::IncumbentsOf(store, *data, kIncumbents);
  if (!incumbents) return Failure(std::move(incumbents.error()));
  draft.incumbents = std::move(*incumbents);
  auto packed = elsewhere.Pack(std::move(draft));
  if (!packed) return Failure(std::move(packed.error()));
  if (packed->fresh) {
    auto noted = store.AddEvent(
        "package", fmt::format("package {:04}: {} programs", packed->number, packed->programs));
    if (!noted) return Failure(std::move(noted.error()));
  }
  const std::string file = packed->file.string();
  return fmt::format(
      "{} programs wait in {}\n"
      "  on a machine with a GPU:  grove eval-package {}\n"
      "  back here:                grove absorb {:04}.result --run {} && grove resume {}",
      packed->programs, file, packed->file.filename().string(), packed->number, data->run.name,
      data->run.name);
}

int EvalPackageCommand(const EvalPackageOptions& options, const Common& common) {
  if (!options.output.empty()) {
    std::error_code error;
    fs::create_directories(options.output, error);
    if (error) {
      return Complain(
          {ErrorCode::kResource,
           fmt::format("cannot make {}: {}", options.output.string(), error.message())});
    }
  }
  // One that fails does not hold up the others.
  int worst = kExitDone;
  for (const fs::path& file : options.packages) {
    if (common.stop.stop_requested()) return kExitInterrupted;
    worst = std::max(worst, EvalOne(file, options, common));
  }
  return worst;
}

int AbsorbCommand(const AbsorbOptions& options, const Common& common) {
  int worst = kExitDone;
  for (const fs::path& file : options.results) {
    auto text = ReadFile(file, kLargestFile);
    if (!text) return Complain(text.error());
    auto result = eval::DecodeResult(*text);
    if (!result) {
      worst = std::max(worst, Complain(Error(std::move(result.error()).Context(file.string()))));
      continue;
    }
    auto opened = OpenRun(common.runs, options.run.empty() ? result->run : options.run);
    if (!opened) {
      worst = std::max(worst, Complain(opened.error()));
      continue;
    }
    const std::string& name = opened->data.run.name;
    auto absorbed = search::Absorb(common.runs / name, opened->data.run, *text, file);
    if (!absorbed) {
      worst = std::max(worst, Complain(Error(std::move(absorbed.error()).Context(file.string()))));
      continue;
    }
    if (common.json) {
      nlohmann::ordered_json json;
      json["run"] = name;
      json["package"] = absorbed->number;
      json["evaluations"] = absorbed->evaluations;
      json["missing"] = absorbed->missing;
      json["profiles"] = absorbed->profiles;
      json["gpu"] = absorbed->gpu;
      json["in_place"] = absorbed->in_place;
      json["run_is_live"] = opened->data.run.live;
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{}: {} evaluations{} of package {:04} on {}{}{}; go on with: grove resume {}\n",
                 name, absorbed->evaluations,
                 absorbed->profiles == 0 ? "" : fmt::format(" and {} profiles", absorbed->profiles),
                 absorbed->number, absorbed->gpu,
                 absorbed->in_place ? ", in place already and good" : "",
                 absorbed->missing == 0
                     ? ""
                     : fmt::format(" ({} are missing and will be packed again)", absorbed->missing),
                 name);
      if (opened->data.run.live) {
        fmt::print(
            "  a process is running {0} and does not see it before it starts again: grove stop "
            "{0}, then grove resume {0}\n",
            name);
      }
    }
  }
  return worst;
}

PackageApp::PackageApp(CLI::App& app) {
  eval_app_ =
      app.add_subcommand("eval-package", "evaluate what a search on another machine has packed");
  eval_app_->add_option("packages", eval_.packages, "files NNNN.package")
      ->required()
      ->check(CLI::ExistingFile);
  eval_app_->add_option("-o,--output", eval_.output, "folder of the results (default: beside)");
  eval_app_->add_option("--device", eval_.device, "auto, cuda, cuda:N, cuda:0,1 or all [auto]");
  auto* no_profile =
      eval_app_->add_flag("--no-profile", eval_.no_profile, "profile none (see --profile)");
  eval_app_
      ->add_option("--profile", eval_.profile,
                   "profile so many of a package's fastest kernels, and the one they compete with")
      ->check(CLI::Range(0, 100))
      ->capture_default_str()
      ->excludes(no_profile);
  absorb_app_ = app.add_subcommand("absorb", "take results of eval-package into their run");
  absorb_app_->add_option("results", absorb_.results, "files NNNN.result")
      ->required()
      ->check(CLI::ExistingFile);
  absorb_app_->add_option("--run", absorb_.run, "the run (default: the one that the result names)");
}

std::optional<int> PackageApp::Run(const Common& common) const {
  if (*eval_app_) return EvalPackageCommand(eval_, common);
  if (*absorb_app_) return AbsorbCommand(absorb_, common);
  return std::nullopt;
}

}  // namespace grove::cli
