#include "results/compare.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "results/format.h"
#include "results/run_index.h"

namespace grove::results {
namespace {

using Json = nlohmann::ordered_json;

std::string Group(const RunData& data) {
  Json json = Json::parse(data.run.config, nullptr, false);
  if (!json.is_object()) return data.task.name;
  json.erase("seed");
  json.erase("tasks");  // a folder of one machine
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The best cold time of a case, of the kind asked for.
std::optional<Nanoseconds> BestOf(const RunData& data, const std::string& name, TimeKind kind) {
  std::optional<Nanoseconds> best;
  for (const CandidateRow& c : data.candidates) {
    if (!ScoreOf(c)) continue;
    for (const CaseTimeRow& t : c.evaluation->case_times) {
      if (t.case_name == name && t.kind == kind && t.mode == TimingMode::kCold &&
          (!best || t.time < *best)) {
        best = t.time;
      }
    }
  }
  return best;
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

std::string Table(const std::vector<std::vector<std::string>>& rows, int width) {
  std::vector<int> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += Pad(row[i], widths[i]) + "  ";
    line = Fit(line, std::max(40, width));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

// Runs whose configuration differs in nothing but the seed.
std::map<std::string, std::vector<const RunFigures*>> Repetitions(
    const std::vector<RunFigures>& figures) {
  std::map<std::string, std::vector<const RunFigures*>> groups;
  for (const RunFigures& f : figures) {
    if (f.over_seed) groups[f.group + std::string(Name(f.kind))].push_back(&f);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

std::vector<RunFigures> All(const std::vector<const RunData*>& runs,
                            const CompareOptions& options) {
  const auto target = TargetOf(runs, options);
  std::vector<RunFigures> figures;
  for (const RunData* run : runs) figures.push_back(FiguresOf(*run, target));
  return figures;
}

}  // namespace

RunFigures FiguresOf(const RunData& run, std::optional<double> target) {
  RunFigures f;
  f.run = &run;
  f.group = Group(run);
  f.rounds = static_cast<int>(run.rounds.size());
  f.candidates = static_cast<int>(run.candidates.size());
  for (const CandidateRow& c : run.candidates) {
    f.evaluated += c.evaluation.has_value();
    f.correct += c.evaluation && c.evaluation->verdict.passed();
  }
  for (const CallRow& call : run.calls) f.tokens = f.tokens + call.usage.total();
  for (const LedgerRow& row : run.ledger) {
    if (row.kind == LedgerKind::kDollars) f.dollars += row.settled.value_or(row.reserved);
  }
  const CandidateRow* seed = run.Seed();
  const CandidateRow* best = run.Best();
  if (seed != nullptr) f.seed = ScoreOf(*seed);
  if (best != nullptr) {
    f.best = ScoreOf(*best);
    f.kind = best->evaluation->score_kind;
    if (seed != nullptr) f.over_seed = SpeedUp(*seed, *best);
  }
  if (!target || seed == nullptr) return f;
  const RunIndex index(run);
  for (const CandidateRow& c : run.candidates) {
    const auto gain = SpeedUp(*seed, c);
    if (!gain || *gain < *target * (1 - 1e-9)) continue;
    const Tokens tokens = index.TokensUntil(c);
    if (!f.tokens_to_target || tokens < *f.tokens_to_target) f.tokens_to_target = tokens;
    if (!f.kernels_to_target) {
      f.kernels_to_target = static_cast<int>(&c - run.candidates.data()) + 1;
    }
  }
  return f;
}

std::optional<double> TargetOf(const std::vector<const RunData*>& runs,
                               const CompareOptions& options) {
  if (options.target) return options.target;
  std::optional<double> target;
  for (const RunData* run : runs) {
    const auto reached = FiguresOf(*run, std::nullopt).over_seed;
    if (!reached) return std::nullopt;
    target = std::min(target.value_or(*reached), *reached);
  }
  return target;
}

std::string RenderComparison(const std::vector<const RunData*>& runs,
                             const CompareOptions& options) {
  const std::vector<RunFigures> figures = All(runs, options);
  const auto target = TargetOf(runs, options);
  std::vector<std::vector<std::string>> rows = {
      {"run", "task", "rounds", "kernels", "pass", "best", "over seed", "tokens", "to target"}};
  for (const RunFigures& f : figures) {
    rows.push_back(
        {Visible(f.run->run.name), Visible(f.run->task.name), FormatCount(f.rounds),
         FormatCount(f.candidates),
         f.evaluated > 0 ? FormatShare(static_cast<double>(f.correct) / f.evaluated) : "-",
         f.best ? FormatTime(*f.best, f.kind) : "-", f.over_seed ? FormatRatio(*f.over_seed) : "-",
         FormatCount(f.tokens.value),
         f.tokens_to_target ? FormatCount(f.tokens_to_target->value) + " tokens" : "never"});
  }
  std::string out = Table(rows, options.width);
  if (target) {
    out += fmt::format("target: {} the seed{}\n", FormatRatio(*target),
                       options.target ? "" : ", the most that all of them reached");
  }

  // The best of each case, a column per run and kind of time.
  std::vector<std::string> cases;
  for (const RunFigures& f : figures) {
    for (const CaseRow& row : f.run->cases) {
      if (BestOf(*f.run, row.name, f.kind) &&
          std::find(cases.begin(), cases.end(), row.name) == cases.end()) {
        cases.push_back(row.name);
      }
    }
  }
  rows = {{"best of case"}};
  for (const RunFigures& f : figures) rows[0].push_back(Visible(f.run->run.name));
  for (const std::string& name : cases) {
    rows.push_back({Visible(name)});
    for (const RunFigures& f : figures) {
      const auto best = BestOf(*f.run, name, f.kind);
      rows.back().push_back(best ? FormatTime(*best, f.kind) : "-");
    }
  }
  if (!cases.empty()) out += "\n" + Table(rows, options.width);

  for (const auto& [group, members] : Repetitions(figures)) {
    std::vector<double> gains, bests;
    for (const RunFigures* f : members) {
      gains.push_back(*f->over_seed);
      bests.push_back(f->best->count());
    }
    out += fmt::format(
        "\n{} runs of {} that differ in their seed: best {} to {}, median {} {}; over the seed {} "
        "to {}, median {}\n",
        members.size(), Visible(members[0]->run->task.name),
        FormatTime(Nanoseconds(Quantile(bests, 0))), FormatTime(Nanoseconds(Quantile(bests, 1))),
        FormatTime(Nanoseconds(Quantile(bests, 0.5))), Name(members[0]->kind),
        FormatRatio(Quantile(gains, 0)), FormatRatio(Quantile(gains, 1)),
        FormatRatio(Quantile(gains, 0.5)));
  }
  return out;
}

std::string ComparisonJson(const std::vector<const RunData*>& runs, const CompareOptions& options) {
  const std::vector<RunFigures> figures = All(runs, options);
  const auto target = TargetOf(runs, options);
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  const auto nanoseconds = [](const std::optional<Nanoseconds>& value) {
    return value ? Json(value->count()) : Json(nullptr);
  };
  Json json;
  json["target_over_seed"] = number(target);
  json["runs"] = Json::array();
  for (const RunFigures& f : figures) {
    Json row = {
        {"run", f.run->run.name},
        {"task", f.run->task.name},
        {"status", Name(f.run->run.effective_status())},
        {"rounds", f.rounds},
        {"candidates", f.candidates},
        {"evaluated", f.evaluated},
        {"correct", f.correct},
        {"time_kind", Name(f.kind)},
        {"seed_ns", nanoseconds(f.seed)},
        {"best_ns", nanoseconds(f.best)},
        {"over_seed", number(f.over_seed)},
        {"tokens", f.tokens.value},
        {"dollars", f.dollars},
        {"tokens_to_target", f.tokens_to_target ? Json(f.tokens_to_target->value) : Json(nullptr)},
        {"kernels_to_target", number(f.kernels_to_target)}};
    row["cases"] = Json::object();
    for (const CaseRow& task_case : f.run->cases) {
      if (const auto best = BestOf(*f.run, task_case.name, f.kind)) {
        row["cases"][task_case.name] = best->count();
      }
    }
    json["runs"].push_back(std::move(row));
  }
  json["repetitions"] = Json::array();
  for (const auto& [group, members] : Repetitions(figures)) {
    std::vector<double> gains;
    Json names = Json::array();
    for (const RunFigures* f : members) {
      gains.push_back(*f->over_seed);
      names.push_back(f->run->run.name);
    }
    json["repetitions"].push_back({{"runs", names},
                                   {"over_seed_least", Quantile(gains, 0)},
                                   {"over_seed_median", Quantile(gains, 0.5)},
                                   {"over_seed_most", Quantile(gains, 1)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace grove::results
