#include "results/diff.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text_diff.h"
#include "results/format.h"

namespace grove::results {
namespace {

std::string Paint(std::string text, const char* style, bool color) {
  return color && *style != '\0' ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : text;
}

// A plan in one line per value, so that its differences are lines.
std::string Pretty(const std::string& plan) {
  const auto json = nlohmann::ordered_json::parse(plan, nullptr, false);
  return json.is_discarded()
             ? plan
             : json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

const CaseTimeRow* FindTime(const CandidateRow& c, const CaseTimeRow& like) {
  if (!c.evaluation) return nullptr;
  for (const CaseTimeRow& row : c.evaluation->case_times) {
    if (row.case_name == like.case_name && row.mode == like.mode && row.kind == like.kind) {
      return &row;
    }
  }
  return nullptr;
}

std::string VerdictWords(const CandidateRow& c) {
  if (!c.evaluation) return std::string(Name(c.status));
  const eval::Verdict& v = c.evaluation->verdict;
  if (v.passed()) return "pass";
  return fmt::format("{} at {}", eval::Name(v.kind), eval::Name(v.stage));
}

std::string ScoreWords(const CandidateRow& c) {
  const auto score = ScoreOf(c);
  return score ? FormatTime(*score, c.evaluation->score_kind) : "-";
}

std::string SideName(const DiffSide& side, const DiffSide& other) {
  const std::string name = Visible(side.candidate->name);
  return side.run->run.name == other.run->run.name ? name
                                                   : Visible(side.run->run.name) + "/" + name;
}

// The rows of the table of numbers: what, before, after, gain.
std::vector<std::array<std::string, 4>> Numbers(const DiffSide& a, const DiffSide& b) {
  std::vector<std::array<std::string, 4>> rows;
  const auto gain = SpeedUp(*a.candidate, *b.candidate);
  rows.push_back({"verdict", VerdictWords(*a.candidate), VerdictWords(*b.candidate), ""});
  rows.push_back({"score", ScoreWords(*a.candidate), ScoreWords(*b.candidate),
                  gain ? FormatRatio(*gain) : "-"});
  if (!b.candidate->evaluation) return rows;
  for (const CaseTimeRow& time : b.candidate->evaluation->case_times) {
    const CaseTimeRow* old = FindTime(*a.candidate, time);
    rows.push_back(
        {fmt::format("{} {}", Visible(time.case_name), Name(time.mode)),
         old != nullptr ? FormatTime(old->time, old->kind) : "-", FormatTime(time.time, time.kind),
         old != nullptr && time.time.count() > 0 ? FormatRatio(old->time / time.time) : "-"});
  }
  // The kernel that uses most says what the program needs.
  const auto most = [](const CandidateRow& c, auto field) {
    std::int64_t value = -1;
    if (c.evaluation) {
      for (const KernelRow& k : c.evaluation->kernels) value = std::max(value, field(k));
    }
    return value < 0 ? std::string("-") : FormatCount(value);
  };
  const auto row = [&](const char* what, auto field) {
    rows.push_back({what, most(*a.candidate, field), most(*b.candidate, field), ""});
  };
  row("registers", [](const KernelRow& k) { return k.registers; });
  row("shared bytes",
      [](const KernelRow& k) { return k.static_shared.value + k.dynamic_shared.value; });
  row("spill bytes", [](const KernelRow& k) { return k.spill_stores.value + k.spill_loads.value; });
  return rows;
}

}  // namespace

std::string UnifiedDiff(std::string_view before, std::string_view after, std::string_view from,
                        std::string_view to, int context, bool color) {
  const std::string hunks = DiffHunks(before, after, context);
  if (hunks.empty()) return {};
  std::string out = Paint(fmt::format("--- {}", Visible(from)), "1", color) + "\n" +
                    Paint(fmt::format("+++ {}", Visible(to)), "1", color) + "\n";
  for (std::string_view rest = hunks; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const char* style = line[0] == '@' ? "36" : line[0] == '+' ? "32" : line[0] == '-' ? "31" : "";
    out += Paint(line[0] + VisibleBlock(line.substr(1)), style, color) + "\n";
  }
  return out;
}

std::string RenderDiff(const DiffSide& before, const DiffSide& after, const DiffOptions& options) {
  const std::string from = SideName(before, after), to = SideName(after, before);
  std::vector<std::array<std::string, 4>> rows = {{"", from, to, "gain"}};
  for (auto& row : Numbers(before, after)) rows.push_back(std::move(row));
  std::array<int, 4> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += Pad(row[i], widths[i]) + "  ";
    line = Fit(line, std::max(40, options.width));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  const IdeaRow* idea = after.run->Find(after.candidate->idea);
  if (idea != nullptr) {
    out += fmt::format("\nidea {}: {}\n", Visible(idea->name), Visible(idea->title));
  }
  const std::string source = UnifiedDiff(before.texts.source, after.texts.source, from + " source",
                                         to + " source", options.context, options.color);
  const std::string plan =
      UnifiedDiff(Pretty(before.texts.plan), Pretty(after.texts.plan), from + " plan", to + " plan",
                  options.context, options.color);
  out += "\n" + (source.empty() ? std::string("the sources are equal\n") : source);
  out += "\n" + (plan.empty() ? std::string("the plans are equal\n") : plan);
  return out;
}

std::string DiffJson(const DiffSide& before, const DiffSide& after) {
  nlohmann::ordered_json json;
  const auto side = [](const DiffSide& s) {
    nlohmann::ordered_json one = {{"run", s.run->run.name}, {"kernel", s.candidate->name}};
    one["verdict"] = s.candidate->evaluation
                         ? nlohmann::ordered_json(eval::Name(s.candidate->evaluation->verdict.kind))
                         : nlohmann::ordered_json(nullptr);
    const auto score = ScoreOf(*s.candidate);
    one["score_ns"] = score ? nlohmann::ordered_json(score->count()) : nullptr;
    one["score_kind"] = score ? nlohmann::ordered_json(Name(s.candidate->evaluation->score_kind))
                              : nlohmann::ordered_json(nullptr);
    return one;
  };
  json["before"] = side(before);
  json["after"] = side(after);
  const auto gain = SpeedUp(*before.candidate, *after.candidate);
  json["gain"] = gain ? nlohmann::ordered_json(*gain) : nullptr;
  json["source_diff"] = UnifiedDiff(before.texts.source, after.texts.source, before.candidate->name,
                                    after.candidate->name, 3, false);
  json["plan_diff"] = UnifiedDiff(Pretty(before.texts.plan), Pretty(after.texts.plan),
                                  before.candidate->name, after.candidate->name, 3, false);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace grove::results
