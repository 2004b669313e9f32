// Evaluations, contests, profiles and baselines: what measuring devices add to a run.
#include <map>

#include <fmt/format.h>

#include "results/sql.h"
#include "results/store.h"

namespace grove::results {
namespace {

std::optional<double> Ns(const std::optional<Nanoseconds>& time) {
  return time ? std::optional(time->count()) : std::nullopt;
}

std::optional<Nanoseconds> FromNs(const std::optional<double>& value) {
  return value ? std::optional(Nanoseconds(*value)) : std::nullopt;
}

}  // namespace

void InsertEvaluation(Connection& c, CandidateId id, const EvaluationRow& e) {
  std::vector<StageRow> stages = e.stages;
  if (stages.empty()) {
    stages.push_back({e.verdict.stage, e.verdict.case_name, e.verdict.kind, Milliseconds(0)});
  }
  int ordinal = 0;
  for (const StageRow& s : stages) {
    Query(c, "INSERT INTO stages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", id, ordinal++, s.stage,
          s.case_name, s.verdict, Finite(s.duration.count()), Finite(s.error), Finite(s.tolerance))
        .Run();
  }
  for (const CaseTimeRow& t : e.case_times) {
    Query(c,
          "INSERT OR REPLACE INTO case_times VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "?, ?, ?, ?)",
          id, t.case_name, t.kind, t.mode, t.time.count(), Ns(t.low), Ns(t.high),
          Finite(t.floor.count()), Finite(t.class_floor.count()), t.bound, Finite(t.dram_bytes),
          Finite(t.occupancy), t.limiter, t.launches, t.dropped, Finite(t.checked_share), t.note,
          t.gpu_uuid, Finite(t.empty.count()))
        .Run();
  }
  ordinal = 0;
  for (const LaunchRow& l : e.launches) {
    Query(c, "INSERT INTO launches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", id, l.case_name,
          ordinal++, l.entry, l.launches, Finite(l.time.count()), Finite(l.dram_bytes), l.bound,
          Finite(l.occupancy), l.limiter)
        .Run();
  }
  for (const KernelRow& k : e.kernels) {
    Query(c, "INSERT OR REPLACE INTO kernels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", id, k.case_name,
          k.entry, k.registers, k.spill_stores.value, k.spill_loads.value, k.static_shared.value,
          k.dynamic_shared.value, k.stack.value)
        .Run();
  }
  std::map<std::pair<std::string_view, TimingMode>, std::int64_t> next;
  for (const SampleRow& s : e.samples) {
    Query(c, "INSERT INTO samples VALUES (?, ?, ?, ?, ?)", id, s.case_name, s.mode,
          next[{s.case_name, s.mode}]++, s.time.count())
        .Run();
  }
}

bool InsertPromotion(Connection& c, const PromotionRow& p, WallTime now) {
  const int inserted =
      Query(c,
            "INSERT INTO promotions (challenger, incumbent, outcome, promoted, kind, ratio, low, "
            "high, gpu_uuid, why, time_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (challenger, incumbent) DO NOTHING",
            p.challenger, p.incumbent, p.outcome, p.promoted, p.kind, p.ratio, p.low, p.high,
            p.gpu_uuid, p.why, now)
          .Run();
  if (inserted == 0) return false;
  const std::int64_t id = c.database().getLastInsertRowid();
  for (const PromotionCaseRow& one : p.cases) {
    Query(c, "INSERT INTO promotion_cases VALUES (?, ?, ?, ?, ?, ?, ?)", id, one.case_name,
          one.incumbent.count(), one.challenger.count(), one.ratio, one.low, one.high)
        .Run();
    const std::size_t count = std::min(one.incumbent_samples.size(), one.challenger_samples.size());
    for (std::size_t i = 0; i < count; ++i) {
      Query(c, "INSERT INTO promotion_samples VALUES (?, ?, ?, ?, ?)", id, one.case_name,
            static_cast<std::int64_t>(i), one.incumbent_samples[i].count(),
            one.challenger_samples[i].count())
          .Run();
    }
  }
  return true;
}

void PutProfile(Connection& c, CandidateId candidate, std::string_view summary,
                std::string_view report, WallTime now) {
  Query(c, "INSERT OR REPLACE INTO profiles VALUES (?, ?, ?, ?)", candidate, summary,
        PutText(c, report), now)
      .Run();
}

void PutBaseline(Connection& c, const BaselineRow& row) {
  Query(c, "INSERT OR REPLACE INTO baselines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row.case_name,
        row.name, row.gpu_uuid, row.gpu, row.driver, row.version, row.time.count(), Ns(row.low),
        Ns(row.high), row.measured)
      .Run();
}

void LoadMeasured(Connection& c, RunData& data) {
  std::map<std::int64_t, std::size_t> places;  // in data.promotions, by row id
  Query promotions(c,
                   "SELECT id, challenger, incumbent, outcome, promoted, kind, ratio, low, high, "
                   "gpu_uuid, why, time_us FROM promotions ORDER BY id");
  while (promotions.Step()) {
    PromotionRow row;
    row.challenger = promotions.Id<CandidateId>(1);
    row.incumbent = promotions.Id<CandidateId>(2);
    row.outcome = promotions.Enum<eval::Contest>(3);
    row.promoted = promotions.Int(4) != 0;
    row.kind = promotions.Enum<TimeKind>(5);
    row.ratio = promotions.Real(6);
    row.low = promotions.Real(7);
    row.high = promotions.Real(8);
    row.gpu_uuid = promotions.Text(9);
    row.why = promotions.Text(10);
    row.time = promotions.Time(11);
    places[promotions.Int(0)] = data.promotions.size();
    data.promotions.push_back(std::move(row));
  }
  Query cases(c,
              "SELECT promotion, case_name, incumbent_ns, challenger_ns, ratio, low, high "
              "FROM promotion_cases ORDER BY promotion, case_name");
  while (cases.Step()) {
    const auto place = places.find(cases.Int(0));
    if (place == places.end()) {
      Throw(ErrorCode::kInternal, "the store holds a case of a contest that it does not hold");
    }
    PromotionCaseRow row;
    row.case_name = cases.Text(1);
    row.incumbent = Nanoseconds(cases.Real(2));
    row.challenger = Nanoseconds(cases.Real(3));
    row.ratio = cases.Real(4);
    row.low = cases.Real(5);
    row.high = cases.Real(6);
    data.promotions[place->second].cases.push_back(std::move(row));
  }
  Query baselines(c,
                  "SELECT case_name, name, gpu_uuid, gpu, driver, version, time_ns, low_ns, "
                  "high_ns, measured_us FROM baselines ORDER BY case_name, time_ns, name");
  while (baselines.Step()) {
    BaselineRow row;
    row.case_name = baselines.Text(0);
    row.name = baselines.Text(1);
    row.gpu_uuid = baselines.Text(2);
    row.gpu = baselines.Text(3);
    row.driver = baselines.Text(4);
    row.version = baselines.Text(5);
    row.time = Nanoseconds(baselines.Real(6));
    row.low = FromNs(baselines.OptionalReal(7));
    row.high = FromNs(baselines.OptionalReal(8));
    row.measured = baselines.Time(9);
    data.baselines.push_back(std::move(row));
  }
  Query profiles(c, "SELECT candidate, summary, report FROM profiles");
  while (profiles.Step()) {
    const auto id = profiles.Id<CandidateId>(0);
    for (CandidateRow& candidate : data.candidates) {
      if (candidate.id != id) continue;
      candidate.profile = profiles.Text(1);
      candidate.profile_report = profiles.Hash(2);
    }
  }
}

}  // namespace grove::results
