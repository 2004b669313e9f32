// `grove profile`: one kernel of a run closer. What its modes and launches say, the instructions of
// its cubin, and hardware counters where they are permitted; kept with the candidate, so that the
// next idea prompt has it.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/profiler.h"
#include "codegen/program.h"
#include "results/format.h"
#include "results/show.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::cli {
namespace {

struct Chosen {
  std::string run;
  results::CandidateRow candidate;
  search::SearchConfig config;
  codegen::KernelProgram program;
};

Result<Chosen> Choose(const ProfileOptions& options, const Common& common) {
  Chosen chosen;
  std::string name = options.kernel;
  std::string run = options.run;
  if (const auto slash = name.find('/'); slash != std::string::npos) {
    run = name.substr(0, slash);
    name = name.substr(slash + 1);
  }
  auto found = FindRun(common.runs, run);
  if (!found) return Failure(std::move(found.error()));
  chosen.run = *found;
  auto reader = results::Reader::Open(common.runs / *found);
  if (!reader) return Failure(std::move(reader.error()));
  auto data = (*reader)->Load();
  if (!data) return Failure(std::move(data.error()));
  const results::CandidateRow* row = name == "best" ? data->Best() : data->FindCandidate(name);
  if (row == nullptr) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("run {} has no kernel '{}' (grove tree {} lists them)", *found, name, *found));
  }
  if (!row->evaluation || !row->evaluation->verdict.passed()) {
    return Fail(ErrorCode::kInvalidInput,
                row->name + " has not passed: only kernels that passed are profiled");
  }
  chosen.candidate = *row;
  auto config = search::ConfigFromJson(data->run.config);
  if (!config) return Failure(std::move(config.error()));
  chosen.config = std::move(*config);
  auto texts = results::LoadTexts(**reader, *row);
  if (!texts) return Failure(std::move(texts.error()));
  auto program = codegen::MakeProgram(texts->source, texts->plan);
  if (!program) return Failure(std::move(program.error()));
  chosen.program = std::move(*program);
  return chosen;
}

}  // namespace

int ProfileCommand(const ProfileOptions& options, const Common& common) {
  auto chosen = Choose(options, common);
  if (!chosen) return Complain(chosen.error());
  WorkbenchOptions bench_options = common.bench;
  if (bench_options.tasks.empty()) bench_options.tasks = chosen->config.tasks;
  bench_options.suite = chosen->config.suite;
  bench_options.cases = chosen->config.cases;
  bench_options.demanded = chosen->config.demanded;
  auto bench = MakeWorkbench(chosen->config.task, bench_options);
  if (!bench) return Complain(bench.error());
  eval::Evaluator& evaluator = *(*bench)->evaluator;
  const std::vector<std::string> cases = evaluator.timed_cases();
  const std::string case_name = options.case_name.empty() ? cases.front() : options.case_name;
  if (std::find(cases.begin(), cases.end(), case_name) == cases.end()) {
    return Complain({ErrorCode::kNotFound, fmt::format("'{}' is no scored case of this run ({})",
                                                       case_name, fmt::join(cases, ", "))});
  }
  auto look = LookAt(**bench, chosen->program, case_name, common.bench.seed);
  if (!look) {
    return Complain(
        {look.error().code, fmt::format("{}: {}", chosen->candidate.name, look.error().message)});
  }
  const eval::Device& device = *(*bench)->device;
  const std::string report =
      fmt::format("{}/{} on {} by the {}, case {}\n{}", chosen->run, chosen->candidate.name,
                  device.spec().name, device.name(), case_name, look->profile.report);
  const std::string& summary = look->profile.summary;

  // A run that is being written keeps its own store; its profile is printed only.
  const SystemClock clock;
  std::string kept = "kept with the candidate; idea prompts get the summary";
  if (!look->outcome.modelled) {
    auto store = results::Store::Open(common.runs, chosen->run, clock);
    Status stored = store ? (*store)->RecordProfile(chosen->candidate.id, summary, report)
                          : Failure(store.error());
    if (!stored) kept = "not kept: " + stored.error().message;
  } else {
    kept = "modelled, so not kept";
  }
  if (common.json) {
    nlohmann::ordered_json json;
    json["run"] = chosen->run;
    json["kernel"] = chosen->candidate.name;
    json["case"] = case_name;
    json["device"] = device.name();
    json["time_ns"] = look->outcome.time.count();
    json["time_kind"] = look->outcome.modelled ? "modelled" : "measured";
    json["summary"] = summary;
    json["report"] = report;
    json["counters_problem"] = look->counters_problem;
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  fmt::print("{}\nsummary ({})\n{}", results::VisibleBlock(report), kept,
             results::VisibleBlock(summary));
  return kExitDone;
}

}  // namespace grove::cli
