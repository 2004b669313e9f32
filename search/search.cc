#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include "codegen/program.h"
#include "ideas/idea.h"
#include "results/format.h"
#include "search/convert.h"
#include "search/goals.h"
#include "search/model_calls.h"
#include "search/policy.h"
#include "search/portfolio.h"
#include "search/prompts.h"
#include "search/steering.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::CandidateStatus;
using results::IdeaRow;
using results::RunData;
using results::RunStatus;

// Replies that hold no usable idea are asked for again, so often.
constexpr int kIdeaTurns = 2;

Error Stopped() { return {ErrorCode::kCancelled, "interrupted"}; }

// Failures that another reply could mend.
bool IsRepairable(eval::VerdictKind kind) {
  using Kind = eval::VerdictKind;
  switch (kind) {
    case Kind::kPass:
    case Kind::kDuplicate:
    case Kind::kInfrastructure:
    case Kind::kImpossible:
      return false;
    default:
      return true;
  }
}

std::string FirstLine(std::string_view text, std::size_t limit) {
  std::string line(text.substr(0, text.find('\n')));
  if (line.size() > limit) {
    line.resize(limit);
    // Not in the middle of a UTF-8 character.
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0U) == 0x80U) {
      line.pop_back();
    }
    if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0U) line.pop_back();
    line += "...";
  }
  return line;
}

// A model's program as it came, or why there is none.
struct Received {
  results::ProgramDraft draft;
  Result<codegen::KernelProgram> program = Fail(ErrorCode::kInvalidInput, "no reply");
};

Received Receive(const llm::Reply& reply, int turn) {
  Received received;
  received.draft.turn = turn;
  received.program = codegen::ParseReply(reply.text);
  if (!received.program && reply.finish == llm::FinishReason::kLength) {
    received.program =
        Fail(std::move(received.program.error()), "the reply was cut off at its token limit");
  }
  if (received.program) {
    received.draft.source = received.program->source;
    received.draft.plan = received.program->plan_json;
    received.draft.identity = received.program->identity();
  }
  return received;
}

// Collects the first error of parallel work and tells the rest to stop.
class FirstError {
 public:
  void Set(Error error) {
    const std::scoped_lock lock(mutex_);
    // A cancellation is the least interesting of several.
    if (!error_ || error_->code == ErrorCode::kCancelled) error_ = std::move(error);
    failed_.store(true);
  }
  bool failed() const { return failed_.load(); }
  Status status() {
    const std::scoped_lock lock(mutex_);
    if (error_) return Failure(*error_);
    return {};
  }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

class Search {
 public:
  Search(const SearchParts& parts, const SearchConfig& config, std::stop_token stop)
      : parts_(parts),
        config_(config),
        stop_(std::move(stop)),
        prompts_(parts.task, parts.device, config, parts.store),
        calls_(parts.store, parts.client) {}

  Result<SearchSummary> Run();

 private:
  // One candidate of the round being run.
  struct Slot {
    const CandidateRow* parent = nullptr;
    int place = 0;
    IdeaRow idea;
    int branch = 0;
    CandidateId id;
    Received received;
    std::string name() const { return fmt::format("{}.b{}", idea.name, branch); }
  };

  Status EnsureSeed();
  Status Reload();
  Status RunRound(int index, const std::vector<CandidateId>& frontier);
  Result<std::vector<Slot>> Ideate(RoundId round, int index,
                                   const std::vector<const CandidateRow*>& parents);
  Status Implement(int index, std::vector<Slot>& slots);
  Status Evaluate(int index, std::vector<Slot>& slots);
  Status EvaluateSlot(int index, Slot& slot, const std::map<Hash, std::string>& known);
  Status Conclude(Slot& slot, const eval::Evaluation& evaluation);
  Result<ModelCalls::Answer> Ask(const results::CallKey& key, const llm::Request& request);
  // Rounds since the best time got better, from what is stored.
  int StaleRounds() const;
  std::int64_t SizeOf(const CandidateRow& row) const;
  std::vector<CandidateId> FrontierOf(const RunData& data) const;
  void Announce(const Slot& slot, const eval::Evaluation& evaluation);
  template <typename Change>
  void Update(Change change) {
    const std::scoped_lock lock(live_mutex_);
    change(live_);
    parts_.observer.Update(live_);
  }

