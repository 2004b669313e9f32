#include "search/search.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/program.h"
#include "ideas/knowledge.h"
#include "results/format.h"
#include "search/bandit.h"
#include "search/call_pool.h"
#include "search/candidate.h"
#include "search/convert.h"
#include "search/early.h"
#include "search/elsewhere.h"
#include "search/goals.h"
#include "search/model_calls.h"
#include "search/policy.h"
#include "search/portfolio.h"
#include "search/promote.h"
#include "search/prompts.h"
#include "search/round.h"
#include "search/run_tree.h"
#include "search/selection.h"
#include "search/stages.h"
#include "search/stagnation.h"
#include "search/steering.h"

namespace grove::search {

using results::CandidateRow;
using results::CandidateStatus;
using results::RoundStatus;
using results::RunStatus;

struct Search::Impl {
  Impl(const SearchParts& p, const SearchConfig& c)
      : parts(p),
        config(c),
        bandit(c.ensemble == "bandit" ? std::make_unique<Bandit>(MembersOf(ModelsOf(c)), c.seed)
                                      : nullptr),
        calls(p.store, p.client, c, bandit.get()),
        stagnation(c.patience) {}

  Status Open();
  Status EnsureSeed();
  Status RunRound(std::stop_token stop);
  // Whether the round after the one that runs may be asked for early: not when it may turn out to
  // be the adviser's.
  bool MayAskEarly() const {
    return config.eager < 100 && finished + 1 < config.rounds &&
           stagnation.stale() + 1 < config.patience;
  }
  Status AskEarly(RoundId round, CandidateId last);
  // Without a value: it is awaited from another machine.
  Result<std::optional<eval::Evaluation>> EvaluateHereOrThere(
      const std::string& name, const codegen::KernelProgram& program) const;
  // kUnavailable for two that another machine has not measured side by side.
  Result<std::vector<eval::CasePair>> CompareHereOrThere(
      const codegen::KernelProgram& incumbent, const codegen::KernelProgram& challenger) const;
  // Nothing goes on without what another machine finds.
  Status Awaited();
  // What was asked early for the round that begins, found again from the tree.
  Result<std::map<CandidateId, EarlyQuestion>> AskedEarly() const;
  std::vector<CandidateId> Frontier() const;
  std::vector<results::FrontierEntry> Choose(int index) const;
  std::int64_t SizeOf(const CandidateRow& row) const;
  // The least time among the round's own candidates that lost no contest.
  std::optional<double> BestOf(int round) const;
  // Tells the bandit, if there is one, what a finished round (its index) says of the models.
  Status Learn(int round);
  void Update(const std::function<void(LiveState&)>& change) {
    const std::scoped_lock lock(live_mutex);
    change(live);
    parts.observer.Update(live);
  }

