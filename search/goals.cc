#include "search/goals.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/suggest.h"
#include "results/format.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::CaseTimeRow;
using results::RunData;
using results::TimeKind;
using results::TimingMode;

// Reads a goal from left to right; the first thing that does not fit is the error.
class GoalParser {
 public:
  explicit GoalParser(std::string_view text) : text_(text) {}

  Result<Goal> Parse() {
    if (text_.size() > 200) return At(200, "a goal has at most 200 characters");
    Goal goal;
    goal.text = std::string(text_);
    if (Word("case")) {
      goal.case_name = std::string(Name());
      if (goal.case_name.empty()) return Expected("the name of a case");
    } else {
      Word("time");
    }
    Skip();
    Status body =
        Symbol("<=") || Symbol("<") || Word("below") || Word("under") ? Time(goal) : Number(goal);
    if (!body) return Failure(std::move(body.error()));
    Skip();
    if (at_ != text_.size()) return Expected("the end of the goal");
    return goal;
  }

 private:
  Failure At(std::size_t position, const std::string& what) const {
    return Fail(ErrorCode::kInvalidInput, fmt::format("goal '{}', column {}: {}",
                                                      results::Visible(text_), position + 1, what));
  }
  Failure Expected(const char* what) {
    Skip();
    return At(at_, fmt::format("expected {}", what));
  }
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Symbol(std::string_view symbol) {
    Skip();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  static bool IsNameCharacter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  }
  std::string_view Name() {
    Skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // The whole next word, or nothing is taken.
  bool Word(std::string_view word) {
    Skip();
    const std::size_t before = at_;
    if (Name() == word) return true;
    at_ = before;
    return false;
  }
  Status Positive(double& value, const char* what) {
    Skip();
    const std::size_t begin = at_;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return Expected(what);
    at_ = static_cast<std::size_t>(end - text_.data());
    if (!(value > 0)) return At(begin, "expected a number above 0");
    return {};
  }
  Status Time(Goal& goal) {
    goal.kind = Goal::Kind::kTime;
    double value = 0;
    if (auto read = Positive(value, "a time, such as 5000us"); !read) return read;
    struct Unit {
      const char* name;
      double ns;
    };
    for (const Unit& unit : {Unit{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}) {
      if (!Word(unit.name)) continue;
      goal.time = Nanoseconds(value * unit.ns);
      return {};
    }
    return Expected("a unit (ns, us, ms or s)");
  }
  Status Number(Goal& goal) {
    double value = 0;
    const std::size_t begin = at_;
    if (auto read = Positive(value, "'<' and a time, a ratio such as 2x, or a share such as 90%");
        !read) {
      return read;
    }
    if (Symbol("%")) {
      goal.kind = Goal::Kind::kShare;
      goal.share = value / 100;
      if (goal.share > 1) return At(begin, "nothing is faster than its floor: at most 100%");
      if (!Word("of")) return Expected("'of floor' or 'of sol'");
      if (Word("floor")) return {};
      goal.class_floor = false;
      if (Word("sol")) return {};
      return Expected("'floor' or 'sol'");
    }
    if (!Word("x")) return Expected("'x over BASELINE' or '% of floor'");
    goal.kind = Goal::Kind::kRatio;
    goal.ratio = value;
    if (!Word("over")) return Expected("'over' and the name of a baseline");
    goal.baseline = std::string(Name());
    if (goal.baseline.empty()) return Expected("the name of a baseline");
    return {};
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

// The kind of time that the run searches by.
TimeKind KindOf(const RunData& data) {
  const CandidateRow* best = data.Best();
  return best != nullptr ? best->evaluation->score_kind : TimeKind::kMeasured;
}

const CaseTimeRow* TimeOf(const CandidateRow& candidate, std::string_view case_name,
                          TimeKind kind) {
  if (!results::ScoreOf(candidate)) return nullptr;
  for (const CaseTimeRow& row : candidate.evaluation->case_times) {
    if (row.case_name == case_name && row.kind == kind && row.mode == TimingMode::kCold &&
        row.time.count() > 0) {
      return &row;
    }
  }
  return nullptr;
}

// What a goal is measured by: a kernel and the cases that count.
struct Subject {
  const CandidateRow* kernel = nullptr;
  std::vector<const CaseTimeRow*> times;
};

Subject SubjectOf(const Goal& goal, const RunData& data, TimeKind kind) {
  Subject subject;
  if (goal.case_name.empty()) {
    subject.kernel = data.Best(kind);
    if (subject.kernel == nullptr) return subject;
    for (const CaseTimeRow& row : subject.kernel->evaluation->case_times) {
      if (row.kind == kind && row.mode == TimingMode::kCold && row.time.count() > 0) {
        subject.times.push_back(&row);
      }
    }
    return subject;
  }
  for (const CandidateRow& candidate : data.candidates) {
    const CaseTimeRow* row = TimeOf(candidate, goal.case_name, kind);
    if (row == nullptr || (!subject.times.empty() && subject.times[0]->time <= row->time)) continue;
    subject.kernel = &candidate;
    subject.times = {row};
  }
  return subject;
}

// Geometric mean of f over the cases; none when one of them has none.
template <typename F>
std::optional<double> Mean(const std::vector<const CaseTimeRow*>& times, F f) {
  double sum = 0;
  for (const CaseTimeRow* row : times) {
    const std::optional<double> value = f(*row);
    if (!value || !(*value > 0)) return std::nullopt;
    sum += std::log(*value);
  }
  if (times.empty()) return std::nullopt;
  return std::exp(sum / static_cast<double>(times.size()));
}

}  // namespace

Result<Goal> ParseGoal(std::string_view text) { return GoalParser(text).Parse(); }

Status CheckGoal(const Goal& goal, std::span<const std::string> scored) {
  if (goal.case_name.empty() ||
      std::find(scored.begin(), scored.end(), goal.case_name) != scored.end()) {
    return {};
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("goal '{}': {}", goal.text, UnknownName("case", goal.case_name, scored)));
}

std::vector<NamedTime> SeedTimes(const RunData& data) {
  std::vector<NamedTime> times;
  const CandidateRow* seed = data.Seed();
  if (seed == nullptr || !seed->evaluation) return times;
  for (const CaseTimeRow& row : seed->evaluation->case_times) {
    if (row.mode == TimingMode::kCold) {
      times.push_back({"seed", row.case_name, row.time, row.kind});
    }
  }
  return times;
}

namespace {

// The baselines that a goal means: the one of that name; else its variant of the class that the
// task demands ("cublas" of an fp32 task is "cublas_fp32"); else every variant of it.
std::set<std::string> Meant(const std::string& wanted, const std::vector<NamedTime>& known,
                            const std::string& demanded) {
  std::set<std::string> variants;
  for (const NamedTime& base : known) {
    if (base.name == wanted) return {wanted};
    if (base.name.starts_with(wanted + "_")) variants.insert(base.name);
  }
  const std::string of_class = wanted + "_" + demanded;
  if (variants.contains(of_class)) return {of_class};
  return variants;
}

}  // namespace

GoalProgress Judge(const Goal& goal, const RunData& data, std::span<const NamedTime> baselines) {
  GoalProgress progress;
  progress.goal = goal;
  const TimeKind kind = KindOf(data);
  const Subject subject = SubjectOf(goal, data, kind);
  if (subject.kernel == nullptr) {
    progress.text = goal.case_name.empty() ? "no kernel has a time yet"
                                           : "no kernel has a time for this case yet";
    return progress;
  }
  progress.kernel = subject.kernel->name;
  const Nanoseconds time =
      goal.case_name.empty() ? *results::ScoreOf(*subject.kernel) : subject.times[0]->time;
  const std::string now = results::FormatTime(time, kind);
  switch (goal.kind) {
    case Goal::Kind::kTime:
      progress.reached = goal.time / time;
      progress.met = time < goal.time;
      progress.text = fmt::format("{}, wanted below {}", now, results::FormatTime(goal.time));
      break;
    case Goal::Kind::kRatio: {
      std::vector<NamedTime> known = SeedTimes(data);
      known.insert(known.end(), baselines.begin(), baselines.end());
      for (const results::BaselineRow& row : data.baselines) {
        known.push_back({row.name, row.case_name, row.time, TimeKind::kMeasured});
      }
      const std::set<std::string> meant = Meant(goal.baseline, known, data.task.demanded);
      bool other_kind = false;
      const auto ratio = Mean(subject.times, [&](const CaseTimeRow& row) {
        std::optional<double> best;
        for (const NamedTime& base : known) {
          if (!meant.contains(base.name) || base.case_name != row.case_name) continue;
          other_kind |= base.kind != kind;
          if (base.kind == kind && (!best || base.time / row.time < *best)) {
            best = base.time / row.time;
          }
        }
        return best;
      });
      if (!ratio) {
        std::set<std::string> unique;
        for (const NamedTime& base : known) unique.insert(base.name);
        const std::vector<std::string> names(unique.begin(), unique.end());
        progress.text =
            other_kind
                ? fmt::format("{} is {} and the run's times are {}: not comparable", goal.baseline,
                              kind == TimeKind::kMeasured ? "modelled" : "measured",
                              results::Name(kind))
            : !meant.empty()
                ? fmt::format("{} has no time for every case", goal.baseline)
                : UnknownName("baseline", goal.baseline, names) + " (grove baseline measures it)";
        return progress;
      }
      progress.reached = *ratio / goal.ratio;
      progress.met = *ratio >= goal.ratio;
      progress.text = fmt::format("{} {} at {}, wanted {}", results::FormatRatio(*ratio),
                                  meant.size() == 1 ? *meant.begin() : goal.baseline, now,
                                  results::FormatRatio(goal.ratio));
      break;
    }
    case Goal::Kind::kShare: {
      const auto share = Mean(subject.times, [&](const CaseTimeRow& row) -> std::optional<double> {
        return (goal.class_floor ? row.class_floor : row.floor) / row.time;
      });
      if (!share) {
        progress.text = "the floor of this task is not known";
        return progress;
      }
      progress.reached = *share / goal.share;
      progress.met = *share >= goal.share;
      progress.text = fmt::format("{} of the {} at {}, wanted {}", results::FormatShare(*share),
                                  goal.class_floor ? "floor" : "impossible-floor", now,
                                  results::FormatShare(goal.share));
      break;
    }
  }
  return progress;
}

std::vector<Goal> GoalsOf(std::span<const std::string> configured, const RunData& data) {
  std::vector<Goal> goals;
  const auto add = [&](const std::string& text) {
    auto goal = ParseGoal(text);
    if (!goal) return;
    const bool there = std::any_of(goals.begin(), goals.end(),
                                   [&](const Goal& other) { return other.text == goal->text; });
    if (!there) goals.push_back(std::move(*goal));
  };
  for (const std::string& text : configured) add(text);
  for (const results::HintRow& hint : data.hints) {
    if (hint.kind == "goal") add(hint.text);
  }
  return goals;
}

std::string GoalText(std::span<const std::string> configured, const RunData& data, int index) {
  RunData before;
  for (const results::HintRow& hint : data.hints) {
    const results::RoundRow* taken = hint.round ? data.Find(hint.round) : nullptr;
    if (taken != nullptr && taken->index < index) before.hints.push_back(hint);
  }
  std::string text;
  for (const Goal& goal : GoalsOf(configured, before)) {
    text += (text.empty() ? "" : "; ") + goal.text;
  }
  return text;
}

GoalsState JudgeAll(std::span<const std::string> configured, const RunData& data,
                    std::span<const NamedTime> baselines) {
  GoalsState state;
  for (const Goal& goal : GoalsOf(configured, data)) {
    state.goals.push_back(Judge(goal, data, baselines));
  }
  state.all_met = !state.goals.empty() &&
                  std::all_of(state.goals.begin(), state.goals.end(),
                              [](const GoalProgress& progress) { return progress.met; });
  return state;
}

}  // namespace grove::search
