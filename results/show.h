// One candidate in full: its idea, verdict with payload, numbers per case beside the floors,
// kernels, stages and program. Pure functions of the plain rows and the texts.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "results/store.h"

namespace grove::results {

// The texts of a candidate; empty where there is none.
struct CandidateTexts {
  std::string source, plan;
};
Result<CandidateTexts> LoadTexts(Reader& reader, const CandidateRow& candidate);

struct ShowOptions {
  int width = 100;      // columns; tables and prose keep to it, code is never cut
  bool program = true;  // with source and plan
  std::string pruned;   // why it was not carried on (search/policy.h); may be empty
};

// Lines end with '\n'. Text of models is made visible (format.h).
std::string RenderCandidate(const RunData& data, const CandidateRow& candidate,
                            const CandidateTexts& texts, const ShowOptions& options);

// The same for programs: JSON, UTF-8 (what is no UTF-8 is replaced), units in the names.
std::string CandidateJson(const RunData& data, const CandidateRow& candidate,
                          const CandidateTexts& texts);

}  // namespace grove::results
