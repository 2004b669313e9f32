#include "results/harvest/similarity.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include <fmt/format.h>

#include "base/files.h"
#include "base/hash.h"

namespace grove::results {
namespace {

constexpr std::size_t kBands = 16, kRows = 4;
constexpr std::uintmax_t kLargestFile = 4 << 20;

// splitmix64 (Steele, Lea, Flood 2014): another order of the hashes for each seed.
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool line_start = at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ';
    if (rest.substr(0, 2) == "//" || (rest.substr(0, 2) == "# " && line_start)) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.substr(0, 2) == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 2;
    } else if (IsWord(text[at])) {
      std::size_t end = at;
      while (end < text.size() && IsWord(text[end])) ++end;
      words.push_back(text.substr(at, end - at));
      at = end;
    } else {
      if (std::isspace(static_cast<unsigned char>(text[at])) == 0) {
        words.push_back(text.substr(at, 1));
      }
      ++at;
    }
  }
  return words;
}

std::vector<std::uint64_t> WordRuns(std::string_view text, int n) {
  const std::vector<std::string_view> words = Words(text);
  const std::size_t length = std::min(static_cast<std::size_t>(std::max(n, 1)), words.size());
  std::vector<std::uint64_t> runs;
  if (words.empty()) return runs;
  for (std::size_t i = 0; i + length <= words.size(); ++i) {
    runs.push_back(HashTexts(std::span(words).subspan(i, length)).low);
  }
  std::sort(runs.begin(), runs.end());
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  return runs;
}

double Jaccard(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  if (a.empty() && b.empty()) return 1;
  std::size_t shared = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) {
      ++shared, ++i, ++j;
    } else {
      *i < *j ? ++i : ++j;
    }
  }
  return static_cast<double>(shared) / static_cast<double>(a.size() + b.size() - shared);
}

std::optional<std::size_t> NearDuplicates::FindOrAdd(std::string_view program) {
  constexpr int kRunLength = 5;
  std::vector<std::uint64_t> runs = WordRuns(program, kRunLength);
  std::array<std::uint64_t, kBands * kRows> least;
  least.fill(std::numeric_limits<std::uint64_t>::max());
  for (const std::uint64_t run : runs) {
    for (std::size_t i = 0; i < least.size(); ++i) {
      least[i] = std::min(least[i], Mix(run ^ Mix(i)));
    }
  }
  std::array<std::uint64_t, kBands> keys;
  std::optional<std::size_t> found;
  for (std::size_t band = 0; band < kBands; ++band) {
    std::uint64_t key = band;
    for (std::size_t row = 0; row < kRows; ++row) key = Mix(key ^ least[band * kRows + row]);
    keys[band] = key;
    const auto it = bands_.find(key);
    if (it == bands_.end()) continue;
    for (const std::size_t other : it->second) {
      if ((!found || other < *found) && Jaccard(runs, kept_[other]) >= threshold_) found = other;
    }
  }
  if (found) return found;
  for (const std::uint64_t key : keys) bands_[key].push_back(kept_.size());
  kept_.push_back(std::move(runs));
  return std::nullopt;
}

Result<Benchmarks> Benchmarks::Read(const std::filesystem::path& folder, int words) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} is no folder of benchmark problems", folder.string()));
  }
  std::vector<std::filesystem::path> files;
  for (auto it = std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::skip_permission_denied, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    std::error_code skip;
    if (it->is_symlink(skip) || !it->is_regular_file(skip)) continue;
    if (it->file_size(skip) <= kLargestFile) files.push_back(it->path());
  }
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("reading {}: {}", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  Benchmarks benchmarks;
  benchmarks.words_ = words;
  for (const std::filesystem::path& file : files) {
    auto text = ReadFile(file);
    if (!text) return Fail(text.error());
    if (text->find('\0') != std::string::npos) continue;  // no text
    const auto number = static_cast<std::uint32_t>(benchmarks.names_.size());
    benchmarks.names_.push_back(std::filesystem::relative(file, folder, error).string());
    for (const std::uint64_t run : WordRuns(*text, words)) {
      benchmarks.runs_[run].push_back(number);
    }
  }
  if (benchmarks.names_.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} holds no text files", folder.string()));
  }
  return benchmarks;
}

Benchmarks::Overlap Benchmarks::Of(std::string_view text) const {
  const std::vector<std::uint64_t> runs = WordRuns(text, words_);
  std::unordered_map<std::uint32_t, std::size_t> shared;
  for (const std::uint64_t run : runs) {
    const auto it = runs_.find(run);
    if (it == runs_.end()) continue;
    for (const std::uint32_t file : it->second) ++shared[file];
  }
  Overlap most;
  std::size_t best = 0;
  for (std::uint32_t file = 0; file < names_.size(); ++file) {
    const auto it = shared.find(file);
    if (it == shared.end() || it->second <= best) continue;
    best = it->second;
    most = {static_cast<double>(best) / static_cast<double>(runs.size()), names_[file]};
  }
  return most;
}

}  // namespace grove::results
