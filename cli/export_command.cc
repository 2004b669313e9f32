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
#include "cli/gallery.h"
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
using results::KernelCompiler;

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

std::string Circumstances(const std::string& gpu, const std::string& compiler) {
  std::string text = " (geometric mean over the scored cases";
  if (!gpu.empty()) text += ", " + gpu;
  if (!compiler.empty()) text += ", compiled by " + compiler;
  return text + ")";
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
    std::string gpu, compiler;
    for (const results::EnvironmentRow& one : data.environment) {
      if (one.key == "gpu") gpu = one.value;
      if (one.key == "compiler") compiler = one.value;
    }
    lines.push_back("Time: " + text + Circumstances(gpu, compiler));
  } else {
    lines.emplace_back("This kernel has not passed its checks.");
  }
  return lines;
}

std::vector<std::string> About(const GalleryEntry& entry) {
  std::vector<std::string> lines = {
      fmt::format("{}: kernel {} of the gallery, written by grove {}.", entry.title, entry.name,
                  GROVE_VERSION)};
  if (!entry.idea.empty()) lines.push_back("Idea: " + entry.idea);
  lines.push_back("Time: " + results::FormatTime(entry.score) +
                  Circumstances(entry.gpu, entry.compiler));
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

// What is exported, before its cases are chosen.
struct Subject {
  std::string from, kernel;  // the run, or "gallery"; the kernel's name there
  std::vector<std::string> about;
  codegen::KernelProgram program;
  std::string task, suite;
  std::vector<std::string> cases;  // selected ones, empty = the suite's
  std::string demanded;            // class of accuracy; empty = the task's
  std::filesystem::path tasks;     // empty = the program's own
};

Result<Subject> FromGallery(const std::string& name) {
  if (name.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "which kernel of the gallery? (grove gallery lists them)");
  }
  auto entries = ReadGallery({}, {name});
  if (!entries) return Failure(std::move(entries.error()));
  GalleryEntry& entry = entries->front();
  auto program = codegen::MakeProgram(entry.source, entry.plan);
  if (!program) return Fail(std::move(program).error(), entry.name);
  return Subject{.from = "gallery",
                 .kernel = entry.name,
                 .about = About(entry),
                 .program = *std::move(program),
                 .task = entry.task,
                 .suite = entry.suite,
                 .cases = std::move(entry.cases),
                 .demanded = std::move(entry.demanded),
                 .tasks = {}};
}

Result<Subject> FromRun(const std::string& what, const Common& common) {
  std::string run_name;
  std::string kernel_name = what.empty() ? "best" : what;
  if (const auto slash = kernel_name.rfind('/'); slash != std::string::npos) {
    run_name = kernel_name.substr(0, slash);
    kernel_name.erase(0, slash + 1);
  }
  auto run = OpenRun(common.runs, run_name);
  if (!run) return Failure(std::move(run.error()));
  auto row = FindKernel(run->data, kernel_name);
  if (!row) return Failure(std::move(row.error()));
  auto texts = results::LoadTexts(*run->reader, **row);
  if (!texts) return Failure(std::move(texts.error()));
  auto program = codegen::MakeProgram(texts->source, texts->plan);
  if (!program) return Fail(std::move(program).error(), (*row)->name);
  auto config = search::ConfigFromJson(run->data.run.config);
  if (!config) return Failure(std::move(config.error()));
  return Subject{.from = run->data.run.name,
                 .kernel = (*row)->name,
                 .about = About(run->data, **row),
                 .program = *std::move(program),
                 .task = run->data.task.name,
                 .suite = config->suite,
                 .cases = config->cases,
                 .demanded = config->demanded,
                 .tasks = config->tasks};
}

int ExportKernel(const ExportOptions& options, ExportFormat format, const Common& common) {
  auto subject = options.gallery ? FromGallery(options.what) : FromRun(options.what, common);
  if (!subject) return Complain(subject.error());
  std::filesystem::path tasks = seeds::DefaultTasksFolder();
  if (!subject->tasks.empty()) tasks = subject->tasks;
  if (!common.bench.tasks.empty()) tasks = common.bench.tasks;
  auto loaded = seeds::LoadTask(tasks, subject->task);
  if (!loaded) return Complain(loaded.error());
  auto task = seeds::DemandClass(*std::move(loaded), subject->demanded);
  if (!task) return Complain(task.error());
  auto selected = seeds::SelectCases(*task, subject->suite, subject->cases);
  if (!selected) return Complain(selected.error());

  ExportedKernel kernel;
  kernel.name = options.gallery ? ModuleName(subject->kernel, "gallery")
                                : ModuleName(task->name, subject->kernel);
  kernel.about = std::move(subject->about);
  kernel.program = std::move(subject->program);
  kernel.compiler = options.compiler == Name(KernelCompiler::kNvcc) ? KernelCompiler::kNvcc
                                                                    : KernelCompiler::kNvrtc;
  auto cases = results::CasesToExport(*task, format, CaseNames(*task, *selected, format, options));
  if (!cases) return Complain(cases.error());
  kernel.task = *std::move(task);
  kernel.cases = *std::move(cases);

  auto files = results::RenderExport(kernel, format);
  if (!files) return Complain(std::move(files.error()).Context(subject->kernel));
  std::filesystem::path output = options.output;
  if (output.empty()) output = files->size() > 1 ? kernel.name : files->front().name;
  auto written = results::WriteExport(*files, output);
  if (!written) return Complain(written.error());
  if (common.json) {
    nlohmann::ordered_json json = {{"run", subject->from},
                                   {"kernel", subject->kernel},
                                   {"task", kernel.task.name},
                                   {"format", results::Name(format)},
                                   {"compiler", results::Name(kernel.compiler)}};
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
