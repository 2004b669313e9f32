#include "cli/profiler.h"

#include <algorithm>

#include <fmt/format.h>

#include "eval/cuda/counters.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/sass.h"
#include "results/format.h"

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
        "{:.0f} GB/s if each input is read and each output written once ({:.0f}% of a copy's "
        "{:.0f}), {:.2f} TFLOP/s{}",
        gbs, spec.copy_gbs > 0 ? 100 * gbs / spec.copy_gbs : 0, spec.copy_gbs, tflops, label));
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

// Kernels that this case's plan does not launch are for people only.
void DescribeCode(Account& account, const eval::Prepared& prepared) {
  const codegen::CompileOutcome& compiled = *prepared.compiled;
  const auto launched = [&](const std::string& kernel) {
    return std::any_of(prepared.plan.launches.begin(), prepared.plan.launches.end(),
                       [&](const auto& launch) { return launch.kernel == kernel; });
  };
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
    const std::string line = fmt::format("{}: {}", mix.kernel, cuda::Describe(mix));
    if (launched(mix.kernel)) {
      account.Both(line);
    } else {
      account.Report(line + " (not launched for this case)");
    }
  }
}

// What the compiler made of `program`, without running it.
Result<search::KernelProfile> LookAtCode(Workbench& bench, const codegen::KernelProgram& program,
                                         const std::string& case_name) {
  const eval::CaseContext* context = bench.evaluator->FindContext(case_name);
  if (context == nullptr) return Fail(ErrorCode::kNotFound, "no case " + case_name);
  auto prepared = bench.evaluator->PrepareFor(program, *context);
  if (!prepared) return Failure(std::move(prepared.error()));
  Account account;
  DescribeCode(account, *prepared);
  return search::KernelProfile{std::move(account.summary), std::move(account.report)};
}

}  // namespace

Result<KernelLook> LookAt(Workbench& bench, const codegen::KernelProgram& program,
                          const std::string& case_name, std::uint64_t seed) {
  const eval::CaseContext* context = bench.evaluator->FindContext(case_name);
  if (context == nullptr) return Fail(ErrorCode::kNotFound, "no case " + case_name);
  auto prepared = bench.evaluator->PrepareFor(program, *context);
  if (!prepared) return Failure(std::move(prepared.error()));
  eval::Device& device = *bench.device;
  eval::TimeRequest request;
  request.context = context;
  request.candidate = &*prepared;
  request.seed = seed;
  auto outcome = device.Time(request);
  if (!outcome) return Failure(std::move(outcome.error()));
  if (outcome->fault) {
    return Fail(ErrorCode::kUnavailable, "it did not run: " + outcome->fault->message);
  }
  Account account;
  DescribeTime(account, context->task_case(), device.spec(), *outcome);
  DescribeCode(account, *prepared);
  KernelLook look;
  look.counters_problem = "times are modelled: there are no hardware counters";
  if (auto* gpu = dynamic_cast<cuda::CudaDevice*>(&device); gpu != nullptr) {
    const auto counters = gpu->Profile(request);
    look.counters_problem = counters ? "" : counters.error().message;
    if (counters) {
      account.Report("counters\n" + cuda::CounterTable(*counters));
      account.summary += cuda::CounterSummary(*counters);
    }
  } else if (!device.gpus().empty()) {
    look.counters_problem = "several GPUs: name one for hardware counters, --device cuda:N";
  }
  if (!look.counters_problem.empty()) account.Report("counters: " + look.counters_problem);
  look.profile = {std::move(account.summary), std::move(account.report)};
  look.outcome = std::move(*outcome);
  return look;
}

search::Profiler ProfilerOf(Workbench& bench, std::uint64_t seed, bool elsewhere) {
  return [&bench, seed,
          elsewhere](const codegen::KernelProgram& program) -> Result<search::KernelProfile> {
    const auto cases = bench.evaluator->timed_cases();
    if (cases.empty()) return Fail(ErrorCode::kInvalidInput, "no case is timed");
    if (elsewhere) return LookAtCode(bench, program, cases.front());
    auto look = LookAt(bench, program, cases.front(), seed);
    if (!look) return Failure(std::move(look.error()));
    return std::move(look->profile);
  };
}

}  // namespace grove::cli
