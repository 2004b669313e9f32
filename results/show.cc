#include "results/show.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "results/control.h"
#include "results/format.h"

namespace grove::results {
namespace {

constexpr int kLeastWidth = 40;
constexpr int kLabel = 10;

// Prose broken at blanks into lines of at most `width` columns.
std::vector<std::string> Wrap(std::string_view text, int width) {
  std::vector<std::string> lines;
  const std::string visible = VisibleBlock(text);
  std::string_view rest = visible;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    std::string_view paragraph = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    std::string line;
    while (!paragraph.empty()) {
      const std::size_t start = paragraph.find_first_not_of(" \t");
      if (start == std::string_view::npos) break;
      const std::size_t stop = std::min(paragraph.find_first_of(" \t", start), paragraph.size());
      const std::string_view word = paragraph.substr(start, stop - start);
      paragraph = paragraph.substr(stop);
      if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > width) {
        lines.push_back(std::move(line));
        line.clear();
      }
      if (!line.empty()) line += ' ';
      line += Fit(word, width);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

class Page {
 public:
  explicit Page(int width) : width_(std::max(width, kLeastWidth)) {}

  void Line(std::string_view visible) { out_ += Fit(visible, width_) + "\n"; }
  // A label and prose beside it.
  void Field(std::string_view label, std::string_view text) {
    for (const std::string& line : Wrap(text, width_ - kLabel)) {
      out_ += Pad(label, kLabel) + line + "\n";
      label = "";
    }
  }
  void Heading(std::string_view text) { out_ += fmt::format("\n{}\n", text); }
  // Columns as wide as their widest cell; the first is flush left, the others flush right.
  void Table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<int> widths;
    for (const auto& row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], DisplayWidth(row[i]));
      }
    }
    for (const auto& row : rows) {
      std::string line = "  ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string gap(static_cast<std::size_t>(widths[i] - DisplayWidth(row[i])), ' ');
        if (i > 0) line += "  ";
        line += i == 0 ? row[i] + gap : gap + row[i];
      }
      while (line.back() == ' ') line.pop_back();
      Line(line);
    }
  }
  void Code(std::string_view text) {
    out_ += VisibleBlock(text);
    if (out_.back() != '\n') out_ += '\n';
  }
  std::string Take() { return std::move(out_); }

 private:
  const int width_;
  std::string out_;
};

std::string Share(Nanoseconds floor, Nanoseconds time) {
  if (!(floor.count() > 0) || !(time.count() > 0)) return "-";
  return FormatShare(floor / time);
}

std::string Known(double value, const std::function<std::string(double)>& format) {
  return value > 0 ? format(value) : std::string("-");
}

std::string Where(const eval::Verdict& v) {
  std::string where(eval::Name(v.stage));
  if (!v.case_name.empty()) where += ", case " + v.case_name;
  return where;
}

void WriteVerdict(Page& page, const eval::Verdict& v) {
  page.Field("verdict", fmt::format("{} at {}: {}", eval::Name(v.kind), Where(v),
                                    v.message.empty() ? eval::Describe(v.kind) : v.message));
  if (!v.passed() && v.element >= 0) {
    page.Field("", fmt::format("{}[{}]: expected {}, got {}; error {}, tolerance {}; input seed {}",
                               v.tensor, v.element, FormatNumber(v.expected), FormatNumber(v.got),
                               FormatNumber(v.error), FormatNumber(v.tolerance), v.seed));
  }
}

