// `grove harvest`: runs as training data.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/find_run.h"
#include "results/format.h"
#include "results/harvest/harvest.h"

namespace grove::cli {

int HarvestCommand(const HarvestCommandOptions& options, const Common& common) {
  results::HarvestOptions harvest;
  harvest.output = options.output;
  harvest.kinds = options.kinds;
  harvest.correct_only = options.correct_only;
  if (options.minimal_gain > 0) harvest.minimal_gain = options.minimal_gain;
  harvest.precision = options.precision;
  harvest.device = options.device;
  harvest.duplicate_threshold = options.keep_duplicates ? 2 : options.duplicate_threshold;
  if (!options.benchmarks.empty()) harvest.benchmarks = options.benchmarks;
  harvest.benchmark_words = options.benchmark_words;
  harvest.benchmark_share = options.benchmark_share;
  harvest.licence = options.licence;
  if (options.format == "jsonl.zst") harvest.format = results::HarvestFormat::kJsonlZstd;
  if (options.format == "parquet") harvest.format = results::HarvestFormat::kParquet;
  for (const std::string& pair : options.model_terms) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Complain({ErrorCode::kInvalidInput,
                       fmt::format("--model-terms wants MODEL=TEXT, not '{}'", pair)});
    }
    harvest.model_terms[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> names = options.runs;
  if (names.empty()) names.push_back("");
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.find('/') != std::string::npos && std::filesystem::exists(name, ignored)) {
      folders.emplace_back(name);
      continue;
    }
    auto found = FindRun(common.runs, name);
    if (!found) return Complain(found.error());
    folders.push_back(common.runs / *found);
  }
  auto report = results::Harvest(folders, harvest);
  if (!report) return Complain(report.error());
  if (common.json) {
    nlohmann::ordered_json json = {
        {"folder", options.output.string()},          {"runs", report->runs},
        {"candidates", report->candidates},           {"filtered", report->filtered},
        {"near_duplicates", report->near_duplicates}, {"flagged", report->flagged}};
    json["files"] = nlohmann::ordered_json::array();
    for (const results::HarvestedFile& file : report->files) {
      json["files"].push_back({{"name", file.name},
                               {"records", file.records},
                               {"bytes", file.size.value},
                               {"xxh128", file.xxh128}});
    }
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  for (const results::HarvestedFile& file : report->files) {
    fmt::print("{:<26} {:>8} records  {}\n", file.name, results::FormatCount(file.records),
               results::FormatBytes(file.size));
  }
  fmt::print("{} of {} candidates left out by filters, {} as near-duplicates", report->filtered,
             report->candidates, report->near_duplicates);
  if (harvest.benchmarks) fmt::print(", {} records flagged as in a benchmark", report->flagged);
  fmt::print("; {}/README.md says more\n", options.output.string());
  return kExitDone;
}

}  // namespace grove::cli
