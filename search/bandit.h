// Which of several models answers a question: by fixed weights, or by what each has gained for its
// tokens so far (Thompson sampling, cost-aware). Nothing is kept beside the store: what is known
// comes from the finished rounds and the draw from the run's seed and the question's key, so that a
// resumed or replayed run asks the same models, in whatever order replies arrive.
//
// Gain of a candidate: ln(parent / candidate), at least 0; 0 when it failed. Both the model that
// wrote it (or repaired it) and the one that had the idea are credited, each in its own role.
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "llm/client.h"
#include "llm/ensemble.h"
#include "results/rows.h"

namespace grove::search {

// What one model has done in one role.
struct ArmRecord {
  std::string model;
  int calls = 0;            // answered
  std::int64_t tokens = 0;  // of those
  int results = 0;          // candidates that it is credited with
  double gain = 0;          // sum, natural logarithm of speed
  double gain_squares = 0;
};

// What a finished round says of the models in one role.
struct RoundResults {
  int round = 0;                                      // index
  std::span<const results::CallRow> calls;            // its own
  std::span<const results::CandidateRow> candidates;  // its own
};
// Adds it to the models' records. A call counts for the model that it was sent to (CallRow::model).
// `data` has the ideas and the parents.
void AddRound(const RoundResults& round, const results::RunData& data, llm::Role role,
              std::span<ArmRecord> records);

// A number in [0, 1) that depends on nothing but seed, key (results::ToString of a CallKey) and
// salt.
double Draw(std::uint64_t seed, std::string_view key, std::uint64_t salt);

// Index of a model, chosen in proportion to `weights` (all 0 = equally).
// REQUIRES: not empty; weights >= 0.
std::size_t ChooseByWeight(std::span<const double> weights, std::uint64_t seed,
                           std::string_view key);

// Index of the model with the largest drawn gain per token: the mean gain of a result is drawn
// from its posterior (normal, one prior result of the ensemble's mean gain and spread for each
// model), and divided by the tokens that the model spends on a result. Every model keeps being
// tried, the less the clearer it is that another gives more for the money.
// `weights` scale the drawn values (a preference of the user; empty = 1).
std::size_t ChooseByGain(std::span<const ArmRecord> records, std::span<const double> weights,
                         std::uint64_t seed, std::string_view key);

// The ensemble that a search asks (`ensemble = "bandit"`): ChooseByGain over what the rounds before
// the question's had shown. A question that was asked early (search/early.h) goes by what was known
// a round before its own, whenever it is asked. Thread-safe.
class Bandit final : public llm::Ensemble {
 public:
  // REQUIRES: every role has a member that takes it.
  Bandit(std::vector<llm::EnsembleMember> members, std::uint64_t seed);
  // What a round says, when it is finished; rounds in their order.
  void Learn(const RoundResults& round, const results::RunData& data);
  std::string Choose(llm::Role role, std::string_view key) override;
  // Nothing: what it knows comes from the store.
  void Told(std::string_view, llm::Role, std::string_view, const llm::Outcome&) override {}

 private:
  struct Arms {
    std::vector<std::string> labels;
    std::vector<double> weights;
    std::map<int, std::vector<ArmRecord>> records;  // by the round before which they were made
  };
  mutable std::mutex mutex_;
  std::map<llm::Role, Arms> arms_;  // GUARDED_BY(mutex_)
  const std::uint64_t seed_;
};

}  // namespace grove::search
