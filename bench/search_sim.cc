// The search policies against a model whose ideas have known qualities: branching against
// sequential revision, and the beam with and without its reserve, at the same token budget.
// Everything but the model and the device is real: the policies of search/policy.h choose on the
// rows of RunData.
//
//   search_sim [SEEDS] [--svg FILE]      default: 40 seeds; docs/search.md has tables and plot
//
// The landscape. A task has 12 steps (ideas that help). A step has a gain, ln g from 0.1 to 0.7, an
// implementation succeeds with a probability of its own (0.25 to 0.8) and reaches the gain up to a
// spread. Half of the steps are detours: until their partner step is in the program as well, they
// cost 10 to 50% of speed, then both together gain 0.6 to 1.2: what Conv2D of CRFM looks like,
// where six of thirteen steps did not beat the best so far and their successors did. An idea for a
// parent is a step that the parent has not taken (partners of detours taken are three times as
// likely: the next thought is near), or with probability 0.4 one that does nothing or harm.
// Best known: the best that any of the settings found on the landscape within the budget.
//
// Counters. With them, a kernel reports the traffic of its structure: its own floor lies at the
// speed that its steps would reach were no partner missing, 1.35 times faster still, with an error
// of 20%. So a kernel on a detour shows that its bottleneck has moved away, which is what the
// reserve's headroom looks at. Without them ("blind") the reserve has only gain, rarity and time.
//
// Tokens as a real search spends them: 2,500 + 400 per idea asked for a question for ideas, 4,500
// for an implementation, 3,500 for a repair turn (one, that succeeds with half the probability).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "eval/model/device_spec.h"
#include "results/rows.h"
#include "search/policy.h"

namespace {

using namespace grove;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t Next() {  // splitmix64
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }
  double Uniform(double low = 0, double high = 1) {
    return low + (high - low) * (static_cast<double>(Next() >> 11U) * 0x1p-53);
  }
  double Normal() {
    const double u = 1 - Uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979 * Uniform());
  }

 private:
  std::uint64_t state_;
};

constexpr int kSteps = 12;
constexpr double kSeedTime = 1e6;  // ns

struct Step {
  double gain = 0;     // ln of speed
  double success = 0;  // of an implementation
  int partner = -1;    // of a detour
  double cost = 0;     // ln of speed, until the partner is there
  int category = 0;
};

struct Landscape {
  explicit Landscape(std::uint64_t seed) : random(seed) {
    for (int i = 0; i < kSteps; ++i) {
      Step& step = steps[static_cast<std::size_t>(i)];
      step.gain = random.Uniform(0.1, 0.7);
      step.success = random.Uniform(0.25, 0.8);
      step.category = static_cast<int>(random.Uniform(0, 6));
    }
    for (int i = 0; i < kSteps / 2; i += 2) {
      Step& a = steps[static_cast<std::size_t>(i)];
      Step& b = steps[static_cast<std::size_t>(i + 1)];
      a.partner = i + 1;
      b.partner = i;
      a.gain = b.gain = random.Uniform(0.6, 1.2) / 2;
      a.cost = random.Uniform(0.1, 0.4);
      b.cost = random.Uniform(0.1, 0.4);
    }
  }
  // ln of speed over the seed of a program that has taken `taken`, without spread.
  double Speed(std::uint32_t taken) const {
    double speed = 0;
    for (int i = 0; i < kSteps; ++i) {
      if ((taken >> i & 1U) == 0) continue;
      const Step& step = steps[static_cast<std::size_t>(i)];
      const bool alone = step.partner >= 0 && (taken >> step.partner & 1U) == 0;
      speed += alone ? -step.cost : step.gain;
    }
    return speed;
  }
  // ln of speed that the steps would reach were no partner missing.
  double Potential(std::uint32_t taken) const {
    double speed = 0;
    for (int i = 0; i < kSteps; ++i) {
      if ((taken >> i & 1U) != 0) speed += steps[static_cast<std::size_t>(i)].gain;
    }
    return speed;
  }

  Step steps[kSteps];
  Random random;
};

struct Setting {
  std::string name;
  std::string policy;
  int frontier = 1, reserve = 0, ideas = 1, branches = 1;
  bool counters = false;
};

// What a kernel is beside its row.
struct Truth {
  std::uint32_t taken = 0;
  double luck = 0;  // ln of speed lost to its implementations so far, <= 0
};

struct Outcome {
  std::vector<std::pair<double, double>> records;  // tokens spent, ln of speed: each new best
  double best = 0;                                 // ln of speed, at the end
  int detours = 0;  // steps on the winning lineage that did not beat the best
  int steps = 0;
};

constexpr double kBudget = 1.5e6;  // tokens
constexpr double kCurveStep = 5e4;
constexpr double kReach = 0.9;
const double kCopyBandwidth = eval::FindDevice("H200")->copy_gbs;  // bytes per ns