  const SearchParts parts;
  const SearchConfig config;
  const std::unique_ptr<Bandit> bandit;  // none = by weights
  ModelCalls calls;
  Stagnation stagnation;  // after the finished rounds
  std::unique_ptr<Policy> policy;
  std::unique_ptr<RunTree> tree;
  std::unique_ptr<Prompts> prompts;
  int finished = 0;          // rounds
  bool awaits = false;       // programs from another machine
  bool asked_early = false;  // whether the last of them allowed to ask early for the next
  std::optional<std::string> spent;
  std::mutex live_mutex;
  LiveState live;  // GUARDED_BY(live_mutex)
  std::stop_source halt;
  // Last, so that they end first: what they run uses the rest.
  std::optional<EarlyCalls> early;
  std::optional<Stages> stages;
  std::optional<CallPool> pool;
};

Status Search::Impl::Open() {
  auto made = MakePolicy(config, [this](const CandidateRow& row) { return SizeOf(row); });
  if (!made) return Failure(std::move(made.error()));
  policy = std::move(*made);
  auto opened = RunTree::Open(parts.store);
  if (!opened) return Failure(std::move(opened.error()));
  tree = std::move(*opened);
  auto library = ideas::Library::Load();
  if (!library) return Failure(std::move(library.error()));
  prompts = std::make_unique<Prompts>(parts.task, parts.device, config, std::move(*library));
  stages.emplace(parts.evaluator, LimitsFor(parts.device), halt.get_token(), parts.elsewhere,
                 config.screen != 0);
  pool.emplace(config.calls);
  early.emplace(calls, *pool, halt.get_token());
  if (auto seeded = EnsureSeed(); !seeded) return seeded;

  const results::RunData& data = tree->data();
  const CandidateRow& seed = *data.Seed();
  stagnation.Start(results::ScoreOf(seed)->count());
  // What the budget left undone of the last round comes first, if there is more of it now.
  if (!data.rounds.empty() && data.rounds.back().cut) {
    if (auto again = tree->ReopenRound(data.rounds.back().id); !again) {
      return Failure(std::move(again.error()));
    }
  }
  for (const results::RoundRow& round : data.rounds) {
    if (round.status != RoundStatus::kFinished) continue;
    asked_early = MayAskEarly();
    ++finished;
    stagnation.Round(BestOf(round.index));
    if (auto learnt = Learn(round.index); !learnt) return learnt;
  }
  Update([&](LiveState& state) {
    state.rounds = config.rounds;
    state.seed = results::ScoreOf(seed);
    state.best = results::ScoreOf(*tree->Best());
    state.kind = seed.evaluation->score_kind;
    // Replies of the round that is run again are counted as it takes them.
    for (const results::CallRow& call : data.calls) {
      if (call.key.round > finished) continue;
      state.tokens = state.tokens + call.usage.total();
    }
  });
  return {};
}

// For ties: of a stored program, as codegen reads it; 0 = not known.
std::int64_t Search::Impl::SizeOf(const CandidateRow& row) const {
  const auto program = ProgramOf(*tree, row);
  return program ? static_cast<std::int64_t>(program->size()) : 0;
}

Result<std::optional<eval::Evaluation>> Search::Impl::EvaluateHereOrThere(
    const std::string& name, const codegen::KernelProgram& program) const {
  if (parts.elsewhere != nullptr) return parts.elsewhere->Find(name, program);
  auto evaluation = parts.evaluator.Evaluate(program);
  if (!evaluation) return Failure(std::move(evaluation.error()));
  return std::optional(std::move(*evaluation));
}

Result<std::vector<eval::CasePair>> Search::Impl::CompareHereOrThere(
    const codegen::KernelProgram& incumbent, const codegen::KernelProgram& challenger) const {
  if (parts.elsewhere == nullptr) return parts.evaluator.ComparePair(incumbent, challenger);
  auto pairs = parts.elsewhere->FindContest(incumbent.identity(), challenger.identity());
  if (!pairs) {
    return Fail(ErrorCode::kUnavailable, "the other machine has not measured them side by side");
  }
  return std::move(*pairs);
}

Status Search::Impl::Awaited() {
  awaits = true;
  return Fail(ErrorCode::kCancelled,
              fmt::format("{} programs are to be evaluated on another machine",
                          parts.elsewhere->awaited().size()));
}

Status Search::Impl::EnsureSeed() {
  auto program = codegen::MakeProgram(parts.task.seed.source, parts.task.seed.plan);
  if (!program) return Fail(std::move(program.error()), "the task's seed");
  results::ProgramDraft draft;
  draft.source = program->source;
  draft.plan = program->plan_json;
  draft.identity = program->identity();
  auto id = tree->RecordSeed(draft);
  if (!id) return Failure(std::move(id.error()));
  if (tree->data().Find(*id)->status != CandidateStatus::kEvaluated) {
    parts.observer.Line("evaluating the task's own kernel, the seed");
    auto evaluation = EvaluateHereOrThere("seed", *program);
    if (!evaluation) return Fail(std::move(evaluation.error()), "evaluating the seed");
    if (!*evaluation) return Awaited();
    if (auto done = tree->Conclude(*id, ToRow(**evaluation)); !done) return done;
    if (const auto time = results::ScoreOf(*tree->data().Seed())) {
      parts.observer.Line(
          fmt::format("  {:<10} {}", "seed",
                      results::FormatTime(*time, tree->data().Seed()->evaluation->score_kind)));
    }
  }
  const CandidateRow& seed = *tree->data().Seed();
  if (!results::ScoreOf(seed)) {
    const eval::Verdict& verdict = seed.evaluation->verdict;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the seed of task {} does not pass: {} at stage {}, case {}: {}",
                            parts.task.name, eval::Name(verdict.kind), eval::Name(verdict.stage),
                            verdict.case_name, verdict.message));
  }
  return {};
}

