#include "ideas/changes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text_diff.h"
#include "ideas/context.h"
#include "ideas/regions.h"

namespace grove::ideas {
namespace {

constexpr std::size_t kLongestLine = 240;  // bytes
// Ranks behind those of the kernels in focus.
constexpr int kCalled = 1000, kOther = 1001, kNotLaunched = 1002;
// Fewer lines of a hunk than this are not shown.
constexpr std::size_t kLeastCut = 5;

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

std::vector<Hunk> HunksOf(const std::string& diff) {
  std::vector<Hunk> hunks;
  for (const std::string_view line : LinesOf(diff)) {
    if (line.starts_with("@@") || hunks.empty()) hunks.emplace_back();
    hunks.back().text.append(line).append("\n");
  }
  return hunks;
}

// The lines of `text`, stripped, without blank ones.
std::vector<std::string_view> Content(std::string_view text) {
  std::vector<std::string_view> lines;
  for (const std::string_view line : LinesOf(text)) {
    if (const std::string_view stripped = Stripped(line); !stripped.empty()) {
      lines.push_back(stripped);
    }
  }
  return lines;
}

// A text that may have what hunks of another change make.
class Holder {
 public:
  explicit Holder(std::string_view text)
      : lines_(Content(text)), known_(lines_.begin(), lines_.end()) {}

  // Whether what the hunk makes is there: with the lines around it as one piece, or each run of
  // added lines, while of the lines that go one at least has gone (else they may only have changed
  // places).
  bool Has(const Hunk& hunk) const {
    std::vector<std::string_view> made, run;
    bool added = false, runs = true, removed = false, gone = false;
    const auto end_run = [&] {
      runs = runs && Contains(run);
      run.clear();
    };
    for (const std::string_view line : LinesOf(hunk.text)) {
      if (line.empty() || line.starts_with("@@")) continue;
      const std::string_view content = Stripped(line.substr(1));
      if (line[0] != '+') end_run();
      if (content.empty()) continue;
      if (line[0] == '-') {
        removed = true;
        gone = gone || !known_.contains(content);
        continue;
      }
      made.push_back(content);
      if (line[0] != '+') continue;
      added = true;
      run.push_back(content);
    }
    end_run();
    if (added && runs && (gone || !removed)) return true;
    return Contains(made) && (added || gone);
  }

 private:
  bool Contains(const std::vector<std::string_view>& piece) const {
    return std::search(lines_.begin(), lines_.end(), piece.begin(), piece.end()) != lines_.end() ||
           piece.empty();
  }
  std::vector<std::string_view> lines_;
  std::set<std::string_view> known_;
};

// Which lines of a source matter how much.
class Ranks {
 public:
  Ranks(std::string_view source, const std::vector<std::string>& kernels)
      : of_(LinesOf(source).size() + 1, kOther) {
    const std::vector<Region> regions = RegionsOf(source);
    std::string_view hottest;
    for (const Region& region : regions) {
      if (!kernels.empty() && region.name == kernels.front()) hottest = region.code;
    }
    for (const Region& region : regions) {
      const auto at = std::find(kernels.begin(), kernels.end(), region.name);
      const int rank = at != kernels.end()             ? static_cast<int>(at - kernels.begin())
                       : region.kernel                 ? kNotLaunched
                       : HasWord(hottest, region.name) ? kCalled
                                                       : kOther;
      for (std::size_t i = region.first; i <= region.last && i < of_.size(); ++i) of_[i] = rank;
    }
  }

  // The best of the changed lines.
  int Of(const Hunk& hunk) const {
    int best = kNotLaunched;
    std::size_t at = 0;  // of the new text, from 0
    for (const std::string_view line : LinesOf(hunk.text)) {
      if (line.starts_with("@@")) {
        const std::size_t plus = std::min(line.find('+'), line.size() - 1) + 1;
        std::from_chars(line.data() + plus, line.data() + line.size(), at);
        at -= std::min<std::size_t>(at, 1);
        continue;
      }
      if (line[0] != ' ') best = std::min(best, of_[std::min(at, of_.size() - 1)]);
      if (line[0] != '-') ++at;
    }
    return best;
  }