  const SearchParts parts_;
  const SearchConfig config_;
  const std::stop_token stop_;
  const Prompts prompts_;
  ModelCalls calls_;
  std::unique_ptr<Policy> policy_;
  RunData data_;  // as of the start of the round
  std::mutex live_mutex_;
  LiveState live_;
};

Status Search::Reload() {
  auto data = parts_.store.Load();
  if (!data) return Failure(std::move(data.error()));
  data_ = std::move(*data);
  return {};
}

Result<ModelCalls::Answer> Search::Ask(const results::CallKey& key, const llm::Request& request) {
  if (parts_.steering != nullptr) {
    if (auto may = parts_.steering->MayBegin(); !may) return Failure(std::move(may.error()));
  }
  auto answer = calls_.Ask(key, request, stop_);
  if (answer) {
    Update([&](LiveState& live) { live.tokens = live.tokens + answer->reply.usage.total(); });
  }
  return answer;
}

// For ties: of a stored program, as codegen reads it.
std::int64_t Search::SizeOf(const CandidateRow& row) const {
  if (!row.source || !row.plan) return 0;
  const auto source = parts_.store.Text(*row.source);
  const auto plan = parts_.store.Text(*row.plan);
  if (!source || !plan) return 0;
  const auto program = codegen::MakeProgram(*source, *plan);
  return program ? static_cast<std::int64_t>(program->size()) : 0;
}

Status Search::EnsureSeed() {
  auto program = codegen::MakeProgram(parts_.task.seed.source, parts_.task.seed.plan);
  if (!program) return Fail(std::move(program.error()), "the task's seed");
  results::ProgramDraft draft;
  draft.source = program->source;
  draft.plan = program->plan_json;
  draft.identity = program->identity();
  auto id = parts_.store.RecordSeed(draft);
  if (!id) return Failure(std::move(id.error()));
  if (auto loaded = Reload(); !loaded) return loaded;
  if (data_.Find(*id)->status != CandidateStatus::kEvaluated) {
    auto evaluation = parts_.evaluator.Evaluate(*program);
    if (!evaluation) return Fail(std::move(evaluation.error()), "evaluating the seed");
    if (auto done = parts_.store.RecordVerdict(*id, ToRow(*evaluation)); !done) {
      return Failure(std::move(done.error()));
    }
    if (auto loaded = Reload(); !loaded) return loaded;
  }
  const CandidateRow& seed = *data_.Seed();
  const auto score = results::ScoreOf(seed);
  if (!score) {
    const eval::Verdict& verdict = seed.evaluation->verdict;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the seed of task {} does not pass: {} at stage {}, case {}: {}",
                            parts_.task.name, eval::Name(verdict.kind), eval::Name(verdict.stage),
                            verdict.case_name, verdict.message));
  }
  Update([&](LiveState& live) {
    live.rounds = config_.rounds;
    live.seed = score;
    live.best = results::ScoreOf(*data_.Best());
    live.kind = seed.evaluation->score_kind;
    for (const results::CallRow& call : data_.calls) live.tokens = live.tokens + call.usage.total();
  });
  return {};
}

std::vector<CandidateId> Search::FrontierOf(const RunData& data) const {
  const results::RoundRow* last = nullptr;
  for (const results::RoundRow& round : data.rounds) {
    if (round.status == results::RoundStatus::kFinished) last = &round;
  }
  std::vector<const results::FrontierRow*> rows;
  for (const results::FrontierRow& row : data.frontier) {
    if (last != nullptr && row.round == last->id) rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto* a, const auto* b) { return a->place < b->place; });
  std::vector<CandidateId> frontier;
  for (const results::FrontierRow* row : rows) frontier.push_back(row->candidate);
  if (frontier.empty()) frontier.push_back(data.Seed()->id);
  return frontier;
}