Status Search::Impl::Learn(int round) {
  if (!bandit) return {};
  // The tree in memory does not keep the calls.
  const auto made = parts.store.CallsOf(round);
  if (!made) return Failure(made.error());
  const results::RunData& data = tree->data();
  bandit->Learn({round, *made, CandidatesOf(data, round)}, data);
  return {};
}

std::optional<double> Search::Impl::BestOf(int round) const {
  std::optional<double> best;
  const auto kind = tree->data().Seed()->evaluation->score_kind;
  std::set<CandidateId> losers;
  for (const results::PromotionRow& contest : tree->data().promotions) {
    if (!contest.promoted) losers.insert(contest.challenger);
  }
  for (const CandidateRow& row : CandidatesOf(tree->data(), round)) {
    const auto score = results::ScoreOf(row);
    if (!score || row.evaluation->score_kind != kind || losers.contains(row.id)) continue;
    if (!best || score->count() < *best) best = score->count();
  }
  return best;
}

std::vector<CandidateId> Search::Impl::Frontier() const {
  const results::RunData& data = tree->data();
  std::vector<CandidateId> frontier;
  // The rows of a round stand together, in order of place.
  for (auto row = data.frontier.rbegin(); row != data.frontier.rend(); ++row) {
    if (row->round != data.frontier.back().round) break;
    frontier.push_back(row->candidate);
  }
  std::reverse(frontier.begin(), frontier.end());
  if (frontier.empty()) frontier.push_back(data.Seed()->id);
  return frontier;
}

std::vector<results::FrontierEntry> Search::Impl::Choose(int index) const {
  auto chosen = policy->Select(tree->data(), index);
  if (!stagnation.radical()) return chosen;
  const auto other = BestOfAnotherFamily(*tree, chosen);
  if (!other) return chosen;
  results::FrontierEntry entry;
  entry.candidate = *other;
  entry.kind = results::FrontierKind::kReserve;
  entry.why = fmt::format(
      "no gain in {} rounds: one branch restarts from the best of another "
      "family",
      stagnation.stale());
  if (static_cast<int>(chosen.size()) >= config.frontier + config.reserve && chosen.size() > 1) {
    chosen.pop_back();
  }
  chosen.push_back(std::move(entry));
  return chosen;
}

Status Search::Impl::AskEarly(RoundId round, CandidateId last) {
  Result<std::map<CandidateId, EarlyQuestion>> questions = {};
  std::string name;
  {
    const auto lock = tree->Lock();
    questions = EarlyQuestions(*tree, *policy, *prompts, config, finished + 1, round, last);
    name = tree->data().Find(last)->name;
  }
  if (!questions) return Failure(std::move(questions.error()));
  auto noted = parts.store.AddEvent(
      "eager", fmt::format("round {}: {} ideas requests asked when the verdicts up to {} were in",
                           finished + 2, questions->size(), name));
  if (!noted) return noted;
  for (const auto& [parent, question] : *questions) early->Start(question);
  return {};
}

