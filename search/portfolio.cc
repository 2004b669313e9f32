#include "search/portfolio.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/combine.h"
#include "results/format.h"
#include "search/candidate.h"
#include "search/convert.h"
#include "search/selection.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::CaseRow;
using results::CaseTimeRow;
using results::RunData;

constexpr std::string_view kTitle = "Combine by case: ";
constexpr double kLeastGain = 1.01;

bool IsCombination(const RunData& data, const CandidateRow& kernel) {
  const results::IdeaRow* idea = data.Find(kernel.idea);
  return idea != nullptr && idea->title.starts_with(kTitle);
}

const CaseTimeRow* TimeOn(const CandidateRow& kernel, std::string_view case_name) {
  for (const CaseTimeRow& row : kernel.evaluation->case_times) {
    if (row.case_name == case_name && row.mode == results::TimingMode::kCold &&
        row.kind == kernel.evaluation->score_kind && row.time.count() > 0) {
      return &row;
    }
  }
  return nullptr;
}

double NoiseOn(const CaseTimeRow& row) {
  if (!row.low || !row.high) return 0;
  return std::max(0.0, (*row.high - *row.low) / row.time / 2);
}

// Scored cases that no dim tells apart go together.
struct Group {
  std::vector<seeds::Dim> dims;
  std::vector<std::string> cases;
  const CandidateRow* winner = nullptr;

  std::int64_t dim(std::size_t i) const { return dims[i].value; }
};

// Sum over the group's cases of ln(time); none when the kernel lacks one.
std::optional<double> LogTime(const CandidateRow& kernel, const Group& group) {
  double sum = 0;
  for (const std::string& name : group.cases) {
    const CaseTimeRow* row = TimeOn(kernel, name);
    if (row == nullptr) return std::nullopt;
    sum += std::log(row->time.count());
  }
  return sum;
}

double NoiseOn(const CandidateRow& kernel, const Group& group) {
  double noise = 0;
  for (const std::string& name : group.cases)
    noise = std::max(noise, NoiseOn(*TimeOn(kernel, name)));
  return noise;
}

// Over one dim, when the winner's groups are neighbours in it with nobody else's among them.
std::optional<std::string> Threshold(const std::vector<Group>& groups, const CandidateRow* winner) {
  for (std::size_t d = 0; d < groups[0].dims.size(); ++d) {
    std::int64_t low = 0, high = 0;
    bool first = true;
    for (const Group& group : groups) {
      if (group.winner != winner) continue;
      low = first ? group.dim(d) : std::min(low, group.dim(d));
      high = first ? group.dim(d) : std::max(high, group.dim(d));
      first = false;
    }
    std::optional<std::int64_t> below, above;
    bool separate = true;
    for (const Group& group : groups) {
      if (group.winner == winner) continue;
      const std::int64_t value = group.dim(d);
      if (value >= low && value <= high) separate = false;
      if (value < low && (!below || value > *below)) below = value;
      if (value > high && (!above || value < *above)) above = value;
    }
    if (!separate || (!below && !above)) continue;
    const std::string& name = groups[0].dims[d].name;
    std::string when;
    if (below) when = fmt::format("{} > {}", name, *below + (low - *below) / 2);
    if (above) {
      when +=
          fmt::format("{}{} <= {}", when.empty() ? "" : " && ", name, high + (*above - high) / 2);
    }
    return when;
  }
  return std::nullopt;
}

std::string Exactly(const std::vector<Group>& groups, const CandidateRow* winner) {
  std::vector<std::string> any;
  for (const Group& group : groups) {
    if (group.winner != winner) continue;
    std::vector<std::string> all;
    for (std::size_t d = 0; d < group.dims.size(); ++d) {
      const bool varies = std::any_of(groups.begin(), groups.end(), [&](const Group& other) {
        return other.dim(d) != group.dim(d);
      });
      if (varies) all.push_back(fmt::format("{} == {}", group.dims[d].name, group.dim(d)));
    }
    any.push_back(fmt::format("{}", fmt::join(all, " && ")));
  }
  return fmt::format("{}", fmt::join(any, " || "));
}

}  // namespace

