// TreeJson and CandidateJson. A number that is not finite becomes null.
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "results/control.h"
#include "results/format.h"
#include "results/show.h"
#include "results/tree.h"

namespace grove::results {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  if constexpr (std::is_same_v<T, Nanoseconds>) {
    return value ? Json(value->count()) : Json(nullptr);
  } else if constexpr (std::is_same_v<T, Hash>) {
    return value ? Json(value->Hex()) : Json(nullptr);
  } else {
    return value ? Json(*value) : Json(nullptr);
  }
}

// 0 stands for "not known" in these.
Json Known(double value) { return value > 0 ? Json(value) : Json(nullptr); }
Json WordOrNull(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }

Json TimeJson(const std::optional<WallTime>& time) {
  return time ? Json(FormatWallTime(*time)) : Json(nullptr);
}

Json VerdictJson(const eval::Verdict& v) {
  Json json;
  json["kind"] = eval::Name(v.kind);
  json["stage"] = eval::Name(v.stage);
  json["case"] = WordOrNull(v.case_name);
  json["message"] = v.message;
  json["input_seed"] = v.seed;
  if (v.element >= 0) {
    json["tensor"] = v.tensor;
    json["element"] = v.element;
    json["expected"] = v.expected;
    json["got"] = v.got;
    json["error"] = v.error;
    json["tolerance"] = v.tolerance;
  }
  return json;
}

// Finds names and relatives without a linear search per candidate.
class Writer {
 public:
  explicit Writer(const RunData& data) : data_(data), seed_(data.Seed()) {
    for (const FrontierRow& row : data.frontier) frontier_[row.candidate].push_back(&row);
    for (const CandidateRow& row : data.candidates) siblings_[row.idea].push_back(&row);
  }

  Json Candidate(const CandidateRow& c) const {
    Json json;
    json["name"] = c.name;
    json["status"] = Name(c.status);
    const CandidateRow* parent = data_.Find(c.parent);
    json["parent"] = parent != nullptr ? Json(parent->name) : Json(nullptr);
    json["branch"] = c.branch;
    json["turn"] = c.turn;
    json["source_hash"] = OrNull(c.source);
    json["plan_hash"] = OrNull(c.plan);
    json["identity_hash"] = OrNull(c.identity);
    if (c.evaluation) {
      json["verdict"] = VerdictJson(c.evaluation->verdict);
      json["precision"] = WordOrNull(c.evaluation->precision);
    } else {
      json["verdict"] = nullptr;
      json["precision"] = nullptr;
    }
    const auto score = ScoreOf(c);
    json["score_ns"] = OrNull(score);
    json["score_kind"] = score ? Json(Name(c.evaluation->score_kind)) : Json(nullptr);
    json["speed_up_over_seed"] = seed_ != nullptr ? OrNull(SpeedUp(*seed_, c)) : Json(nullptr);
    json["speed_up_over_parent"] = parent != nullptr ? OrNull(SpeedUp(*parent, c)) : Json(nullptr);
    json["frontier"] = Json::array();
    if (const auto it = frontier_.find(c.id); it != frontier_.end()) {
      for (const FrontierRow* row : it->second) {
        const RoundRow* round = data_.Find(row->round);
        json["frontier"].push_back({{"round", round != nullptr ? Json(round->index) : Json()},
                                    {"place", row->place},
                                    {"kind", Name(row->kind)},
                                    {"why", row->why}});
      }
    }
    return json;
  }

  Json Idea(const IdeaRow& idea) const {
    Json json;
    json["name"] = idea.name;
    const CandidateRow* parent = data_.Find(idea.parent);
    json["parent"] = parent != nullptr ? Json(parent->name) : Json(nullptr);
    json["title"] = idea.title;
    json["category"] = idea.category;
    json["rationale"] = idea.rationale;
    json["expected_gain"] = OrNull(idea.expected_gain);
    json["hints"] = Json::array();  // that the question for it held
    const RoundRow* round = data_.Find(idea.round);
    if (parent != nullptr && round != nullptr) {
      for (const HintRow* hint : HintsInForce(data_, *parent, round->index)) {
        json["hints"].push_back(hint->text);
      }
    }
    return json;
  }

