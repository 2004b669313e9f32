// `grove tasks lint` and `grove tasks new`.
#include <algorithm>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/share.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "codegen/compile_farm.h"
#include "eval/lint.h"
#include "seeds/task.h"

namespace grove::cli {
namespace {

constexpr std::uintmax_t kMaxFile = 1 << 20;
constexpr std::size_t kMaxName = 64;
// Stands for the task's name in the template's files.
constexpr std::string_view kPlaceholder = "NEW_TASK";

nlohmann::ordered_json ReportJson(const seeds::Task& task, const eval::LintReport& report) {
  nlohmann::ordered_json json = {{"task", task.name},
                                 {"cases", report.cases},
                                 {"smallest_scale", report.smallest_scale},
                                 {"largest_scale", report.largest_scale},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const eval::LintFinding& finding : report.findings) {
    json["findings"].push_back({{"check", finding.check},
                                {"suite", finding.suite},
                                {"case", finding.case_name},
                                {"message", finding.message}});
  }
  return json;
}

void PrintReport(const seeds::Task& task, const eval::LintReport& report) {
  if (report.findings.empty()) {
    fmt::print("{:<22} fit: {} cases", task.name, report.cases);
    // A task that a checker judges has no reference whose scale could be told.
    if (report.largest_scale > 0) {
      fmt::print(", outputs of scale {:.2g} to {:.2g}", report.smallest_scale,
                 report.largest_scale);
    }
    fmt::print("\n");
  }
  for (const eval::LintFinding& finding : report.findings) {
    std::string where = task.name;
    if (!finding.suite.empty()) where += ", suite " + finding.suite;
    if (!finding.case_name.empty()) where += ", case " + finding.case_name;
    fmt::print("{}: {}: {}\n", where, finding.check, finding.message);
  }
  std::fflush(stdout);
}

bool IsTaskName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace

int TasksLintCommand(const LintCommandOptions& options, const Common& common) {
  const std::filesystem::path folder =
      common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks;
  std::vector<std::string> names = {options.task};
  if (options.all) {
    auto all = seeds::ListTasks(folder);
    if (!all) return Complain(all.error());
    names = std::move(*all);
  } else if (options.task.empty()) {
    return Complain({ErrorCode::kInvalidInput, "which task? name one, or --all"});
  }
  codegen::FarmOptions farm;
  farm.workers = common.bench.jobs;
  farm.cache_folder =
      common.bench.cache.empty() ? codegen::DefaultCacheFolder() : common.bench.cache;
  auto compiler = codegen::MakeCompileFarm(farm);
  if (!compiler) return Complain(compiler.error());

  eval::LintOptions lint;
  lint.small = options.small;
  bool fit = true;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& name : names) {
    if (common.stop.stop_requested()) {
      return Complain({ErrorCode::kCancelled, "interrupted; the tasks above were linted"});
    }
    auto task = seeds::LoadTask(folder, name);
    if (!task) return Complain(task.error());
    auto report = eval::Lint(*task, **compiler, lint);
    if (!report) return Complain(report.error());
    fit = fit && report->findings.empty();
    if (common.json) {
      json.push_back(ReportJson(*task, *report));
    } else {
      PrintReport(*task, *report);
    }
  }
  if (common.json) fmt::print("{}\n", json.dump(2));
  return fit ? kExitDone : kExitFailed;
}

int TasksNewCommand(const std::string& name, const Common& common) {
  if (!IsTaskName(name)) {
    return Complain(
        {ErrorCode::kInvalidInput,
         fmt::format("'{}' cannot be a task's name: a small letter, then small letters, "
                     "digits and _, {} at most",
                     name, kMaxName)});
  }
  const std::filesystem::path folder = common.bench.tasks.empty() ? "tasks" : common.bench.tasks;
  const std::filesystem::path made = folder / name;
  std::error_code error;
  if (std::filesystem::exists(made, error)) {
    return Complain({ErrorCode::kInvalidInput, fmt::format("{} exists already", made.string())});
  }
  const std::filesystem::path source = ShareFolder("new_task");
  std::vector<std::pair<std::filesystem::path, std::string>> files;
  for (const auto& item : std::filesystem::directory_iterator(source, error)) {
    if (!item.is_regular_file()) continue;
    auto text = ReadFile(item.path(), kMaxFile);
    if (!text) return Complain(text.error());
    for (std::size_t at = 0; (at = text->find(kPlaceholder, at)) != std::string::npos;) {
      text->replace(at, kPlaceholder.size(), name);
      at += name.size();
    }
    files.emplace_back(item.path().filename(), std::move(*text));
  }
  if (error || files.empty()) {
    return Complain(
        {ErrorCode::kNotFound, fmt::format("no template in {}: reinstall grove", source.string())});
  }
  std::filesystem::create_directories(made, error);
  if (error) {
    return Complain(
        {ErrorCode::kResource, fmt::format("cannot make {}: {}", made.string(), error.message())});
  }
  std::sort(files.begin(), files.end());
  for (const auto& [file, text] : files) {
    if (auto written = WriteFileAtomic(made / file, text); !written) {
      return Complain(written.error());
    }
  }
  if (common.json) {
    nlohmann::ordered_json json = {{"task", name}, {"folder", made.string()}};
    for (const auto& [file, text] : files) json["files"].push_back(file.string());
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  fmt::print("made {}\n", made.string());
  for (const auto& [file, text] : files) fmt::print("  {}\n", file.string());
  fmt::print("next: grove tasks lint {} --tasks {}\n", name, folder.string());
  return kExitDone;
}

}  // namespace grove::cli
