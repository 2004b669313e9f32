// Evaluations that another machine does: a search without a GPU packs the programs that wait for
// one into a file, a machine with a GPU evaluates them and writes what it found into another, and
// the search absorbs that (search/elsewhere.h). Files travel by any means, so nothing in them is
// trusted: sizes, names and hashes are checked before anything is used.
//
// A file is one line "grove <what> <version>", one line with the XXH3-128 of the rest in hex (a
// damaged copy is found, a forged one is not), and a JSON document compressed by zstd. JSON because
// people look into such files (`tail -n +3 FILE | zstd -d`), with what is no text (a task's stored
// tensors) as {"hex": "..."}; one file because what has to be
// carried through an air gap in two parts arrives in one. A package holds its task whole, so that
// both machines judge by the same definition. Thread-safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "eval/baselines.h"
#include "eval/evaluator.h"

namespace grove::eval {

struct PackagedProgram {
  std::string name;  // of the candidate, for messages
  Hash identity;     // codegen::KernelProgram::identity()
  std::string source, plan;
};

// What is to be evaluated.
struct EvaluationPackage {
  std::string run;      // its name, for people
  Hash run_key;         // of the run itself, whatever its folder is called
  int number = 0;       // of the package in the run, from 1
  std::string version;  // of the program that packed
  std::string task;     // its name
  std::vector<std::pair<std::string, std::string>> files;  // of the task's folder: name, content
  std::string suite;                                       // of the task; empty = its default
  std::vector<std::string> cases;  // that are timed; empty = the scored ones
  std::string demanded;            // class of accuracy; empty = the task's own
  std::string gpu;                 // that the search is for, "H200"
  std::uint64_t seed = 1;          // of every input
  std::vector<PackagedProgram> programs;
  // Kernels of the run that new ones are measured beside, fastest first.
  std::vector<PackagedProgram> incumbents;
};

// What came of it.
struct PackageResult {
  std::string run;
  Hash run_key;
  int number = 0;
  Hash package;           // HashText of the package's file
  std::string version;    // of the program that evaluated
  bool complete = false;  // every program is in `evaluations`
  std::vector<GpuIdentity> gpus;
  std::vector<std::pair<std::string, std::string>> environment;  // key and value, for the run
  struct Item {
    Hash identity;
    Evaluation evaluation;
  };
  std::vector<Item> evaluations;
  struct Contest {
    Hash incumbent, challenger;  // identities
    std::vector<CasePair> pairs;
  };
  std::vector<Contest> contests;
  // What is known of the vendor's libraries on that GPU (the first of `gpus`).
  std::vector<StoredBaseline> baselines;
  // What a profiler said of some programs or incumbents of the package; none in files that older
  // programs wrote.
  struct Profile {
    Hash identity;
    std::string summary;  // a few lines, for prompts; at most kLongestSummary bytes
    std::string report;   // the whole of it; at most kLongestReport bytes
  };
  std::vector<Profile> profiles;
};
inline constexpr std::size_t kLongestSummary = 16 << 10;
inline constexpr std::size_t kLongestReport = 1 << 20;

// Of a package's programs the `most` fastest that passed, and the first incumbent: those whose
// profile the next questions are about. Pointers lead into `package`.
std::vector<const PackagedProgram*> WorthProfiling(const EvaluationPackage& package,
                                                   const PackageResult& result, std::size_t most);

std::string Encode(const EvaluationPackage& package);
std::string Encode(const PackageResult& result);

// kInvalidInput for what is no such file, another version, damaged, too large, or holds names and
// numbers that cannot be; the message says which.
Result<EvaluationPackage> DecodePackage(std::string_view file);
Result<PackageResult> DecodeResult(std::string_view file);

}  // namespace grove::eval
