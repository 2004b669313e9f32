#include "cli/app.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/gallery_command.h"
#include "cli/import_command.h"
#include "cli/inspect_app.h"
#include "cli/interrupt.h"
#include "cli/kernel_command.h"
#include "cli/package_command.h"
#include "cli/rank_command.h"
#include "cli/steer_app.h"
#include "cli/task_path.h"

namespace grove::cli {
namespace {

constexpr const char* kFooter = R"(
Examples:
  grove run softmax --rounds 3        a search on this machine, no GPU and no API key needed
  grove tree                          the idea tree of the last run
  grove show best                     its best kernel: code, plan, idea, numbers
  grove hint softmax-1 "try cp.async" a word to a run that is under way
  grove eval softmax my.cu my.json    one kernel by hand

Exit codes: 0 done, 1 the kernel or run failed, 2 bad input, 3 the machine failed, 130 interrupted.)";

const CLI::App* FindSubcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

// CLI11 says what was not expected; the nearest valid word is for us to add.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> valid;
  const CLI::App* level = &app;
  for (const std::string& argument : arguments) {
    if (const CLI::App* sub = FindSubcommand(*level, argument)) level = sub;
  }
  for (const CLI::App* where : {level, &app}) {
    for (const CLI::Option* option : where->get_options()) {
      for (const std::string& name : option->get_lnames()) valid.push_back("--" + name);
    }
  }
  for (const CLI::App* sub : level->get_subcommands({})) valid.push_back(sub->get_name());
  for (const std::string& argument : arguments) {
    const std::string word = argument.substr(0, argument.find('='));
    if (std::find(valid.begin(), valid.end(), word) != valid.end()) continue;
    if (level->get_name() == word || FindSubcommand(app, word) != nullptr) continue;
    if (level != &app && word.rfind("--", 0) != 0) continue;  // an operand, not a name of ours
    if (const std::string near = Nearest(word, valid); !near.empty()) {
      return fmt::format("; did you mean '{}'?", near);
    }
  }
  return "";
}

void AddBenchOptions(CLI::App& app, WorkbenchOptions& bench) {
  app.add_option("--device", bench.device, "auto, emulator, cuda, cuda:N, cuda:N,M or all")
      ->capture_default_str();
  app.add_option("--gpu", bench.gpu, "the GPU whose time is modelled (grove devices)")
      ->capture_default_str();
}

