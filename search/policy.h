// Which kernels seed the next round, behind one interface. A policy is a pure function of what is
// stored: it keeps no state of its own, so a run that was killed, resumed or replayed chooses the
// same kernels again, and another policy can be tried on the run's records.
//
//   beam     the fastest `frontier` kernels of the round and the frontier before it (default)
//   greedy   the fastest kernel alone
//   islands  `frontier` separate lineages, each kept by its own fastest; now and then the weakest
//            starts again from the second lineage of the strongest (migration)
//   puct     the `frontier` kernels of the whole tree with the best balance of what came of them
//            and how often they were tried (the upper confidence rule of AlphaZero)
//
// All of them keep `reserve` places more for kernels that are slower but promising; search/
// selection.h says what that means, and what counts as a tie and as near-identical.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::search {

// Why a kernel that passed is not carried on, in words.
struct Pruned {
  CandidateId candidate;
  std::string why;
};

struct Choice {
  std::vector<results::FrontierEntry> frontier;  // in order of place; never empty, the seed passed
  std::vector<Pruned> pruned;  // every other passed kernel that was looked at, by id
};

class Policy {
 public:
  virtual ~Policy() = default;
  // The frontier after round `index` (from 1). `data` holds every evaluated candidate of that round
  // and the rounds before, and their frontiers; later rows are not looked at. Each entry says in
  // words why it was kept.
  virtual Choice Choose(const results::RunData& data, int index) const = 0;
  std::vector<results::FrontierEntry> Select(const results::RunData& data, int index) const {
    return Choose(data, index).frontier;
  }
};

// How much there is to read in a kernel (codegen::KernelProgram::size, of its stored texts); 0 =
// not known. Asked only about kernels that tie.
using SourceSize = std::function<std::int64_t(const results::CandidateRow&)>;

// "beam", "greedy", "islands", "puct".
const std::vector<std::string>& PolicyNames();
// The policy that `config` names. kInvalidInput for an unknown one.
Result<std::unique_ptr<Policy>> MakePolicy(const SearchConfig& config, SourceSize size = {});

// One line why `candidate` was or was not carried on after its round (`--explain`); empty when its
// round is not finished. Stored reasons where there are any, else the policy's.
std::string Explain(const results::RunData& data, const results::CandidateRow& candidate,
                    const Policy& policy);

}  // namespace grove::search
