// When a search has stopped gaining, and what it does then: after `patience` rounds without a gain
// the adviser is asked for directions that change the algorithm and one branch restarts from the
// best kernel of another family; if that brings nothing either, the search has converged. Functions
// of the stored rounds alone, so that a resumed or replayed run decides the same.
#pragma once

#include <optional>
#include <vector>

#include "results/rows.h"
#include "results/store.h"
#include "search/run_tree.h"

namespace grove::search {

// A change of time within this share is no gain and no loss.
inline constexpr double kNoise = 0.02;

class Stagnation {
 public:
  explicit Stagnation(int patience) : patience_(patience) {}

  // Takes a finished round in; rounds in order, each once. `best`: least time of its own
  // candidates. REQUIRES: Start was called.
  void Start(double seed_time);
  void Round(std::optional<double> best);

  // Rounds since the last gain outside the noise, over the time that this gain had reached: small
  // gains count when together they leave the noise.
  int stale() const { return stale_; }
  // The next round asks the adviser, and is the one to which a branch is restarted.
  bool radical() const { return stale_ == patience_; }
  // The adviser's round and those that had to build on it brought nothing.
  bool converged() const { return stale_ > patience_ + follow_up(); }
  // Rounds after the adviser's in which its kernels may still improve.
  int follow_up() const { return patience_ / 2; }

 private:
  int patience_;
  int stale_ = 0;
  double reached_ = 0;
};

// The first idea on the way from the seed to the candidate; none for the seed itself.
IdeaId FamilyOf(const results::RunData& data, const results::CandidateRow& candidate);

// The fastest passed kernel of a family that no kernel of `frontier` belongs to; the seed's when
// there is no other family. nullopt when that one stands in the frontier already.
std::optional<CandidateId> BestOfAnotherFamily(const RunTree& tree,
                                               const std::vector<results::FrontierEntry>& frontier);

}  // namespace grove::search
