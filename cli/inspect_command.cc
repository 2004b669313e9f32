// `grove tree`, `grove show` and `grove runs`: read a run, whoever writes it, and change nothing.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/terminal.h"
#include "codegen/program.h"
#include "results/format.h"
#include "results/show.h"
#include "results/store.h"
#include "results/tree.h"
#include "search/policy.h"

namespace grove::cli {

namespace {

// The policy that chose, to ask it why. None when the run names one that this grove does not have.
std::unique_ptr<search::Policy> PolicyOf(OpenedRun& run) {
  auto config = search::ConfigFromJson(run.data.run.config);
  if (!config) return nullptr;
  auto policy = search::MakePolicy(*config, [&run](const results::CandidateRow& row) {
    auto texts = results::LoadTexts(*run.reader, row);
    if (!texts) return std::int64_t{0};
    const auto program = codegen::MakeProgram(texts->source, texts->plan);
    return program ? static_cast<std::int64_t>(program->size()) : std::int64_t{0};
  });
  return policy ? std::move(*policy) : nullptr;
}

}  // namespace

int TreeCommand(const TreeCommandOptions& options, const Common& common) {
  auto run = OpenRun(common.runs, options.run);
  if (!run) return Complain(run.error());
  if (common.json) {
    fmt::print("{}\n", results::TreeJson(run->data));
    return kExitDone;
  }
  results::TreeOptions tree;
  if (const int width = TerminalWidth(stdout); width > 0) {
    tree.width = width;
    tree.color = true;
  }
  if (options.round >= 0) {
    tree.round = options.round;
    std::vector<std::string> rounds;
    for (const results::RoundRow& round : run->data.rounds) {
      rounds.push_back(std::to_string(round.index));
    }
    const std::string wanted = std::to_string(options.round);
    if (std::find(rounds.begin(), rounds.end(), wanted) == rounds.end()) {
      return Complain({ErrorCode::kNotFound, UnknownName("round", wanted, rounds)});
    }
  }
  if (options.depth > 0) tree.depth = options.depth;
  tree.best_path = options.best_path;
  const std::unique_ptr<search::Policy> policy = PolicyOf(*run);
  if (options.explain && policy) {
    tree.explain = [&](const results::CandidateRow& candidate) {
      return search::Explain(run->data, candidate, *policy);
    };
  }
  fmt::print("{}", results::RenderTree(run->data, tree));
  return kExitDone;
}

int ShowCommand(const std::string& kernel, const std::string& run_name,
                const std::filesystem::path& output, const Common& common) {
  std::string name = kernel;
  std::string run_of_kernel = run_name;
  if (const auto slash = kernel.find('/'); slash != std::string::npos) {
    run_of_kernel = kernel.substr(0, slash);
    name = kernel.substr(slash + 1);
  }
  auto run = OpenRun(common.runs, run_of_kernel);
  if (!run) return Complain(run.error());
  auto candidate = FindKernel(run->data, name);
  if (!candidate) return Complain(candidate.error());
  auto texts = results::LoadTexts(*run->reader, **candidate);
  if (!texts) return Complain(texts.error());
  if (!output.empty()) {
    std::filesystem::path plan = output;
    plan.replace_extension(".json");
    if (plan == output) {
      return Complain({ErrorCode::kInvalidInput,
                       output.string() + " is for the source; the plan takes .json beside it"});
    }
    for (const auto& [file, text] : {std::pair(output, &texts->source), {plan, &texts->plan}}) {
      if (auto written = WriteFileAtomic(file, *text); !written) return Complain(written.error());
    }
  }
  if (common.json) {
    fmt::print("{}\n", results::CandidateJson(run->data, **candidate, *texts));
    return kExitDone;
  }
  results::ShowOptions options;
  if (const int width = TerminalWidth(stdout); width > 0) options.width = width;
  const std::unique_ptr<search::Policy> policy = PolicyOf(*run);
  const std::string why = policy ? search::Explain(run->data, **candidate, *policy) : "";
  if (!why.starts_with("kept")) options.pruned = why;
  fmt::print("{}", results::RenderCandidate(run->data, **candidate, *texts, options));
  return kExitDone;
}

int RunsCommand(const Common& common) {
  auto runs = results::ListRuns(common.runs);
  if (!runs) return Complain(runs.error());
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const results::RunSummary& run : *runs) {
    if (common.json) {
      nlohmann::ordered_json row = {{"name", run.name}, {"task", run.task}};
      if (!run.problem.empty()) row["problem"] = run.problem;
      row["status"] = results::Name(run.run.effective_status());
      row["rounds"] = run.rounds;
      row["candidates"] = run.candidates;
      row["correct"] = run.correct;
      if (run.best_score) row["best_ns"] = run.best_score->count();
      if (run.seed_score) row["seed_ns"] = run.seed_score->count();
      row["time_kind"] = results::Name(run.score_kind);
      json.push_back(std::move(row));
      continue;
    }
    if (!run.problem.empty()) {
      fmt::print("{:<24} {}\n", run.name, results::Visible(run.problem));
      continue;
    }
    fmt::print("{:<24} {:<12} {:<12} {} rounds, {} of {} candidates pass", run.name, run.task,
               results::Name(run.run.effective_status()), run.rounds, run.correct, run.candidates);
    if (run.best_score && run.seed_score) {
      fmt::print(", best {}, {} the seed", results::FormatTime(*run.best_score, run.score_kind),
                 results::FormatRatio(*run.seed_score / *run.best_score));
    }
    fmt::print("\n");
  }
  if (common.json) {
    fmt::print("{}\n", json.dump(2));
  } else if (runs->empty()) {
    fmt::print("no runs in {} (start one with: grove run TASK)\n", common.runs.string());
  }
  return kExitDone;
}

}  // namespace grove::cli
