// `grove export`: a run as a git repository, or one kernel as a program or module of its own.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "codegen/program.h"
#include "results/exports/git_export.h"
#include "results/exports/kernel_export.h"
#include "results/format.h"
#include "results/show.h"
#include "search/config.h"

namespace grove::cli {
namespace {

using results::ExportedKernel;
using results::ExportFormat;

int ExportRun(const ExportOptions& options, const Common& common) {
  auto run = OpenRun(common.runs, options.what);
  if (!run) return Complain(run.error());
  auto counts = results::ExportGit(*run->reader, run->data, options.git);
  if (!counts) return Complain(counts.error());
  if (common.json) {
    fmt::print("{}\n", nlohmann::ordered_json({{"run", run->data.run.name},
                                               {"folder", options.git.string()},
                                               {"commits", counts->commits},
                                               {"branches", counts->branches},
                                               {"best", counts->best}})
                           .dump(2));
  } else {
    fmt::print(
        "{}: {} commits, {} branches (git -C {} log --graph --oneline --all "
        "--glob=refs/kernels)\n",
        options.git.string(), counts->commits, counts->branches, options.git.string());
  }
  return kExitDone;
}

// An identifier made of the task's and the kernel's name: a file, a C++ and a Python module.
std::string ModuleName(const std::string& task, const std::string& kernel) {
  std::string name = task + "_" + kernel;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return std::isdigit(static_cast<unsigned char>(name.front())) != 0 ? "k" + name : name;
}

// Where it is from, the idea and the numbers.
std::vector<std::string> About(const results::RunData& data, const results::CandidateRow& row) {
  std::vector<std::string> lines = {fmt::format("{}: kernel {} of run {}, written by grove {}.",
                                                data.task.title, row.name, data.run.name,
                                                GROVE_VERSION)};
  if (const results::IdeaRow* idea = data.Find(row.idea); idea != nullptr) {
    lines.push_back("Idea: " + idea->title);
  }
  if (const auto score = results::ScoreOf(row)) {
    std::string text = results::FormatTime(*score, row.evaluation->score_kind);
    const results::CandidateRow* seed = data.Seed();
    if (const auto gain = seed != nullptr ? results::SpeedUp(*seed, row) : std::nullopt) {
      text += fmt::format(", {} the seed", results::FormatRatio(*gain));
    }
    lines.push_back("Time: " + text + " (geometric mean over the scored cases)");
  } else {
    lines.emplace_back("This kernel has not passed its checks.");
  }
  return lines;
}

// The cases to export, as names of the whole task.
std::vector<std::string> CaseNames(const seeds::Task& whole, const seeds::Task& selected,
                                   ExportFormat format, const ExportOptions& options) {
  if (!options.cases.empty()) return options.cases;
  std::vector<std::string> names;
  for (const seeds::Case& c : selected.cases) {
    if (c.role == seeds::CaseRole::kScored) names.push_back(c.name);
  }
  if (format != ExportFormat::kGpuMode) return names;
  // GPU MODE's own tests come in a suite beside the ranked one.
  for (const seeds::Case& c : whole.cases) {
    const bool test = std::any_of(c.suites.begin(), c.suites.end(),
                                  [](const auto& suite) { return suite.ends_with("_tests"); });
    if (test) names.push_back(c.name);
  }
  return names;
}

int ExportKernel(const ExportOptions& options, ExportFormat format, const Common& common) {
  std::string run_name;
  std::string kernel_name = options.what.empty() ? "best" : options.what;
  if (const auto slash = kernel_name.rfind('/'); slash != std::string::npos) {
    run_name = kernel_name.substr(0, slash);
    kernel_name.erase(0, slash + 1);
  }
  auto run = OpenRun(common.runs, run_name);
  if (!run) return Complain(run.error());
  auto row = FindKernel(run->data, kernel_name);
  if (!row) return Complain(row.error());
  auto texts = results::LoadTexts(*run->reader, **row);
  if (!texts) return Complain(texts.error());
  auto program = codegen::MakeProgram(texts->source, texts->plan);
  if (!program) return Complain(std::move(program.error()).Context((*row)->name));
  auto config = search::ConfigFromJson(run->data.run.config);
  if (!config) return Complain(config.error());

  std::filesystem::path tasks = seeds::DefaultTasksFolder();
  if (!config->tasks.empty()) tasks = config->tasks;
  if (!common.bench.tasks.empty()) tasks = common.bench.tasks;
  auto task = seeds::LoadTask(tasks, run->data.task.name);
  if (!task) return Complain(task.error());
  auto selected = seeds::SelectCases(*task, config->suite, config->cases);
  if (!selected) return Complain(selected.error());

  ExportedKernel kernel;
  kernel.name = ModuleName(task->name, (*row)->name);
  kernel.about = About(run->data, **row);
  kernel.program = *std::move(program);
  auto cases = results::CasesToExport(*task, format, CaseNames(*task, *selected, format, options));
  if (!cases) return Complain(cases.error());
  kernel.task = *std::move(task);
  kernel.cases = *std::move(cases);

  auto files = results::RenderExport(kernel, format);
  if (!files) return Complain(std::move(files.error()).Context((*row)->name));
  std::filesystem::path output = options.output;
  if (output.empty()) output = files->size() > 1 ? kernel.name : files->front().name;
  auto written = results::WriteExport(*files, output);
  if (!written) return Complain(written.error());
  if (common.json) {
    nlohmann::ordered_json json = {{"run", run->data.run.name},
                                   {"kernel", (*row)->name},
                                   {"task", kernel.task.name},
                                   {"format", results::Name(format)}};
    json["cases"] = nlohmann::ordered_json::array();
    for (const std::size_t index : kernel.cases) {
      json["cases"].push_back(kernel.task.cases[index].name);
    }
    json["files"] = nlohmann::ordered_json::array();
    for (const auto& path : *written) json["files"].push_back(path.string());
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  for (const auto& path : *written) fmt::print("{}\n", path.string());
  return kExitDone;
}

}  // namespace

int ExportCommand(const ExportOptions& options, const Common& common) {
  if (!options.git.empty()) return ExportRun(options, common);
  const auto format = results::ExportFormatFromName(options.to);
  if (!format) {
    return Complain({ErrorCode::kInvalidInput,
                     fmt::format("export wants --git FOLDER for a run, or --to {} for a kernel",
                                 fmt::join(results::ExportFormatNames(), "|"))});
  }
  return ExportKernel(options, *format, common);
}

}  // namespace grove::cli
