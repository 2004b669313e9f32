#include "cli/gauntlet_sanitize.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <tbb/task_arena.h>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/tool.h"
#include "results/format.h"

namespace grove::cli {
namespace {

using cuda::SanitizerReport;
using cuda::SanitizerTool;

constexpr int kAtATime = 8;  // processes on one GPU
constexpr std::size_t kCases = 2;
constexpr std::chrono::milliseconds kRunLimit{60000};

struct SanitizedRun {
  std::string program;
  SanitizerTool tool = SanitizerTool::kMemcheck;
  SanitizerReport report;
  std::string left_out;  // why it proves nothing; empty otherwise
  Milliseconds time{0};
};

struct SanitizedTotals {
  int agree = 0, differ = 0, left_out = 0, warnings = 0;
};

Result<std::vector<SanitizerTool>> ToolsOf(const std::vector<std::string>& names) {
  static const std::vector<std::string> kNames = {"memcheck", "racecheck", "initcheck",
                                                  "synccheck"};
  std::vector<SanitizerTool> tools;
  for (const std::string& name : names) {
    const auto tool = cuda::SanitizerToolFromName(name);
    if (!tool) return Fail(ErrorCode::kInvalidInput, UnknownName("sanitizer tool", name, kNames));
    if (std::find(tools.begin(), tools.end(), *tool) == tools.end()) tools.push_back(*tool);
  }
  return tools;
}

SanitizedTotals Total(const std::vector<SanitizedRun>& runs) {
  SanitizedTotals totals;
  for (const SanitizedRun& run : runs) {
    totals.warnings += run.report.warnings;
    ++(!run.left_out.empty()   ? totals.left_out
       : run.report.errors > 0 ? totals.differ
                               : totals.agree);
  }
  return totals;
}

void PrintTable(const std::vector<SanitizedRun>& runs, const std::vector<SanitizerTool>& tools) {
  std::string line = fmt::format("{:<40}", "program");
  for (const SanitizerTool tool : tools) line += fmt::format(" {:>16}", cuda::Name(tool));
  fmt::print("{}\n", line);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i == 0 || runs[i].program != runs[i - 1].program) {
      line = fmt::format("{:<40}", runs[i].program);
    }
    const SanitizedRun& run = runs[i];
    std::string cell = !run.left_out.empty() ? "left out" : fmt::format("{}", run.report.errors);
    if (run.report.warnings > 0) cell += fmt::format(" ({} warn)", run.report.warnings);
    line += fmt::format(" {:>16}", cell);
    if (i + 1 == runs.size() || runs[i + 1].program != run.program) fmt::print("{}\n", line);
  }
  for (const SanitizedRun& run : runs) {
    for (const std::string& finding : run.report.findings) {
      fmt::print("{} {}: {}\n", cuda::Name(run.tool), run.program, results::Visible(finding));
    }
    if (!run.left_out.empty()) {
      fmt::print("{} {}: left out: {}\n", cuda::Name(run.tool), run.program,
                 results::Visible(run.left_out));
    }
  }
}

void PrintJson(const std::vector<SanitizedRun>& runs, const SanitizedTotals& totals,
               const eval::Device& device) {
  nlohmann::ordered_json json = {{"device", device.name()},
                                 {"gpu", device.spec().name},
                                 {"agree", totals.agree},
                                 {"differ", totals.differ},
                                 {"left_out", totals.left_out},
                                 {"warnings", totals.warnings},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const SanitizedRun& run : runs) {
    nlohmann::ordered_json row = {{"program", run.program}, {"tool", cuda::Name(run.tool)}};
    if (run.left_out.empty()) {
      row["errors"] = run.report.errors;
      row["warnings"] = run.report.warnings;
      row["findings"] = run.report.findings;
    } else {
      row["left_out"] = run.left_out;
    }
    row["ms"] = run.time.count();
    json["runs"].push_back(std::move(row));
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int SanitizeGauntlet(const eval::Gauntlet& gauntlet, const Machine& machine,
                     const eval::GauntletOptions& run, const GauntletCommandOptions& options,
                     const Common& common) {
  const auto tools = ToolsOf(options.sanitize);
  if (!tools) return Complain(tools.error());
  auto* gpu = dynamic_cast<cuda::CudaDevice*>(machine.device.get());
  if (gpu == nullptr) {
    return Complain({ErrorCode::kUnavailable,
                     "compute-sanitizer looks at kernels on one GPU: --device cuda:N"});
  }
  if (!cuda::FindTool("compute-sanitizer")) {
    return Complain({ErrorCode::kUnavailable,
                     "no compute-sanitizer here (CUDA_HOME, PATH, /usr/local/cuda): it comes with "
                     "the CUDA toolkit"});
  }
  using SteadyClock = std::chrono::steady_clock;
  const auto end = SteadyClock::now() + std::chrono::seconds(options.limit_seconds);
  std::mutex mutex;
  std::vector<SanitizedRun> runs;
  const auto visit = [&](const eval::GauntletEntry& entry, std::vector<eval::Specimen> specimens) {
    std::vector<eval::CheckRequest> requests;
    for (const eval::Specimen& specimen : specimens) {
      eval::CheckRequest& request = requests.emplace_back();
      request.context = specimen.context;
      request.candidate = &specimen.candidate;
      request.seed = specimen.seed;
    }
    for (const SanitizerTool tool : *tools) {
      SanitizedRun one;
      one.program = entry.name;
      one.tool = tool;
      const auto begin = SteadyClock::now();
      if (common.stop.stop_requested()) {
        one.left_out = "stopped";
      } else if (begin >= end) {
        one.left_out = "the limit of all was reached";
      } else {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - begin);
        auto report = gpu->Sanitize(tool, requests, std::min(left, kRunLimit));
        if (report) {
          one.report = std::move(*report);
        } else {
          one.left_out = report.error().message;
        }
      }
      one.time = SteadyClock::now() - begin;
      const std::scoped_lock lock(mutex);
      if (!common.quiet && (one.report.errors > 0 || !one.left_out.empty())) {
        fmt::print(stderr, "{} {}: {}\n", cuda::Name(tool), one.program,
                   one.left_out.empty() ? fmt::format("{} errors", one.report.errors)
                                        : results::Visible(one.left_out));
      }
      runs.push_back(std::move(one));
    }
  };
  // Mostly waits for processes: an arena of as many threads as there may be, whatever the cores.
  tbb::task_arena arena(kAtATime);
  Status visited;
  arena.execute([&] {
    visited = eval::VisitHonest(gauntlet, *machine.compiler, *machine.device, run, kCases, visit);
  });
  if (!visited) return Complain(visited.error());
  std::sort(runs.begin(), runs.end(), [](const SanitizedRun& a, const SanitizedRun& b) {
    return a.program != b.program ? a.program < b.program : a.tool < b.tool;
  });
  const SanitizedTotals totals = Total(runs);
  if (common.json) {
    PrintJson(runs, totals, *machine.device);
  } else {
    PrintTable(runs, *tools);
    fmt::print(
        "\n{} on {}: {} runs of honest programs under compute-sanitizer; {} agree with our "
        "verdict, "
        "{} differ, {} left out, {} warnings\n",
        machine.device->name(), machine.device->spec().name, runs.size(), totals.agree,
        totals.differ, totals.left_out, totals.warnings);
  }
  if (common.stop.stop_requested()) return kExitInterrupted;
  return totals.differ == 0 && totals.agree > 0 ? kExitDone : kExitFailed;
}

}  // namespace grove::cli