int Search::StaleRounds() const {
  double best = results::ScoreOf(*data_.Seed())->count();
  int stale = 0;
  for (const results::RoundRow& round : data_.rounds) {
    if (round.status != results::RoundStatus::kFinished) continue;
    bool better = false;
    for (const CandidateRow& candidate : data_.candidates) {
      const auto score = results::ScoreOf(candidate);
      if (candidate.round == round.id && score && score->count() < best) {
        best = score->count();
        better = true;
      }
    }
    stale = better ? 0 : stale + 1;
  }
  return stale;
}

Result<std::vector<Search::Slot>> Search::Ideate(RoundId round, int index,
                                                 const std::vector<const CandidateRow*>& parents) {
  struct Answer {
    std::vector<ideas::Idea> ideas;
    CallId call;
  };
  std::vector<Answer> answers(parents.size());
  FirstError error;
  tbb::parallel_for(std::size_t{0}, parents.size(), [&](std::size_t p) {
    for (int turn = 0; turn < kIdeaTurns && answers[p].ideas.empty(); ++turn) {
      if (error.failed()) return;
      if (stop_.stop_requested()) return error.Set(Stopped());
      auto request = prompts_.ForIdeas(data_, *parents[p], index);
      if (!request) return error.Set(std::move(request.error()));
      request->seed += static_cast<std::uint64_t>(turn);
      results::CallKey key;
      key.role = llm::Role::kIdea;
      key.round = index;
      key.parent = static_cast<int>(p) + 1;
      key.turn = turn;
      auto reply = Ask(key, *request);
      if (!reply) return error.Set(std::move(reply.error()));
      answers[p].call = reply->call;
      auto parsed = ideas::ParseIdeas(reply->reply.text, static_cast<std::size_t>(config_.ideas));
      if (!parsed) {
        if (auto noted = parts_.store.AddEvent(
                "ideas", fmt::format("{}: {}", results::ToString(key), parsed.error().message));
            !noted) {
          return error.Set(std::move(noted.error()));
        }
        continue;
      }
      // What was tried from this parent before, in this reply or an earlier round, is not tried
      // again.
      for (ideas::Idea& idea : parsed->ideas) {
        const bool again =
            std::any_of(answers[p].ideas.begin(), answers[p].ideas.end(),
                        [&](const ideas::Idea& other) { return ideas::SameIdea(idea, other); }) ||
            std::any_of(data_.ideas.begin(), data_.ideas.end(), [&](const IdeaRow& row) {
              ideas::Idea other;
              other.title = row.title;
              return row.parent == parents[p]->id && row.round != round &&
                     ideas::SameIdea(idea, other);
            });
        if (!again) answers[p].ideas.push_back(std::move(idea));
      }
    }
  });
  if (auto status = error.status(); !status) return Failure(std::move(status.error()));

  std::vector<Slot> slots;
  int number = 0;
  for (std::size_t p = 0; p < parents.size(); ++p) {
    std::vector<results::IdeaDraft> drafts;
    for (const ideas::Idea& idea : answers[p].ideas) {
      results::IdeaDraft draft;
      draft.title = idea.title;
      draft.category = ideas::Name(idea.category);
      draft.rationale = idea.rationale;
      draft.expected_gain = idea.expected_gain;
      draft.number = ++number;
      drafts.push_back(std::move(draft));
    }
    if (drafts.empty()) continue;
    auto ids = parts_.store.RecordIdeas(round, parents[p]->id, answers[p].call, drafts);
    if (!ids) return Failure(std::move(ids.error()));
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      IdeaRow row;
      row.id = (*ids)[i];
      row.round = round;
      row.parent = parents[p]->id;
      row.ordinal = static_cast<int>(i) + 1;
      row.number = drafts[i].number;
      row.name = fmt::format("r{}.i{}", index, row.number);
      row.title = drafts[i].title;
      row.category = drafts[i].category;
      row.rationale = drafts[i].rationale;
      row.expected_gain = drafts[i].expected_gain;
      parts_.observer.Line(fmt::format("  {} from {}: {} [{}]", row.name, parents[p]->name,
                                       FirstLine(row.title, 100), row.category));
      for (int branch = 1; branch <= config_.branches; ++branch) {
        Slot slot;
        slot.parent = parents[p];
        slot.place = static_cast<int>(p) + 1;
        slot.idea = row;
        slot.branch = branch;
        slots.push_back(std::move(slot));
      }
    }
  }
  return slots;
}

