#include "search/policy.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/suggest.h"
#include "results/format.h"
#include "search/makeup.h"
#include "search/selection.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::FrontierEntry;
using results::FrontierKind;
using results::FrontierRow;
using results::RunData;

// Beam; with one place that is greedy.
class Beam : public Policy {
 public:
  Beam(int size, int reserve, SourceSize source)
      : size_(size), reserve_(reserve), source_(std::move(source)) {}
  Choice Choose(const RunData& data, int index) const override {
    Choice choice;
    const Kernels pool = PoolOf(data, index);
    TakeFastest(data, InOrder(data, pool, source_), size_, choice, source_);
    FillReserve(data, index, reserve_, pool, choice);
    return choice;
  }

 private:
  const int size_;
  const int reserve_;
  const SourceSize source_;
};

// A place is an island: what was made from place p in a round belongs to island p. The first round
// founds them, with different ideas.
class Islands : public Policy {
 public:
  Islands(int islands, int reserve, SourceSize source)
      : islands_(islands), reserve_(reserve), source_(std::move(source)) {}

  Choice Choose(const RunData& data, int index) const override {
    Choice choice;
    const Kernels pool = PoolOf(data, index);
    const Kernels ordered = InOrder(data, pool, source_);
    std::vector<const FrontierRow*> before = FrontierAfter(data, index - 1);
    std::erase_if(before,
                  [](const FrontierRow* row) { return row->kind != FrontierKind::kFastest; });
    std::vector<const CandidateRow*> heads;
    for (std::size_t island = 0; island < before.size(); ++island) {
      const CandidateId founder = before[island]->candidate;
      for (const CandidateRow* kernel : ordered) {
        const bool of_island =
            kernel->id == founder || (kernel->parent == founder && RoundOf(data, *kernel) == index);
        const bool taken = std::find(heads.begin(), heads.end(), kernel) != heads.end();
        if (!of_island || taken) continue;
        heads.push_back(kernel);
        choice.frontier.push_back(
            {kernel->id, FrontierKind::kFastest,
             fmt::format("the fastest of island {}: {}", island + 1, Time(*kernel))});
        break;
      }
    }
    Migrate(data, index, ordered, heads, choice);
    Found(data, ordered, choice);
    FillReserve(data, index, reserve_, pool, choice);
    return choice;
  }

 private:
  static constexpr int kMigrationRounds = 4;

  static std::string Time(const CandidateRow& kernel) {
    return results::FormatTime(*results::ScoreOf(kernel), kernel.evaluation->score_kind);
  }

  // Every few rounds the slowest island goes on from the strongest's next lineage.
  static void Migrate(const RunData& data, int index, const Kernels& ordered,
                      const std::vector<const CandidateRow*>& heads, Choice& choice) {
    if (index % kMigrationRounds != 0 || heads.size() < 2) return;
    const auto slower = [](const CandidateRow* a, const CandidateRow* b) {
      return *results::ScoreOf(*a) < *results::ScoreOf(*b);
    };
    const auto worst = std::max_element(heads.begin(), heads.end(), slower);
    const auto best = std::min_element(heads.begin(), heads.end(), slower);
    if (IsTie(**worst, **best)) return;
    Makeups makeup_of(data);
    for (const CandidateRow* kernel : ordered) {
      const bool of_best = kernel->parent == (*best)->parent || kernel->id == (*best)->parent;
      if (!of_best || makeup_of.Of(*kernel) == makeup_of.Of(**best)) continue;
      if (std::find(heads.begin(), heads.end(), kernel) != heads.end()) continue;
      if (!(*results::ScoreOf(*kernel) < *results::ScoreOf(**worst))) return;
      const auto island = static_cast<std::size_t>(worst - heads.begin());
      choice.frontier[island] = {kernel->id, FrontierKind::kFastest,
                                 fmt::format("moved to island {} in place of {}: {}", island + 1,
                                             (*worst)->name, Time(*kernel))};
      return;
    }
  }

  // Islands that nobody lives on yet.
  void Found(const RunData& data, const Kernels& ordered, Choice& choice) const {
    Makeups makeup_of(data);
    std::vector<Makeup> makeups;
    for (const FrontierEntry& entry : choice.frontier) {
      makeups.push_back(makeup_of.Of(*data.Find(entry.candidate)));
    }
    for (const CandidateRow* kernel : ordered) {
      if (static_cast<int>(choice.frontier.size()) == islands_) break;
      const Makeup& makeup = makeup_of.Of(*kernel);
      if (std::find(makeups.begin(), makeups.end(), makeup) != makeups.end()) continue;
      makeups.push_back(makeup);
      choice.frontier.push_back(
          {kernel->id, FrontierKind::kFastest,
           fmt::format("founds island {}: {}", choice.frontier.size() + 1, Time(*kernel))});
    }
  }

  const int islands_;
  const int reserve_;
  const SourceSize source_;
};

// Every kernel of the tree that passed may be tried again. Value: the best speed that came of it,
// itself included, as a share of the best of all; prior: by rank of its own speed; visits: rounds
// that started from it or from what came of it. PUCT as in AlphaZero (Silver et al. 2017), with the
// best instead of the mean of the subtree, since a search wants one good kernel.
class Puct : public Policy {
 public:
  Puct(int size, int reserve, SourceSize source)
      : size_(size), reserve_(reserve), source_(std::move(source)) {}

