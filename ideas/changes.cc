#include "ideas/changes.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/text_diff.h"
#include "ideas/context.h"

namespace grove::ideas {
namespace {

constexpr std::size_t kLongestLine = 240;  // bytes

std::string_view Stripped(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Lines of one text that the other lacks, blank ones apart: a bound of what a diff would show that
// costs little, also where two long programs have nothing in common.
struct Apart {
  std::size_t removed = 0, added = 0, longer = 0;  // lines
};
Apart HowFarApart(std::string_view before, std::string_view after) {
  std::map<std::string_view, std::ptrdiff_t> surplus;
  std::size_t from = 0, to = 0;
  const auto count = [&](std::string_view text, std::ptrdiff_t by, std::size_t& lines) {
    for (const std::string_view line : LinesOf(text)) {
      const std::string_view stripped = Stripped(line);
      if (stripped.empty()) continue;
      surplus[stripped] += by;
      ++lines;
    }
  };
  count(before, 1, from);
  count(after, -1, to);
  Apart apart;
  apart.longer = std::max(from, to);
  for (const auto& [line, more] : surplus) {
    if (more > 0) apart.removed += static_cast<std::size_t>(more);
    if (more < 0) apart.added += static_cast<std::size_t>(-more);
  }
  return apart;
}

void Append(std::string& out, std::string_view hunks, std::size_t& lines,
            const ChangeLimits& limits) {
  std::size_t left_out = 0;
  for (const std::string_view line : LinesOf(hunks)) {
    if (left_out > 0 || lines == limits.lines || out.size() + line.size() > limits.bytes) {
      ++left_out;
      continue;
    }
    ++lines;
    out += line.substr(0, kLongestLine);
    if (line.size() > kLongestLine) out += " ...";
    out += '\n';
  }
  if (left_out > 0) out += fmt::format("({} more lines of this change left out)\n", left_out);
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

std::string ChangeBetween(const std::string& from, const seeds::ProgramText& before,
                          const std::string& to, const seeds::ProgramText& after,
                          const ChangeLimits& limits) {
  const std::size_t room = PromptBudget().source;
  if (std::max(before.source.size(), after.source.size()) > room) {
    return "(the programs are too long to be compared here)\n";
  }
  const Apart apart = HowFarApart(before.source, after.source);
  if (static_cast<double>(std::max(apart.removed, apart.added)) >
      limits.most_changed * static_cast<double>(apart.longer)) {
    return fmt::format("(mostly rewritten: {} lines went, {} came)\n", apart.removed, apart.added);
  }
  std::string out;
  std::size_t lines = 0;
  const auto add = [&](std::string_view kind, const std::string& old_text,
                       const std::string& new_text) {
    const std::string hunks = DiffHunks(old_text, new_text, limits.context);
    if (hunks.empty()) return;
    out += fmt::format("--- {}.{}\n+++ {}.{}\n", from, kind, to, kind);
    Append(out, hunks, lines, limits);
  };
  add("cu", before.source, after.source);
  if (std::max(before.plan.size(), after.plan.size()) <= PromptBudget().plan) {
    add("json", before.plan, after.plan);
  }
  return out;
}

bool ShowsLines(const std::string& diff) { return diff.starts_with("---"); }

std::vector<std::string> FitChanges(const std::vector<Change>& changes, std::size_t bytes) {
  std::vector<std::string> blocks;
  std::size_t used = 0, left_out = 0;
  for (const Change& change : changes) {
    std::string block = Shield(OneLine(change.heading));
    if (ShowsLines(change.diff)) {
      block += "\n" + Fenced("diff", change.diff);
    } else if (!change.diff.empty()) {
      block += " " + Shield(OneLine(change.diff));
    }
    if (used + block.size() + 1 > bytes) {
      ++left_out;
      continue;
    }
    used += block.size() + 1;
    blocks.push_back(std::move(block));
  }
  if (left_out > 0) {
    blocks.push_back(fmt::format("({} more left out: this prompt's size is limited)", left_out));
  }
  return blocks;
}

}  // namespace grove::ideas