std::optional<Portfolio> PlanPortfolio(const RunData& data) {
  const auto counts = [](const CaseRow& row) {
    return row.role == "scored" || row.role == "extra";
  };
  if (std::count_if(data.cases.begin(), data.cases.end(), counts) < 2) return std::nullopt;
  const CandidateRow* best = data.Best();
  if (best == nullptr) return std::nullopt;
  std::vector<Group> groups;
  std::size_t scored = 0;
  for (const CaseRow& row : data.cases) {
    if (!counts(row)) continue;
    if (TimeOn(*best, row.name) == nullptr) continue;
    ++scored;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return std::equal(group.dims.begin(), group.dims.end(), row.dims.begin(), row.dims.end(),
                        [](const seeds::Dim& a, const seeds::Dim& b) {
                          return a.name == b.name && a.value == b.value;
                        });
    });
    if (same != groups.end()) {
      same->cases.push_back(row.name);
    } else {
      groups.push_back({row.dims, {row.name}, nullptr});
    }
  }
  const bool one_shape = std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    return group.dims.size() != groups[0].dims.size();
  });
  if (groups.size() < 2 || one_shape || groups[0].dims.empty()) return std::nullopt;

  // Where the best is a combination, its cases are won by the best that is none.
  Kernels kernels;
  for (const CandidateRow& candidate : data.candidates) {
    if (results::SpeedUp(*best, candidate) && !IsCombination(data, candidate)) {
      kernels.push_back(&candidate);
    }
  }
  kernels = InOrder(data, std::move(kernels));
  if (kernels.empty()) return std::nullopt;
  const CandidateRow* common = kernels[0];
  double log_sum = 0;
  for (Group& group : groups) {
    group.winner = common;
    const auto base = LogTime(*common, group);
    if (!base) return std::nullopt;
    double least = *base;
    const auto count = static_cast<double>(group.cases.size());
    for (const CandidateRow* kernel : kernels) {
      const auto time = LogTime(*kernel, group);
      if (!time || *time >= least) continue;
      const double noise = std::hypot(NoiseOn(*common, group), NoiseOn(*kernel, group));
      if ((*base - *time) / count <= std::max(std::log(kLeastGain), noise)) continue;
      least = *time;
      group.winner = kernel;
    }
    log_sum += least;
  }
  Portfolio portfolio;
  portfolio.gain =
      results::ScoreOf(*best)->count() / std::exp(log_sum / static_cast<double>(scored));
  if (!(portfolio.gain >= kLeastGain)) return std::nullopt;

  std::vector<std::string> words;
  std::set<const CandidateRow*> done = {common};
  const auto cases_of = [&](const CandidateRow* kernel) {
    std::vector<std::string> cases;
    for (const Group& group : groups) {
      if (group.winner == kernel) {
        cases.insert(cases.end(), group.cases.begin(), group.cases.end());
      }
    }
    return cases;
  };
  for (const Group& group : groups) {
    if (!done.insert(group.winner).second) continue;
    auto when = Threshold(groups, group.winner);
    portfolio.parts.push_back(
        {group.winner, when ? *when : Exactly(groups, group.winner), cases_of(group.winner)});
    words.push_back(
        fmt::format("{} for {}", group.winner->name, fmt::join(portfolio.parts.back().cases, " ")));
  }
  if (portfolio.parts.empty()) return std::nullopt;
  portfolio.parts.push_back({common, "", cases_of(common)});
  words.push_back(fmt::format("{} for the rest", common->name));
  portfolio.title = fmt::format("{}{}", kTitle, fmt::join(words, ", "));
  return portfolio;
}

