#include "base/text_diff.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <dtl/dtl.hpp>

namespace grove {

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<DiffLine> DiffLines(std::string_view before, std::string_view after) {
  const std::vector<std::string_view> from = LinesOf(before), to = LinesOf(after);
  dtl::Diff<std::string_view, std::vector<std::string_view>> diff(from, to);
  diff.compose();
  std::vector<DiffLine> lines;
  for (const auto& [text, info] : diff.getSes().getSequence()) {
    const DiffLine::Kind kind = info.type == dtl::SES_ADD      ? DiffLine::Kind::kAdded
                                : info.type == dtl::SES_DELETE ? DiffLine::Kind::kRemoved
                                                               : DiffLine::Kind::kSame;
    lines.push_back({kind, std::string(text)});
  }
  // Within one change what goes comes before what comes, as people read it.
  const auto same = [](const DiffLine& line) { return line.kind == DiffLine::Kind::kSame; };
  for (auto begin = lines.begin(); begin != lines.end();) {
    begin = std::find_if_not(begin, lines.end(), same);
    const auto end = std::find_if(begin, lines.end(), same);
    std::stable_partition(
        begin, end, [](const DiffLine& line) { return line.kind == DiffLine::Kind::kRemoved; });
    begin = end;
  }
  return lines;
}

std::string DiffHunks(std::string_view before, std::string_view after, int context) {
  const std::vector<DiffLine> lines = DiffLines(before, after);
  const int size = static_cast<int>(lines.size());
  std::vector<bool> shown(lines.size(), false);
  for (int i = 0; i < size; ++i) {
    if (lines[static_cast<std::size_t>(i)].kind == DiffLine::Kind::kSame) continue;
    for (int j = std::max(0, i - context); j <= std::min(size - 1, i + context); ++j) {
      shown[static_cast<std::size_t>(j)] = true;
    }
  }
  std::string out;
  int a = 0, b = 0;  // lines passed on each side
  for (std::size_t i = 0; i < lines.size();) {
    if (!shown[i]) {
      ++a, ++b, ++i;
      continue;
    }
    std::size_t end = i;
    int removed = 0, added = 0;
    for (; end < lines.size() && shown[end]; ++end) {
      removed += lines[end].kind != DiffLine::Kind::kAdded;
      added += lines[end].kind != DiffLine::Kind::kRemoved;
    }
    out += fmt::format("@@ -{},{} +{},{} @@\n", removed > 0 ? a + 1 : a, removed,
                       added > 0 ? b + 1 : b, added);
    for (; i < end; ++i) {
      const DiffLine& line = lines[i];
      out += line.kind == DiffLine::Kind::kAdded     ? '+'
             : line.kind == DiffLine::Kind::kRemoved ? '-'
                                                     : ' ';
      out += line.text + "\n";
    }
    a += removed;
    b += added;
  }
  return out;
}

std::optional<std::string> UndoHunks(std::string_view after, std::string_view hunks) {
  const std::vector<std::string_view> lines = LinesOf(after);
  std::string before;
  std::size_t next = 0;  // of `lines`
  const auto add = [&](std::string_view line) {
    before += line;
    before += '\n';
  };
  const auto copy = [&](std::size_t until) {
    while (next < until) add(lines[next++]);
  };
  for (const std::string_view line : LinesOf(hunks)) {
    if (line.starts_with("@@")) {
      // "@@ -a,n +b,m @@": goes on at line b of `after`, at the line behind it where m is 0.
      std::size_t at = 0, count = 0;
      const std::size_t plus = line.find('+');
      if (plus == std::string_view::npos) return std::nullopt;
      const char* const end = line.data() + line.size();
      const auto first = std::from_chars(line.data() + plus + 1, end, at);
      if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return std::nullopt;
      if (std::from_chars(first.ptr + 1, end, count).ec != std::errc()) return std::nullopt;
      const std::size_t start = count == 0 ? at : at - 1;
      if (at == 0 && count != 0) return std::nullopt;
      if (start < next || start > lines.size()) return std::nullopt;
      copy(start);
      continue;
    }
    const char sign = line.empty() ? '\0' : line[0];
    if (sign == '-') {
      add(line.substr(1));
      continue;
    }
    if (sign != '+' && sign != ' ') return std::nullopt;
    if (next == lines.size() || lines[next] != line.substr(1)) return std::nullopt;
    ++next;
    if (sign == ' ') add(line.substr(1));
  }
  copy(lines.size());
  return before;
}

}  // namespace grove