 private:
  std::vector<int> of_;
};

std::size_t CountLines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// The first lines of a hunk, none longer than a prompt can bear; what is left out is counted.
std::string Cut(std::string_view text, std::size_t lines, std::size_t bytes) {
  std::string out;
  std::size_t left_out = 0;
  for (const std::string_view line : LinesOf(text)) {
    const std::size_t size = std::min(line.size(), kLongestLine + 4) + 1;
    if (left_out > 0 || lines == 0 || out.size() + size > bytes) {
      ++left_out;
      continue;
    }
    --lines;
    out += line.substr(0, kLongestLine);
    if (line.size() > kLongestLine) out += " ...";
    out += '\n';
  }
  if (left_out > 0) out += fmt::format("({} more lines of this hunk left out)\n", left_out);
  return out;
}

// Hunks of a section by their changed lines, with the kernel that showed each first.
using ShownHunks = std::map<std::string, std::string>;

std::string KeyOf(const Hunk& hunk) {
  std::string key = hunk.plan ? "plan\n" : "source\n";
  for (const std::string_view line : LinesOf(hunk.text)) {
    if (!line.starts_with('+') && !line.starts_with('-')) continue;
    key.append(line).append("\n");
  }
  return key;
}

// The text of a fence; empty when there are no hunks. Adds what it shows whole to `shown`.
std::string Render(const Difference& difference, ShownHunks& shown) {
  const std::vector<Hunk>& hunks = difference.hunks;
  if (hunks.empty()) return {};
  std::vector<std::string> texts(hunks.size());  // as shown; empty = left out
  std::vector<std::size_t> order(hunks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // A hunk that was shown costs a line, so that it counts as the shortest.
  std::vector<std::size_t> sizes;
  for (const Hunk& hunk : hunks) {
    sizes.push_back(shown.contains(KeyOf(hunk)) ? 1 : CountLines(hunk.text));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int rank_a = hunks[a].plan ? -1 : hunks[a].rank;
    const int rank_b = hunks[b].plan ? -1 : hunks[b].rank;
    return rank_a != rank_b ? rank_a < rank_b : sizes[a] < sizes[b];
  });
  const ChangeLimits& limits = difference.limits;
  std::size_t lines = 0, bytes = 0, hunks_out = 0, lines_out = 0;
  ShownHunks added;
  for (const std::size_t i : order) {
    const Hunk& hunk = hunks[i];
    const std::size_t share = hunk.plan ? 2 : 1;
    const std::size_t lines_left = limits.lines / share - std::min(lines, limits.lines / share);
    const std::size_t bytes_left = limits.bytes / share - std::min(bytes, limits.bytes / share);
    const std::string key = KeyOf(hunk);
    const auto earlier = shown.find(key);
    std::string text =
        earlier == shown.end()
            ? Cut(hunk.text, lines_left, bytes_left)
            : Cut(std::string(LinesOf(hunk.text).front()) + " as in " + earlier->second + "\n",
                  lines_left, bytes_left);
    const bool whole = CountLines(text) == sizes[i] && !text.ends_with("left out)\n");
    if (!whole && std::min(CountLines(text), sizes[i]) < kLeastCut) {
      ++hunks_out;
      lines_out += sizes[i];
      continue;
    }
    if (whole && earlier == shown.end()) added.emplace(key, difference.to);
    lines += std::min(CountLines(text), sizes[i]);
    bytes += text.size();
    texts[i] = std::move(text);
  }
  std::string out;
  for (const bool plan : {true, false}) {
    std::string part;
    for (std::size_t i = 0; i < hunks.size(); ++i) {
      if (hunks[i].plan == plan) part += texts[i];
    }
    if (part.empty()) continue;
    const std::string_view kind = plan ? "json" : "cu";
    out += fmt::format("--- {}.{}\n+++ {}.{}\n", difference.from, kind, difference.to, kind) + part;
  }
  if (hunks_out > 0) {
    out += fmt::format("({} more hunk{} of {} lines left out)\n", hunks_out,
                       hunks_out == 1 ? "" : "s", lines_out);
  }
  if (difference.in_shown > 0) {
    out += fmt::format("({} more hunk{} left out that the parent above has as well)\n",
                       difference.in_shown, difference.in_shown == 1 ? "" : "s");
  }
  shown.merge(added);
  return out;
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

Difference ChangeBetween(const std::string& from, const seeds::ProgramText& before,
                         const std::string& to, const seeds::ProgramText& after,
                         const ChangeFocus& focus, const ChangeLimits& limits) {
  Difference difference;
  difference.from = from;
  difference.to = to;
  difference.limits = limits;
  const std::size_t room = PromptBudget().source;
  if (std::max(before.source.size(), after.source.size()) > room) {
    difference.note = "(the programs are too long to be compared here)";
    return difference;
  }
  const Apart apart = HowFarApart(before.source, after.source);
  if (static_cast<double>(std::max(apart.removed, apart.added)) >
      limits.most_changed * static_cast<double>(apart.longer)) {
    difference.note =
        fmt::format("(mostly rewritten: {} lines went, {} came)", apart.removed, apart.added);
    return difference;
  }
  const auto add = [&](bool plan, const std::string& old_text, const std::string& new_text,
                       const std::string* shown) {
    const Holder holder(shown != nullptr ? std::string_view(*shown) : std::string_view());
    for (Hunk& hunk : HunksOf(DiffHunks(old_text, new_text, limits.context))) {
      if (shown != nullptr && holder.Has(hunk)) {
        ++difference.in_shown;
        continue;
      }
      hunk.plan = plan;
      difference.hunks.push_back(std::move(hunk));
    }
  };
  if (std::max(before.plan.size(), after.plan.size()) <= PromptBudget().plan) {
    add(true, before.plan, after.plan, focus.shown != nullptr ? &focus.shown->plan : nullptr);
  }
  const auto source = static_cast<std::ptrdiff_t>(difference.hunks.size());
  add(false, before.source, after.source, focus.shown != nullptr ? &focus.shown->source : nullptr);
  const Ranks ranks(after.source, focus.kernels);
  std::for_each(difference.hunks.begin() + source, difference.hunks.end(),
                [&](Hunk& hunk) { hunk.rank = ranks.Of(hunk); });
  std::stable_sort(difference.hunks.begin() + source, difference.hunks.end(),
                   [](const Hunk& a, const Hunk& b) { return a.rank < b.rank; });
  if (difference.hunks.empty() && difference.in_shown > 0) {
    difference.note = "(the parent above has all of it)";
  }
  return difference;
}

std::vector<std::string> FitChanges(const std::vector<Change>& changes, std::size_t bytes) {
  std::vector<std::string> blocks;
  std::size_t used = 0, left_out = 0;
  ShownHunks shown;
  for (const Change& change : changes) {
    std::string block = Shield(OneLine(change.heading));
    ShownHunks with = shown;
    if (const std::string text = Render(change.difference, with); !text.empty()) {
      block += "\n" + Fenced("diff", text);
    } else if (!change.difference.note.empty()) {
      block += " " + Shield(OneLine(change.difference.note));
    }
    if (used + block.size() + 1 > bytes) {
      ++left_out;
      continue;
    }
    used += block.size() + 1;
    blocks.push_back(std::move(block));
    shown = std::move(with);
  }
  if (left_out > 0) {
    blocks.push_back(fmt::format("({} more left out: this prompt's size is limited)", left_out));
  }
  return blocks;
}

}  // namespace grove::ideas