Status Search::Implement(int index, std::vector<Slot>& slots) {
  FirstError error;
  tbb::parallel_for(std::size_t{0}, slots.size(), [&](std::size_t i) {
    if (error.failed()) return;
    if (stop_.stop_requested()) return error.Set(Stopped());
    Slot& slot = slots[i];
    auto id = parts_.store.RequestCandidate(slot.idea.id, slot.branch);
    if (!id) return error.Set(std::move(id.error()));
    slot.id = *id;
    auto request = prompts_.ForImplementation(*slot.parent, slot.idea, slot.branch);
    if (!request) return error.Set(std::move(request.error()));
    results::CallKey key{llm::Role::kCode, index, slot.place, slot.idea.number, slot.branch, 0};
    auto reply = Ask(key, *request);
    if (!reply) return error.Set(std::move(reply.error()));
    slot.received = Receive(reply->reply, 0);
    if (auto done = parts_.store.ReceiveProgram(slot.id, slot.received.draft); !done) {
      return error.Set(std::move(done.error()));
    }
  });
  return error.status();
}

void Search::Announce(const Slot& slot, const eval::Evaluation& evaluation) {
  std::string line = fmt::format("  {:<10} {}", slot.name(), eval::Name(evaluation.verdict.kind));
  if (evaluation.score) {
    line += "  " + results::FormatTime(*evaluation.score, evaluation.modelled
                                                              ? results::TimeKind::kModelled
                                                              : results::TimeKind::kMeasured);
    if (const auto seed = results::ScoreOf(*data_.Seed())) {
      line += fmt::format(", {} the seed", results::FormatRatio(*seed / *evaluation.score));
    }
  } else if (!evaluation.verdict.message.empty()) {
    if (!evaluation.verdict.case_name.empty()) {
      line += fmt::format("  case {}", evaluation.verdict.case_name);
    }
    line += "  " + FirstLine(evaluation.verdict.message, 120);
  }
  parts_.observer.Line(line);
}

Status Search::Conclude(Slot& slot, const eval::Evaluation& evaluation) {
  auto recorded = parts_.store.RecordVerdict(slot.id, ToRow(evaluation));
  if (!recorded) return Failure(std::move(recorded.error()));
  Announce(slot, evaluation);
  Update([&](LiveState& live) {
    ++live.evaluated;
    if (!evaluation.verdict.passed()) return;
    ++live.passed;
    if (evaluation.score && (!live.best || *evaluation.score < *live.best)) {
      live.best = evaluation.score;
    }
  });
  return {};
}

// Evaluates a candidate, with its repair turns, to its final verdict. `known` are the programs that
// came before it, by identity.
Status Search::EvaluateSlot(int index, Slot& slot, const std::map<Hash, std::string>& known) {
  std::vector<std::string> earlier;
  for (int turn = 0;; ++turn) {
    if (stop_.stop_requested()) return Failure(Stopped());
    eval::Evaluation evaluation;
    if (!slot.received.program) {
      evaluation = eval::Evaluator::ParseFailure(slot.received.program.error());
    } else {
      const auto twin = known.find(*slot.received.draft.identity);
      if (twin != known.end() && twin->second != slot.name()) {
        evaluation.verdict.kind = eval::VerdictKind::kDuplicate;
        evaluation.verdict.stage = eval::Stage::kParse;
        evaluation.verdict.message = fmt::format("the same program as {}", twin->second);
      } else {
        auto done = parts_.evaluator.Evaluate(*slot.received.program);
        if (!done) return Fail(std::move(done.error()), "evaluating " + slot.name());
        evaluation = std::move(*done);
      }
    }
    const eval::Verdict& verdict = evaluation.verdict;
    if (turn == config_.repairs || !IsRepairable(verdict.kind)) return Conclude(slot, evaluation);

    if (auto kept = parts_.store.RecordAttempt(slot.id, slot.received.draft, verdict); !kept) {
      return Failure(std::move(kept.error()));
    }
    auto request = prompts_.ForRepair(*slot.parent, slot.idea, slot.branch, slot.received.draft,
                                      verdict, earlier);
    earlier.emplace_back(eval::Name(verdict.kind));
    if (!request) return Failure(std::move(request.error()));
    results::CallKey key{llm::Role::kRepair, index,       slot.place,
                         slot.idea.number,   slot.branch, turn + 1};
    auto reply = Ask(key, *request);
    if (!reply) return Failure(std::move(reply.error()));
    slot.received = Receive(reply->reply, turn + 1);
    if (auto done = parts_.store.ReceiveProgram(slot.id, slot.received.draft); !done) {
      return Failure(std::move(done.error()));
    }
  }
}