  Choice Choose(const RunData& data, int index) const override {
    Choice choice;
    Kernels all;
    for (const CandidateRow& candidate : data.candidates) {
      if (RoundOf(data, candidate) <= index) all.push_back(&candidate);
    }
    const Kernels ordered = InOrder(data, all, source_);
    if (ordered.empty()) return choice;
    const double best = results::ScoreOf(*ordered[0])->count();

    std::map<CandidateId, Node> nodes;
    double total = 0;
    for (std::size_t rank = 0; rank < ordered.size(); ++rank) {
      const double speed = best / results::ScoreOf(*ordered[rank])->count();
      nodes[ordered[rank]->id].prior = static_cast<double>(ordered.size() - rank);
      total += static_cast<double>(ordered.size() - rank);
      nodes[ordered[rank]->id].value = speed;
    }
    // What came of a kernel is younger than it.
    for (auto row = all.rbegin(); row != all.rend(); ++row) {
      const auto node = nodes.find((*row)->id);
      if (node == nodes.end() || !(*row)->parent) continue;
      double& value = nodes[(*row)->parent].value;
      value = std::max(value, node->second.value);
    }
    int visits = 0;
    for (const FrontierRow& row : data.frontier) {
      const results::RoundRow* round = data.Find(row.round);
      const CandidateRow* kernel = data.Find(row.candidate);
      if (round == nullptr || kernel == nullptr || round->index >= index) continue;
      ++visits;
      for (const CandidateRow* at : LineageOf(data, *kernel)) ++nodes[at->id].visits;
    }

    Makeups makeup_of(data);
    std::vector<Makeup> makeups;
    while (static_cast<int>(choice.frontier.size()) < size_) {
      const CandidateRow* chosen = nullptr;
      double most = -1;
      for (const CandidateRow* kernel : ordered) {
        const Node& node = nodes[kernel->id];
        if (node.taken) continue;
        const double bonus = kExploration * (node.prior / total) *
                             static_cast<double>(ordered.size()) / 2 * std::sqrt(1.0 + visits) /
                             (1.0 + node.visits);
        if (node.value + bonus <= most) continue;
        const Makeup& makeup = makeup_of.Of(*kernel);
        if (std::find(makeups.begin(), makeups.end(), makeup) != makeups.end()) continue;
        most = node.value + bonus;
        chosen = kernel;
      }
      if (chosen == nullptr) break;
      Node& node = nodes[chosen->id];
      node.taken = true;
      makeups.push_back(makeup_of.Of(*chosen));
      choice.frontier.push_back(
          {chosen->id, FrontierKind::kFastest,
           fmt::format("puct {:.2f}: {:.0f}% of the best speed came of it, tried {} times", most,
                       100 * node.value, node.visits)});
      // What was just chosen counts as tried for its forebears.
      for (const CandidateRow* at : LineageOf(data, *chosen)) ++nodes[at->id].visits;
    }
    FillReserve(data, index, reserve_, PoolOf(data, index), choice);
    return choice;
  }

 private:
  static constexpr double kExploration = 0.2;
  struct Node {
    double value = 0;
    double prior = 0;
    int visits = 0;
    bool taken = false;
  };
  const int size_;
  const int reserve_;
  const SourceSize source_;
};

}  // namespace

const std::vector<std::string>& PolicyNames() {
  static const std::vector<std::string> kNames = {"beam", "greedy", "islands", "puct"};
  return kNames;
}

Result<std::unique_ptr<Policy>> MakePolicy(const SearchConfig& config, SourceSize size) {
  std::unique_ptr<Policy> policy;
  if (config.policy == "beam")
    policy = std::make_unique<Beam>(config.frontier, config.reserve, std::move(size));
  if (config.policy == "greedy")
    policy = std::make_unique<Beam>(1, config.reserve, std::move(size));
  if (config.policy == "islands") {
    policy = std::make_unique<Islands>(config.frontier, config.reserve, std::move(size));
  }
  if (config.policy == "puct")
    policy = std::make_unique<Puct>(config.frontier, config.reserve, std::move(size));
  if (policy) return policy;
  return Fail(ErrorCode::kInvalidInput, UnknownName("policy", config.policy, PolicyNames()));
}

std::string Explain(const RunData& data, const CandidateRow& candidate, const Policy& policy) {
  const int index = candidate.round ? RoundOf(data, candidate) : 0;
  std::string text;
  for (const FrontierRow& row : data.frontier) {
    const results::RoundRow* round = data.Find(row.round);
    if (row.candidate != candidate.id || round == nullptr) continue;
    text +=
        fmt::format("{}kept after round {}, {}", text.empty() ? "" : "; ", round->index, row.why);
  }
  if (!text.empty() || index == 0) return text;
  const results::RoundRow* round = data.Find(candidate.round);
  if (round == nullptr || round->status != results::RoundStatus::kFinished) return "";
  if (!candidate.evaluation || !candidate.evaluation->verdict.passed()) {
    return candidate.evaluation
               ? fmt::format("dropped: {}", eval::Describe(candidate.evaluation->verdict.kind))
               : std::string();
  }
  for (const Pruned& pruned : policy.Choose(data, index).pruned) {
    if (pruned.candidate == candidate.id) return "pruned: " + pruned.why;
  }
  return "pruned: slower than those kept";
}

}  // namespace grove::search