Result<std::map<CandidateId, EarlyQuestion>> Search::Impl::AskedEarly() const {
  std::map<CandidateId, EarlyQuestion> none;
  const results::RunData& data = tree->data();
  if (!asked_early) return none;
  RoundId round;  // the last that is finished
  for (const results::RoundRow& row : data.rounds) {
    if (row.index == finished) round = row.id;
  }
  std::vector<CandidateId> ids;
  for (const CandidateRow& row : data.candidates) {
    // A combination is added when the round is over.
    if (row.round == round && data.Find(row.idea)->ordinal <= config.ideas) ids.push_back(row.id);
  }
  if (ids.empty()) return none;
  return EarlyQuestions(*tree, *policy, *prompts, config, finished, round,
                        EndOfShare(ids, config.eager));
}

Status Search::Impl::RunRound(std::stop_token stop) {
  const std::stop_callback forward(stop, [this] { halt.request_stop(); });
  RoundPlan plan;
  plan.index = finished + 1;
  plan.parents = Frontier();
  plan.radical = stagnation.radical();
  auto asked = AskedEarly();
  if (!asked) return Failure(std::move(asked.error()));
  plan.early = std::move(*asked);
  plan.goal = GoalText(config.goals, tree->data(), plan.index);
  Update([&](LiveState& state) {
    state.round = plan.index;
    state.ideas = state.candidates = state.evaluated = state.passed = 0;
  });
  const RoundParts shared{config,
                          *tree,
                          *prompts,
                          calls,
                          *pool,
                          *stages,
                          parts.observer,
                          [this](const auto& change) { Update(change); },
                          halt,
                          *early,
                          [this](RoundId id, CandidateId last) {
                            return MayAskEarly() ? AskEarly(id, last) : Status();
                          },
                          parts.steering,
                          parts.device.name() != "emulator" || parts.elsewhere != nullptr,
                          parts.elsewhere};
  if (parts.elsewhere != nullptr) {
    if (auto taken = TakeProfiles(*tree, *parts.elsewhere); !taken) return taken;
  }
  // Of the parents that a round has made: also of one that was the last until more were asked for.
  if (parts.profiler && shared.measured && config.counters != 0 && finished > 0) {
    const ProfilingParts profiling{*tree, parts.profiler, calls.ledger(), parts.observer};
    if (auto done = ProfileParents(profiling, plan.parents, plan.index, halt.get_token()); !done) {
      return done;
    }
  }
  const bool early_next = MayAskEarly();
  Round round(shared, plan);
  if (auto done = round.Run(); !done) return done;
  if (round.awaited() > 0) return Awaited();
  spent = round.budget();

  // Nothing is in flight now: the tree may be read without its lock.
  const int number = static_cast<int>(plan.parents.size()) * config.ideas + 1;
  const PortfolioParts combining{
      *tree,
      [this](const std::string& name, const codegen::KernelProgram& program) {
        return EvaluateHereOrThere(name, program);
      },
      calls.ledger(), parts.observer, shared.measured};
  auto added = AddPortfolio(combining, round.id(), number, halt.get_token());
  if (!added) return Failure(std::move(added.error()));
  if (!*added) return Awaited();
  PromoteParts contests{
      *tree,
      [this](const codegen::KernelProgram& incumbent, const codegen::KernelProgram& challenger) {
        return CompareHereOrThere(incumbent, challenger);
      },
      calls.ledger(), parts.observer, shared.measured};
  if (parts.elsewhere != nullptr) {
    contests.beside = [this](const Hash& incumbent, const Hash& challenger) {
      return parts.elsewhere->FindContest(incumbent, challenger);
    };
  }
  if (auto done = PromoteWinners(contests, round.id(), halt.get_token()); !done) return done;
  if (!spent && calls.exhausted()) spent = calls.ledger().reason();
  stagnation.Round(BestOf(plan.index));
  const auto chosen = Choose(plan.index);
  if (auto done = tree->FinishRound(round.id(), chosen, spent.has_value()); !done) return done;
  ++finished;
  asked_early = early_next;
  if (auto learnt = Learn(plan.index); !learnt) return learnt;
  // Of those that the last round made, for people; the next one's prompts have them anyway.
  if (parts.elsewhere != nullptr) {
    if (auto taken = TakeProfiles(*tree, *parts.elsewhere); !taken) return taken;
  }

  std::vector<std::string> names;
  for (const results::FrontierEntry& entry : chosen) {
    names.push_back(tree->data().Find(entry.candidate)->name);
  }
  const CandidateRow& best = *tree->Best();
  const auto best_time = *results::ScoreOf(best);
  parts.observer.Line(fmt::format(
      "round {}/{} done: best {} {}, {} the seed; next from {}", plan.index, config.rounds,
      best.name, results::FormatTime(best_time, best.evaluation->score_kind),
      results::FormatRatio(*results::ScoreOf(*tree->data().Seed()) / best_time),
      fmt::join(names, ", ")));
  return {};
}

