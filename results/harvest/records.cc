#include "results/harvest/records.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace grove::results {
namespace {

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json OrNull(const std::optional<double>& value) { return value ? Number(*value) : Json(nullptr); }
Json OrNull(const std::optional<Nanoseconds>& value) {
  return value ? Number(value->count()) : Json(nullptr);
}

// One part in twenty, by idea, so that siblings never stand on both sides.
std::string_view Split(const std::string& run, const std::string& idea) {
  const std::string_view parts[] = {run, idea};
  return HashTexts(parts).low % 20 == 0 ? "validation" : "train";
}

std::optional<double> GeometricMean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

void AddVerdict(Json& json, const std::optional<eval::Verdict>& v) {
  json["verdict"] = v ? Json(eval::Name(v->kind)) : Json(nullptr);
  json["stage"] = v ? Json(eval::Name(v->stage)) : Json(nullptr);
  json["verdict_case"] = v ? Json(v->case_name) : Json(nullptr);
  json["diagnostics"] = v ? Json(v->message) : Json(nullptr);
  const bool valued = v && v->element >= 0;
  json["error"] = valued ? Number(v->error) : Json(nullptr);
  json["tolerance"] = valued ? Number(v->tolerance) : Json(nullptr);
}

std::optional<eval::Verdict> VerdictOf(const CandidateRow& c) {
  if (!c.evaluation) return std::nullopt;
  return std::optional<eval::Verdict>(c.evaluation->verdict);
}

}  // namespace

HarvestRun::HarvestRun(std::unique_ptr<Reader> r, RunData d)
    : reader(std::move(r)), data(std::move(d)), index(data) {
  for (const LedgerRow& row : data.ledger) {
    // "CALL #1", "CALL #2": one entry for each attempt.
    const std::size_t end = row.key.find(" #");
    if (row.kind != LedgerKind::kDollars || end == std::string::npos) continue;
    dollars[row.key.substr(0, end)] += row.settled.value_or(row.reserved);
  }
  for (const PromotionRow& row : data.promotions) {
    contests[{row.challenger, row.incumbent}] = &row;
  }
}

std::string_view LabelOf(const CandidateRow& candidate) {
  if (!candidate.evaluation) return "none";
  using enum eval::VerdictKind;
  switch (candidate.evaluation->verdict.kind) {
    case kPass:
      return "pass";
    case kImpossible:
    case kUnwritten:
    case kInputModified:
    case kLowerClass:
      return "hack";
    case kDuplicate:
    case kInfrastructure:
    case kUnsupported:
      return "none";
    default:
      return "failure";
  }
}

Status RecordMaker::Make(const std::string& kind, const Emit& emit) {
  if (kind == "nodes") return Nodes(emit);
  if (kind == "edges") return Edges(emit);
  if (kind == "preferences") return Preferences(emit);
  if (kind == "repairs") return Repairs(emit);
  if (kind == "negatives") return Negatives(emit);
  return Conversations(emit);
}

Json RecordMaker::Head(const std::string& kind, const std::string& id,
                       const CandidateRow* candidate) const {
  const RunData& data = run_.data;
  const IdeaRow* idea = candidate != nullptr ? run_.index.IdeaOf(*candidate) : nullptr;
  const auto fact = [&](const char* key) {
    const auto it = run_.environment.find(key);
    return it == run_.environment.end() ? Json(nullptr) : Json(it->second);
  };
  Json json;
  json["id"] = data.run.name + "/" + id;
  json["kind"] = kind;
  json["run"] = data.run.name;
  json["task"] = data.task.name;
  json["split"] = Split(data.run.name, idea != nullptr ? idea->name : id);
  json["device"] = fact("gpu");
  json["environment"] = Json::array();
  for (const EnvironmentRow& row : data.environment) {
    json["environment"].push_back({{"key", row.key}, {"value", row.value}});
  }
  json["program_version"] = data.run.program_version;
  const Json protocol = fact("protocol");
  json["protocol"] = protocol.is_null() ? Json("grove " + data.run.program_version) : protocol;
  json["licence"] = options_.licence;
  return json;
}