Status Search::Evaluate(int index, std::vector<Slot>& slots) {
  // Which of several equal programs is evaluated follows their numbers, not the order of arrival.
  std::map<Hash, std::string> known;
  for (const CandidateRow& candidate : data_.candidates) {
    const bool this_round = candidate.round && data_.Find(candidate.round)->index == index;
    if (candidate.identity && !this_round) known.emplace(*candidate.identity, candidate.name);
  }
  for (const Slot& slot : slots) {
    if (slot.received.draft.identity) known.emplace(*slot.received.draft.identity, slot.name());
  }
  FirstError error;
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, slots.size(), 1),
      [&](const tbb::blocked_range<std::size_t>& range) {
        for (std::size_t i = range.begin(); i != range.end(); ++i) {
          if (error.failed()) return;
          const CandidateRow* stored = data_.Find(slots[i].id);
          if (stored != nullptr && stored->status == CandidateStatus::kEvaluated) {
            Update([&](LiveState& live) {
              ++live.evaluated;
              if (stored->evaluation->verdict.passed()) ++live.passed;
            });
            continue;
          }
          if (auto done = EvaluateSlot(index, slots[i], known); !done) {
            error.Set(std::move(done.error()));
          }
        }
      },
      tbb::simple_partitioner());
  return error.status();
}

Status Search::RunRound(int index, const std::vector<CandidateId>& frontier) {
  auto round = parts_.store.BeginRound(index);
  if (!round) return Failure(std::move(round.error()));
  if (auto hints = parts_.store.TakeHints(*round); !hints) {
    return Failure(std::move(hints.error()));
  }
  if (auto loaded = Reload(); !loaded) return loaded;
  std::vector<const CandidateRow*> parents;
  for (const CandidateId id : frontier) parents.push_back(data_.Find(id));
  Update([&](LiveState& live) {
    live.round = index;
    live.ideas = live.candidates = live.evaluated = live.passed = 0;
  });
  std::vector<std::string> names;
  for (const CandidateRow* parent : parents) names.push_back(parent->name);
  parts_.observer.Line(
      fmt::format("round {}/{} from {}", index, config_.rounds, fmt::join(names, ", ")));

  auto slots = Ideate(*round, index, parents);
  if (!slots) return Failure(std::move(slots.error()));
  Update([&](LiveState& live) {
    live.candidates = static_cast<int>(slots->size());
    live.ideas = static_cast<int>(slots->size()) / config_.branches;
  });
  if (auto done = Implement(index, *slots); !done) return done;
  if (auto done = Evaluate(index, *slots); !done) return done;

  if (auto loaded = Reload(); !loaded) return loaded;
  auto combined = AddPortfolio(data_, *round, parts_.evaluator, parts_.store, parts_.observer);
  if (!combined) return Failure(std::move(combined.error()));
  if (*combined) {
    if (auto loaded = Reload(); !loaded) return loaded;
  }
  const auto chosen = policy_->Select(data_, index);
  if (auto done = parts_.store.FinishRound(*round, chosen); !done) return done;

  names.clear();
  for (const results::FrontierEntry& entry : chosen) {
    names.push_back(data_.Find(entry.candidate)->name);
  }
  const CandidateRow& best = *data_.Best();
  const auto best_time = *results::ScoreOf(best);
  parts_.observer.Line(fmt::format(
      "round {}/{} done: best {} {}, {} the seed; next from {}", index, config_.rounds, best.name,
      results::FormatTime(best_time, best.evaluation->score_kind),
      results::FormatRatio(*results::ScoreOf(*data_.Seed()) / best_time), fmt::join(names, ", ")));
  return {};
}

