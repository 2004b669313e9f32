// The records of harvest, one JSON object each, all fields always there. Inside of results/harvest.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "results/harvest/harvest.h"
#include "results/harvest/similarity.h"
#include "results/run_index.h"

namespace grove::results {

using Json = nlohmann::ordered_json;

// One opened run, and what harvest found out about its candidates.
struct HarvestRun {
  HarvestRun(std::unique_ptr<Reader> r, RunData d);
  std::unique_ptr<Reader> reader;
  RunData data;
  RunIndex index;
  std::unordered_map<std::string, std::string> environment;
  std::set<CandidateId> kept;                       // passed the filters, no near-duplicate
  std::unordered_map<CandidateId, int> stands_for;  // near-duplicates that it stands for
  std::unordered_map<std::string, double> dollars;  // spent, by ToString(CallKey)
  // The last contest of two kernels, under (challenger, incumbent).
  std::map<std::pair<CandidateId, CandidateId>, const PromotionRow*> contests;
};

class RecordMaker {
 public:
  RecordMaker(HarvestRun& run, const HarvestOptions& options, const Benchmarks* benchmarks)
      : run_(run), options_(options), benchmarks_(benchmarks) {}

  // Gives every record of the kind to `emit`, in the order of ids.
  using Emit = std::function<Status(const Json&)>;
  Status Make(const std::string& kind, const Emit& emit);

 private:
  Status Nodes(const Emit& emit);
  Status Edges(const Emit& emit);
  Status Preferences(const Emit& emit);
  Status Repairs(const Emit& emit);
  Status Negatives(const Emit& emit);
  Status Conversations(const Emit& emit);

  // What every record begins with: its id, run, task, split, provenance and tags.
  Json Head(const std::string& kind, const std::string& id, const CandidateRow* candidate) const;
  void AddIdea(Json& json, const IdeaRow* idea) const;
  void AddOverlap(Json& json, const std::string& text) const;
  Result<std::string> Text(const std::optional<Hash>& hash) const;
  Result<Json> Messages(const CallRow& call) const;
  Result<std::vector<SampleRow>> Samples(const CandidateRow& candidate) const;
  // How sure it is that `fast` is faster, and how the two fared when they were measured side by
  // side.
  struct Comparison {
    std::optional<double> confidence;
    std::string from;  // "contest", "samples" or empty
    const PromotionRow* contest = nullptr;
    double gain = 1, low = 1, high = 1;  // of the contest: slow's time over fast's
  };
  Result<Comparison> Compare(const CandidateRow& slow, const CandidateRow& fast) const;
  static void AddComparison(Json& json, const Comparison& comparison);
  // The chance that a cold sample of `fast` is below one of `slow`, the mean over the cases both
  // have samples of (Mann and Whitney's U over n*m); none when there is none.
  Result<std::optional<double>> Confidence(const CandidateRow& slow,
                                           const CandidateRow& fast) const;

  HarvestRun& run_;
  const HarvestOptions& options_;
  const Benchmarks* benchmarks_;
};

// What a verdict says of its candidate: "pass", "hack" (it would have won by not doing the work),
// "failure", or "none" (a duplicate, our own fault, not evaluated).
std::string_view LabelOf(const CandidateRow& candidate);

}  // namespace grove::results
