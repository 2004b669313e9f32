// A candidate on its way through a round, and the programs of a round by identity. Internal to
// search/.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/program.h"
#include "llm/client.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/run_tree.h"

namespace grove::search {

// A model's program as it came, or why there is none.
struct Received {
  results::ProgramDraft draft;
  Result<codegen::KernelProgram> program = Fail(ErrorCode::kInvalidInput, "no reply");
};
// `base` is the program that the prompt showed, whose edits a reply may be.
Received Receive(const llm::Reply& reply, const seeds::ProgramText& base, int turn);

// Failures that another reply could mend.
bool IsRepairable(eval::VerdictKind kind);

// What all branches of an idea are asked, but for the seed: written by the first that asks.
struct SharedPrompt {
  std::once_flag once;
  Result<llm::Request> request = Fail(ErrorCode::kInternal, "not written");
};

struct Slot {
  results::IdeaRow idea;
  std::shared_ptr<SharedPrompt> prompt;
  int place = 0;  // of the parent
  int branch = 0;
  CandidateId id;
  std::string name;
  Received received;
  std::vector<std::string> earlier;       // verdicts of the turns before
  std::string report;                     // RepairReport() of the program that failed last
  std::vector<results::Amount> unbooked;  // what its evaluation took, to be booked with the verdict
};
using SlotPtr = std::shared_ptr<Slot>;

// Which programs of a round are evaluated, and for whom. Thread-safe.
class Programs {
 public:
  enum class Next { kEvaluate, kWait, kKnown };
  // What to do with a slot's program. kEvaluate: this caller evaluates it and calls Finish.
  // kWait: another does, and Finish will return this slot too. kKnown: `row` is its evaluation.
  Next Enter(const Hash& identity, const SlotPtr& slot, results::EvaluationRow& row);
  // The evaluation of a program is in. Returns the slots that wait for it, lowest id first.
  std::vector<SlotPtr> Finish(const Hash& identity, const results::EvaluationRow& row);
  // There will be no evaluation now. Returns the slots that waited for it; who enters next begins
  // anew.
  std::vector<SlotPtr> GiveUp(const Hash& identity);
  // A passed program has one holder of the verdict. Call `decide` with the holder so far (none at
  // first); it returns the holder from now on. Calls for one program exclude each other.
  template <typename F>
  Status WithHolder(const Hash& identity, F decide) {
    const std::shared_ptr<Entry> entry = Get(identity);
    const std::scoped_lock lock(entry->mutex);
    return decide(entry->holder);
  }
  // What a resumed round has already.
  void Restore(const Hash& identity, CandidateId holder, const results::EvaluationRow& row);

 private:
  struct Entry {
    std::mutex mutex;                   // of the holder
    std::optional<CandidateId> holder;  // GUARDED_BY(mutex)
    bool begun = false;
    std::optional<results::EvaluationRow> row;
    std::vector<SlotPtr> waiting;
  };
  std::shared_ptr<Entry> Get(const Hash& identity);

  std::mutex mutex_;
  std::map<Hash, std::shared_ptr<Entry>> entries_;
};

// The stored program of a candidate that passed. kInternal when there is none.
Result<codegen::KernelProgram> ProgramOf(results::Store& store, const results::CandidateRow& row);
Result<codegen::KernelProgram> ProgramOf(const RunTree& tree, const results::CandidateRow& row);

}  // namespace grove::search