Result<SearchSummary> Search::Run() {
  auto policy = MakePolicy(config_, [this](const CandidateRow& row) { return SizeOf(row); });
  if (!policy) return Failure(std::move(policy.error()));
  policy_ = std::move(*policy);
  SearchSummary summary;
  Status outcome = EnsureSeed();
  int finished = 0;
  while (outcome) {
    if (outcome = Reload(); !outcome) break;
    finished = static_cast<int>(std::count_if(
        data_.rounds.begin(), data_.rounds.end(),
        [](const auto& round) { return round.status == results::RoundStatus::kFinished; }));
    if (finished >= config_.rounds) {
      summary.reason = fmt::format("all {} rounds are done", config_.rounds);
      break;
    }
    if (JudgeAll(config_.goals, data_).all_met) {
      summary.reason = "every goal is met";
      break;
    }
    if (const int stale = StaleRounds(); stale >= config_.patience) {
      summary.reason = fmt::format("no gain in {} rounds", stale);
      break;
    }
    if (stop_.stop_requested()) {
      outcome = Failure(Stopped());
      break;
    }
    if (parts_.steering != nullptr) {
      if (outcome = parts_.steering->MayBegin(); !outcome) break;
    }
    outcome = RunRound(finished + 1, FrontierOf(data_));
  }
  if (!outcome) {
    summary.status = RunStatus::kInterrupted;
    summary.reason = outcome.error().message;
    // Best effort: what stopped us may be the store itself.
    auto noted = parts_.store.SetStatus(summary.status, summary.reason);
    if (outcome.error().code != ErrorCode::kCancelled) return Failure(std::move(outcome.error()));
    if (!noted) return Failure(std::move(noted.error()));
  } else if (auto noted = parts_.store.SetStatus(RunStatus::kFinished, summary.reason); !noted) {
    return Failure(std::move(noted.error()));
  }
  summary.rounds = finished;
  if (auto loaded = Reload(); !loaded) return Failure(std::move(loaded.error()));
  if (const CandidateRow* seed = data_.Seed(); seed != nullptr) {
    summary.seed_time = results::ScoreOf(*seed);
  }
  if (const CandidateRow* best = data_.Best(); best != nullptr) {
    summary.best = best->name;
    summary.best_time = results::ScoreOf(*best);
    summary.kind = best->evaluation->score_kind;
  }
  return summary;
}

}  // namespace

Result<SearchSummary> RunSearch(const SearchParts& parts, const SearchConfig& config,
                                std::stop_token stop) {
  if (auto valid = Validate(config); !valid) return Failure(std::move(valid.error()));
  return Search(parts, config, std::move(stop)).Run();
}

results::RunStart MakeRunStart(const std::string& name, const seeds::Task& task,
                               const SearchConfig& config, const std::string& program_version) {
  results::RunStart start;
  start.name = name;
  start.config = ToJson(config);
  start.program_version = program_version;
  start.seed = config.seed;
  start.task_name = task.name;
  start.task_title = task.title;
  start.task_demanded = seeds::Name(task.demanded);
  start.task_contract = task.contract;
  start.reference = task.reference;
  start.task_seed = task.seed;
  for (const seeds::Case& task_case : task.cases) {
    results::CaseRow row;
    row.name = task_case.name;
    row.role = seeds::Name(task_case.role);
    row.dims = task_case.dims;
    row.flops = task_case.flops;
    row.min_bytes = task_case.min_bytes;
    start.cases.push_back(std::move(row));
  }
  return start;
}

}  // namespace grove::search