class Simulation {
 public:
  Simulation(const Setting& setting, std::uint64_t seed)
      : setting_(setting), land_(seed), random_(seed * 7919 + 13) {
    data_.environment.push_back({"gpu", "H200"});
    truth_[Kernel("seed", kSeedTime).id] = {};
    search::SearchConfig config;
    config.policy = setting.policy;
    config.frontier = setting.frontier;
    config.reserve = setting.reserve;
    policy_ = std::move(*search::MakePolicy(config));
  }

  Outcome Run() {
    for (int round = 1; tokens_ < kBudget; ++round) Round(round);
    outcome_.best = best_;
    std::map<CandidateId, double> best_before;
    double best = 0;
    for (const results::CandidateRow& row : data_.candidates) {
      best_before[row.id] = best;
      if (const auto score = results::ScoreOf(row)) {
        best = std::max(best, std::log(kSeedTime / score->count()));
      }
    }
    for (const results::CandidateRow* at = data_.Best(); at != nullptr && at->parent;
         at = data_.Find(at->parent)) {
      ++outcome_.steps;
      const double speed = std::log(kSeedTime / results::ScoreOf(*at)->count());
      if (speed <= best_before[at->id]) ++outcome_.detours;
    }
    return std::move(outcome_);
  }

 private:
  results::CandidateRow& Kernel(std::string name, double time) {
    results::CandidateRow row;
    row.id = CandidateId(static_cast<std::int64_t>(data_.candidates.size()) + 1);
    row.name = std::move(name);
    row.status = results::CandidateStatus::kEvaluated;
    row.identity = Hash{static_cast<std::uint64_t>(row.id.value), 1};
    auto& e = row.evaluation.emplace();
    e.verdict.kind = time > 0 ? eval::VerdictKind::kPass : eval::VerdictKind::kWrongResult;
    if (time > 0) e.score = Nanoseconds(time);
    data_.candidates.push_back(std::move(row));
    return data_.candidates.back();
  }

  void Spend(double tokens) { tokens_ += tokens; }

  // A step for a program, or -1 for an idea that does nothing good. `asked` were proposed already.
  int Propose(std::uint32_t taken, std::set<int>& asked) {
    if (random_.Uniform() < 0.4) return -1;
    std::vector<int> choices;
    for (int i = 0; i < kSteps; ++i) {
      if ((taken >> i & 1U) != 0 || asked.contains(i)) continue;
      const int partner = land_.steps[i].partner;
      const int times = partner >= 0 && (taken >> partner & 1U) != 0 ? 3 : 1;
      choices.insert(choices.end(), static_cast<std::size_t>(times), i);
    }
    if (choices.empty()) return -1;
    const int step = choices[random_.Next() % choices.size()];
    asked.insert(step);
    return step;
  }

  // ln of the change of speed by one implementation; none when it fails, also after its repair.
  std::optional<double> Implement(int step) {
    Spend(4500);
    const double success = step < 0 ? 0.6 : land_.steps[step].success;
    if (random_.Uniform() >= success) {
      Spend(3500);
      if (random_.Uniform() >= success / 2) return std::nullopt;
    }
    return -0.08 * std::abs(random_.Normal());  // what the implementation falls short of the idea
  }

