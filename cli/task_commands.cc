// `grove tasks`, `grove tasks show` and `grove eval`.
#include <algorithm>
#include <cstdio>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/report_json.h"
#include "codegen/program.h"
#include "results/format.h"

namespace grove::cli {
namespace {

std::filesystem::path TasksFolder(const Common& common) {
  return common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks;
}

std::string Dims(const seeds::Case& task_case) {
  std::vector<std::string> parts;
  for (const seeds::Dim& dim : task_case.dims) {
    parts.push_back(fmt::format("{}={}", dim.name, dim.value));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

void PrintEvaluation(const seeds::Task& task, const eval::Evaluation& evaluation) {
  if (const std::string demand = seeds::DescribeDemand(task); !demand.empty()) {
    fmt::print("note      {}\n", demand);
  }
  const eval::Verdict& verdict = evaluation.verdict;
  fmt::print("verdict   {}", eval::Name(verdict.kind));
  if (!verdict.passed()) {
    fmt::print(" at stage {}", eval::Name(verdict.stage));
    if (!verdict.case_name.empty()) fmt::print(", case {}", verdict.case_name);
  }
  fmt::print("\n");
  if (!verdict.message.empty()) fmt::print("          {}\n", verdict.message);
  if (evaluation.score) {
    fmt::print("time      {}{}\n", results::FormatTime(*evaluation.score),
               evaluation.modelled ? " (modelled)" : "");
  }
  if (evaluation.measured_class) {
    fmt::print("class     {} (worst relative L2 error {:.2g})\n",
               seeds::Name(*evaluation.measured_class), evaluation.worst_error);
  }
  for (const eval::CaseTime& time : evaluation.times) {
    fmt::print("case      {}: {}, {:.0f}% of the impossible-floor, {:.0f}% of the class floor\n",
               time.case_name, results::FormatTime(time.time),
               100 * time.impossible_floor.count() / time.time.count(),
               100 * time.class_floor.count() / time.time.count());
    if (!time.modelled) {
      fmt::print(
          "          between {} and {}, {} samples, {} dropped, {:.2f} GHz, empty kernel {}\n",
          results::FormatTime(time.min), results::FormatTime(time.q3), time.samples.size(),
          time.throttled, time.mean_clock_ghz, results::FormatTime(time.empty_kernel));
    }
    for (const eval::ModeTime& mode : time.modes) {
      if (mode.mode == "cold") continue;
      fmt::print("          {:<6} {}{}\n", mode.mode,
                 mode.samples.empty() ? "-" : results::FormatTime(mode.median),
                 mode.note.empty() ? "" : "  (" + mode.note + ")");
    }
    if (!time.note.empty()) fmt::print("          {}\n", time.note);
    for (const eval::LaunchReport& launch : time.launches) {
      const std::string& limiter = launch.occupancy.limiter;
      fmt::print("launch    {}: {}{}, occupancy {:.0f}%{}\n", launch.kernel,
                 results::FormatTime(launch.time),
                 launch.bound.empty() ? "" : ", bound by " + launch.bound,
                 100 * launch.occupancy.warps_share,
                 limiter.empty() ? "" : " (limit: " + limiter + ")");
    }
  }
  for (const eval::KernelRecord& kernel : evaluation.kernels) {
    fmt::print("kernel    {} ({}): {} registers, {} B spilled, {} B static shared memory\n",
               kernel.entry.name, kernel.case_name, kernel.entry.registers,
               kernel.entry.spill_stores, kernel.entry.static_shared);
  }
}

}  // namespace

int TasksCommand(const std::string& suite, const Common& common) {
  const std::filesystem::path folder = TasksFolder(common);
  auto names = seeds::ListTasks(folder);
  if (!names) return Complain(names.error());
  std::vector<seeds::Task> tasks;
  std::set<std::string> suites;
  for (const std::string& name : *names) {
    auto task = seeds::LoadTask(folder, name);
    if (!task) return Complain(task.error());
    suites.insert(task->suites.begin(), task->suites.end());
    tasks.push_back(std::move(*task));
  }
  if (!suite.empty() && !suites.contains(suite)) {
    const std::vector<std::string> valid(suites.begin(), suites.end());
    return Complain({ErrorCode::kNotFound, UnknownName("suite", suite, valid)});
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const seeds::Task& whole : tasks) {
    const auto& of = whole.suites;
    if (!suite.empty() && std::find(of.begin(), of.end(), suite) == of.end()) continue;
    const seeds::Task* task = &whole;
    if (common.json) {
      json.push_back({{"name", task->name},
                      {"title", task->title},
                      {"family", task->family},
                      {"suites", task->suites},
                      {"cases", task->cases.size()}});
    } else {
      fmt::print("{:<20} {:<32} {}\n", task->name, fmt::format("{}", fmt::join(of, ", ")),
                 task->title);
    }
  }
  if (common.json) fmt::print("{}\n", json.dump(2));
  return kExitDone;
}

int TasksShowCommand(const std::string& name, const Common& common) {
  auto task = seeds::LoadTask(TasksFolder(common), name);
  if (!task) return Complain(task.error());
  if (common.json) {
    fmt::print("{}\n", TaskJson(*task));
    return kExitDone;
  }
  fmt::print("{}: {}\nfamily {}, class {} demanded, suites: {}\n\n{}\n\n", task->name, task->title,
             task->family, seeds::Name(task->demanded), fmt::join(task->suites, ", "),
             task->contract);
  for (const seeds::Case& task_case : task->cases) {
    fmt::print("{:<10} {:<26} {:<5} {:<12} {}\n", seeds::Name(task_case.role), task_case.name,
               seeds::Name(task_case.demanded.value_or(task->demanded)),
               fmt::format("{}", fmt::join(task_case.suites, ",")), Dims(task_case));
    if (task_case.role == seeds::CaseRole::kScored) {
      fmt::print("{:<10} {:<26} {:.3g} FLOP, {} at least\n", "", "", task_case.flops,
                 results::FormatBytes(task_case.min_bytes));
    }
  }
  fmt::print("\n--- seed.cu\n{}\n--- seed.json\n{}\n", task->seed.source, task->seed.plan);
  return kExitDone;
}

int EvalCommand(const EvalOptions& options, const Common& common) {
  auto source = ReadFile(options.source, std::uintmax_t{16} << 20);
  if (!source) return Complain(source.error());
  std::string plan_text;
  std::filesystem::path plan = options.plan;
  if (plan.empty()) {
    std::filesystem::path beside = options.source;
    beside.replace_extension(".json");
    if (std::filesystem::exists(beside)) plan = beside;
  }
  if (!plan.empty()) {
    auto read = ReadFile(plan, std::uintmax_t{16} << 20);
    if (!read) return Complain(read.error());
    plan_text = std::move(*read);
  }
  auto bench = MakeWorkbench(options.task, common.bench);
  if (!bench) return Complain(bench.error());

  eval::Evaluation evaluation;
  auto program = codegen::MakeProgram(*source, plan_text);
  if (program) {
    auto done = (*bench)->evaluator->Evaluate(*program);
    if (!done) return Complain(done.error());
    evaluation = std::move(*done);
  } else {
    evaluation = eval::Evaluator::ParseFailure(program.error());
  }
  if (common.json) {
    fmt::print("{}\n", EvaluationJson((*bench)->task, evaluation));
  } else {
    PrintEvaluation((*bench)->task, evaluation);
  }
  return evaluation.verdict.passed() ? kExitDone : kExitFailed;
}

}  // namespace grove::cli
