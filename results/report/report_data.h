// What the report's page is told about a run, as JSON: a summary of everything that its pictures
// and lists need, and one document per kernel and per model call, read when somebody looks at it.
// All text is made visible (results/format.h) here, so that the page shows what a terminal shows.
// The same documents go into the file of `grove report` and over the wire of `grove serve`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "results/run_index.h"
#include "results/store.h"

namespace grove::results {

// Somebody else's time for a case: a vendor library, PyTorch eager, an earlier record.
struct ReportBaseline {
  std::string case_name;
  std::string name;  // "cublas", "torch.compile"
  Nanoseconds time{0};
  TimeKind kind = TimeKind::kMeasured;
};

// Baselines from the JSON of `grove baseline --json` or of scripts/torch_baseline.py: an array of
// objects with "case", "baseline" or "name", "time_ns" and optionally "kind", or an object that
// holds such an array. Rows of the baseline "seed" are left out, since the run has its own.
// kInvalidInput names what is wrong.
Result<std::vector<ReportBaseline>> ParseBaselines(std::string_view json);
// Those that the run itself keeps; of several for a case and name, on several GPUs, the fastest.
std::vector<ReportBaseline> BaselinesOf(const RunData& data);

// One line of the spend table.
struct SpendRow {
  llm::Role role = llm::Role::kIdea;
  std::string model;
  std::int64_t calls = 0, failed = 0;
  Tokens prompt, cached, completion, reasoning;
  double dollars = 0;
  Milliseconds latency{0};  // sum over the answered
};
// By role, then model. Dollars are the ledger's, settled or still promised.
std::vector<SpendRow> SpendOf(const RunData& data);

// Geometric mean over the scored cases of each case's floor; none when one of them has no floor of
// that kind. What the run's candidates say of a case agrees, since a floor is the device's.
struct Floors {
  std::optional<Nanoseconds> impossible, honest_class;
};
Floors FloorsOf(const RunData& data, TimeKind kind);

std::string SummaryJson(const RunData& data, const RunIndex& index,
                        const std::vector<ReportBaseline>& baselines);

// Everything of one kernel: verdict, stages, cases, kernels, samples, source, plan, attempts and
// the ids of its calls. A text that the store has lost is shown as what is missing, not an error.
std::string KernelJson(Reader& reader, const RunData& data, const RunIndex& index,
                       const CandidateRow& candidate);
// What was asked and answered.
std::string CallJson(Reader& reader, const CallRow& call);

}  // namespace grove::results