  void Round(int index) {
    std::vector<CandidateId> parents;
    for (const results::FrontierRow& row : data_.frontier) {
      if (row.round == RoundId(index - 1)) parents.push_back(row.candidate);
    }
    if (parents.empty()) parents.push_back(CandidateId(1));
    results::RoundRow round;
    round.id = RoundId(index);
    round.index = index;
    round.status = results::RoundStatus::kFinished;
    data_.rounds.push_back(round);
    for (const CandidateId parent : parents) {
      Spend(2500 + 400.0 * setting_.ideas);
      std::set<int>& asked = asked_[parent];
      for (int i = 0; i < setting_.ideas; ++i) {
        const int step = Propose(truth_[parent].taken, asked);
        results::IdeaRow idea;
        idea.id = IdeaId(static_cast<std::int64_t>(data_.ideas.size()) + 1);
        idea.round = round.id;
        idea.parent = parent;
        idea.title =
            step < 0 ? fmt::format("nothing {}", idea.id.value) : fmt::format("step {}", step);
        idea.category = step < 0 ? "none" : fmt::format("{}", land_.steps[step].category);
        data_.ideas.push_back(idea);
        bool worked = false;
        for (int b = 0; b < setting_.branches; ++b) {
          const auto change = Implement(step);
          worked |= change.has_value();
          const Truth before = truth_[parent];
          Truth truth = before;
          double time = 0;
          if (change) {
            if (step >= 0) truth.taken |= 1U << step;
            truth.luck += *change - (step < 0 ? 0.1 : 0.0);
            const double speed = land_.Speed(truth.taken) + truth.luck;
            time = kSeedTime * std::exp(-speed);
            // What is found beyond the budget does not count.
            if (speed > best_ && tokens_ <= kBudget) {
              best_ = speed;
              outcome_.records.emplace_back(tokens_, speed);
            }
          }
          results::CandidateRow& row = Kernel(fmt::format("k{}", data_.candidates.size()), time);
          if (time > 0 && setting_.counters) {
            results::CaseTimeRow counters;
            counters.case_name = "scored";
            counters.time = Nanoseconds(time);
            counters.floor = counters.class_floor = Nanoseconds(1);
            const double floor =
                kSeedTime * std::exp(-land_.Potential(truth.taken) - 0.3 + 0.2 * random_.Normal());
            counters.dram_bytes = std::min(floor, time) * kCopyBandwidth;
            row.evaluation->case_times.push_back(counters);
          }
          row.round = round.id;
          row.idea = idea.id;
          row.parent = parent;
          truth_[row.id] = truth;
        }
        // An idea whose implementations all failed may be had again.
        if (!worked) asked.erase(step);
      }
    }
    int place = 0;
    for (const results::FrontierEntry& entry : policy_->Select(data_, index)) {
      data_.frontier.push_back({round.id, entry.candidate, ++place, entry.kind, ""});
    }
  }

  const Setting setting_;
  Landscape land_;
  Random random_;
  std::unique_ptr<search::Policy> policy_;
  results::RunData data_;
  std::map<CandidateId, Truth> truth_;
  std::map<CandidateId, std::set<int>> asked_;
  double tokens_ = 0;
  double best_ = 0;  // ln of speed over the seed
  Outcome outcome_;
};

struct Summary {
  Setting setting;
  std::vector<Outcome> outcomes;
  std::vector<std::optional<double>> tokens;  // to 90% of the best known; none = never
  std::vector<double> finals;                 // share of the best known
  std::vector<double> curve;                  // mean share of the best known per kCurveStep tokens
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Measures every setting by the best that any of them found on the same landscape.
void Judge(std::vector<Summary>& all) {
  const std::size_t seeds = all[0].outcomes.size();
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    double known = 0;
    for (const Summary& summary : all) known = std::max(known, summary.outcomes[seed].best);
    for (Summary& summary : all) {
      const Outcome& outcome = summary.outcomes[seed];
      std::optional<double> tokens;
      for (const auto& [spent, speed] : outcome.records) {
        if (!tokens && speed >= kReach * known) tokens = spent;
      }
      summary.tokens.push_back(tokens);
      summary.finals.push_back(outcome.best / known);
      summary.curve.resize(static_cast<std::size_t>(kBudget / kCurveStep) + 1);
      std::size_t next = 0;
      double speed = 0;
      for (std::size_t i = 0; i < summary.curve.size(); ++i) {
        while (next < outcome.records.size() &&
               outcome.records[next].first <= static_cast<double>(i) * kCurveStep) {
          speed = outcome.records[next++].second;
        }
        summary.curve[i] += speed / known / static_cast<double>(seeds);
      }
    }
  }
}

// Runs that never got there count as the whole budget.
std::vector<double> Tokens(const Summary& summary) {
  std::vector<double> tokens;
  for (const auto& reached : summary.tokens) tokens.push_back(reached.value_or(kBudget));
  return tokens;
}

void Print(const Summary& s) {
  int reached = 0, detours = 0, steps = 0;
  double mean = 0;
  for (std::size_t i = 0; i < s.outcomes.size(); ++i) {
    reached += s.tokens[i] ? 1 : 0;
    detours += s.outcomes[i].detours;
    steps += s.outcomes[i].steps;
    mean += s.finals[i] / static_cast<double>(s.finals.size());
  }
  const double median = Median(Tokens(s));
  fmt::print(
      "| {} | {} of {} | {} | {:.1f}% | {:.1f}% | {} of {} |\n", s.setting.name, reached,
      s.outcomes.size(),
      median >= kBudget ? std::string("not reached") : fmt::format("{:.0f} k", median / 1000),
      100 * mean, 100 * *std::min_element(s.finals.begin(), s.finals.end()), detours, steps);
}

