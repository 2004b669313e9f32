#include "search/round.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ideas/idea.h"
#include "results/control.h"
#include "results/format.h"
#include "search/candidate.h"
#include "search/changes.h"
#include "search/convert.h"
#include "search/describe.h"
#include "search/elsewhere.h"
#include "search/idea_intake.h"
#include "search/selection.h"
#include "search/steering.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::CandidateStatus;
using results::EvaluationRow;
using results::IdeaRow;

// Ideas beyond the wanted ones that a reply may hold, for when some of them are refused.
constexpr std::size_t kSpareIdeas = 8;

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

// A candidate that nobody wrote or evaluated: it is not to blame.
EvaluationRow NotDone(std::string why) {
  EvaluationRow row;
  row.verdict.kind = eval::VerdictKind::kInfrastructure;
  row.verdict.stage = eval::Stage::kParse;
  row.verdict.message = std::move(why);
  return row;
}

// What an evaluation took of the device: all its stages but those before it.
Seconds DeviceTime(const eval::Evaluation& evaluation) {
  Seconds time(0);
  for (const eval::StageRecord& stage : evaluation.stages) {
    if (stage.stage != eval::Stage::kParse && stage.stage != eval::Stage::kCompile) {
      time += stage.duration;
    }
  }
  return time;
}

EvaluationRow DuplicateOf(const std::string& name) {
  EvaluationRow row;
  row.verdict.kind = eval::VerdictKind::kDuplicate;
  row.verdict.stage = eval::Stage::kParse;
  row.verdict.message = results::DuplicateMessage(name);
  return row;
}

}  // namespace

struct Round::Impl {
  Impl(const RoundParts& from, RoundPlan what) : parts(from), plan(std::move(what)) {}

  // --- what is in flight -----------------------------------------------------------------------

  void Begin() {
    const std::scoped_lock lock(mutex);
    ++open;
  }
  // The last thing that a piece of work does: the round may be gone when it returns.
  void End() {
    const std::scoped_lock lock(mutex);
    if (--open == 0) idle.notify_all();
  }
  // One piece of work on a thread for model calls.
  void Post(std::function<void()> work) {
    Begin();
    parts.pool.Post([this, work = std::move(work)] {
      work();
      End();
    });
  }
  bool halted() const { return parts.halt.stop_requested(); }

  // Takes an error in; a budget that is spent is none.
  void Set(Error problem) {
    const std::scoped_lock lock(mutex);
    if (problem.code == ErrorCode::kBudget) {
      // Else it ends its branch only: a round's or an idea's share, or a replay without that call.
      if (!spent && parts.calls.exhausted()) spent = std::move(problem.message);
      return;
    }
    // A cancellation is the least interesting of several.
    // A user's stop drains: nothing new begins, and what is in flight is finished.
    const bool drains = problem.code == ErrorCode::kCancelled && parts.steering != nullptr &&
                        parts.steering->stopping();
    if (!error || error->code == ErrorCode::kCancelled) error = std::move(problem);
    if (!drains) parts.halt.request_stop();
  }
  // Whether a refusal is the end of its branch: a share is used up, or a replayed run did not ask.
  // What the end of the run's budget leaves undone is left to a larger one.
  bool EndsBranch(const Error& refusal) const {
    return refusal.code == ErrorCode::kBudget && !parts.calls.exhausted();
  }
  bool out_of_budget() const {
    const std::scoped_lock lock(mutex);
    return spent.has_value();
  }

