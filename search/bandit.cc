#include "search/bandit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <tuple>

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

std::vector<ArmRecord> RecordsOf(const results::RunData& data, llm::Role role,
                                 std::span<const std::string> models, int round) {
  std::vector<ArmRecord> records(models.size());
  std::map<std::string_view, ArmRecord*> by_name;
  for (std::size_t i = 0; i < models.size(); ++i) {
    records[i].model = models[i];
    by_name[models[i]] = &records[i];
  }
  const auto arm = [&](std::string_view name) -> ArmRecord* {
    const auto it = by_name.find(name);
    return it == by_name.end() ? nullptr : it->second;
  };
  // Calls by what they were for; of a candidate's repairs all are credited.
  using Place = std::tuple<int, int, int>;  // round, idea, branch
  std::map<Place, std::vector<ArmRecord*>> writers;
  std::map<std::int64_t, ArmRecord*> by_call;
  for (const results::CallRow& call : data.calls) {
    if (call.key.role != role || call.key.round >= round ||
        call.status != results::CallStatus::kAnswered) {
      continue;
    }
    ArmRecord* record = arm(call.model);
    if (record == nullptr) continue;
    ++record->calls;
    record->tokens += call.usage.total().value;
    by_call[call.id.value] = record;
    writers[{call.key.round, call.key.idea, call.key.branch}].push_back(record);
  }
  for (const results::CandidateRow& candidate : data.candidates) {
    const results::RoundRow* made = candidate.round ? data.Find(candidate.round) : nullptr;
    const results::IdeaRow* idea = data.Find(candidate.idea);
    if (made == nullptr || made->index >= round || idea == nullptr || !candidate.evaluation) {
      continue;
    }
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
    const auto it = writers.find({made->index, idea->number, candidate.branch});
    if (it == writers.end()) continue;
    std::vector<ArmRecord*> unique = it->second;
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    for (ArmRecord* record : unique) credit(record);
  }
  return records;
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
    arms.records[0].resize(arms.labels.size());
  }
}

void Bandit::Learn(const results::RunData& data, int round) {
  const std::scoped_lock lock(mutex_);
  for (auto& [role, arms] : arms_) {
    arms.records.clear();
    for (const int before : {round - 1, round}) {
      arms.records[before] = RecordsOf(data, role, arms.labels, before);
    }
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