void WriteHead(Page& page, const RunData& data, const CandidateRow& candidate) {
  std::string head = Visible(candidate.name) + "  ";
  head += candidate.evaluation ? eval::Name(candidate.evaluation->verdict.kind)
                               : Name(candidate.status);
  if (candidate.evaluation && !candidate.evaluation->precision.empty()) {
    head += "  " + Visible(candidate.evaluation->precision);
  }
  if (const auto score = ScoreOf(candidate)) {
    head += "  " + FormatTime(*score, candidate.evaluation->score_kind);
  }
  const CandidateRow* seed = data.Seed();
  const CandidateRow* parent = data.Find(candidate.parent);
  if (seed != nullptr && seed->id != candidate.id) {
    if (const auto gain = SpeedUp(*seed, candidate)) head += "  " + FormatRatio(*gain) + " seed";
  }
  if (parent != nullptr && parent != seed) {
    if (const auto gain = SpeedUp(*parent, candidate))
      head += "  " + FormatRatio(*gain) + " parent";
  }
  page.Line(head);
  if (const std::string demand = DemandOf(data); !demand.empty()) page.Field("note", demand);
  if (parent != nullptr) page.Field("parent", parent->name);
  if (const IdeaRow* idea = data.Find(candidate.idea)) {
    std::string text = fmt::format("{} {}", idea->name, Visible(idea->title));
    if (!idea->category.empty()) text += fmt::format(" [{}]", Visible(idea->category));
    if (idea->expected_gain) text += ", expected " + FormatRatio(*idea->expected_gain);
    page.Field("idea", text);
    page.Field("", idea->rationale);
    const RoundRow* round = data.Find(idea->round);
    if (parent != nullptr && round != nullptr) {
      for (const HintRow* hint : HintsInForce(data, *parent, round->index)) {
        page.Field("hint", hint->text);
      }
    }
  }
  for (const FrontierRow& row : data.frontier) {
    if (row.candidate != candidate.id) continue;
    const RoundRow* round = data.Find(row.round);
    page.Field("frontier",
               fmt::format("after round {}, place {}, {}: {}", round != nullptr ? round->index : -1,
                           row.place, Name(row.kind), row.why));
  }
}

// What the candidate stands beside: contests for the first place, and known baselines.
void WriteRivals(Page& page, const RunData& data, const CandidateRow& candidate) {
  for (const PromotionRow& row : data.promotions) {
    const bool challenged = row.challenger == candidate.id;
    if (!challenged && row.incumbent != candidate.id) continue;
    const CandidateRow* other = data.Find(challenged ? row.incumbent : row.challenger);
    const std::string name = other != nullptr ? other->name : "?";
    page.Field("contest", fmt::format("{} {}: {}; {}", challenged ? "against" : "challenged by",
                                      name, eval::Name(row.outcome), row.why));
  }
  if (data.baselines.empty() || !candidate.evaluation) return;
  page.Heading("baselines");
  std::vector<std::vector<std::string>> rows = {
      {"case", "baseline", "time", "over this", "library", "GPU"}};
  for (const BaselineRow& b : data.baselines) {
    std::string ratio = "-";
    for (const CaseTimeRow& t : candidate.evaluation->case_times) {
      // Only a time of the very GPU that the baseline was measured on may be held against it.
      if (t.case_name == b.case_name && t.mode == TimingMode::kCold &&
          t.kind == TimeKind::kMeasured && t.gpu_uuid == b.gpu_uuid && t.time.count() > 0) {
        ratio = FormatRatio(b.time / t.time);
      }
    }
    rows.push_back({Visible(b.case_name), Visible(b.name), FormatTime(b.time), ratio,
                    Visible(b.version), Visible(b.gpu_uuid)});
  }
  page.Table(rows);
}