  Json Credit(const std::vector<const CandidateRow*>& siblings) const {
    const IdeaCredit credit = CreditOf(siblings);
    const bool scored = credit.best != nullptr;
    return {
        {"candidates", credit.candidates},
        {"evaluated", credit.evaluated},
        {"duplicates", credit.duplicates},  // neither for the idea nor against it
        {"undecided", credit.undecided},    // the same
        {"open", credit.open()},            // without a verdict yet
        {"compiled", credit.compiled},
        {"correct", credit.correct},
        {"best", scored ? Json(credit.best->name) : Json(nullptr)},
        {"best_ns", scored ? OrNull(ScoreOf(*credit.best)) : Json(nullptr)},
        {"median_ns", OrNull(credit.median)},
        {"worst_ns", OrNull(credit.worst)},
        {"score_kind", scored ? Json(Name(credit.best->evaluation->score_kind)) : Json(nullptr)}};
  }

  static Json Baseline(const BaselineRow& b) {
    return {{"case", b.case_name},
            {"baseline", b.name},
            {"version", b.version},
            {"gpu_uuid", b.gpu_uuid},
            {"driver", b.driver},
            {"time_ns", b.time.count()},
            {"low_ns", OrNull(b.low)},
            {"high_ns", OrNull(b.high)},
            {"measured", FormatWallTime(b.measured)}};
  }

  // The contests that the candidate took part in.
  Json Contests(const CandidateRow& c) const {
    Json list = Json::array();
    for (const PromotionRow& row : data_.promotions) {
      if (row.challenger != c.id && row.incumbent != c.id) continue;
      const CandidateRow* challenger = data_.Find(row.challenger);
      const CandidateRow* incumbent = data_.Find(row.incumbent);
      list.push_back(
          {{"challenger", challenger != nullptr ? Json(challenger->name) : Json(nullptr)},
           {"incumbent", incumbent != nullptr ? Json(incumbent->name) : Json(nullptr)},
           {"outcome", eval::Name(row.outcome)},
           {"promoted", row.promoted},
           {"kind", Name(row.kind)},
           {"ratio", row.ratio},
           {"low", row.low},
           {"high", row.high},
           {"gpu_uuid", WordOrNull(row.gpu_uuid)},
           {"why", row.why}});
    }
    return list;
  }

  Json Tree() const {
    Json json;
    json["run"] = data_.run.name;
    json["task"] = data_.task.name;
    json["status"] = Name(data_.run.effective_status());
    json["reason"] = data_.run.reason;
    json["created"] = FormatWallTime(data_.run.created);
    json["program_version"] = data_.run.program_version;
    const CandidateRow* best = data_.Best();
    json["best"] = best != nullptr ? Json(best->name) : Json(nullptr);
    json["seed"] = seed_ != nullptr ? Candidate(*seed_) : Json(nullptr);
    json["baselines"] = Json::array();
    for (const BaselineRow& b : data_.baselines) json["baselines"].push_back(Baseline(b));
    json["rounds"] = Json::array();
    std::unordered_map<RoundId, std::vector<const IdeaRow*>> ideas;
    for (const IdeaRow& idea : data_.ideas) ideas[idea.round].push_back(&idea);
    for (const RoundRow& round : data_.rounds) {
      Json item;
      item["round"] = round.index;
      item["status"] = Name(round.status);
      item["started"] = FormatWallTime(round.started);
      item["finished"] = TimeJson(round.finished);
      item["cut"] = round.cut;
      item["ideas"] = Json::array();
      for (const IdeaRow* row : ideas[round.id]) {
        Json idea = Idea(*row);
        const auto it = siblings_.find(row->id);
        const auto siblings =
            it != siblings_.end() ? it->second : std::vector<const CandidateRow*>();
        idea["credit"] = Credit(siblings);
        idea["candidates"] = Json::array();
        for (const CandidateRow* c : siblings) idea["candidates"].push_back(Candidate(*c));
        item["ideas"].push_back(std::move(idea));
      }
      json["rounds"].push_back(std::move(item));
    }
    return json;
  }

 private:
  const RunData& data_;
  const CandidateRow* seed_;
  std::unordered_map<CandidateId, std::vector<const FrontierRow*>> frontier_;
  std::unordered_map<IdeaId, std::vector<const CandidateRow*>> siblings_;
};

