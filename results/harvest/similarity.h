// How alike programs are, by the words they consist of. Comments and white space do not count.
// Pure functions and a plain set; thread-safe as such.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace grove::results {

// Words of a program or a text: identifiers, numbers and single punctuation marks; comments of
// C++ and Python and all white space are left out.
std::vector<std::string_view> Words(std::string_view text);

// Hashes of all runs of `n` words, sorted, each once. A shorter text gives one hash of all of it.
std::vector<std::uint64_t> WordRuns(std::string_view text, int n);

// Shared over all: 0 = nothing in common, 1 = the same set. Two empty sets are the same.
double Jaccard(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b);

// Finds an earlier program that is a near-duplicate. MinHash with bands brings candidates
// together (Broder 1997; 16 bands of 4 rows meet at a similarity of 0.5 with 64%, of 0.9 with
// all but 1e-7), the exact similarity decides.
class NearDuplicates {
 public:
  explicit NearDuplicates(double threshold) : threshold_(threshold) {}
  // The position of the first program that is at least `threshold` alike, or none, and then this
  // one is kept for later ones. Positions count the kept ones from 0.
  std::optional<std::size_t> FindOrAdd(std::string_view program);

 private:
  double threshold_;
  std::vector<std::vector<std::uint64_t>> kept_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> bands_;
};

// Texts of benchmarks that a data set must not contain.
class Benchmarks {
 public:
  // Every file of up to 4 MB below `folder`, links not followed. kNotFound when it is no folder or
  // holds no text.
  static Result<Benchmarks> Read(const std::filesystem::path& folder, int words);

  struct Overlap {
    double share = 0;  // of the text's word runs that some one file also has
    std::string file;  // which, relative to the folder; empty when there is none
  };
  Overlap Of(std::string_view text) const;
  std::size_t files() const { return names_.size(); }

 private:
  int words_ = 13;
  std::vector<std::string> names_;  // sorted
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> runs_;
};

}  // namespace grove::results