// Without the columns in which nothing is known ("-" in every row): a measured kernel has no
// modelled bound and traffic, and a terminal is narrow.
void DropUnknown(std::vector<std::vector<std::string>>& rows) {
  for (std::size_t column = rows.front().size(); column-- > 0;) {
    const bool unknown = std::all_of(rows.begin() + 1, rows.end(),
                                     [&](const auto& row) { return row[column] == "-"; });
    if (!unknown) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

void WriteNumbers(Page& page, const EvaluationRow& e) {
  if (!e.case_times.empty()) {
    page.Heading("cases");
    std::vector<std::vector<std::string>> rows = {{"case", "time", "mode", "class floor", "of it",
                                                   "impossible-floor", "SOL%", "bound", "DRAM",
                                                   "occupancy", "limited by"}};
    for (const CaseTimeRow& t : e.case_times) {
      rows.push_back(
          {Visible(t.case_name), FormatTime(t.time, t.kind), std::string(Name(t.mode)),
           Known(t.class_floor.count(), [](double ns) { return FormatTime(Nanoseconds(ns)); }),
           Share(t.class_floor, t.time),
           Known(t.floor.count(), [](double ns) { return FormatTime(Nanoseconds(ns)); }),
           Share(t.floor, t.time), t.bound.empty() ? "-" : Visible(t.bound),
           Known(t.dram_bytes,
                 [](double b) {
                   return b < 9e18 ? FormatBytes(Bytes(static_cast<std::int64_t>(b)))
                                   : std::string("-");
                 }),
           Known(t.occupancy, FormatShare), t.limiter.empty() ? "-" : Visible(t.limiter)});
    }
    DropUnknown(rows);
    page.Table(rows);
    for (const CaseTimeRow& t : e.case_times) {
      if (t.low && t.high) {
        page.Line(fmt::format("  {} {}: between {} and {}, {} samples dropped",
                              Visible(t.case_name), Name(t.mode), FormatTime(*t.low),
                              FormatTime(*t.high), t.dropped));
      }
      if (!t.gpu_uuid.empty() && t.mode == TimingMode::kCold) {
        page.Line(fmt::format("  {} timed on {}", Visible(t.case_name), Visible(t.gpu_uuid)));
      }
      if (!t.note.empty()) {
        page.Line(fmt::format("  {} {}: {} of the outputs rechecked ({})", Visible(t.case_name),
                              Name(t.mode), FormatShare(t.checked_share), Visible(t.note)));
      }
    }
  }
  if (!e.launches.empty()) {
    page.Heading("launches");
    std::vector<std::vector<std::string>> rows = {
        {"kernel", "case", "launches", "time", "bound", "traffic", "occupancy", "limited by"}};
    for (const LaunchRow& l : e.launches) {
      rows.push_back({Visible(l.entry), Visible(l.case_name), fmt::format("{}", l.launches),
                      l.time.count() > 0 ? FormatTime(l.time) : std::string("-"),
                      l.bound.empty() ? "-" : Visible(l.bound),
                      l.dram_bytes > 0 ? FormatBytes(Bytes(static_cast<std::int64_t>(l.dram_bytes)))
                                       : std::string("-"),
                      Known(l.occupancy, FormatShare),
                      l.limiter.empty() ? "-" : Visible(l.limiter)});
    }
    page.Table(rows);
  }
  if (!e.kernels.empty()) {
    page.Heading("kernels");
    std::vector<std::vector<std::string>> rows = {{"entry", "case", "registers", "spill stores",
                                                   "spill loads", "static shared", "dynamic shared",
                                                   "stack"}};
    for (const KernelRow& k : e.kernels) {
      rows.push_back({Visible(k.entry), Visible(k.case_name), fmt::format("{}", k.registers),
                      FormatBytes(k.spill_stores), FormatBytes(k.spill_loads),
                      FormatBytes(k.static_shared), FormatBytes(k.dynamic_shared),
                      FormatBytes(k.stack)});
    }
    page.Table(rows);
  }
  if (!e.stages.empty()) {
    page.Heading("stages");
    std::vector<std::vector<std::string>> rows = {
        {"stage", "case", "verdict", "took", "error", "allowed"}};
    for (const StageRow& s : e.stages) {
      rows.push_back({std::string(eval::Name(s.stage)),
                      s.case_name.empty() ? "-" : Visible(s.case_name),
                      std::string(eval::Name(s.verdict)), FormatTime(s.duration),
                      s.tolerance > 0 ? fmt::format("{:.2e}", s.error) : "-",
                      s.tolerance > 0 ? fmt::format("{:.2e}", s.tolerance) : "-"});
    }
    page.Table(rows);
  }
}

}  // namespace

Result<CandidateTexts> LoadTexts(Reader& reader, const CandidateRow& candidate) {
  CandidateTexts texts;
  for (const auto& [hash, text] :
       {std::pair(candidate.source, &texts.source), std::pair(candidate.plan, &texts.plan)}) {
    if (!hash) continue;
    auto loaded = reader.Text(*hash);
    if (!loaded) return Fail(loaded.error(), candidate.name);
    *text = *std::move(loaded);
  }
  return texts;
}

std::string RenderCandidate(const RunData& data, const CandidateRow& candidate,
                            const CandidateTexts& texts, const ShowOptions& options) {
  Page page(options.width);
  WriteHead(page, data, candidate);
  if (!options.pruned.empty()) page.Field("frontier", options.pruned);
  for (const AttemptRow& attempt : data.attempts) {
    if (attempt.candidate != candidate.id) continue;
    page.Field(fmt::format("attempt {}", attempt.turn),
               fmt::format("{} at {}: {}", eval::Name(attempt.verdict.kind), Where(attempt.verdict),
                           attempt.verdict.message));
  }
  if (candidate.evaluation) {
    WriteVerdict(page, candidate.evaluation->verdict);
    WriteNumbers(page, *candidate.evaluation);
  }
  WriteRivals(page, data, candidate);
  if (!candidate.profile.empty()) {
    page.Heading("profile");
    page.Code(candidate.profile);
  }
  if (options.program) {
    page.Heading("source");
    page.Code(texts.source.empty() ? "(none)" : texts.source);
    page.Heading("plan");
    page.Code(texts.plan.empty() ? "(none)" : texts.plan);
  }
  return page.Take();
}

}  // namespace grove::results
