#include "results/report/report_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "results/format.h"
#include "results/tree.h"

namespace grove::results {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMessageColumns = 240;  // of a message in the summary; the kernel's page has it all

std::string Dump(const Json& json) {
  // ASCII only: U+2028 and all that is not ASCII travels escaped.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <typename T>
Json OrNull(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_same_v<T, Nanoseconds>) {
    return Number(value->count());
  } else {
    return Json(*value);
  }
}

std::int64_t Micros(WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

Json VerdictJson(const eval::Verdict& v) {
  Json json = {{"kind", eval::Name(v.kind)},         {"about", eval::Describe(v.kind)},
               {"stage", eval::Name(v.stage)},       {"case", Visible(v.case_name)},
               {"message", VisibleBlock(v.message)}, {"input_seed", fmt::format("{}", v.seed)}};
  if (v.element >= 0) {
    json["tensor"] = Visible(v.tensor);
    json["element"] = v.element;
    json["expected"] = FormatNumber(v.expected);
    json["got"] = FormatNumber(v.got);
    json["error"] = FormatNumber(v.error);
    json["tolerance"] = FormatNumber(v.tolerance);
  }
  return json;
}

std::string TextOr(Reader& reader, const std::optional<Hash>& hash) {
  if (!hash) return {};
  auto text = reader.Text(*hash);
  return text ? VisibleBlock(*text) : "(lost: " + Visible(text.error().message) + ")";
}

std::string RoleName(llm::Role role) { return std::string(llm::Name(role)); }

const CaseTimeRow* ColdTime(const CandidateRow& candidate, const std::string& name) {
  if (!candidate.evaluation) return nullptr;
  for (const CaseTimeRow& row : candidate.evaluation->case_times) {
    if (row.mode == TimingMode::kCold && row.case_name == name &&
        row.kind == candidate.evaluation->score_kind) {
      return &row;
    }
  }
  return nullptr;
}

// The cases that any candidate was scored on, in the task's order.
std::vector<const CaseRow*> ScoredCases(const RunData& data) {
  std::set<std::string> timed;
  for (const CandidateRow& c : data.candidates) {
    if (!c.evaluation) continue;
    for (const CaseTimeRow& t : c.evaluation->case_times) timed.insert(t.case_name);
  }
  std::vector<const CaseRow*> cases;
  for (const CaseRow& row : data.cases) {
    if (timed.contains(row.name)) cases.push_back(&row);
  }
  return cases;
}

// "n" are the implementations that were new programs.
Json CreditJson(const std::vector<const CandidateRow*>& siblings,
                const std::unordered_map<CandidateId, int>& positions) {
  const IdeaCredit credit = CreditOf(siblings);
  Json json = {{"n", credit.tries()}, {"compiled", credit.compiled}, {"ok", credit.correct}};
  if (credit.best != nullptr) json["best"] = positions.at(credit.best->id);
  if (credit.median) json["median"] = Number(credit.median->count());
  return json;
}

}  // namespace

Result<std::vector<ReportBaseline>> ParseBaselines(std::string_view text) {
  const auto bad = [](const std::string& what) {
    return Fail(ErrorCode::kInvalidInput,
                "baselines: " + what + " (give the output of grove baseline TASK --json)");
  };
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return bad("this is no JSON");
  const Json* rows = &json;
  if (json.is_object()) {
    rows = nullptr;
    for (const auto& [key, value] : json.items()) {
      if (value.is_array()) rows = &value;
    }
  }
  if (rows == nullptr || !rows->is_array()) return bad("no array of rows");
  std::vector<ReportBaseline> out;
  for (const Json& row : *rows) {
    const auto word = [&row](const char* key) {
      return row.is_object() && row.contains(key) && row[key].is_string()
                 ? row[key].get<std::string>()
                 : std::string();
    };
    ReportBaseline baseline;
    baseline.case_name = word("case");
    baseline.name = word("baseline").empty() ? word("name") : word("baseline");
    const bool timed = row.is_object() && row.contains("time_ns") && row["time_ns"].is_number();
    if (baseline.case_name.empty() || baseline.name.empty() || !timed) {
      return bad(
          fmt::format("row {} needs \"case\", \"baseline\" and \"time_ns\"", out.size() + 1));
    }
    baseline.time = Nanoseconds(row["time_ns"].get<double>());
    if (!(baseline.time.count() > 0)) return bad("a time must be above 0");
    if (const std::string kind = word("kind"); !kind.empty()) {
      const auto known = FromName<TimeKind>(kind);
      if (!known) return bad("unknown kind '" + Visible(kind) + "'");
      baseline.kind = *known;
    }
    if (baseline.name != "seed") out.push_back(std::move(baseline));
  }
  return out;
}

std::vector<ReportBaseline> BaselinesOf(const RunData& data) {
  std::vector<ReportBaseline> out;
  std::set<std::pair<std::string, std::string>> seen;
  for (const BaselineRow& row : data.baselines) {  // fastest first
    if (!(row.time.count() > 0) || !seen.emplace(row.case_name, row.name).second) continue;
    out.push_back({row.case_name, row.name, row.time, TimeKind::kMeasured});
  }
  return out;
}

std::vector<SpendRow> SpendOf(const RunData& data) {
  std::map<std::pair<llm::Role, std::string>, SpendRow> rows;
  std::unordered_map<std::string, SpendRow*> by_key;
  for (const CallRow& call : data.calls) {
    SpendRow& row = rows[{call.key.role, call.model}];
    row.role = call.key.role;
    row.model = call.model;
    ++row.calls;
    if (call.status == CallStatus::kFailed) ++row.failed;
    row.prompt = row.prompt + call.usage.prompt;
    row.cached = row.cached + call.usage.cached;
    row.completion = row.completion + call.usage.completion;
    row.reasoning = row.reasoning + call.usage.reasoning;
    if (std::isfinite(call.latency.count())) row.latency += call.latency;
    by_key[ToString(call.key)] = &row;
  }
  for (const LedgerRow& entry : data.ledger) {
    if (entry.kind != LedgerKind::kDollars) continue;
    // "code r2.p1.i3.b1.t0 #1": a call and its attempt.
    const auto it = by_key.find(entry.key.substr(0, entry.key.rfind(" #")));
    if (it != by_key.end()) it->second->dollars += entry.settled.value_or(entry.reserved);
  }
  std::vector<SpendRow> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  return out;
}

Floors FloorsOf(const RunData& data, TimeKind kind) {
  Floors floors;
  double impossible = 0, honest = 0;
  int cases = 0;
  const CandidateRow* best = data.Best(kind);
  if (best == nullptr) return floors;
  for (const CaseTimeRow& row : best->evaluation->case_times) {
    if (row.mode != TimingMode::kCold || row.kind != kind) continue;
    ++cases;
    impossible += std::log(row.floor.count());  // a floor that is not known makes it -inf
    honest += std::log(row.class_floor.count());
  }
  if (cases == 0) return floors;
  if (std::isfinite(impossible)) floors.impossible = Nanoseconds(std::exp(impossible / cases));
  if (std::isfinite(honest)) floors.honest_class = Nanoseconds(std::exp(honest / cases));
  return floors;
}

std::string SummaryJson(const RunData& data, const RunIndex& index,
                        const std::vector<ReportBaseline>& baselines) {
  const std::string demand = DemandOf(data);
  Json json;
  json["version"] = 1;
  json["run"] = {{"name", Visible(data.run.name)},
                 {"task", Visible(data.task.name)},
                 {"title", Visible(data.task.title)},
                 {"demanded", Visible(demand.empty() ? data.task.demanded : demand)},
                 {"status", Name(data.run.effective_status())},
                 {"live", data.run.live},
                 {"reason", Visible(data.run.reason)},
                 {"created", FormatWallTime(data.run.created)},
                 {"created_us", Micros(data.run.created)},
                 {"program_version", Visible(data.run.program_version)},
                 {"seed", fmt::format("{}", data.run.seed)},
                 {"config", VisibleBlock(data.run.config)}};
  json["environment"] = Json::array();
  for (const EnvironmentRow& row : data.environment) {
    json["environment"].push_back({Visible(row.key), VisibleBlock(row.value)});
  }

  const std::vector<const CaseRow*> scored = ScoredCases(data);
  json["cases"] = Json::array();
  for (const CaseRow& row : data.cases) {
    std::string dims;
    for (const seeds::Dim& dim : row.dims) {
      dims += fmt::format("{}{}={}", dims.empty() ? "" : " ", dim.name, dim.value);
    }
    json["cases"].push_back({{"name", Visible(row.name)},
                             {"role", Visible(row.role)},
                             {"dims", Visible(dims)},
                             {"flops", Number(row.flops)},
                             {"min_bytes", row.min_bytes.value}});
  }
  json["scored"] = Json::array();
  for (const CaseRow* row : scored) json["scored"].push_back(Visible(row->name));

  std::unordered_map<CandidateId, int> position;
  for (const CandidateRow& c : data.candidates) {
    position.emplace(c.id, static_cast<int>(position.size()));
  }
  std::unordered_map<IdeaId, int> idea_position;
  const auto place = [](const auto& map, const auto& id) {
    const auto it = map.find(id);
    return it == map.end() ? -1 : it->second;
  };

  json["rounds"] = Json::array();
  for (const RoundRow& row : data.rounds) {
    json["rounds"].push_back(
        {{"n", row.index},
         {"status", Name(row.status)},
         {"started_us", Micros(row.started)},
         {"finished_us", row.finished ? Json(Micros(*row.finished)) : Json()}});
  }
  json["ideas"] = Json::array();
  for (const IdeaRow& row : data.ideas) {
    idea_position.emplace(row.id, static_cast<int>(idea_position.size()));
    const RoundRow* round = data.Find(row.round);
    json["ideas"].push_back({{"name", Visible(row.name)},
                             {"round", round != nullptr ? round->index : -1},
                             {"parent", place(position, row.parent)},
                             {"title", Visible(row.title)},
                             {"category", Visible(row.category)},
                             {"rationale", VisibleBlock(row.rationale)},
                             {"expected", row.expected_gain ? Number(*row.expected_gain) : Json()},
                             {"call", row.call.value},
                             {"credit", CreditJson(index.ChildrenOf(row.id), position)}});
  }

  const CandidateRow* seed = data.Seed();
  json["candidates"] = Json::array();
  for (const CandidateRow& c : data.candidates) {
    const RoundRow* round = index.RoundOf(c);
    Json row = {{"name", Visible(c.name)},
                {"round", round != nullptr ? round->index : -1},
                {"idea", place(idea_position, c.idea)},
                {"parent", place(position, c.parent)},
                {"status", Name(c.status)},
                {"tokens", index.TokensUntil(c).value}};
    if (c.turn > 0) row["turn"] = c.turn;
    if (c.evaluation) {
      const eval::Verdict& v = c.evaluation->verdict;
      row["verdict"] = eval::Name(v.kind);
      if (!v.passed()) {
        row["stage"] = eval::Name(v.stage);
        row["case"] = Visible(v.case_name);
        row["message"] = Fit(Visible(v.message), kMessageColumns);
      }
      if (!c.evaluation->precision.empty()) row["class"] = Visible(c.evaluation->precision);
    }
    if (const auto score = ScoreOf(c)) {
      row["score"] = Number(score->count());
      row["kind"] = Name(c.evaluation->score_kind);
      if (seed != nullptr) row["over_seed"] = OrNull(SpeedUp(*seed, c));
      if (const CandidateRow* parent = index.ParentOf(c)) {
        row["over_parent"] = OrNull(SpeedUp(*parent, c));
      }
      if (scored.size() > 1) {
        row["times"] = Json::array();
        for (const CaseRow* task_case : scored) {
          const CaseTimeRow* time = ColdTime(c, task_case->name);
          row["times"].push_back(time != nullptr ? Number(time->time.count()) : Json());
        }
      }
    }
    for (const FrontierRow* entry : index.FrontierOf(c.id)) {
      const RoundRow* chosen = data.Find(entry->round);
      row["frontier"].push_back({{"round", chosen != nullptr ? chosen->index : -1},
                                 {"place", entry->place},
                                 {"kind", Name(entry->kind)},
                                 {"why", Visible(entry->why)}});
    }
    json["candidates"].push_back(std::move(row));
  }
  const CandidateRow* best = data.Best();
  json["best"] = best != nullptr ? place(position, best->id) : -1;
  json["seed"] = seed != nullptr ? place(position, seed->id) : -1;

  json["floors"] = Json::object();
  for (const TimeKind kind : {TimeKind::kModelled, TimeKind::kMeasured}) {
    const Floors floors = FloorsOf(data, kind);
    Json entry = {{"impossible", OrNull(floors.impossible)},
                  {"class", OrNull(floors.honest_class)},
                  {"cases", Json::array()}};
    const CandidateRow* any = data.Best(kind);
    for (const CaseRow* task_case : scored) {
      const CaseTimeRow* time = any != nullptr ? ColdTime(*any, task_case->name) : nullptr;
      entry["cases"].push_back(
          {time != nullptr && time->floor.count() > 0 ? Number(time->floor.count()) : Json(),
           time != nullptr && time->class_floor.count() > 0 ? Number(time->class_floor.count())
                                                            : Json()});
    }
    json["floors"][std::string(Name(kind))] = std::move(entry);
  }
  json["baselines"] = Json::array();
  for (const ReportBaseline& row : baselines) {
    json["baselines"].push_back({{"case", Visible(row.case_name)},
                                 {"name", Visible(row.name)},
                                 {"time", Number(row.time.count())},
                                 {"kind", Name(row.kind)}});
  }

  json["spend"] = Json::array();
  for (const SpendRow& row : SpendOf(data)) {
    json["spend"].push_back({{"role", RoleName(row.role)},
                             {"model", Visible(row.model)},
                             {"calls", row.calls},
                             {"failed", row.failed},
                             {"prompt", row.prompt.value},
                             {"cached", row.cached.value},
                             {"completion", row.completion.value},
                             {"reasoning", row.reasoning.value},
                             {"dollars", Number(row.dollars)},
                             {"latency_ms", Number(row.latency.count())}});
  }
  std::map<LedgerKind, LedgerTotal> totals;
  for (const LedgerRow& row : data.ledger) {
    LedgerTotal& total = totals[row.kind];
    (row.settled ? total.settled : total.reserved) += row.settled.value_or(row.reserved);
  }
  json["ledger"] = Json::array();
  for (const auto& [kind, total] : totals) {
    json["ledger"].push_back({{"kind", Name(kind)},
                              {"spent", Number(total.settled)},
                              {"promised", Number(total.reserved)}});
  }
  json["events"] = Json::array();
  for (const EventRow& row : data.events) {
    json["events"].push_back({Micros(row.time), Visible(row.kind), VisibleBlock(row.text)});
  }
  json["hints"] = Json::array();
  for (const HintRow& row : data.hints) {
    const RoundRow* round = row.round ? data.Find(row.round) : nullptr;
    json["hints"].push_back({{"at_us", Micros(row.time)},
                             {"kind", Visible(row.kind)},
                             {"text", VisibleBlock(row.text)},
                             {"round", round != nullptr ? Json(round->index) : Json()},
                             {"answer", VisibleBlock(row.answer)}});
  }
  return Dump(json);
}

std::string KernelJson(Reader& reader, const RunData& data, const RunIndex& index,
                       const CandidateRow& c) {
  Json json;
  json["name"] = Visible(c.name);
  if (c.evaluation) {
    const EvaluationRow& e = *c.evaluation;
    json["verdict"] = VerdictJson(e.verdict);
    for (const StageRow& s : e.stages) {
      json["stages"].push_back({eval::Name(s.stage), Visible(s.case_name), eval::Name(s.verdict),
                                Number(s.duration.count()), Number(s.error), Number(s.tolerance)});
    }
    for (const CaseTimeRow& t : e.case_times) {
      json["cases"].push_back({{"case", Visible(t.case_name)},
                               {"kind", Name(t.kind)},
                               {"mode", Name(t.mode)},
                               {"time", Number(t.time.count())},
                               {"low", OrNull(t.low)},
                               {"high", OrNull(t.high)},
                               {"floor", Number(t.floor.count())},
                               {"class_floor", Number(t.class_floor.count())},
                               {"bound", Visible(t.bound)},
                               {"dram_bytes", Number(t.dram_bytes)},
                               {"occupancy", Number(t.occupancy)},
                               {"limiter", Visible(t.limiter)},
                               {"launches", t.launches},
                               {"dropped", t.dropped},
                               {"checked", Number(t.checked_share)},
                               {"note", Visible(t.note)}});
    }
    for (const LaunchRow& l : e.launches) {
      json["launches"].push_back({Visible(l.entry), Visible(l.case_name), l.launches,
                                  Number(l.time.count()), Visible(l.bound), Number(l.dram_bytes),
                                  Number(l.occupancy)});
    }
    for (const KernelRow& k : e.kernels) {
      json["kernels"].push_back({Visible(k.entry), Visible(k.case_name), k.registers,
                                 k.spill_stores.value, k.spill_loads.value, k.static_shared.value,
                                 k.dynamic_shared.value, k.stack.value});
    }
  }
  if (const auto samples = reader.Samples(c.id)) {
    std::map<std::pair<std::string, TimingMode>, Json> groups;
    for (const SampleRow& row : *samples) {
      groups[{row.case_name, row.mode}].push_back(Number(row.time.count()));
    }
    for (auto& [key, times] : groups) {
      json["samples"].push_back({Visible(key.first), Name(key.second), std::move(times)});
    }
  }
  for (const PromotionRow& row : data.promotions) {
    if (row.challenger != c.id && row.incumbent != c.id) continue;
    const CandidateRow* challenger = data.Find(row.challenger);
    const CandidateRow* incumbent = data.Find(row.incumbent);
    json["contests"].push_back({challenger != nullptr ? Visible(challenger->name) : "?",
                                incumbent != nullptr ? Visible(incumbent->name) : "?",
                                eval::Name(row.outcome), row.promoted, Name(row.kind),
                                Number(row.ratio), Number(row.low), Number(row.high),
                                Visible(row.why)});
  }
  json["profile"] = VisibleBlock(c.profile);
  json["profile_report"] = TextOr(reader, c.profile_report);
  json["source"] = TextOr(reader, c.source);
  json["plan"] = TextOr(reader, c.plan);
  for (const AttemptRow* attempt : index.AttemptsOf(c.id)) {
    json["attempts"].push_back({{"turn", attempt->turn},
                                {"verdict", VerdictJson(attempt->verdict)},
                                {"source", TextOr(reader, attempt->source)},
                                {"plan", TextOr(reader, attempt->plan)}});
  }
  for (const CallRow* call : index.CallsOf(c)) json["calls"].push_back(call->id.value);
  return Dump(json);
}

std::string CallJson(Reader& reader, const CallRow& call) {
  Json json = {{"id", call.id.value},
               {"key", ToString(call.key)},
               {"role", RoleName(call.key.role)},
               {"model", Visible(call.reply_model.empty() ? call.model : call.reply_model)},
               {"status", Name(call.status)},
               {"prompt", call.usage.prompt.value},
               {"cached", call.usage.cached.value},
               {"completion", call.usage.completion.value},
               {"reasoning", call.usage.reasoning.value},
               {"estimated", call.usage.estimated},
               {"latency_ms", Number(call.latency.count())},
               {"attempts", call.attempts},
               {"error", VisibleBlock(call.error)}};
  json["messages"] = Json::array();
  const auto request = reader.Request(call.request);
  const Json asked = request ? Json::parse(*request, nullptr, false) : Json();
  if (asked.is_object() && asked.contains("messages") && asked["messages"].is_array()) {
    for (const Json& message : asked["messages"]) {
      std::string author, text;
      for (const auto& [key, value] : message.items()) {
        if (!value.is_string()) continue;
        (key == "text" || key == "content" ? text : author) = value.get<std::string>();
      }
      json["messages"].push_back({Visible(author), VisibleBlock(text)});
    }
  } else {
    json["messages"].push_back(
        {"request",
         request ? VisibleBlock(*request) : "(lost: " + Visible(request.error().message) + ")"});
  }
  json["reply"] = TextOr(reader, call.reply);
  return Dump(json);
}

}  // namespace grove::results
