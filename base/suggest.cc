#include "base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string Nearest(std::string_view name, std::span<const std::string> valid) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 1;
  for (const std::string& candidate : valid) {
    const std::size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string UnknownName(std::string_view kind, std::string_view name,
                        std::span<const std::string> valid) {
  std::string text = fmt::format("unknown {} '{}'", kind, name);
  if (const std::string near = Nearest(name, valid); !near.empty()) {
    text += fmt::format("; did you mean '{}'?", near);
  }
  if (!valid.empty()) text += fmt::format(" (valid: {})", fmt::join(valid, ", "));
  return text;
}

}  // namespace grove