void AddEvaluation(Json& json, const EvaluationRow& e) {
  json["stages"] = Json::array();
  for (const StageRow& s : e.stages) {
    json["stages"].push_back({{"stage", eval::Name(s.stage)},
                              {"case", WordOrNull(s.case_name)},
                              {"verdict", eval::Name(s.verdict)},
                              {"duration_ms", s.duration.count()},
                              {"error", Known(s.error)},
                              {"tolerance", Known(s.tolerance)}});
  }
  json["cases"] = Json::array();
  for (const CaseTimeRow& t : e.case_times) {
    const bool class_known = t.class_floor.count() > 0 && t.time.count() > 0;
    json["cases"].push_back(
        {{"case", t.case_name},
         {"kind", Name(t.kind)},
         {"mode", Name(t.mode)},
         {"time_ns", t.time.count()},
         {"low_ns", OrNull(t.low)},
         {"high_ns", OrNull(t.high)},
         {"floor_ns", Known(t.floor.count())},
         {"share_of_floor", OrNull(ShareOfFloor(t))},
         {"class_floor_ns", Known(t.class_floor.count())},
         {"share_of_class_floor", class_known ? Json(t.class_floor / t.time) : Json(nullptr)},
         {"bound", WordOrNull(t.bound)},
         {"dram_bytes", Known(t.dram_bytes)},
         {"occupancy", Known(t.occupancy)},
         {"occupancy_limiter", WordOrNull(t.limiter)},
         {"launches", t.launches},
         {"dropped_samples", t.dropped},
         {"checked_share", t.checked_share},
         {"note", WordOrNull(t.note)},
         {"gpu_uuid", WordOrNull(t.gpu_uuid)},
         {"empty_kernel_ns", Known(t.empty.count())}});
  }
  json["launches"] = Json::array();
  for (const LaunchRow& l : e.launches) {
    json["launches"].push_back({{"case", l.case_name},
                                {"entry", l.entry},
                                {"launches", l.launches},
                                {"time_ns", Known(l.time.count())},
                                {"dram_bytes", Known(l.dram_bytes)},
                                {"bound", WordOrNull(l.bound)},
                                {"occupancy", Known(l.occupancy)},
                                {"occupancy_limiter", WordOrNull(l.limiter)}});
  }
  json["kernels"] = Json::array();
  for (const KernelRow& k : e.kernels) {
    json["kernels"].push_back({{"entry", k.entry},
                               {"case", k.case_name},
                               {"registers", k.registers},
                               {"spill_store_bytes", k.spill_stores.value},
                               {"spill_load_bytes", k.spill_loads.value},
                               {"static_shared_bytes", k.static_shared.value},
                               {"dynamic_shared_bytes", k.dynamic_shared.value},
                               {"stack_bytes", k.stack.value}});
  }
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string TreeJson(const RunData& data) { return Dump(Writer(data).Tree()); }

std::string CandidateJson(const RunData& data, const CandidateRow& candidate,
                          const CandidateTexts& texts) {
  const Writer writer(data);
  Json json = writer.Candidate(candidate);
  const IdeaRow* idea = data.Find(candidate.idea);
  json["idea"] = idea != nullptr ? writer.Idea(*idea) : Json(nullptr);
  if (candidate.evaluation) AddEvaluation(json, *candidate.evaluation);
  json["contests"] = writer.Contests(candidate);
  json["baselines"] = Json::array();
  for (const BaselineRow& b : data.baselines) json["baselines"].push_back(Writer::Baseline(b));
  json["profile"] = WordOrNull(candidate.profile);
  json["attempts"] = Json::array();
  for (const AttemptRow& attempt : data.attempts) {
    if (attempt.candidate != candidate.id) continue;
    json["attempts"].push_back({{"turn", attempt.turn},
                                {"source_hash", OrNull(attempt.source)},
                                {"plan_hash", OrNull(attempt.plan)},
                                {"verdict", VerdictJson(attempt.verdict)}});
  }
  json["source"] = texts.source;
  json["plan"] = texts.plan;
  return Dump(json);
}

}  // namespace grove::results