  Result<ModelCalls::Answer> Ask(const results::CallKey& key, llm::Request request) {
    if (halted()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (out_of_budget()) return Fail(ErrorCode::kBudget, *spent);
    if (parts.steering != nullptr) {
      if (auto may = parts.steering->MayBegin(); !may) return Failure(std::move(may.error()));
    }
    return Counted(parts.calls.Ask(key, std::move(request), parts.halt.get_token()));
  }
  Result<ModelCalls::Answer> Counted(Result<ModelCalls::Answer> answer) {
    if (answer) {
      parts.update(
          [&](LiveState& live) { live.tokens = live.tokens + answer->reply.usage.total(); });
    }
    return answer;
  }

  const std::vector<std::string>& HintsFor(int place) const {
    return hints[static_cast<std::size_t>(place - 1)];
  }

  // --- ideas -----------------------------------------------------------------------------------

  // Takes the new ones of `offered`, adds them to `taken` and starts their implementations.
  Status Take(int place, IdeaIntake& intake, const std::vector<ideas::Idea>& offered,
              std::vector<IdeaId>& taken) {
    for (const ideas::Idea& idea : offered) {
      if (halted()) return Fail(ErrorCode::kCancelled, "interrupted");
      if (intake.Offer(idea) != IdeaIntake::Decision::kTaken) continue;
      results::IdeaDraft draft;
      draft.title = idea.title;
      draft.category = ideas::Name(idea.category);
      draft.rationale = idea.rationale;
      draft.expected_gain = idea.expected_gain;
      draft.ordinal = static_cast<int>(intake.taken().size());
      draft.number = (place - 1) * parts.config.ideas + draft.ordinal;
      const ParentFacts& parent = parents[static_cast<std::size_t>(place - 1)];
      auto row = parts.tree.AddIdea(round, parent.id, draft);
      if (!row) return Failure(std::move(row.error()));
      taken.push_back(row->id);
      intake.Replace(IdeaOf(*row));
      parts.observer.Line(fmt::format("  {} from {}: {} [{}]", row->name, parent.name,
                                      FirstLine(row->title, 100), row->category));
      const auto prompt = std::make_shared<SharedPrompt>();
      const auto asked = parts.tree.Request(*row, parts.config.branches);
      if (!asked) return Failure(asked.error());
      for (const CandidateRow& candidate : *asked) Launch(place, *row, candidate, prompt);
      parts.update([&](LiveState& live) {
        ++live.ideas;
        live.candidates += parts.config.branches;
      });
    }
    return {};
  }

  // Kernels of a frontier are often made of the same ideas but for one, and the same idea for both
  // makes one program twice. Refused is what an earlier round made by another way, and, where two
  // parents stand in the frontier together for the first time, what the one with the lower place
  // can make as well. Depends on finished rounds alone. Empty = it makes something new.
  std::string MadeElsewhere(int place, const std::string& title) const {
    const auto lock = parts.tree.Lock();
    const results::RunData& data = parts.tree.data();
    const ParentFacts& parent = parents[static_cast<std::size_t>(place - 1)];
    if (const CandidateRow* made = parts.tree.MadeOf(parent.id, title);
        made != nullptr && made->round != round) {
      return fmt::format("makes of {} what {} is already: the same ideas in another order",
                         parent.name, made->name);
    }
    Makeup makeup = parts.tree.MakeupOf(*data.Find(parent.id));
    if (!Add(makeup, ideas::TitleKey(title))) return "";
    for (int other = 1; other < place; ++other) {
      const ParentFacts& rival = parents[static_cast<std::size_t>(other - 1)];
      const Makeup& theirs = parts.tree.MakeupOf(*data.Find(rival.id));
      if (theirs.size() + 1 != makeup.size() ||
          !std::includes(makeup.begin(), makeup.end(), theirs.begin(), theirs.end()) ||
          StoodBefore(data, parent.id, rival.id)) {
        continue;
      }
      const auto missing = std::mismatch(theirs.begin(), theirs.end(), makeup.begin()).second;
      const auto from = parts.tree.IdeasFrom(rival.id);
      const bool tried = std::any_of(from.begin(), from.end(), [&](const IdeaRow* idea) {
        return idea->round != round && parts.tree.WasTried(*idea) &&
               ideas::TitleKey(idea->title) == *missing;
      });
      if (!tried) {
        return fmt::format("makes of {} what {} may become: the same ideas in another order",
                           parent.name, rival.name);
      }
    }
    return "";
  }

  // Both were in the frontier of the round before this one.
  bool StoodBefore(const results::RunData& data, CandidateId a, CandidateId b) const {
    int found = 0;
    for (const results::FrontierRow* row : FrontierAfter(data, plan.index - 2)) {
      if (row->candidate == a || row->candidate == b) ++found;
    }
    return found == 2;
  }

  Status Ideate(int place) {
    const ParentFacts& parent = parents[static_cast<std::size_t>(place - 1)];
    std::vector<const ideas::Gist*> tried;
    {
      const auto lock = parts.tree.Lock();
      tried = parts.tree.GistsFrom(parent.id, round);
    }
    const auto wanted = static_cast<std::size_t>(parts.config.ideas);
    const std::size_t most = MostOfCategory(wanted, place);
    IdeaIntake intake(std::move(tried), wanted, most,
                      [&](const ideas::Idea& idea) { return MadeElsewhere(place, idea.title); });
    for (int turn = 0; turn < kIdeaTurns; ++turn) {
      IdeaQuestion question;
      question.round = plan.index;
      question.wanted = intake.missing();
      question.most_of_category = most;
      question.radical = plan.radical;
      question.hints = HintsFor(place);
      question.goal = plan.goal;
      question.turn = turn;
      question.refusals = intake.refusals();
      for (const ideas::Idea& idea : intake.taken()) question.proposed.push_back(idea.title);
      Result<llm::Request> request = llm::Request();
      {
        const auto lock = parts.tree.Lock();
        request = parts.prompts.ForIdeas(parts.tree, parent, question);
      }
      if (!request) return Failure(std::move(request.error()));
      // Ideas are taken as soon as the reply holds them whole. An error waits until the call ends.
      Status taken;
      std::vector<IdeaId> of_this;
      std::size_t seen = 0;
      request->on_text = [&](std::string_view so_far) {
        const bool whole = so_far.find('}', std::min(seen, so_far.size())) != so_far.npos;
        seen = so_far.size();
        if (!whole || !taken) return;
        taken = Take(place, intake, WholeIdeas(so_far, wanted + kSpareIdeas), of_this);
      };
      results::CallKey key;
      key.role = request->role;
      key.round = plan.index;
      key.parent = place;
      key.turn = turn;
      const auto early = plan.early.find(parent.id);
      auto answer = turn == 0 && early != plan.early.end() ? Counted(parts.early.Get(early->second))
                                                           : Ask(key, *request);
      if (!answer) {
        // In silence otherwise.
        if (EndsBranch(answer.error())) {
          parts.observer.Line(
              fmt::format("  no ideas from {}: {}", parent.name, answer.error().message));
        }
        return Failure(std::move(answer.error()));
      }
      if (!taken) return taken;
      auto parsed = ideas::ParseIdeas(answer->reply.text, wanted + kSpareIdeas);
      if (parsed) {
        taken = Take(place, intake, parsed->ideas, of_this);
        if (!taken) return taken;
      }
      if (auto linked = parts.tree.Link(of_this, answer->call); !linked) return linked;
      if (!parsed) {
        const auto noted = parts.tree.store().AddEvent(
            "ideas", fmt::format("{}: {}", results::ToString(key), parsed.error().message));
        if (!noted) return noted;
        continue;
      }
      if (intake.full() || intake.refusals().empty()) break;
    }
    if (intake.taken().empty()) {
      parts.observer.Line(fmt::format(
          "  no ideas from {}: the model names none that was not tried from it", parent.name));
    }
    return {};
  }

  // --- candidates ------------------------------------------------------------------------------

  void Launch(int place, const IdeaRow& idea, const CandidateRow& row,
              const std::shared_ptr<SharedPrompt>& prompt) {
    const bool over = row.status == CandidateStatus::kEvaluated;
    {
      const std::scoped_lock lock(mutex);
      judged[row.id] = over;
    }
    if (over) {
      parts.update([&](LiveState& live) {
        ++live.evaluated;
        if (row.evaluation->verdict.passed()) ++live.passed;
      });
      return;
    }
    auto slot = std::make_shared<Slot>();
    slot->idea = idea;
    slot->prompt = prompt;
    slot->place = place;
    slot->branch = row.branch;
    slot->id = row.id;
    slot->name = row.name;
    Post([this, slot] { Write(slot); });
  }

  results::CallKey KeyOf(const Slot& slot, int turn) const {
    return {turn == 0 ? llm::Role::kCode : llm::Role::kRepair,
            plan.index,
            slot.place,
            slot.idea.number,
            slot.branch,
            turn};
  }

  // What the kernels that the slot's idea names changed.
  Result<std::vector<ideas::Change>> Named(const Slot& slot) const {
    const ParentFacts& parent = parents[static_cast<std::size_t>(slot.place - 1)];
    const auto lock = parts.tree.Lock();
    return ChangesNamedBy(parts.tree, *parts.tree.data().Find(parent.id), slot.idea, plan.index);
  }

  // Asks for the first program.
  void Write(const SlotPtr& slot) {
    const ParentFacts& parent = parents[static_cast<std::size_t>(slot->place - 1)];
    SharedPrompt& prompt = *slot->prompt;
    std::call_once(prompt.once, [&] {
      const auto named = Named(*slot);
      if (!named) {
        prompt.request = Failure(named.error());
        return;
      }
      prompt.request = parts.prompts.ForImplementation(parent, slot->idea, *named, slot->branch,
                                                       HintsFor(slot->place));
    });
    if (!prompt.request) return Set(prompt.request.error());
    llm::Request request = *prompt.request;
    request.seed = parts.prompts.SeedOf(slot->branch);
    auto answer = Ask(KeyOf(*slot, 0), std::move(request));
    if (!answer) {
      const Error refusal = answer.error();
      Set(refusal);
      if (EndsBranch(refusal)) Conclude(slot, NotDone("not asked: " + refusal.message));
      return;
    }
    Got(slot, Receive(answer->reply, BaseOf(*slot), 0));
  }

  // A program came: to the evaluator, unless it was there before.
  void Got(const SlotPtr& slot, Received received) {
    slot->received = std::move(received);
    if (auto stored = parts.tree.Receive(slot->id, slot->received.draft); !stored) {
      return Set(std::move(stored.error()));
    }
    if (!slot->received.program) {
      return Judge(slot, ToRow(eval::Evaluator::ParseFailure(slot->received.program.error())));
    }
    const Hash identity = *slot->received.draft.identity;
    std::optional<std::string> twin;
    std::optional<EvaluationRow> before;
    {
      const auto lock = parts.tree.Lock();
      if (const auto* same = parts.tree.WithProgram(identity, round)) twin = same->name;
      // A resumed round knows how its earlier turns ended.
      for (const results::AttemptRow* attempt : parts.tree.AttemptsOf(slot->id)) {
        if (attempt->turn != slot->received.draft.turn) continue;
        before.emplace();
        before->verdict = attempt->verdict;
        slot->report = attempt->report;
      }
    }
    if (before) return Judge(slot, *before, true);
    if (twin) return Conclude(slot, DuplicateOf(*twin));
    EvaluationRow known;
    switch (programs.Enter(identity, slot, known)) {
      case Programs::Next::kKnown:
        return Judge(slot, known);
      case Programs::Next::kWait:
        return Begin();  // ended by Finish
      case Programs::Next::kEvaluate:
        break;
    }
    Begin();
    const results::LedgerScope scope = ScopeOf(*slot);
    if (parts.elsewhere != nullptr && parts.elsewhere->Where(identity) != Elsewhere::Place::kNew) {
      return Evaluate(slot, identity, scope, nullptr);  // it was booked when it was packed
    }
    auto reserved = parts.calls.ledger().ReserveEvaluation(slot->name, scope, parts.measured,
                                                           parts.halt.get_token());
    if (!reserved) {
      const Error refusal = reserved.error();
      Set(refusal);
      const bool ends = EndsBranch(refusal);
      const EvaluationRow row = NotDone("not evaluated: " + refusal.message);
      for (const SlotPtr& waiting :
           ends ? programs.Finish(identity, row) : programs.GiveUp(identity)) {
        if (ends) Conclude(waiting, row);
        End();
      }
      return;
    }
    Evaluate(slot, identity, scope, std::make_shared<EvaluationHold>(std::move(*reserved)));
  }

  // REQUIRES: Begin was called. `hold` is none for what was booked before.
  void Evaluate(const SlotPtr& slot, const Hash& identity, const results::LedgerScope& scope,
                const std::shared_ptr<EvaluationHold>& hold) {
    parts.stages.Submit(
        slot->name, *slot->received.program,
        [this, slot, identity, scope, hold](Result<std::optional<eval::Evaluation>> done) {
          Evaluated(slot, identity, scope, hold, std::move(done));
        });
  }

  void Evaluated(const SlotPtr& slot, const Hash& identity, const results::LedgerScope& scope,
                 const std::shared_ptr<EvaluationHold>& hold,
                 Result<std::optional<eval::Evaluation>> done) {
    EvaluationRow row;
    const bool judged_now = done && *done;
    if (done) {
      if (judged_now) row = ToRow(**done);
      const Seconds gpu = judged_now && parts.measured ? DeviceTime(**done) : Seconds(0);
      if (!hold) {
        if (auto paid = parts.calls.ledger().BookGpu(slot->name, scope, gpu); !paid) {
          Set(std::move(paid.error()));
        }
      } else if (!judged_now) {
        if (auto paid = hold->Settle(gpu); !paid) Set(std::move(paid.error()));
      } else if (auto cost = hold->SettleReserved(gpu)) {
        slot->unbooked = *std::move(cost);
      } else {
        Set(std::move(cost.error()));
      }
    } else {
      Set(done.error().code == ErrorCode::kCancelled
              ? std::move(done.error())
              : Error{done.error().code, "evaluating: " + done.error().message});
    }
    for (const SlotPtr& waiting :
         judged_now ? programs.Finish(identity, row) : programs.GiveUp(identity)) {
      if (judged_now) {
        Judge(waiting, row);
      } else if (done) {
        Await(*waiting);
      }
      End();
    }
  }

  void Await(const Slot& slot) {
    parts.observer.Line(fmt::format("  {:<10} to be evaluated elsewhere", slot.name));
    const std::scoped_lock lock(mutex);
    ++awaited;
  }

  // What follows from an evaluation for one candidate. `known`: it was an attempt before the run
  // was resumed, and slot->report is what was said of it.
  void Judge(const SlotPtr& slot, const EvaluationRow& row, bool known = false) {
    const eval::Verdict& verdict = row.verdict;
    if (verdict.passed()) {
      Settle(slot, row);
      return Book(*slot);
    }
    const int turn = slot->received.draft.turn;
    if (turn >= parts.config.repairs || !IsRepairable(verdict.kind) || out_of_budget()) {
      return Conclude(slot, row);
    }
    if (!known) slot->report = RepairReport(row);
    if (auto kept = parts.tree.Attempt(slot->id, slot->received.draft, verdict, slot->report);
        !kept) {
      return Set(std::move(kept.error()));
    }
    Book(*slot);
    Post([this, slot, row] { Repair(slot, row); });
  }

  results::LedgerScope ScopeOf(const Slot& slot) const {
    return {plan.index, slot.idea.number, CallId()};
  }

  // What no verdict took with it.
  void Book(Slot& slot) {
    if (slot.unbooked.empty()) return;
    const auto cost = std::exchange(slot.unbooked, {});
    if (auto paid = parts.calls.ledger().BookEvaluation(slot.name, ScopeOf(slot), cost); !paid) {
      Set(std::move(paid.error()));
    }
  }

  // The program that an idea is to change.
  seeds::ProgramText BaseOf(const Slot& slot) const {
    const ideas::KernelFacts& parent = parents[static_cast<std::size_t>(slot.place - 1)].kernel;
    return {parent.source, parent.plan};
  }

  void Repair(const SlotPtr& slot, const EvaluationRow& row) {
    const ParentFacts& parent = parents[static_cast<std::size_t>(slot->place - 1)];
    const int turn = slot->received.draft.turn + 1;
    const auto named = Named(*slot);
    if (!named) return Set(named.error());
    const auto request =
        parts.prompts.ForRepair(parent, slot->idea, *named, slot->branch, HintsFor(slot->place),
                                slot->received.draft, row.verdict, slot->report, slot->earlier);
    if (!request) return Set(request.error());
    auto answer = Ask(KeyOf(*slot, turn), *std::move(request));
    if (!answer) {
      const bool spent_now = answer.error().code == ErrorCode::kBudget;
      Set(std::move(answer.error()));
      if (spent_now) Conclude(slot, row);
      return;
    }
    slot->earlier.emplace_back(eval::Name(row.verdict.kind));
    seeds::ProgramText base = BaseOf(*slot);
    if (slot->received.draft.source) {
      base = {*slot->received.draft.source, slot->received.draft.plan.value_or("")};
    }
    Got(slot, Receive(answer->reply, base, turn));
  }

  // A passed program: the lowest of the round's candidates that have it has the verdict.
  void Settle(const SlotPtr& slot, const EvaluationRow& row) {
    const auto done = programs.WithHolder(
        *slot->received.draft.identity, [&](std::optional<CandidateId>& holder) -> Status {
          if (!holder) {
            holder = slot->id;
            Conclude(slot, row);
            return {};
          }
          if (*holder < slot->id) {
            std::string name;
            {
              const auto lock = parts.tree.Lock();
              name = parts.tree.data().Find(*holder)->name;
            }
            Conclude(slot, DuplicateOf(name));
            return {};
          }
          if (auto moved = parts.tree.Move(*holder, slot->id); !moved) return moved;
          holder = slot->id;
          Told(*slot, row);
          return {};
        });
    if (!done) Set(done.error());
  }

  // The final verdict.
  void Conclude(const SlotPtr& slot, const EvaluationRow& row) {
    const auto cost = std::exchange(slot->unbooked, {});
    if (auto recorded = parts.tree.Conclude(slot->id, row, cost, ScopeOf(*slot)); !recorded) {
      return Set(std::move(recorded.error()));
    }
    Told(*slot, row);
  }

  void Told(const Slot& slot, const EvaluationRow& row) {
    std::string line = fmt::format("  {:<10} {}", slot.name, eval::Name(row.verdict.kind));
    if (row.verdict.passed() && row.score) {
      line += "  " + results::FormatTime(*row.score, row.score_kind);
      if (seed_time) {
        line += fmt::format(", {} the seed", results::FormatRatio(*seed_time / *row.score));
      }
    } else if (!row.verdict.message.empty()) {
      if (!row.verdict.case_name.empty()) line += fmt::format("  case {}", row.verdict.case_name);
      line += "  " + FirstLine(row.verdict.message, 120);
    }
    parts.observer.Line(line);
    parts.update([&](LiveState& live) {
      ++live.evaluated;
      if (!row.verdict.passed()) return;
      ++live.passed;
      if (row.score && (!live.best || *row.score < *live.best)) live.best = row.score;
    });
    {
      const std::scoped_lock lock(mutex);
      judged[slot.id] = true;
    }
    LookForShare();
  }

  // Starts what `eager` allows once the share of the round is in.
  void LookForShare() {
    if (!parts.on_share || parts.config.eager >= 100) return;
    CandidateId last;
    {
      const std::scoped_lock lock(mutex);
      if (asking > 0 || shared || judged.empty()) return;
      std::vector<CandidateId> ids;
      for (const auto& [id, done] : judged) ids.push_back(id);
      last = EndOfShare(ids, parts.config.eager);
      for (const auto& [id, done] : judged) {
        if (last < id) break;
        if (!done) return;
      }
      shared = true;
    }
    Post([this, last] {
      if (halted() || out_of_budget()) return;
      if (auto done = parts.on_share(round, last); !done) Set(std::move(done.error()));
    });
  }

  // --- the round -------------------------------------------------------------------------------

  Status Prepare() {
    auto begun = parts.tree.BeginRound(plan.index);
    if (!begun) return Failure(std::move(begun.error()));
    round = *begun;
    if (auto taken = parts.tree.TakeHints(round); !taken) return taken;
    const auto lock = parts.tree.Lock();
    const results::RunData& data = parts.tree.data();
    if (const CandidateRow* seed = data.Seed()) seed_time = results::ScoreOf(*seed);
    for (const CandidateId id : plan.parents) {
      auto facts = parts.prompts.Describe(parts.tree, *data.Find(id));
      if (!facts) return Failure(std::move(facts.error()));
      parents.push_back(std::move(*facts));
      std::vector<std::string>& told = hints.emplace_back();
      for (const auto* hint : results::HintsInForce(data, *data.Find(id), plan.index)) {
        told.push_back(hint->text);
      }
    }
    for (auto row = data.candidates.rbegin(); row != data.candidates.rend() && row->round == round;
         ++row) {
      if (row->identity && row->evaluation &&
          row->evaluation->verdict.kind != eval::VerdictKind::kDuplicate) {
        programs.Restore(*row->identity, row->id, *row->evaluation);
      }
    }
    return {};
  }

  Status Run() {
    if (auto ready = Prepare(); !ready) return ready;
    std::vector<std::string> names;
    for (const ParentFacts& parent : parents) names.push_back(parent.name);
    parts.observer.Line(fmt::format("round {}/{} from {}{}", plan.index, parts.config.rounds,
                                    fmt::join(names, ", "),
                                    plan.radical ? ", asking the adviser" : ""));
    asking = static_cast<int>(parents.size());
    for (int place = 1; place <= static_cast<int>(parents.size()); ++place) {
      Post([this, place] {
        if (auto done = Ideate(place); !done) Set(std::move(done.error()));
        {
          const std::scoped_lock guard(mutex);
          --asking;
        }
        LookForShare();
      });
    }
    std::unique_lock lock(mutex);
    idle.wait(lock, [this] { return open == 0; });
    if (error) return Failure(*error);
    return {};
  }

  const RoundParts parts;
  const RoundPlan plan;
  RoundId round;
  std::vector<ParentFacts> parents;
  std::vector<std::vector<std::string>> hints;  // in force for each parent
  std::optional<Nanoseconds> seed_time;
  Programs programs;

  mutable std::mutex mutex;
  int open = 0;         // pieces of work; GUARDED_BY(mutex)
  int awaited = 0;      // candidates, from another machine; GUARDED_BY(mutex)
  int asking = 0;       // requests for ideas; GUARDED_BY(mutex)
  bool shared = false;  // on_share was called; GUARDED_BY(mutex)
  std::map<CandidateId, bool>
      judged;  // candidates, and whether verdicts are final; GUARDED_BY(mutex)
  std::condition_variable idle;
  std::optional<Error> error;        // GUARDED_BY(mutex)
  std::optional<std::string> spent;  // GUARDED_BY(mutex); never changed once it is set
};

Round::Round(const RoundParts& parts, RoundPlan plan)
    : impl_(std::make_unique<Impl>(parts, std::move(plan))) {}
Round::~Round() = default;
Status Round::Run() { return impl_->Run(); }
int Round::awaited() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->awaited;
}
RoundId Round::id() const { return impl_->round; }
std::optional<std::string> Round::budget() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->spent;
}

}  // namespace grove::search
