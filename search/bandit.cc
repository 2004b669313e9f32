#include "search/bandit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.h"

namespace grove::search {
namespace {

// What is believed of a model before it has answered: that much gain and spread of a candidate (a
// factor of 1.1 with a standard deviation of 1.35), and that many tokens.
constexpr double kPriorGain = 0.1;
constexpr double kPriorSpread = 0.3;
constexpr double kPriorTokens = 4000;

std::uint64_t Mix(std::uint64_t x) {  // splitmix64 (Steele, Lea and Flood 2014)
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// Box and Muller.
double Normal(std::uint64_t seed, std::string_view key, std::uint64_t salt) {
  const double u = 1.0 - Draw(seed, key, 2 * salt);
  const double v = Draw(seed, key, 2 * salt + 1);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

struct Asked {
  int round = 0, branch = 0;
};
// Of a key's text, "idea r3.p1.i0.b1.t0".
std::optional<Asked> KeyOf(std::string_view key) {
  Asked asked;
  int parent = 0, idea = 0;
  const std::string text(key.substr(std::min(key.size(), key.find(' '))));
  if (std::sscanf(text.c_str(), " r%d.p%d.i%d.b%d", &asked.round, &parent, &idea, &asked.branch) !=
      4) {
    return std::nullopt;
  }
  return asked;
}

}  // namespace

double Draw(std::uint64_t seed, std::string_view key, std::uint64_t salt) {
  const std::uint64_t state = Mix(Mix(seed) ^ HashText(key).low);
  return static_cast<double>(Mix(state ^ Mix(salt)) >> 11U) * 0x1p-53;
}

void AddRound(const RoundResults& round, const results::RunData& data, llm::Role role,
              std::span<ArmRecord> records) {
  const auto arm = [&](std::string_view name) -> ArmRecord* {
    const auto at = std::find_if(records.begin(), records.end(),
                                 [&](const ArmRecord& record) { return record.model == name; });
    return at != records.end() ? &*at : nullptr;
  };
  // Calls by what they were for; of a candidate's repairs all are credited.
  using Place = std::pair<int, int>;  // idea, branch
  std::map<Place, std::set<ArmRecord*>> writers;
  std::map<std::int64_t, ArmRecord*> by_call;
  for (const results::CallRow& call : round.calls) {
    if (call.key.role != role || call.status != results::CallStatus::kAnswered) continue;
    ArmRecord* record = arm(call.model);
    if (record == nullptr) continue;
    ++record->calls;
    record->tokens += call.usage.total().value;
    by_call[call.id.value] = record;
    writers[{call.key.idea, call.key.branch}].insert(record);
  }
  for (const results::CandidateRow& candidate : round.candidates) {
    const results::IdeaRow* idea = data.Find(candidate.idea);
    if (idea == nullptr || !candidate.evaluation) continue;
    double gain = 0;
    if (const results::CandidateRow* parent = data.Find(candidate.parent)) {
      if (const auto ratio = results::SpeedUp(*parent, candidate)) {
        gain = std::max(0.0, std::log(*ratio));
      }
    }
    const auto credit = [&](ArmRecord* record) {
      ++record->results;
      record->gain += gain;
      record->gain_squares += gain * gain;
    };
    if (role == llm::Role::kIdea || role == llm::Role::kAdviser) {
      const auto it = by_call.find(idea->call.value);
      if (it != by_call.end()) credit(it->second);
      continue;
    }
    const auto it = writers.find({idea->number, candidate.branch});
    if (it == writers.end()) continue;
    for (ArmRecord* record : it->second) credit(record);
  }
}

std::size_t ChooseByWeight(std::span<const double> weights, std::uint64_t seed,
                           std::string_view key) {
  double total = 0;
  for (const double weight : weights) total += weight;
  const double draw = Draw(seed, key, 0);
  if (!(total > 0)) {
    return std::min(weights.size() - 1,
                    static_cast<std::size_t>(draw * static_cast<double>(weights.size())));
  }
  double at = draw * total;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) continue;
    last = i;
    if (at < weights[i]) return i;
    at -= weights[i];
  }
  return last;
}

std::size_t ChooseByGain(std::span<const ArmRecord> records, std::span<const double> weights,
                         std::uint64_t seed, std::string_view key) {
  // The ensemble's own mean and spread are what an unknown model is expected to be like.
  double results = 1, gain = kPriorGain;
  double squares = kPriorSpread * kPriorSpread + kPriorGain * kPriorGain;
  double tokens = kPriorTokens;
  for (const ArmRecord& record : records) {
    results += record.results;
    gain += record.gain;
    squares += record.gain_squares;
    tokens += static_cast<double>(record.tokens);
  }
  const double mean = gain / results;
  const double variance = std::max(squares / results - mean * mean, 1e-4);
  const double cost = tokens / results;

  std::size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ArmRecord& record = records[i];
    const double n = 1 + record.results;
    const double drawn =
        (mean + record.gain) / n + Normal(seed, key, i + 1) * std::sqrt(variance / n);
    const double weight = i < weights.size() ? std::max(1e-9, weights[i]) : 1.0;
    const double price = std::max(1.0, (cost + static_cast<double>(record.tokens)) / n) / weight;
    // Of two draws below 0 the dearer model's is the worse.
    const double value = drawn > 0 ? drawn / price : drawn * price;
    if (value > most) {
      most = value;
      best = i;
    }
  }
  return best;
}

Bandit::Bandit(std::vector<llm::EnsembleMember> members, std::uint64_t seed) : seed_(seed) {
  for (const llm::Role role :
       {llm::Role::kIdea, llm::Role::kCode, llm::Role::kRepair, llm::Role::kAdviser}) {
    Arms& arms = arms_[role];
    for (const llm::EnsembleMember& member : members) {
      const auto& roles = member.roles;
      if (!roles.empty() && std::find(roles.begin(), roles.end(), role) == roles.end()) continue;
      arms.labels.push_back(member.label);
      arms.weights.push_back(member.weight);
    }
    std::vector<ArmRecord>& records = arms.records[1];
    for (const std::string& label : arms.labels) records.emplace_back().model = label;
    arms.records[0] = records;
  }
}

void Bandit::Learn(const RoundResults& round, const results::RunData& data) {
  const std::scoped_lock lock(mutex_);
  for (auto& [role, arms] : arms_) {
    std::vector<ArmRecord> records = arms.records.rbegin()->second;
    AddRound(round, data, role, records);
    arms.records.erase(arms.records.begin(), std::prev(arms.records.end()));
    arms.records[round.round + 1] = std::move(records);
  }
}

std::string Bandit::Choose(llm::Role role, std::string_view key) {
  const auto asked = KeyOf(key);
  const std::scoped_lock lock(mutex_);
  const Arms& arms = arms_.at(role);
  auto records = std::prev(arms.records.end());
  // Questions for ideas have a branch when they were asked early.
  const bool early =
      (role == llm::Role::kIdea || role == llm::Role::kAdviser) && asked && asked->branch > 0;
  if (early) {
    const auto before = arms.records.find(asked->round - 1);
    if (before != arms.records.end()) records = before;
  }
  return arms.labels[ChooseByGain(records->second, arms.weights, seed_, key)];
}

}  // namespace grove::search
