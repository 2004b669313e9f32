// Runs as training data: a folder with one file per kind of record, a dataset card (README.md) and
// a manifest of hashes. docs/harvest.md describes every field.
//
// The same stores and options give the same bytes: nothing of the moment, the machine or the order
// in which runs are named goes in. A run that is being written is read as one snapshot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/store.h"

namespace grove::results {

// The kinds of records: "nodes" every candidate, "edges" parent -> child, "preferences" siblings of
// one idea ranked, "repairs" failed -> next attempt with the diagnostics, "negatives" failures and
// hacks, labelled, "conversations" requests and replies as messages.
const std::vector<std::string>& RecordKinds();

enum class HarvestFormat { kJsonl, kJsonlZstd, kParquet };

struct HarvestOptions {
  std::filesystem::path output;  // a new or empty folder
  HarvestFormat format = HarvestFormat::kJsonl;
  std::vector<std::string> kinds;  // empty = all
  // Filters. What they leave out is counted in the card.
  bool correct_only = false;           // negatives and preferences between wrong ones go too
  std::optional<double> minimal_gain;  // over the parent; edges and nodes below it go
  std::string precision;               // class reached: "fp32", ...; empty = any
  std::string device;                  // what the run's environment calls gpu; empty = any
  // Programs of one task at least this alike (Jaccard over runs of five words) and with the same
  // outcome (verdict, and time within a step of 5%) count once, the first of them by run and id;
  // above 1 = all are kept.
  double duplicate_threshold = 0.95;
  // Benchmark problems that training data must not contain; records that overlap are flagged, not
  // hidden.
  std::optional<std::filesystem::path> benchmarks;
  int benchmark_words = 13;      // length of the runs of words compared
  double benchmark_share = 0.1;  // share of a record's runs from which it is flagged
  // Licence of the prompts' sources and what the terms of each model say about its output. Grove
  // cannot know them; they are tags on every record.
  std::string licence = "not stated";
  std::map<std::string, std::string> model_terms;  // by model
};

struct HarvestedFile {
  std::string name;
  std::int64_t records = 0;
  Bytes size;
  std::string xxh128;  // as xxh128sum prints it
};
struct HarvestReport {
  std::vector<HarvestedFile> files;
  std::int64_t runs = 0, candidates = 0, near_duplicates = 0, filtered = 0, flagged = 0;
};

// kInvalidInput: an unknown kind, a folder that is not empty, no such filter value. kNotFound: no
// run passes the filters, no benchmarks. kUnavailable: Parquet without Python and pyarrow (a
// harvest of JSON lines is there then, and the message says how to convert it). kResource: the
// disk.
Result<HarvestReport> Harvest(const std::vector<std::filesystem::path>& runs,
                              const HarvestOptions& options);

}  // namespace grove::results