// A flag for every setting of the table whose key begins with `prefix`, but for those that the
// command has already. Budgets of parts are left out of the help, which has one screen; a command
// that changes a run shows no defaults, since what is not given stays as the run has it.
void AddSettings(CLI::App& app, const std::string& prefix, bool of_a_run = false) {
  for (const search::Setting& setting : search::Settings()) {
    if (setting.key == "task" || setting.key == "tasks") continue;
    if (setting.key.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string flag = FlagOf(setting.key);
    if (app.get_option_no_throw(flag) != nullptr) continue;
    std::string help = setting.help;
    if (!setting.value.empty() && !of_a_run) help += fmt::format(" [{}]", setting.value);
    // Without a variable: the text is read from the option when all sources are known.
    auto* option = app.add_option_function<std::string>(
        flag, [](const std::string&) {}, help);
    option->type_name("");
    const bool part = std::count(setting.key.begin(), setting.key.end(), '.') > 1;
    if (part) option->group("");
  }
  app.footer(
      "Budgets of parts: --budget-round-tokens, --budget-idea-dollars, ... (docs/models.md)");
}

// The settings among the flags that were given.
std::map<std::string, std::string> FlagsOf(const CLI::App& app) {
  std::map<std::string, std::string> flags;
  for (const search::Setting& setting : search::Settings()) {
    const CLI::Option* option = app.get_option_no_throw(FlagOf(setting.key));
    if (option == nullptr || option->count() == 0) continue;
    std::string text;
    for (const std::string& part : option->results()) text += (text.empty() ? "" : ",") + part;
    flags[setting.key] = text;
  }
  return flags;
}

int Dispatch(int argc, const char* const* argv) {
  CLI::App app{"grove grows fast CUDA kernels by branching tree search", "grove"};
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", "grove " GROVE_VERSION);

  Common common;
  std::string runs = common.runs.string();
  app.add_option("--runs", runs, "folder of the runs (default: runs)")
      ->envname("GROVE_RUNS")
      ->option_text("DIR ($GROVE_RUNS)");
  app.add_option("--tasks", common.bench.tasks, "folder of the tasks")
      ->envname("GROVE_TASKS")
      ->option_text("DIR ($GROVE_TASKS)");
  app.add_option("--cache", common.bench.cache, "folder of the compile cache")
      ->envname("GROVE_CACHE")
      ->option_text("DIR ($GROVE_CACHE)");
  app.add_option("--jobs", common.bench.jobs, "parallel compilations (default: cores)")
      ->envname("GROVE_JOBS")
      ->check(CLI::Range(1, 256))
      ->option_text("N ($GROVE_JOBS)");
  std::filesystem::path config_file;
  app.add_option("--config", config_file, "configuration file (default: grove.toml if it is here)")
      ->envname("GROVE_CONFIG")
      ->option_text("FILE ($GROVE_CONFIG)");
  app.add_flag("--json", common.json, "print one JSON document");
  app.add_flag("-q,--quiet", common.quiet, "no progress")->envname("GROVE_QUIET");
  app.fallthrough();

  RunOptions run;
  auto* run_app = app.add_subcommand("run", "search for a faster kernel of a task");
  run_app->add_option(
      "task", run.tasks,
      "what to make fast (grove tasks), or a task's folder; several, as TASK or TASK=WEIGHT, share "
      "the budget");
  run_app->add_option("--batch", run.batch, "file with tasks, weights and limits (docs/search.md)")
      ->check(CLI::ExistingFile);
  run_app->add_option("--name", run.name, "name of the run (default: TASK-N)");
  run_app->add_flag("--screen{1}")
      ->description("run every candidate in the emulator before it reaches a GPU");
  run_app
      ->add_option_function<std::vector<std::string>>(
          "--goal", [](const std::vector<std::string>&) {},
          "ends the run when met: 'case n512 < 5000us', '2x over seed', '90% of floor'")
      ->allow_extra_args(false);
  AddSettings(*run_app, "");
  run_app->add_flag("--dry-run", run.dry_run, "say what it would spend, and stop");
  const SteerApp steer(app);
  const PackageApp package(app);
  const GalleryApp gallery(app);

  std::string resume_run;
  auto* resume_app = app.add_subcommand("resume", "go on with a run that stopped or was killed");
  resume_app->add_option("run", resume_run, "the run (default: the last one)");
  AddSettings(*resume_app, "rounds", true);
  AddSettings(*resume_app, "patience", true);
  AddSettings(*resume_app, "budget.", true);

  ModelsOptions models;
  auto* models_app = app.add_subcommand("models", "the models configured, and whether they answer");
  AddSettings(*models_app, "model");
  AddSettings(*models_app, "base_url");
  models_app->add_flag("!--no-ping", models.ping, "ask them nothing");
  MailboxOptions mailbox;
  auto* mailbox_app = app.add_subcommand("mailbox", "what waits for an answer in a run's mailbox");
  mailbox_app->add_option("run", mailbox.run, "the run (default: the last one)");
  mailbox_app->add_option("--check", mailbox.check, "whether this reply would be taken");
  std::string ledger_run;
  auto* ledger_app = app.add_subcommand("ledger", "what a run may spend and has spent");
  ledger_app->add_option("run", ledger_run, "the run (default: the last one)");
  std::string init_file = "grove.toml";
  auto* init_app = app.add_subcommand("init", "write a commented configuration file");
  init_app->add_option("file", init_file, "where to")->capture_default_str();

  TreeCommandOptions tree;
  auto* tree_app = app.add_subcommand("tree", "the idea tree of a run");
  tree_app->add_option("run", tree.run, "the run (default: the last one)");
  tree_app->add_option("--round", tree.round, "this round only")->check(CLI::NonNegativeNumber);
  tree_app->add_option("--depth", tree.depth, "1 rounds, 2 ideas, 3 candidates")
      ->check(CLI::Range(1, 3));
  tree_app->add_flag("--best-path", tree.best_path, "only what led to the best kernel");
  tree_app->add_flag("--explain", tree.explain, "why each kernel was kept or pruned");

  std::string kernel;
  std::string show_run;
  std::filesystem::path show_output;
  auto* show_app = app.add_subcommand("show", "one kernel: code, plan, idea, verdict, numbers");
  show_app->add_option("kernel", kernel, "r2.i3.b1, seed or best, with RUN/ in front if need be")
      ->required();
  show_app->add_option("--run", show_run, "the run (default: the last one)");
  show_app->add_option("-o,--output", show_output,
                       "a file for the source; the plan goes beside it, as .json");

  const InspectApp inspect(app);
  auto* runs_app = app.add_subcommand("runs", "the runs there are");

  EvalOptions eval;
  auto* eval_app = app.add_subcommand("eval", "evaluate one kernel by hand");
  eval_app->add_option("task", eval.task, "the task it is for")->required();
  eval_app->add_option("source", eval.source, "CUDA C++ file")->required();
  eval_app->add_option("plan", eval.plan,
                       "launch plan, JSON (default: SOURCE with .json, or its grove: comments)");
  eval_app->add_option("--suite", common.bench.suite,
                       "whose cases (default: the first that has all of --cases)");
  eval_app
      ->add_option("--cases", common.bench.cases,
                   "scored or extra cases to time (default: the suite's scored ones)")
      ->delimiter(',');
  eval_app
      ->add_option("--profile", common.bench.profile,
                   "of the task's checker: strict or competition (default: the task's)")
      ->check(CLI::IsMember({"strict", "competition"}));
  eval_app->add_option("--class", common.bench.demanded,
                       "of accuracy that is demanded: fp64, fp32, tf32, fp16, bf16 or fp8 "
                       "(default: the task's)");
  eval_app->add_flag("--screen", common.bench.screen, "in the emulator first, then on the GPU");
  eval_app->add_option("--seed", common.bench.seed, "of the inputs")->capture_default_str();
  AddBenchOptions(*eval_app, common.bench);

  auto* tasks_app = app.add_subcommand("tasks", "the tasks there are");
  std::string suite;
  tasks_app->add_option("--suite", suite, "the tasks of this suite only");
  std::string task;
  auto* tasks_show = tasks_app->add_subcommand("show", "one task: contract, cases, seed");
  tasks_show->add_option("name", task, "the task")->required();
  LintCommandOptions lint;
  auto* tasks_lint = tasks_app->add_subcommand("lint", "whether a task is fit to be searched");
  auto* lint_task = tasks_lint->add_option("name", lint.task, "the task");
  tasks_lint->add_flag("--all", lint.all, "every task there is")->excludes(lint_task);
  tasks_lint->add_flag("--small", lint.small, "the cheapest case of each kind only");
  std::string new_task;
  auto* tasks_new = tasks_app->add_subcommand("new", "start a task: a folder from a template");
  tasks_new->add_option("name", new_task, "the new task's name")->required();
  auto* devices_app =
      app.add_subcommand("devices", "the GPUs that are here, and those that can be modelled");
  auto* doctor_app =
      app.add_subcommand("doctor", "what this machine has, and how fast it really is");
  doctor_app->add_option("--device", common.bench.device, "auto or cuda:N")->capture_default_str();
  BaselineOptions baseline;
  auto* baseline_app =
      app.add_subcommand("baseline", "measure what a task is compared with, and keep it");
  baseline_app->add_option("task", baseline.task, "the task, or its folder")->required();
  auto* torch =
      baseline_app->add_flag("--torch", baseline.torch, "also PyTorch, eager and torch.compile");
  baseline_app->add_option("--python", baseline.python, "the interpreter that has PyTorch")
      ->envname("GROVE_PYTHON");
  baseline_app
      ->add_option("--import", baseline.import,
                   "take in what torch_baseline.py wrote, measure nothing")
      ->excludes(torch);
  baseline_app->add_option("--cases", common.bench.cases, "scored cases (default: all)")
      ->delimiter(',');
  baseline_app->add_option("--suite", common.bench.suite, "whose cases");
  AddBenchOptions(*baseline_app, common.bench);
  ProfileOptions profile;
  auto* profile_app = app.add_subcommand(
      "profile", "one kernel closer: modes, launches, instructions, hardware counters");
  profile_app->add_option("kernel", profile.kernel, "as for show")->required();
  profile_app->add_option("--run", profile.run, "the run (default: the last one)");
  profile_app->add_option("--case", profile.case_name, "a scored case (default: the first)");
  AddBenchOptions(*profile_app, common.bench);

  RankCommandOptions rank;
  auto* rank_app = AddRank(app, rank);

  const ImportApp import(app);
  const KernelApp kernels(app);

  GauntletCommandOptions gauntlet;
  auto* gauntlet_app =
      app.add_subcommand("gauntlet", "prove that no cheating, wrong or hostile kernel is kept");
  gauntlet_app->add_option("--only", gauntlet.only, "programs whose name matches (* and ?)");
  gauntlet_app->add_option("--folder", gauntlet.folder, "folder of the programs");
  gauntlet_app->add_option("--seed", common.bench.seed, "of the inputs")->capture_default_str();
  gauntlet_app
      ->add_option("--sanitize", gauntlet.sanitize,
                   "run the honest ones under compute-sanitizer instead: memcheck, racecheck, "
                   "initcheck, synccheck")
      ->delimiter(',');
  gauntlet_app
      ->add_option("--limit", gauntlet.limit_seconds,
                   "seconds for --sanitize; the rest is left out and counted")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  AddBenchOptions(*gauntlet_app, common.bench);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    std::string message = error.what();
    while (!message.empty() && message.back() == '\n') message.pop_back();
    fmt::print(stderr, "grove: {}{} (grove --help)\n", message, Suggestion(app, arguments));
    return kExitBadInput;
  }
  auto from_file = ReadProgramSettings(config_file);
  if (!from_file) {
    fmt::print(stderr, "grove: {}\n", from_file.error().message);
    return ExitCodeOf(from_file.error());
  }
  // What neither a flag nor the environment has said. Of the options of one name only those of the
  // command that was given count.
  const auto unsaid = [&](const char* flag) {
    const auto given = [&](const CLI::App& level) {
      const CLI::Option* option = level.get_option_no_throw(flag);
      return option != nullptr && option->count() > 0;
    };
    const auto parsed = app.get_subcommands();
    return !given(app) && std::none_of(parsed.begin(), parsed.end(),
                                       [&](const CLI::App* sub) { return given(*sub); });
  };
  if (from_file->runs && unsaid("--runs")) runs = *from_file->runs;
  if (from_file->tasks && unsaid("--tasks")) common.bench.tasks = *from_file->tasks;
  if (from_file->cache && unsaid("--cache")) common.bench.cache = *from_file->cache;
  if (from_file->jobs && unsaid("--jobs")) common.bench.jobs = *from_file->jobs;
  if (from_file->quiet && unsaid("--quiet")) common.quiet = *from_file->quiet;
  if (from_file->python && unsaid("--python")) baseline.python = *from_file->python;
  // `run` takes these two with the rest of a search's settings.
  if (from_file->device && unsaid("--device")) common.bench.device = *from_file->device;
  if (from_file->gpu && unsaid("--gpu")) common.bench.gpu = *from_file->gpu;
  common.runs = runs;
  run.settings.file = models.settings.file = config_file;

  // A task may be named by its folder.
  for (std::string* named : {&eval.task, &baseline.task, &lint.task, &task}) {
    if (auto split = SplitTaskPath(*named, common.bench.tasks); !split) {
      return Complain(split.error());
    }
  }
  if (run.tasks.size() == 1) {
    if (auto split = SplitTaskPath(run.tasks[0], common.bench.tasks); !split) {
      return Complain(split.error());
    }
  }

  const Interrupt interrupt;
  common.stop = interrupt.token();
  if (run_app->parsed()) {
    run.settings.flags = FlagsOf(*run_app);
    return RunCommand(run, common);
  }
  if (resume_app->parsed()) return ResumeCommand(resume_run, FlagsOf(*resume_app), common);
  if (models_app->parsed()) {
    models.settings.flags = FlagsOf(*models_app);
    return ModelsCommand(models, common);
  }
  if (mailbox_app->parsed()) return MailboxCommand(mailbox, common);
  if (ledger_app->parsed()) return LedgerCommand(ledger_run, common);
  if (init_app->parsed()) return InitCommand(init_file, common);
  if (tree_app->parsed()) return TreeCommand(tree, common);
  if (show_app->parsed()) return ShowCommand(kernel, show_run, show_output, common);
  if (const auto code = inspect.Run(common)) return *code;
  if (const auto code = steer.Run(common)) return *code;
  if (const auto code = package.Run(common)) return *code;
  if (const auto code = gallery.Run(common)) return *code;
  if (runs_app->parsed()) return RunsCommand(common);
  if (eval_app->parsed()) return EvalCommand(eval, common);
  if (tasks_show->parsed()) return TasksShowCommand(task, common);
  if (tasks_lint->parsed()) return TasksLintCommand(lint, common);
  if (tasks_new->parsed()) return TasksNewCommand(new_task, common);
  if (tasks_app->parsed()) return TasksCommand(suite, common);
  if (devices_app->parsed()) return DevicesCommand(common);
  if (doctor_app->parsed()) return DoctorCommand(common);
  if (baseline_app->parsed()) return BaselineCommand(baseline, common);
  if (const auto code = import.Run(common)) return *code;
  if (const auto code = kernels.Run(common)) return *code;
  if (rank_app->parsed()) return RankCommand(rank, common.json);
  if (gauntlet_app->parsed()) return GauntletCommand(gauntlet, common);
  if (profile_app->parsed()) return ProfileCommand(profile, common);
  return kExitBadInput;
}

}  // namespace

int Main(int argc, const char* const* argv) {
  try {
    return Dispatch(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "grove: out of memory; the run, if any, is as it was (grove resume)\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "grove: {}; the run, if any, is as it was (grove resume)\n", error.what());
  }
  return kExitMachine;
}

}  // namespace grove::cli
