// `grove gauntlet`.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/gauntlet_sanitize.h"
#include "eval/emulator_device.h"
#include "eval/gauntlet.h"
#include "results/format.h"

namespace grove::cli {
namespace {

// The cases of the gauntlet need at most a tenth of it.
constexpr std::int64_t kBudget = std::int64_t{1} << 28;

nlohmann::ordered_json ToJson(const eval::GauntletOutcome& outcome) {
  const eval::Verdict& got = outcome.got;
  nlohmann::ordered_json json = {{"name", outcome.name},
                                 {"task", outcome.task},
                                 {"status", eval::Name(outcome.status)},
                                 {"expected", outcome.expected}};
  if (outcome.status == eval::GauntletStatus::kSkipped) return json;
  json["got"] = eval::Name(got.kind);
  json["stage"] = eval::Name(got.stage);
  json["case"] = got.case_name;
  json["message"] = results::VisibleBlock(got.message.substr(0, 2000));
  json["seed"] = got.seed;
  json["tensor"] = got.tensor;
  json["element"] = got.element;
  json["expected_value"] = results::FormatNumber(got.expected);
  json["got_value"] = results::FormatNumber(got.got);
  json["error"] = results::FormatNumber(got.error);
  json["tolerance"] = results::FormatNumber(got.tolerance);
  if (outcome.measured_class) json["class"] = seeds::Name(*outcome.measured_class);
  json["ms"] = outcome.time.count();
  return json;
}

std::string Got(const eval::GauntletOutcome& outcome) {
  std::string got(eval::Name(outcome.got.kind));
  if (outcome.measured_class) got += fmt::format(" ({})", seeds::Name(*outcome.measured_class));
  return got;
}

void PrintTable(const std::vector<eval::GauntletOutcome>& outcomes) {
  fmt::print("{:<34} {:<18} {:<34} {:<26} {:<12} {:>8}\n", "name", "task", "expected", "got",
             "stage", "time");
  for (const eval::GauntletOutcome& outcome : outcomes) {
    const bool skipped = outcome.status == eval::GauntletStatus::kSkipped;
    fmt::print("{:<34} {:<18} {:<34} {:<26} {:<12} {:>8}{}\n", outcome.name, outcome.task,
               outcome.expected, skipped ? "-" : Got(outcome),
               skipped ? "-" : eval::Name(outcome.got.stage),
               skipped ? "-" : fmt::format("{:.0f} ms", outcome.time.count()),
               outcome.status == eval::GauntletStatus::kAsExpected
                   ? ""
                   : fmt::format("  {}", eval::Name(outcome.status)));
  }
  for (const eval::GauntletOutcome& outcome : outcomes) {
    if (outcome.status == eval::GauntletStatus::kAsExpected ||
        outcome.status == eval::GauntletStatus::kSkipped) {
      continue;
    }
    fmt::print("\n{}: {}, expected {}, got {} at {}{}{}\n  {}\n", eval::Name(outcome.status),
               outcome.name, outcome.expected, Got(outcome), eval::Name(outcome.got.stage),
               outcome.got.case_name.empty() ? "" : ", case ", outcome.got.case_name,
               results::VisibleBlock(outcome.got.message.substr(0, 2000)));
  }
}

}  // namespace

int GauntletCommand(const GauntletCommandOptions& options, const Common& common) {
  auto gauntlet = eval::LoadGauntlet(
      options.folder.empty() ? eval::DefaultGauntletFolder() : options.folder, options.only);
  if (!gauntlet) return Complain(gauntlet.error());
  WorkbenchOptions bench = common.bench;
  bench.small_budget = kBudget;
  auto machine = MakeMachine(bench);
  if (!machine) return Complain(machine.error());

  eval::GauntletOptions run;
  run.tasks = common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks;
  run.evaluation.seed = common.bench.seed;
  run.evaluation.arch = machine->device->spec().arch;
  std::unique_ptr<eval::Device> screen;
  if (!machine->device->gpus().empty()) {
    screen = eval::MakeEmulatorDevice(machine->device->spec(), {});
    run.evaluation.screen = screen.get();
  }
  if (!options.sanitize.empty()) {
    return SanitizeGauntlet(*gauntlet, *machine, run, options, common);
  }
  std::size_t done = 0;
  if (!common.quiet) {
    run.done = [&](const eval::GauntletOutcome& outcome) {
      ++done;
      if (outcome.status != eval::GauntletStatus::kAsExpected &&
          outcome.status != eval::GauntletStatus::kSkipped) {
        fmt::print(stderr, "{}/{} {}: {}\n", done, gauntlet->entries.size(), outcome.name,
                   eval::Name(outcome.status));
      }
    };
  }
  auto outcomes = eval::RunGauntlet(*gauntlet, *machine->compiler, *machine->device, run);
  if (!outcomes) return Complain(outcomes.error());
  const eval::GauntletTotals totals = eval::Total(*outcomes);
  if (common.json) {
    nlohmann::ordered_json json = {{"device", machine->device->name()},
                                   {"gpu", machine->device->spec().name},
                                   {"hostile", totals.hostile},
                                   {"honest", totals.honest},
                                   {"false_accepts", totals.false_accepts},
                                   {"false_rejects", totals.false_rejects},
                                   {"other_verdicts", totals.other_verdicts},
                                   {"skipped", totals.skipped}};
    for (const eval::GauntletOutcome& outcome : *outcomes) {
      json["programs"].push_back(ToJson(outcome));
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    PrintTable(*outcomes);
    fmt::print(
        "\n{} on {}: {} hostile and {} honest programs; {} false accepts, {} false rejects, "
        "{} other verdicts than expected, {} that this device cannot tell\n",
        machine->device->name(), machine->device->spec().name, totals.hostile, totals.honest,
        totals.false_accepts, totals.false_rejects, totals.other_verdicts, totals.skipped);
  }
  return totals.clean() ? kExitDone : kExitFailed;
}

}  // namespace grove::cli
