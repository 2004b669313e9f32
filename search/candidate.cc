#include "search/candidate.h"

#include <algorithm>
#include <utility>

namespace grove::search {

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

Received Receive(const llm::Reply& reply, const seeds::ProgramText& base, int turn) {
  Received received;
  received.draft.turn = turn;
  received.program = codegen::ParseReply(reply.text, &base);
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

std::shared_ptr<Programs::Entry> Programs::Get(const Hash& identity) {
  const std::scoped_lock lock(mutex_);
  auto& entry = entries_[identity];
  if (!entry) entry = std::make_shared<Entry>();
  return entry;
}

Programs::Next Programs::Enter(const Hash& identity, const SlotPtr& slot,
                               results::EvaluationRow& row) {
  const auto entry = Get(identity);
  const std::scoped_lock lock(mutex_);
  if (entry->row) {
    row = *entry->row;
    return Next::kKnown;
  }
  entry->waiting.push_back(slot);
  return std::exchange(entry->begun, true) ? Next::kWait : Next::kEvaluate;
}

std::vector<SlotPtr> Programs::Finish(const Hash& identity, const results::EvaluationRow& row) {
  const auto entry = Get(identity);
  const std::scoped_lock lock(mutex_);
  entry->row = row;
  std::vector<SlotPtr> waiting = std::exchange(entry->waiting, {});
  std::sort(waiting.begin(), waiting.end(),
            [](const SlotPtr& a, const SlotPtr& b) { return a->id < b->id; });
  return waiting;
}

std::vector<SlotPtr> Programs::GiveUp(const Hash& identity) {
  const auto entry = Get(identity);
  const std::scoped_lock lock(mutex_);
  entry->begun = false;
  return std::exchange(entry->waiting, {});
}

void Programs::Restore(const Hash& identity, CandidateId holder,
                       const results::EvaluationRow& row) {
  const auto entry = Get(identity);
  const std::scoped_lock lock(mutex_);
  entry->begun = true;
  entry->row = row;
  if (row.verdict.passed()) entry->holder = holder;
}

Result<codegen::KernelProgram> ProgramOf(const RunTree& tree, const results::CandidateRow& row) {
  return ProgramOf(tree.store(), row);
}

Result<codegen::KernelProgram> ProgramOf(results::Store& store, const results::CandidateRow& row) {
  if (!row.source || !row.plan) {
    return Fail(ErrorCode::kInternal, row.name + " passed and has no program");
  }
  auto source = store.Text(*row.source);
  if (!source) return Failure(std::move(source.error()));
  auto plan = store.Text(*row.plan);
  if (!plan) return Failure(std::move(plan.error()));
  auto program = codegen::MakeProgram(*source, *plan);
  if (!program) return Fail(std::move(program.error()), "reading " + row.name);
  return program;
}

}  // namespace grove::search
