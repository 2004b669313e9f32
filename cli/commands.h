// One function per subcommand: options in, exit code out. Text goes to stdout, progress and errors
// to stderr; with `json` stdout carries one JSON document and nothing else.
#pragma once

#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/settings.h"
#include "cli/workbench.h"
#include "search/config.h"

namespace grove::cli {

struct Common {
  bool json = false;
  bool quiet = false;
  std::filesystem::path runs = "runs";  // the folder of the runs
  WorkbenchOptions bench;               // tasks, cache, jobs
  std::stop_token stop;
};

struct RunOptions {
  search::SearchConfig config;
  SettingSources settings;  // what changes it
  std::string name;         // empty = TASK-N (batch-N), the first free N
  bool dry_run = false;     // say what it would spend, and spend nothing
  // Tasks as "NAME" or "NAME=WEIGHT"; one without a batch file is a run, others make a batch.
  std::vector<std::string> tasks;
  std::filesystem::path batch;  // a batch file (search/batch.h); may be empty
};
int RunCommand(const RunOptions& options, const Common& common);

// An empty run name means the one written last. `flags` change its budget for good.
int ResumeCommand(const std::string& run, const std::map<std::string, std::string>& flags,
                  const Common& common);

struct ModelsOptions {
  SettingSources settings;
  bool ping = true;  // ask each served model for one token
};
int ModelsCommand(const ModelsOptions& options, const Common& common);

struct MailboxOptions {
  std::string run;
  std::filesystem::path check;  // empty = list what waits
};
int MailboxCommand(const MailboxOptions& options, const Common& common);

int LedgerCommand(const std::string& run, const Common& common);
int InitCommand(const std::filesystem::path& file, const Common& common);

struct TreeCommandOptions {
  std::string run;
  int round = -1;  // -1 = all
  int depth = -1;  // -1 = all
  bool best_path = false;
  bool explain = false;  // why each kernel was kept or not
};
int TreeCommand(const TreeCommandOptions& options, const Common& common);

// `kernel` is a candidate's name ("r2.i3.b1", "seed" or "best"), with "RUN/" in front or the run in
// `run`. `output`, when not empty, gets the source, and the plan with .json for its extension.
int ShowCommand(const std::string& kernel, const std::string& run,
                const std::filesystem::path& output, const Common& common);

struct ReportOptions {
  std::string run;
  std::filesystem::path output;        // empty = RUN.html
  std::vector<std::string> baselines;  // files
  bool without_conversations = false;
};
int ReportCommand(const ReportOptions& options, const Common& common);

// `before` alone: that kernel against its parent. Both may carry "RUN/".
struct DiffCommandOptions {
  std::string before, after, run;
  int context = 3;  // equal lines around a change
};
int DiffCommand(const DiffCommandOptions& options, const Common& common);

struct LogCommandOptions {
  std::string run;
  std::string kind;  // of event; empty = all
  int last = 0;      // so many of the newest; 0 = all
};
int LogCommand(const LogCommandOptions& options, const Common& common);

struct CompareCommandOptions {
  std::vector<std::string> runs;
  double target = 0;  // speed-up over the seed; 0 = what all runs reached
};
int CompareCommand(const CompareCommandOptions& options, const Common& common);

// As results::HarvestOptions.
struct HarvestCommandOptions {
  std::vector<std::string> runs;  // empty = the last one
  std::filesystem::path output = "harvest";
  std::string format = "jsonl";
  std::vector<std::string> kinds, model_terms;
  bool correct_only = false;
  bool keep_duplicates = false;
  double minimal_gain = 0;
  double duplicate_threshold = 0.95;
  double benchmark_share = 0.1;
  int benchmark_words = 13;
  std::string precision, device, benchmarks, licence = "not stated";
};
int HarvestCommand(const HarvestCommandOptions& options, const Common& common);

// With `git` a run as a repository; with `to` one kernel.
struct ExportOptions {
  std::string what;                // git: the run; to: [RUN/]KERNEL (default: best), or a name
  bool gallery = false;            // of the gallery
  std::filesystem::path git;       // folder of the repository to make
  std::string to;                  // a format (results::ExportFormatNames)
  std::filesystem::path output;    // empty = a name made of the task and the kernel
  std::vector<std::string> cases;  // empty = the run's scored ones
  std::string compiler = "nvrtc";  // or "nvcc"
};
int ExportCommand(const ExportOptions& options, const Common& common);

struct ServeOptions {
  std::vector<std::string> runs;  // empty = all
  int port = 0;                   // 0 = any free one
};
// Until it is interrupted.
int ServeCommand(const ServeOptions& options, const Common& common);

int RunsCommand(const Common& common);

struct EvalOptions {
  std::string task;
  std::filesystem::path source;
  std::filesystem::path plan;  // empty = from `// grove:` comments, or SOURCE with .json
};
int EvalCommand(const EvalOptions& options, const Common& common);

// The tasks of a suite; an empty one means all. An unknown suite is bad input.
int TasksCommand(const std::string& suite, const Common& common);
int TasksShowCommand(const std::string& task, const Common& common);

// Whether tasks are fit to be searched (eval/lint.h); exit code 1 with a finding.
struct LintCommandOptions {
  std::string task;  // empty with `all`
  bool all = false;
  bool small = false;
};
int TasksLintCommand(const LintCommandOptions& options, const Common& common);

// Makes the folder of a task of that name, from the template, in the tasks folder or the present
// one.
int TasksNewCommand(const std::string& name, const Common& common);

struct GauntletCommandOptions {
  std::string only;              // glob over names; empty = all
  std::filesystem::path folder;  // empty = eval::DefaultGauntletFolder()
  // Tools of compute-sanitizer to hold our verdicts on the honest programs against, instead.
  std::vector<std::string> sanitize;
  int limit_seconds = 600;  // of them all: what has not begun then is left out
};
// Evaluates every program of the gauntlet and prints the table; kExitFailed when one verdict is not
// the expected one, or when a sanitizer finds an error in an honest program.
int GauntletCommand(const GauntletCommandOptions& options, const Common& common);

int DevicesCommand(const Common& common);
int DoctorCommand(const Common& common);

struct BaselineOptions {
  std::string task;
  bool torch = false;            // also PyTorch, through scripts/torch_baseline.py
  std::string python;            // the interpreter that has torch; empty = python3 on PATH
  std::filesystem::path import;  // output of torch_baseline.py to take in, instead of measuring
};
int BaselineCommand(const BaselineOptions& options, const Common& common);

struct ProfileOptions {
  std::string kernel;     // as ShowCommand's
  std::string run;        // empty = the one written last
  std::string case_name;  // a scored case; empty = the first
};
int ProfileCommand(const ProfileOptions& options, const Common& common);

}  // namespace grove::cli