void RecordMaker::AddIdea(Json& json, const IdeaRow* idea) const {
  json["idea"] = idea != nullptr ? Json(idea->name) : Json(nullptr);
  json["idea_title"] = idea != nullptr ? Json(idea->title) : Json(nullptr);
  json["idea_category"] = idea != nullptr ? Json(idea->category) : Json(nullptr);
  json["idea_rationale"] = idea != nullptr ? Json(idea->rationale) : Json(nullptr);
  json["idea_expected_gain"] = idea != nullptr ? OrNull(idea->expected_gain) : Json(nullptr);
}

void RecordMaker::AddOverlap(Json& json, const std::string& text) const {
  const Benchmarks::Overlap overlap =
      benchmarks_ != nullptr ? benchmarks_->Of(text) : Benchmarks::Overlap{};
  json["benchmark_overlap"] = benchmarks_ != nullptr ? Number(overlap.share) : Json(nullptr);
  json["benchmark_file"] = overlap.file.empty() ? Json(nullptr) : Json(overlap.file);
  json["contaminated"] =
      benchmarks_ != nullptr ? Json(overlap.share >= options_.benchmark_share) : Json(nullptr);
}

Result<std::string> RecordMaker::Text(const std::optional<Hash>& hash) const {
  if (!hash) return std::string();
  return run_.reader->Text(*hash);
}

Result<Json> RecordMaker::Messages(const CallRow& call) const {
  auto request = run_.reader->Request(call.request);
  if (!request) return Fail(request.error());
  Json messages = Json::array();
  const Json asked = Json::parse(*request, nullptr, false);
  if (asked.is_object() && asked.contains("messages")) {
    for (const Json& message : asked["messages"]) {
      if (!message.is_object()) continue;
      messages.push_back(
          {{"role", message.value("author", "user")}, {"content", message.value("text", "")}});
    }
  }
  return messages;
}

Result<std::vector<SampleRow>> RecordMaker::Samples(const CandidateRow& candidate) const {
  return run_.reader->Samples(candidate.id);
}

Result<std::optional<double>> RecordMaker::Confidence(const CandidateRow& slow,
                                                      const CandidateRow& fast) const {
  std::map<std::string, std::vector<double>> sides[2];
  const CandidateRow* const both[] = {&slow, &fast};
  for (int i = 0; i < 2; ++i) {
    auto samples = Samples(*both[i]);
    if (!samples) return Fail(samples.error());
    for (const SampleRow& row : *samples) {
      if (row.mode == TimingMode::kCold) sides[i][row.case_name].push_back(row.time.count());
    }
  }
  double sum = 0;
  int cases = 0;
  for (auto& [name, slower] : sides[0]) {
    const auto it = sides[1].find(name);
    if (it == sides[1].end()) continue;
    std::sort(slower.begin(), slower.end());
    double wins = 0;
    for (const double time : it->second) {
      const auto [low, high] = std::equal_range(slower.begin(), slower.end(), time);
      wins += static_cast<double>(slower.end() - high) + 0.5 * static_cast<double>(high - low);
    }
    sum += wins / (static_cast<double>(slower.size()) * static_cast<double>(it->second.size()));
    ++cases;
  }
  if (cases == 0) return std::optional<double>();
  return std::optional<double>(sum / cases);
}

Result<RecordMaker::Comparison> RecordMaker::Compare(const CandidateRow& slow,
                                                     const CandidateRow& fast) const {
  Comparison result;
  for (const bool challenged : {true, false}) {
    const auto key = challenged ? std::pair(fast.id, slow.id) : std::pair(slow.id, fast.id);
    const auto it = run_.contests.find(key);
    if (it == run_.contests.end()) continue;
    // The later of two, should they have met in both roles.
    const PromotionRow& row = *it->second;
    if (result.contest != nullptr && row.time < result.contest->time) continue;
    result.contest = &row;
    // Its ratios are the challenger's time over the incumbent's.
    result.gain = challenged ? 1 / row.ratio : row.ratio;
    result.low = challenged ? 1 / row.high : row.low;
    result.high = challenged ? 1 / row.low : row.high;
  }
  // The ends are two standard errors to each side. Modelled times have none.
  const double error = (std::log(result.high) - std::log(result.low)) / 4;
  if (result.contest != nullptr && result.contest->kind == TimeKind::kMeasured && error > 0) {
    result.confidence = 0.5 * std::erfc(-std::log(result.gain) / error / std::sqrt(2.0));
    result.from = "contest";
    return result;
  }
  auto confidence = Confidence(slow, fast);
  if (!confidence) return Fail(confidence.error());
  result.confidence = *confidence;
  if (result.confidence) result.from = "samples";
  return result;
}