// Wins, ties and losses over the same seeds, by tokens to 90% and then by the final speed.
void Compare(const Summary& a, const Summary& b) {
  int wins = 0, losses = 0;
  const auto ta = Tokens(a), tb = Tokens(b);
  for (std::size_t i = 0; i < ta.size(); ++i) {
    const bool both_never = ta[i] >= kBudget && tb[i] >= kBudget;
    const double da = both_never ? -a.finals[i] : ta[i];
    const double db = both_never ? -b.finals[i] : tb[i];
    if (da < db) ++wins;
    if (da > db) ++losses;
  }
  // Two-sided sign test.
  const int n = wins + losses;
  double p = 0;
  for (int k = 0; k <= std::min(wins, losses); ++k) {
    p += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) -
                  n * std::log(2.0));
  }
  fmt::print("{} against {}: better in {} of {} seeds, worse in {} (sign test p = {:.2g})\n",
             a.setting.name, b.setting.name, wins, ta.size(), losses, std::min(1.0, 2 * p));
}

std::string Svg(const std::vector<Summary>& all) {
  constexpr double kWidth = 720, kHeight = 360, kLeft = 60, kTop = 20, kPlotW = 440, kPlotH = 290;
  static const char* kColors[] = {"#999999", "#555555", "#e07b39", "#2a7fb8",
                                  "#1b5e20", "#8e44ad", "#b8860b", "#c0392b"};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  for (int i = 0; i <= 10; i += 2) {
    const double y = kTop + kPlotH * (1 - i / 10.0);
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}%</text>\n",
        kLeft, kLeft + kPlotW, y, y, kLeft - 6, y + 4, i * 10);
  }
  for (int i = 0; i <= 3; ++i) {
    const double x = kLeft + kPlotW * i / 3.0;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.1f} M</text>\n", x,
                       kTop + kPlotH + 18, kBudget * i / 3e6);
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">tokens spent; mean share of the best known "
      "(ln speed)</text>\n",
      kLeft + kPlotW / 2, kTop + kPlotH + 38);
  for (std::size_t s = 0; s < all.size(); ++s) {
    std::string points;
    for (std::size_t i = 0; i < all[s].curve.size(); ++i) {
      const double x = kLeft + kPlotW * (static_cast<double>(i) * kCurveStep / kBudget);
      points += fmt::format("{:.1f},{:.1f} ", x, kTop + kPlotH * (1 - all[s].curve[i]));
    }
    const char* color = kColors[s % std::size(kColors)];
    const double y = kTop + 20 + 20 * static_cast<double>(s);
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n"
        "<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"3\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        points, color, kLeft + kPlotW + 15, kLeft + kPlotW + 35, y, y, color, kLeft + kPlotW + 40,
        y + 4, all[s].setting.name);
  }
  return svg + "</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
  int seeds = 40;
  std::string svg;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--svg" && i + 1 < argc) {
      svg = argv[++i];
      continue;
    }
    const auto [end, error] =
        std::from_chars(argument.data(), argument.data() + argument.size(), seeds);
    if (error != std::errc() || *end != '\0' || seeds < 1 || seeds > 100000) {
      fmt::print(stderr, "usage: search_sim [SEEDS] [--svg FILE]\n");
      return 2;
    }
  }
  const std::vector<Setting> settings = {
      {"sequential revision, 1 x 1", "greedy", 1, 0, 1, 1},
      {"sequential, best of 4, 1 x 4", "greedy", 1, 0, 1, 4},
      {"beam 3, 3 x 2", "beam", 3, 0, 3, 2},
      {"beam 4, 3 x 2", "beam", 4, 0, 3, 2},
      {"beam 3 + reserve, blind, 3 x 2", "beam", 3, 1, 3, 2},
      {"beam 3 + reserve, 3 x 2", "beam", 3, 1, 3, 2, true},
      {"islands 3 + reserve, 3 x 2", "islands", 3, 1, 3, 2, true},
      {"puct 3 + reserve, 3 x 2", "puct", 3, 1, 3, 2, true},
  };
  std::vector<Summary> all;
  for (const Setting& setting : settings) {
    Summary summary;
    summary.setting = setting;
    for (int seed = 1; seed <= seeds; ++seed) {
      summary.outcomes.push_back(Simulation(setting, static_cast<std::uint64_t>(seed)).Run());
    }
    all.push_back(std::move(summary));
  }
  Judge(all);
  fmt::print(
      "| frontier, ideas x branches | reached 90% | tokens to 90% (median) | final (mean) | "
      "final (worst) | steps that did not beat the best so far |\n|---|---|---|---|---|---|\n");
  for (const Summary& summary : all) Print(summary);
  fmt::print("\n");
  for (const auto& [a, b] : {std::pair{3, 0}, {3, 1}, {5, 0}, {5, 2}, {5, 3}, {4, 3}, {7, 3}}) {
    Compare(all[static_cast<std::size_t>(a)], all[static_cast<std::size_t>(b)]);
  }
  if (!svg.empty()) {
    if (auto written = WriteFileAtomic(svg, Svg(all)); !written) {
      fmt::print(stderr, "{}\n", written.error().message);
      return 3;
    }
  }
  return 0;
}
