#include "cli/import_command.h"

#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/complain.h"
#include "cli/exit_code.h"
#include "seeds/importers/problem_import.h"

namespace grove::cli {
namespace {

using importers::ImportOutcome;
using importers::ImportStatus;
using Json = nlohmann::ordered_json;

std::filesystem::path TasksFolder(const Common& common) {
  return common.bench.tasks.empty() ? "tasks" : common.bench.tasks;
}

Json ToJson(const ImportOutcome& outcome) {
  Json json = {{"file", outcome.file.string()},
               {"task", outcome.name},
               {"status", importers::Name(outcome.status)}};
  if (!outcome.reason.empty()) json["reason"] = outcome.reason;
  if (!outcome.notes.empty()) json["notes"] = outcome.notes;
  if (outcome.status == ImportStatus::kImported) {
    json["folder"] = outcome.folder.string();
    json["cases"] = outcome.cases;
  }
  return json;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

Result<importers::ProblemImport> FilesOf(const ImportCommandOptions& options,
                                         importers::ProblemFormat format) {
  importers::ProblemImport import;
  import.format = format;
  if (format == importers::ProblemFormat::kKernelBench) {
    auto files = importers::ProblemFiles(options.problem);
    if (!files) return Failure(std::move(files.error()));
    if (!options.name.empty() && files->size() > 1) {
      return Fail(ErrorCode::kInvalidInput, "--name is for one file");
    }
    import.files = std::move(*files);
    return import;
  }
  const bool folder = format == importers::ProblemFormat::kGpuMode;
  std::error_code error;
  const std::filesystem::path needed = folder ? options.problem / "task.yml" : options.problem;
  for (const auto& path : {needed, options.workloads}) {
    if (!path.empty() && !std::filesystem::is_regular_file(path, error)) {
      return Fail(ErrorCode::kNotFound, fmt::format("{}: no such file", path.string()));
    }
  }
  import.files = {options.problem};
  import.workloads = options.workloads;
  return import;
}

int ProblemCommand(const ImportCommandOptions& options, importers::ProblemFormat format,
                   const Common& common) {
  auto files = FilesOf(options, format);
  if (!files) return Complain(files.error());
  importers::ProblemImport import = std::move(*files);
  import.tasks = TasksFolder(common);
  import.name = options.name;
  import.python = options.python;
  import.scale = options.scale;
  import.deadline = std::chrono::seconds(options.deadline);
  import.memory = Bytes(static_cast<std::int64_t>(options.memory_gib * (1 << 30)));
  import.jobs = common.bench.jobs;
  if (import.jobs <= 0) import.jobs = 2;
  import.replace = options.replace;
  import.live = options.reference == "live";
  auto outcomes = importers::ImportProblems(import);
  if (!outcomes) return Complain(outcomes.error());

  std::map<ImportStatus, int> totals;
  Json lines = Json::array();
  const bool many = options.report || outcomes->size() > 1;
  for (const ImportOutcome& outcome : *outcomes) {
    ++totals[outcome.status];
    const bool imported = outcome.status == ImportStatus::kImported;
    lines.push_back(ToJson(outcome));
    if (common.json) continue;
    if (many) {
      fmt::print("{:<11} {:<28} {}\n", importers::Name(outcome.status), outcome.name,
                 imported ? Joined(outcome.cases) : outcome.reason);
    } else if (imported) {
      fmt::print("imported {}: cases {}\n", outcome.folder.string(), Joined(outcome.cases));
    } else {
      fmt::print(stderr, "grove: {} is {}: {}\n", outcome.file.string(),
                 importers::Name(outcome.status), outcome.reason);
    }
    for (const std::string& note : outcome.notes) fmt::print("  note: {}\n", note);
  }
  const int bad = static_cast<int>(outcomes->size()) - totals[ImportStatus::kImported];
  if (common.json) {
    Json json;
    for (const auto status : {ImportStatus::kImported, ImportStatus::kRefused,
                              ImportStatus::kUnsupported, ImportStatus::kBroken}) {
      json[std::string(importers::Name(status))] = totals[status];
    }
    json["problems"] = std::move(lines);
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (many) {
    fmt::print("{} problems: {} imported, {} refused, {} unsupported, {} broken\n",
               outcomes->size(), totals[ImportStatus::kImported], totals[ImportStatus::kRefused],
               totals[ImportStatus::kUnsupported], totals[ImportStatus::kBroken]);
  } else if (bad == 0) {
    fmt::print("next: grove tasks lint {0} --tasks {1}, then grove run {0} --tasks {1}\n",
               outcomes->front().name, import.tasks.string());
  }
  return bad == 0 ? kExitDone : options.report ? kExitDone : kExitBadInput;
}

}  // namespace

ImportApp::ImportApp(CLI::App& app) : options_(std::make_shared<ImportCommandOptions>()) {
  CLI::App* import = app.add_subcommand("import", "make tasks of other people's formats");
  import->require_subcommand(1);
  ImportCommandOptions& o = *options_;
  const auto common = [&](CLI::App* app_of) {
    app_of->add_option("--name", o.name, "of the task (default: the file's)");
    app_of->add_flag("--replace", o.replace, "tasks that are there already");
    app_of
        ->add_option("--reference", o.reference,
                     "what judges candidates: kernels, or the module itself, live")
        ->check(CLI::IsMember({"kernels", "live"}));
    app_of->add_option("--python", o.python, "the interpreter that has torch")
        ->envname("GROVE_PYTHON");
    app_of->add_option("--deadline", o.deadline, "seconds for each problem")
        ->check(CLI::Range(1, 86400))
        ->capture_default_str();
    app_of->add_option("--memory", o.memory_gib, "GiB that a problem may map")
        ->check(CLI::Range(1.0, 65536.0));
  };
  kernelbench_ = import->add_subcommand(
      "kernelbench", "PyTorch modules: files with class Model, get_inputs and get_init_inputs");
  kernelbench_->add_option("problem", o.problem, "a .py file, or a folder of them")->required();
  kernelbench_->add_option("--scale", o.scale, "divide the scored case's sizes by this")
      ->check(CLI::Range(1, 1 << 20));
  kernelbench_->add_flag("--report", o.report, "one line per problem and totals; exit code 0");
  common(kernelbench_);
  gpumode_ = import->add_subcommand("gpumode", "a GPU MODE task: task.yml and reference.py");
  gpumode_->add_option("folder", o.problem, "the folder with task.yml")->required();
  common(gpumode_);
  flashinfer_ = import->add_subcommand("flashinfer", "a flashinfer-bench definition");
  flashinfer_->add_option("definition", o.problem, "its JSON file")->required();
  flashinfer_->add_option("workloads", o.workloads, "JSONL with its workloads");
  common(flashinfer_);
}

std::optional<int> ImportApp::Run(const Common& common) const {
  using importers::ProblemFormat;
  const std::pair<CLI::App*, ProblemFormat> commands[] = {
      {kernelbench_, ProblemFormat::kKernelBench},
      {gpumode_, ProblemFormat::kGpuMode},
      {flashinfer_, ProblemFormat::kFlashInfer}};
  for (const auto& [command, format] : commands) {
    if (command->parsed()) return ProblemCommand(*options_, format, common);
  }
  return std::nullopt;
}

}  // namespace grove::cli