Result<bool> AddPortfolio(const PortfolioParts& with, RoundId round, int number,
                          const std::stop_token& stop) {
  RunTree& tree = with.tree;
  const RunData& data = tree.data();
  // Its ordinal among its parent's ideas, behind whatever a model may have had.
  constexpr int kOrdinal = 1000;
  const auto portfolio = PlanPortfolio(data);
  if (!portfolio) return true;
  for (const results::IdeaRow& idea : data.ideas) {
    if (idea.title == portfolio->title && idea.round != round) return true;  // tried before
  }
  const auto begun = std::find_if(data.ideas.begin(), data.ideas.end(), [&](const auto& idea) {
    return idea.round == round && idea.title.starts_with(kTitle);
  });
  // A round that is taken up again has one for the kernels that it had then; the next round has
  // its own.
  if (begun != data.ideas.end() && begun->title != portfolio->title) return true;
  if (begun != data.ideas.end()) {  // before a kill
    const auto siblings = tree.SiblingsOf(begun->id);
    if (!siblings.empty() && siblings[0]->evaluation) return true;
  }
  std::vector<codegen::KernelProgram> programs;
  programs.reserve(portfolio->parts.size());
  std::vector<codegen::CombinePart> parts;
  for (const PortfolioPart& part : portfolio->parts) {
    if (!part.kernel->source || !part.kernel->plan) return true;
    auto program = ProgramOf(tree, *part.kernel);
    if (!program) return Failure(std::move(program.error()));
    programs.push_back(std::move(*program));
    parts.push_back({part.kernel->name, &programs.back(), part.when});
  }
  auto combined = codegen::Combine(parts);
  // Too large, most likely. The search goes on without it.
  if (!combined) {
    auto noted = tree.store().AddEvent("portfolio", combined.error().message);
    if (!noted) return Failure(std::move(noted.error()));
    return true;
  }

  auto hold = with.ledger.ReserveEvaluation(
      "combination", {data.Find(round)->index, number, CallId()}, with.on_gpu, stop);
  if (!hold) {
    if (hold.error().code != ErrorCode::kBudget) return Failure(std::move(hold.error()));
    auto noted = tree.store().AddEvent("portfolio", hold.error().message);
    if (!noted) return Failure(std::move(noted.error()));
    return true;
  }
  results::IdeaDraft draft;
  draft.title = portfolio->title;
  draft.category = "control flow and indexing";
  draft.rationale =
      "Each kernel is the fastest in its cases; a variant for each gives all of them.";
  draft.expected_gain = portfolio->gain;
  draft.number = number;
  draft.ordinal = kOrdinal;
  auto idea = tree.AddIdea(round, portfolio->parts.back().kernel->id, draft);
  if (!idea) return Failure(std::move(idea.error()));
  const auto asked = tree.Request(*idea, 1);
  if (!asked) return Failure(asked.error());
  const CandidateRow& candidate = asked->front();
  results::ProgramDraft program;
  program.source = combined->source;
  program.plan = combined->plan_json;
  program.identity = combined->identity();
  if (auto done = tree.Receive(candidate.id, program); !done) {
    return Failure(std::move(done.error()));
  }
  const auto start = std::chrono::steady_clock::now();
  auto found = with.evaluate(candidate.name, *combined);
  const Seconds took = std::chrono::steady_clock::now() - start;
  if (!found) return Fail(std::move(found.error()), "evaluating a combination");
  if (auto paid = hold->Settle(with.on_gpu ? took : Seconds(0)); !paid) {
    return Failure(std::move(paid.error()));
  }
  const std::optional<eval::Evaluation>& evaluation = *found;
  if (!evaluation) return false;
  if (auto done = tree.Conclude(candidate.id, ToRow(*evaluation)); !done) {
    return Failure(std::move(done.error()));
  }
  with.observer.Line(
      fmt::format("  {:<10} {}{}  {}", candidate.name, eval::Name(evaluation->verdict.kind),
                  evaluation->score ? "  " + results::FormatTime(*evaluation->score) : "",
                  results::Visible(portfolio->title)));
  return true;
}

}  // namespace grove::search