Search::Search(const SearchParts& parts, const SearchConfig& config)
    : impl_(std::make_unique<Impl>(parts, config)) {}
Search::~Search() = default;

Status Search::Open() {
  if (auto valid = Validate(impl_->config); !valid) return valid;
  return impl_->Open();
}

Status Search::RunRound(std::stop_token stop) { return impl_->RunRound(std::move(stop)); }

std::optional<std::string> Search::Ended() const {
  const Impl& s = *impl_;
  if (s.tree && JudgeAll(s.config.goals, s.tree->data()).all_met) return "every goal is met";
  if (s.spent) return "budget: " + *s.spent;
  if (s.finished >= s.config.rounds) return fmt::format("all {} rounds are done", s.finished);
  if (s.stagnation.converged()) {
    return fmt::format("converged: no gain in {} rounds, the adviser's ideas among them",
                       s.stagnation.stale());
  }
  return std::nullopt;
}

SearchSummary Search::Summary() const {
  SearchSummary summary;
  const Impl& s = *impl_;
  summary.rounds = s.finished;
  summary.spent = s.spent.has_value();
  if (!s.tree) return summary;
  if (const CandidateRow* seed = s.tree->data().Seed(); seed != nullptr) {
    summary.seed_time = results::ScoreOf(*seed);
  }
  if (const CandidateRow* best = s.tree->Best(); best != nullptr) {
    summary.best = best->name;
    summary.best_time = results::ScoreOf(*best);
    summary.kind = best->evaluation->score_kind;
  }
  return summary;
}

bool Search::Awaits() const { return impl_->awaits; }

const RunTree& Search::tree() const { return *impl_->tree; }

Result<SearchSummary> RunSearch(const SearchParts& parts, const SearchConfig& config,
                                std::stop_token stop) {
  Search search(parts, config);
  if (auto valid = Validate(config); !valid) return Failure(std::move(valid.error()));
  Status outcome = search.Open();
  std::optional<std::string> ended;
  while (outcome && !(ended = search.Ended())) {
    if (stop.stop_requested()) {
      outcome = Fail(ErrorCode::kCancelled, "interrupted");
    } else if (parts.steering != nullptr) {
      outcome = parts.steering->MayBegin();
    }
    if (outcome) outcome = search.RunRound(stop);
  }
  SearchSummary summary = search.Summary();
  if (!outcome) {
    summary.status = search.Awaits() ? RunStatus::kStopped : RunStatus::kInterrupted;
    summary.reason = outcome.error().message;
    summary.awaits = search.Awaits();
  } else {
    summary.status = RunStatus::kFinished;
    summary.reason = *ended;
  }
  auto noted = parts.store.SetStatus(summary.status, summary.reason);
  // What stopped us may be the store itself.
  if (!outcome && outcome.error().code != ErrorCode::kCancelled) {
    return Failure(std::move(outcome.error()));
  }
  if (!noted) return Failure(std::move(noted.error()));
  return summary;
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
