#include "search/convert.h"

#include <algorithm>

namespace grove::search {
namespace {

results::TimingMode ModeOf(const std::string& name) {
  if (name == "hot") return results::TimingMode::kHot;
  if (name == "graph") return results::TimingMode::kGraph;
  if (name == "host") return results::TimingMode::kHost;
  return results::TimingMode::kCold;
}

// One row for each kernel of the plan; none where there is one launch, of which the case's own row
// says the same.
std::vector<results::LaunchRow> LaunchesOf(const eval::CaseTime& time) {
  std::vector<results::LaunchRow> rows;
  if (time.launches.size() < 2) return rows;
  std::vector<Nanoseconds> slowest;
  for (const eval::LaunchReport& launch : time.launches) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const auto& known) { return known.entry == launch.kernel; });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {time.case_name, launch.kernel});
      slowest.push_back(Nanoseconds(-1));
    }
    ++row->launches;
    row->time += launch.time;
    row->dram_bytes += launch.dram_bytes;
    Nanoseconds& longest = slowest[static_cast<std::size_t>(row - rows.begin())];
    if (launch.time <= longest) continue;
    longest = launch.time;
    row->bound = launch.bound;
    row->occupancy = launch.occupancy.warps_share;
    row->limiter = launch.occupancy.limiter;
  }
  return rows;
}

results::CaseTimeRow ToRow(const eval::CaseTime& time) {
  results::CaseTimeRow row;
  row.case_name = time.case_name;
  row.kind = time.modelled ? results::TimeKind::kModelled : results::TimeKind::kMeasured;
  row.time = time.time;
  if (!time.modelled) {
    row.low = time.min;
    row.high = time.q3;
  }
  row.floor = time.impossible_floor;
  row.class_floor = time.class_floor;
  row.launches = static_cast<std::int64_t>(time.launches.size());
  row.dropped = time.throttled;
  row.checked_share = time.checked_share;
  row.note = time.note;
  row.gpu_uuid = time.gpu_uuid;
  row.empty = time.empty_kernel;
  // The slowest launch speaks for the plan.
  const auto slowest =
      std::max_element(time.launches.begin(), time.launches.end(),
                       [](const auto& a, const auto& b) { return a.time < b.time; });
  if (slowest != time.launches.end()) {
    row.bound = slowest->bound;
    row.occupancy = slowest->occupancy.warps_share;
    row.limiter = slowest->occupancy.limiter;
  }
  for (const eval::LaunchReport& launch : time.launches) row.dram_bytes += launch.dram_bytes;
  return row;
}

}  // namespace

results::EvaluationRow ToRow(const eval::Evaluation& evaluation) {
  results::EvaluationRow row;
  row.verdict = evaluation.verdict;
  if (evaluation.measured_class) row.precision = seeds::Name(*evaluation.measured_class);
  row.score = evaluation.score;
  row.score_kind =
      evaluation.modelled ? results::TimeKind::kModelled : results::TimeKind::kMeasured;
  for (const eval::StageRecord& stage : evaluation.stages) {
    results::StageRow stage_row;
    stage_row.stage = stage.stage;
    stage_row.case_name = stage.case_name;
    stage_row.verdict = stage.undecided ? *stage.undecided
                        : stage.passed  ? eval::VerdictKind::kPass
                                        : evaluation.verdict.kind;
    stage_row.duration = stage.duration;
    stage_row.error = stage.error;
    stage_row.tolerance = stage.tolerance;
    row.stages.push_back(std::move(stage_row));
  }
  for (const eval::CaseTime& time : evaluation.times) {
    row.case_times.push_back(ToRow(time));
    for (results::LaunchRow& launches : LaunchesOf(time)) {
      row.launches.push_back(std::move(launches));
    }
    std::int64_t ordinal = 0;
    for (const Nanoseconds sample : time.samples) {
      row.samples.push_back({time.case_name, results::TimingMode::kCold, ordinal++, sample});
    }
    for (const eval::ModeTime& mode : time.modes) {
      const results::TimingMode name = ModeOf(mode.mode);
      if (name == results::TimingMode::kCold || mode.samples.empty()) continue;
      results::CaseTimeRow other = row.case_times.back();
      other.mode = name;
      other.time = mode.median;
      other.low = mode.min;
      other.high = mode.q3;
      other.note = mode.note;
      other.checked_share = 0;
      row.case_times.push_back(std::move(other));
      ordinal = 0;
      for (const Nanoseconds sample : mode.samples) {
        row.samples.push_back({time.case_name, name, ordinal++, sample});
      }
    }
  }
  for (const eval::KernelRecord& kernel : evaluation.kernels) {
    results::KernelRow kernel_row;
    kernel_row.case_name = kernel.case_name;
    kernel_row.entry = kernel.entry.name;
    kernel_row.registers = kernel.entry.registers;
    kernel_row.spill_stores = Bytes(kernel.entry.spill_stores);
    kernel_row.spill_loads = Bytes(kernel.entry.spill_loads);
    kernel_row.static_shared = Bytes(kernel.entry.static_shared);
    kernel_row.dynamic_shared = Bytes(kernel.dynamic_shared);
    kernel_row.stack = Bytes(kernel.entry.stack_bytes);
    row.kernels.push_back(std::move(kernel_row));
  }
  return row;
}

results::PromotionRow ToRow(const eval::Promotion& promotion, CandidateId challenger,
                            CandidateId incumbent) {
  results::PromotionRow row;
  row.challenger = challenger;
  row.incumbent = incumbent;
  row.outcome = promotion.outcome;
  row.promoted = promotion.promoted;
  row.kind = promotion.modelled ? results::TimeKind::kModelled : results::TimeKind::kMeasured;
  row.ratio = promotion.ratio;
  row.low = promotion.low;
  row.high = promotion.high;
  row.gpu_uuid = promotion.gpu_uuid;
  row.why = promotion.why;
  for (const eval::PromotionCase& one : promotion.cases) {
    row.cases.push_back({one.case_name, one.incumbent, one.challenger, one.ratio, one.low, one.high,
                         one.incumbent_samples, one.challenger_samples});
  }
  return row;
}

ideas::Idea IdeaOf(const results::IdeaRow& row) {
  ideas::Idea idea;
  idea.title = row.title;
  idea.category = ideas::NearestCategory(row.category);
  idea.rationale = row.rationale;
  if (row.expected_gain) idea.expected_gain = *row.expected_gain;
  return idea;
}

}  // namespace grove::search