void RecordMaker::AddComparison(Json& json, const Comparison& comparison) {
  json["confidence"] = OrNull(comparison.confidence);
  json["confidence_from"] = comparison.from.empty() ? Json(nullptr) : Json(comparison.from);
  const PromotionRow* contest = comparison.contest;
  json["contest_gain"] = contest != nullptr ? Number(comparison.gain) : Json(nullptr);
  json["contest_low"] = contest != nullptr ? Number(comparison.low) : Json(nullptr);
  json["contest_high"] = contest != nullptr ? Number(comparison.high) : Json(nullptr);
}

Status RecordMaker::Nodes(const Emit& emit) {
  const CandidateRow* seed = run_.data.Seed();
  for (const CandidateRow& c : run_.data.candidates) {
    if (!run_.kept.contains(c.id)) continue;
    auto source = Text(c.source), plan = Text(c.plan);
    if (!source) return Fail(source.error());
    if (!plan) return Fail(plan.error());
    auto samples = Samples(c);
    if (!samples) return Fail(samples.error());

    Json json = Head("nodes", c.name, &c);
    const RoundRow* round = run_.index.RoundOf(c);
    const CandidateRow* parent = run_.index.ParentOf(c);
    json["name"] = c.name;
    json["parent"] = parent != nullptr ? Json(parent->name) : Json(nullptr);
    json["round"] = round != nullptr ? Json(round->index) : Json(nullptr);
    json["depth"] = run_.index.Lineage(c).size() - 1;
    json["branch"] = c.branch;
    AddIdea(json, run_.index.IdeaOf(c));
    json["code"] = *source;
    json["plan"] = *plan;
    json["label"] = LabelOf(c);
    json["correct"] = c.evaluation && c.evaluation->verdict.passed();
    AddVerdict(json, VerdictOf(c));
    json["precision"] = c.evaluation && !c.evaluation->precision.empty()
                            ? Json(c.evaluation->precision)
                            : Json(nullptr);
    const auto score = ScoreOf(c);
    json["score_ns"] = OrNull(score);
    json["score_kind"] = score ? Json(Name(c.evaluation->score_kind)) : Json(nullptr);
    json["speed_up_over_seed"] = seed != nullptr ? OrNull(SpeedUp(*seed, c)) : Json(nullptr);
    json["speed_up_over_parent"] = parent != nullptr ? OrNull(SpeedUp(*parent, c)) : Json(nullptr);
    json["frontier"] = !run_.index.FrontierOf(c.id).empty();
    json["cases"] = Json::array();
    json["launches"] = Json::array();
    json["kernels"] = Json::array();
    if (c.evaluation) {
      for (const CaseTimeRow& t : c.evaluation->case_times) {
        Json row = {{"case", t.case_name},
                    {"kind", Name(t.kind)},
                    {"mode", Name(t.mode)},
                    {"time_ns", Number(t.time.count())},
                    {"low_ns", OrNull(t.low)},
                    {"high_ns", OrNull(t.high)},
                    {"floor_ns", t.floor.count() > 0 ? Number(t.floor.count()) : Json(nullptr)},
                    {"class_floor_ns",
                     t.class_floor.count() > 0 ? Number(t.class_floor.count()) : Json(nullptr)},
                    {"bound", t.bound},
                    {"dram_bytes", Number(t.dram_bytes)},
                    {"occupancy", Number(t.occupancy)},
                    {"dropped_samples", t.dropped},
                    {"checked_share", Number(t.checked_share)},
                    {"samples_ns", Json::array()}};
        for (const SampleRow& s : *samples) {
          if (s.case_name == t.case_name && s.mode == t.mode) {
            row["samples_ns"].push_back(Number(s.time.count()));
          }
        }
        json["cases"].push_back(std::move(row));
      }
      for (const LaunchRow& l : c.evaluation->launches) {
        json["launches"].push_back({{"case", l.case_name},
                                    {"entry", l.entry},
                                    {"launches", l.launches},
                                    {"time_ns", Number(l.time.count())},
                                    {"dram_bytes", Number(l.dram_bytes)},
                                    {"bound", l.bound},
                                    {"occupancy", Number(l.occupancy)}});
      }
      for (const KernelRow& k : c.evaluation->kernels) {
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
    json["repair_turns"] = c.turn;
    Tokens prompt, completion, reasoning;
    double dollars = 0;
    std::string model;
    for (const CallRow* call : run_.index.CallsOf(c)) {
      prompt = prompt + call->usage.prompt;
      completion = completion + call->usage.completion;
      reasoning = reasoning + call->usage.reasoning;
      model = call->model;
      const auto spent = run_.dollars.find(ToString(call->key));
      if (spent != run_.dollars.end()) dollars += spent->second;
    }
    json["model"] = model.empty() ? Json(nullptr) : Json(model);
    const auto terms = options_.model_terms.find(model);
    json["model_terms"] = terms != options_.model_terms.end() ? terms->second : "not stated";
    json["prompt_tokens"] = prompt.value;
    json["completion_tokens"] = completion.value;
    json["reasoning_tokens"] = reasoning.value;
    json["dollars"] = Number(dollars);
    const auto merged = run_.stands_for.find(c.id);
    json["near_duplicates"] = merged != run_.stands_for.end() ? merged->second : 0;
    AddOverlap(json, *source);
    if (Status s = emit(json); !s) return s;
  }
  return {};
}

Status RecordMaker::Edges(const Emit& emit) {
  for (const CandidateRow& child : run_.data.candidates) {
    const CandidateRow* parent = run_.index.ParentOf(child);
    if (parent == nullptr || !run_.kept.contains(child.id)) continue;
    const auto gain = SpeedUp(*parent, child);
    if (!gain) continue;
    auto before = Text(parent->source), after = Text(child.source);
    auto plan_before = Text(parent->plan), plan_after = Text(child.plan);
    for (const auto* text : {&before, &after, &plan_before, &plan_after}) {
      if (!*text) return Fail(text->error());
    }
    auto comparison = Compare(*parent, child);
    if (!comparison) return Fail(comparison.error());
    Json json = Head("edges", parent->name + ">" + child.name, &child);
    json["parent"] = parent->name;
    json["child"] = child.name;
    AddIdea(json, run_.index.IdeaOf(child));
    json["parent_code"] = *before;
    json["child_code"] = *after;
    json["parent_plan"] = *plan_before;
    json["child_plan"] = *plan_after;
    json["parent_ns"] = OrNull(ScoreOf(*parent));
    json["child_ns"] = OrNull(ScoreOf(child));
    json["time_kind"] = Name(child.evaluation->score_kind);
    json["gain"] = *gain;
    // Intervals of the medians, where both times are measured.
    std::vector<double> low, high;
    for (const CaseTimeRow& t : child.evaluation->case_times) {
      for (const CaseTimeRow& p : parent->evaluation->case_times) {
        if (p.case_name != t.case_name || p.mode != t.mode || p.kind != t.kind ||
            t.mode != TimingMode::kCold || !t.low || !t.high || !p.low || !p.high) {
          continue;
        }
        low.push_back(*p.low / *t.high);
        high.push_back(*p.high / *t.low);
      }
    }
    json["gain_low"] = OrNull(GeometricMean(low));
    json["gain_high"] = OrNull(GeometricMean(high));
    AddComparison(json, *comparison);
    AddOverlap(json, *after);
    if (Status s = emit(json); !s) return s;
  }
  return {};
}

Status RecordMaker::Preferences(const Emit& emit) {
  for (const IdeaRow& idea : run_.data.ideas) {
    std::vector<const CandidateRow*> siblings;
    for (const CandidateRow* c : run_.index.ChildrenOf(idea.id)) {
      const std::string_view label = LabelOf(*c);
      if (run_.kept.contains(c->id) && label != "none" && c->source) siblings.push_back(c);
    }
    // Correct ones by time; wrong ones last, those that came further first.
    const auto rank = [](const CandidateRow* c) {
      const auto score = ScoreOf(*c);
      return std::tuple(!score, score ? score->count() : 0.0,
                        score ? 0 : -static_cast<int>(c->evaluation->verdict.stage), c->id);
    };
    std::sort(siblings.begin(), siblings.end(),
              [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
    if (siblings.size() < 2 || !ScoreOf(*siblings[0])) continue;
    const CandidateRow& best = *siblings[0];
    auto chosen = Text(best.source), chosen_plan = Text(best.plan);
    if (!chosen) return Fail(chosen.error());
    if (!chosen_plan) return Fail(chosen_plan.error());
    Json messages = Json::array();
    if (const auto& calls = run_.index.CallsOf(best); !calls.empty()) {
      auto asked = Messages(*calls.front());
      if (!asked) return Fail(asked.error());
      messages = std::move(*asked);
    }
    Json ranking = Json::array();
    for (const CandidateRow* c : siblings) ranking.push_back(c->name);
    for (std::size_t i = 1; i < siblings.size(); ++i) {
      const CandidateRow& other = *siblings[i];
      const auto gain = SpeedUp(other, best);
      const bool wrong = !ScoreOf(other).has_value();
      if ((!gain && !wrong) || (wrong && options_.correct_only)) continue;
      auto rejected = Text(other.source), rejected_plan = Text(other.plan);
      if (!rejected) return Fail(rejected.error());
      if (!rejected_plan) return Fail(rejected_plan.error());
      Comparison comparison;
      if (wrong) {
        comparison.confidence = 1;
        comparison.from = "verdict";
      } else {
        auto compared = Compare(other, best);
        if (!compared) return Fail(compared.error());
        comparison = *std::move(compared);
      }
      Json json = Head("preferences", best.name + ">" + other.name, &best);
      AddIdea(json, &idea);
      json["prompt"] = messages;
      json["chosen"] = *chosen;
      json["chosen_plan"] = *chosen_plan;
      json["chosen_name"] = best.name;
      json["chosen_ns"] = OrNull(ScoreOf(best));
      json["rejected"] = *rejected;
      json["rejected_plan"] = *rejected_plan;
      json["rejected_name"] = other.name;
      json["rejected_ns"] = OrNull(ScoreOf(other));
      json["rejected_verdict"] = eval::Name(other.evaluation->verdict.kind);
      json["reason"] = wrong ? "correct over wrong" : "faster";
      json["time_kind"] = Name(best.evaluation->score_kind);
      json["gain"] = OrNull(gain);
      AddComparison(json, comparison);
      json["ranking"] = ranking;
      AddOverlap(json, *chosen);
      if (Status s = emit(json); !s) return s;
    }
  }
  return {};
}

Status RecordMaker::Repairs(const Emit& emit) {
  for (const CandidateRow& c : run_.data.candidates) {
    const auto& attempts = run_.index.AttemptsOf(c.id);
    if (attempts.empty() || !run_.kept.contains(c.id)) continue;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      const AttemptRow& before = *attempts[i];
      const bool last = i + 1 == attempts.size();
      if (last && (c.turn <= before.turn || !c.evaluation)) continue;  // no answer came
      auto source = Text(before.source), plan = Text(before.plan);
      auto next = Text(last ? c.source : attempts[i + 1]->source);
      auto next_plan = Text(last ? c.plan : attempts[i + 1]->plan);
      for (const auto* text : {&source, &plan, &next, &next_plan}) {
        if (!*text) return Fail(text->error());
      }
      const eval::Verdict& after = last ? c.evaluation->verdict : attempts[i + 1]->verdict;
      if (options_.correct_only && !after.passed()) continue;
      Json json = Head("repairs", fmt::format("{}#{}", c.name, before.turn), &c);
      json["name"] = c.name;
      json["turn"] = before.turn;
      AddIdea(json, run_.index.IdeaOf(c));
      json["failed_code"] = *source;
      json["failed_plan"] = *plan;
      AddVerdict(json, std::optional<eval::Verdict>(before.verdict));
      json["fixed_code"] = *next;
      json["fixed_plan"] = *next_plan;
      json["fixed_verdict"] = eval::Name(after.kind);
      json["fixed"] = after.passed();
      AddOverlap(json, *next);
      if (Status s = emit(json); !s) return s;
    }
  }
  return {};
}

Status RecordMaker::Negatives(const Emit& emit) {
  if (options_.correct_only) return {};
  for (const CandidateRow& c : run_.data.candidates) {
    const std::string_view label = LabelOf(c);
    if (!run_.kept.contains(c.id) || (label != "failure" && label != "hack")) continue;
    auto source = Text(c.source), plan = Text(c.plan);
    if (!source) return Fail(source.error());
    if (!plan) return Fail(plan.error());
    Json json = Head("negatives", c.name, &c);
    json["name"] = c.name;
    AddIdea(json, run_.index.IdeaOf(c));
    json["label"] = label;
    json["category"] = eval::Name(c.evaluation->verdict.kind);
    json["about"] = eval::Describe(c.evaluation->verdict.kind);
    AddVerdict(json, VerdictOf(c));
    json["code"] = *source;
    json["plan"] = *plan;
    AddOverlap(json, *source);
    if (Status s = emit(json); !s) return s;
  }
  return {};
}

Status RecordMaker::Conversations(const Emit& emit) {
  // Whose program each code or repair request wrote.
  std::unordered_map<CallId, const CandidateRow*> owner;
  for (const CandidateRow& c : run_.data.candidates) {
    for (const CallRow* call : run_.index.CallsOf(c)) owner[call->id] = &c;
  }
  for (const CallRow& call : run_.data.calls) {
    if (!call.reply) continue;
    const auto it = owner.find(call.id);
    const CandidateRow* c = it != owner.end() ? it->second : nullptr;
    if (c != nullptr && !run_.kept.contains(c->id)) continue;
    // A repair's program is the outcome of its own request, not of the one that failed before it.
    const bool final_turn = c != nullptr && call.key.turn == c->turn;
    const bool correct = final_turn && LabelOf(*c) == "pass";
    const bool writes = call.key.role == llm::Role::kCode || call.key.role == llm::Role::kRepair;
    if (options_.correct_only && writes && !correct) continue;
    auto messages = Messages(call);
    if (!messages) return Fail(messages.error());
    auto reply = Text(call.reply);
    if (!reply) return Fail(reply.error());
    messages->push_back({{"role", "assistant"}, {"content", *reply}});
    Json json = Head("conversations", ToString(call.key), c);
    json["role"] = llm::Name(call.key.role);
    json["name"] = c != nullptr ? Json(c->name) : Json(nullptr);
    json["model"] = call.model;
    json["reply_model"] = call.reply_model;
    const auto terms = options_.model_terms.find(call.model);
    json["model_terms"] = terms != options_.model_terms.end() ? terms->second : "not stated";
    json["messages"] = std::move(*messages);
    json["finish"] = llm::Name(call.finish);
    json["prompt_tokens"] = call.usage.prompt.value;
    json["completion_tokens"] = call.usage.completion.value;
    json["reasoning_tokens"] = call.usage.reasoning.value;
    json["correct"] = writes ? Json(correct) : Json(nullptr);
    json["outcome"] =
        final_turn && c->evaluation ? Json(eval::Name(c->evaluation->verdict.kind)) : Json(nullptr);
    const auto score = final_turn ? ScoreOf(*c) : std::nullopt;
    json["score_ns"] = OrNull(score);
    const CandidateRow* seed = run_.data.Seed();
    json["speed_up_over_seed"] =
        score && seed != nullptr ? OrNull(SpeedUp(*seed, *c)) : Json(nullptr);
    AddOverlap(json, *reply);
    if (Status s = emit(json); !s) return s;
  }
  return {};
}

}  // namespace grove::results
