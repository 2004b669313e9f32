#include "results/harvest/card.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "results/format.h"

namespace grove::results {
namespace {

// Inside of a table of Markdown: no cell ends early and nothing is markup.
std::string Cell(const std::string& text) {
  std::string out;
  for (const char c : Visible(text)) {
    if (c == '|' || c == '<' || c == '`' || c == '[' || c == '*' || c == '_') out += '\\';
    out += c;
  }
  return out;
}

std::string_view About(const std::string& kind) {
  if (kind == "nodes") return "every candidate with idea, code, plan, verdict, times and samples";
  if (kind == "edges") return "parent and child of one idea, with gain and confidence";
  if (kind == "preferences") return "siblings of one idea: the best against each other one";
  if (kind == "repairs") return "a failed program, its diagnostics, and the next attempt";
  if (kind == "negatives") return "failures and hacks, labelled";
  return "requests and replies as messages, with their outcome";
}

std::string KindOf(const HarvestedFile& file) { return file.name.substr(0, file.name.find('.')); }

}  // namespace

std::string DatasetCard(const std::vector<const RunData*>& runs, const HarvestOptions& options,
                        const HarvestReport& report, const CardFigures& figures) {
  std::string out = "---\nconfigs:\n";
  for (const HarvestedFile& file : report.files) {
    if (file.records == 0) continue;
    out += fmt::format("- config_name: {}\n  data_files: {}\n", KindOf(file), file.name);
  }
  out +=
      fmt::format("tags:\n- cuda\n- code\n- kernel-search\n---\n\n# CUDA kernels of {} run{}\n\n",
                  runs.size(), runs.size() == 1 ? "" : "s");
  out +=
      "Grown by Kernelgrove: a model writes ideas, each idea is implemented several times, every "
      "implementation is compiled, checked against an fp64 reference and timed. Times say whether "
      "they are modelled or measured; the two never compare.\n\n";
  out += "| file | records | train | validation | flagged | what |\n|---|---|---|---|---|---|\n";
  for (const HarvestedFile& file : report.files) {
    const std::string kind = KindOf(file);
    const auto split = [&](const char* name) -> std::int64_t {
      const auto it = figures.splits.find(kind);
      if (it == figures.splits.end()) return 0;
      const auto count = it->second.find(name);
      return count == it->second.end() ? 0 : count->second;
    };
    const auto flagged = figures.flagged.find(kind);
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", file.name, file.records, split("train"),
                       split("validation"),
                       !options.benchmarks                ? "not looked for"
                       : flagged == figures.flagged.end() ? "0"
                                                          : fmt::format("{}", flagged->second),
                       About(kind));
  }
  out += fmt::format(
      "\n{} candidates were looked at; {} were left out by the filters, {} as near-duplicates of "
      "an earlier one.\n\n## Filters\n\n",
      report.candidates, report.filtered, report.near_duplicates);
  out += fmt::format("- correct only: {}\n", options.correct_only ? "yes" : "no");
  out += fmt::format("- least gain over the parent: {}\n",
                     options.minimal_gain ? FormatNumber(*options.minimal_gain) : "none");
  out +=
      fmt::format("- precision class: {}\n", options.precision.empty() ? "any" : options.precision);
  out += fmt::format("- device: {}\n", options.device.empty() ? "any" : Cell(options.device));
  out += options.duplicate_threshold > 1
             ? std::string("- near-duplicates: kept\n")
             : fmt::format(
                   "- near-duplicates: programs of one task whose runs of five words have "
                   "a Jaccard similarity of {} or more, and whose outcomes are alike, count "
                   "once\n",
                   FormatNumber(options.duplicate_threshold));
  out += options.benchmarks
             ? fmt::format(
                   "- decontamination: records are flagged (`contaminated`) when {} or "
                   "more of their runs of {} words occur in one benchmark file; none is "
                   "hidden\n",
                   FormatShare(options.benchmark_share), options.benchmark_words)
             : std::string("- decontamination: not looked for\n");
  out += "\n## Labels of the nodes\n\n| label | nodes |\n|---|---|\n";
  for (const auto& [label, count] : figures.labels)
    out += fmt::format("| {} | {} |\n", label, count);
  out +=
      "\n## Provenance\n\n| run | task | GPU | grove | status | seed "
      "|\n|---|---|---|---|---|---|\n";
  for (const RunData* run : runs) {
    std::string gpu = "-";
    for (const EnvironmentRow& row : run->environment) {
      if (row.key == "gpu") gpu = row.value;
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", Cell(run->run.name),
                       Cell(run->task.name), Cell(gpu), Cell(run->run.program_version),
                       Name(run->run.status), run->run.seed);
  }
  out += fmt::format("\nLicence of the prompts' sources: {}.\n\n", Cell(options.licence));
  std::map<std::string, std::int64_t> models;
  for (const RunData* run : runs) {
    for (const CallRow& call : run->calls) ++models[call.model];
  }
  out += "| model | requests | terms for its output |\n|---|---|---|\n";
  for (const auto& [model, count] : models) {
    const auto terms = options.model_terms.find(model);
    out += fmt::format("| {} | {} | {} |\n", Cell(model), count,
                       Cell(terms != options.model_terms.end() ? terms->second : "not stated"));
  }
  out +=
      "\nThe split is by idea (one in twenty is `validation`), so siblings never stand on both "
      "sides. Every field is described in Kernelgrove's docs/harvest.md. Check the files with "
      "`xxh128sum -c manifest.xxh128`.\n";
  return out;
}

std::string ManifestJson(const std::vector<const RunData*>& runs, const HarvestOptions& options,
                         const std::vector<HarvestedFile>& files) {
  nlohmann::ordered_json json;
  json["format"] = "kernelgrove harvest 1";
  json["files"] = nlohmann::ordered_json::array();
  for (const HarvestedFile& file : files) {
    json["files"].push_back({{"name", file.name},
                             {"records", file.records},
                             {"bytes", file.size.value},
                             {"xxh128", file.xxh128}});
  }
  json["runs"] = nlohmann::ordered_json::array();
  for (const RunData* run : runs) {
    json["runs"].push_back({{"name", run->run.name},
                            {"task", run->task.name},
                            {"program_version", run->run.program_version},
                            {"candidates", run->candidates.size()}});
  }
  json["options"] = {
      {"correct_only", options.correct_only},
      {"minimal_gain", options.minimal_gain ? nlohmann::ordered_json(*options.minimal_gain)
                                            : nlohmann::ordered_json(nullptr)},
      {"precision", options.precision},
      {"device", options.device},
      {"duplicate_threshold", options.duplicate_threshold},
      {"benchmark_words", options.benchmark_words},
      {"benchmark_share", options.benchmark_share},
      {"decontaminated", options.benchmarks.has_value()},
      {"licence", options.licence},
      {"model_terms", options.model_terms}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace grove::results
