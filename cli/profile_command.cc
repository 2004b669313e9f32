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
#include "codegen/program.h"
#include "eval/cuda/counters.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/sass.h"
#include "results/format.h"
#include "results/show.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::cli {
namespace {

// What is said of one kernel: for people, and in short for a prompt.
struct Account {
  std::string report;
  std::string summary;

  void Both(const std::string& line) {
    report += line + "\n";
    summary += line + "\n";
  }
  void Report(const std::string& line) { report += line + "\n"; }
};

void DescribeTime(Account& account, const seeds::Case& c, const eval::DeviceSpec& spec,
                  const eval::TimeOutcome& outcome) {
  const char* label = outcome.modelled ? " modelled" : "";
  account.Report(fmt::format("time      {}{}", results::FormatTime(outcome.time), label));
  if (outcome.time > Nanoseconds(0)) {
    const double gbs = static_cast<double>(c.min_bytes.value) / outcome.time.count();
    const double tflops = c.flops / outcome.time.count() * 1e-3;
    account.Both(fmt::format(
        "at least {:.0f} GB/s ({:.0f}% of the measured copy's {:.0f}), {:.2f} TFLOP/s{}", gbs,
        spec.copy_gbs > 0 ? 100 * gbs / spec.copy_gbs : 0, spec.copy_gbs, tflops, label));
  }
  Nanoseconds sum{0};
  for (const eval::LaunchReport& launch : outcome.launches) {
    sum += launch.time;
    std::string line =
        fmt::format("launch    {}: {}, {:.0f}% of the warps resident", launch.kernel,
                    results::FormatTime(launch.time), 100 * launch.occupancy.warps_share);
    if (!launch.bound.empty()) line += ", bound by " + launch.bound;
    account.Report(line);
  }
  if (outcome.launches.size() > 1 && outcome.time > sum) {
    account.Both(fmt::format("{:.1f}% of the time lies between the {} launches",
                             100 * (1 - sum / outcome.time), outcome.launches.size()));
  }
  for (const eval::ModeTime& mode : outcome.modes) {
    if (mode.mode == "cold" || mode.samples.empty()) continue;
    account.Report(fmt::format("{:<9} {} ({:+.1f}% of the cold time)", mode.mode,
                               results::FormatTime(mode.median),
                               100 * (mode.median / outcome.time - 1)));
    if (mode.mode == "graph" && mode.median < outcome.time * 0.97) {
      account.summary += fmt::format("a graph replay takes {:.1f}% less: launches cost that much\n",
                                     100 * (1 - mode.median / outcome.time));
    }
    if (mode.mode == "host" && mode.median > outcome.time) {
      account.summary +=
          fmt::format("host-inclusive {}: launching adds {}\n", results::FormatTime(mode.median),
                      results::FormatTime(mode.median - outcome.time));
    }
  }
}

void DescribeCode(Account& account, const codegen::CompileOutcome& compiled) {
  for (const codegen::EntryPoint& entry : compiled.entries) {
    account.Report(fmt::format(
        "kernel    {}: {} registers, {} B spilled, {} B static shared memory", entry.name,
        entry.registers, entry.spill_stores + entry.spill_loads, entry.static_shared));
  }
  if (compiled.cubin.empty()) return;
  const auto mixes = cuda::DisassembleCubin(compiled.cubin);
  if (!mixes) {
    account.Report("machine code: " + mixes.error().message);
    return;
  }
  for (const cuda::SassMix& mix : *mixes) {
    account.Both(fmt::format("{}: {}", mix.kernel, cuda::Describe(mix)));
  }
}

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
  auto bench = MakeWorkbench(chosen->config.task, bench_options);
  if (!bench) return Complain(bench.error());
  eval::Evaluator& evaluator = *(*bench)->evaluator;
  const std::vector<std::string> cases = evaluator.timed_cases();
  const std::string case_name = options.case_name.empty() ? cases.front() : options.case_name;
  if (std::find(cases.begin(), cases.end(), case_name) == cases.end()) {
    return Complain({ErrorCode::kNotFound, fmt::format("'{}' is no scored case of this run ({})",
                                                       case_name, fmt::join(cases, ", "))});
  }
  const eval::CaseContext* context = evaluator.FindContext(case_name);
  auto prepared = evaluator.PrepareFor(chosen->program, *context);
  if (!prepared) return Complain(prepared.error());

  eval::Device& device = *(*bench)->device;
  eval::TimeRequest request;
  request.context = context;
  request.candidate = &*prepared;
  request.seed = common.bench.seed;
  auto outcome = device.Time(request);
  if (!outcome) return Complain(outcome.error());
  if (outcome->fault) {
    return Complain(
        {ErrorCode::kUnavailable,
         fmt::format("{} did not run: {}", chosen->candidate.name, outcome->fault->message)});
  }
  Account account;
  account.Report(fmt::format("{}/{} on {} by the {}, case {}", chosen->run, chosen->candidate.name,
                             device.spec().name, device.name(), case_name));
  DescribeTime(account, context->task_case(), device.spec(), *outcome);
  DescribeCode(account, *prepared->compiled);
  std::string counters_problem = "times are modelled: there are no hardware counters";
  if (auto* gpu = dynamic_cast<cuda::CudaDevice*>(&device); gpu != nullptr) {
    const auto counters = gpu->Profile(request);
    counters_problem = counters ? "" : counters.error().message;
    if (counters) {
      account.Report("counters\n" + cuda::CounterTable(*counters));
      account.summary += cuda::CounterSummary(*counters);
    }
  } else if (!device.gpus().empty()) {
    counters_problem = "several GPUs: name one for hardware counters, --device cuda:N";
  }
  if (!counters_problem.empty()) account.Report("counters: " + counters_problem);

  // A run that is being written keeps its own store; its profile is printed only.
  const SystemClock clock;
  std::string kept = "kept with the candidate; idea prompts get the summary";
  if (!outcome->modelled) {
    auto store = results::Store::Open(common.runs, chosen->run, clock);
    Status stored =
        store ? (*store)->RecordProfile(chosen->candidate.id, account.summary, account.report)
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
    json["time_ns"] = outcome->time.count();
    json["time_kind"] = outcome->modelled ? "modelled" : "measured";
    json["summary"] = account.summary;
    json["report"] = account.report;
    json["counters_problem"] = counters_problem;
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  fmt::print("{}\nsummary ({})\n{}", results::VisibleBlock(account.report), kept,
             results::VisibleBlock(account.summary));
  return kExitDone;
}

}  // namespace grove::cli
