// What kernels are made of: the ideas of their lineages. Pure functions of the stored rows.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "results/rows.h"

namespace grove::search {

// The ideas of a kernel's lineage by ideas::TitleKey, sorted, each once. Siblings have the same,
// and so have kernels that took the same steps in another order: they are near-identical and breed
// the same children.
using Makeup = std::vector<std::uint64_t>;

// false: it is made of `title` (a TitleKey) already, and nothing changed.
bool Add(Makeup& makeup, std::uint64_t title);

// Makeups of many kernels: each idea adds to what its parent is made of, once. For one thread.
class Makeups {
 public:
  // Borrows the rows, which must not change meanwhile.
  explicit Makeups(const results::RunData& data) : data_(data) {}
  const Makeup& Of(const results::CandidateRow& kernel);

 private:
  const results::RunData& data_;
  std::map<IdeaId, Makeup> known_;
};
Makeup MakeupOf(const results::RunData& data, const results::CandidateRow& kernel);

}  // namespace grove::search
