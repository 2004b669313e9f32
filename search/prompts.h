// The questions of a search: turns the run's rows into the contexts from which ideas/ and codegen/
// write prompts. What is asked is a function of the rounds that are finished, the parent and the
// configuration, never of what happens to be in flight, so a run that is resumed or replayed asks
// the same. Thread-safe: what it holds does not change, and templates are read once.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/implement.h"
#include "eval/device.h"
#include "ideas/context.h"
#include "ideas/knowledge.h"
#include "ideas/prompt_page.h"
#include "llm/client.h"
#include "results/rows.h"
#include "search/config.h"
#include "search/run_tree.h"
#include "seeds/task.h"

namespace grove::search {

// A kernel that a round starts from, as its prompts show it: read once per round.
struct ParentFacts {
  CandidateId id;
  std::string name;
  ideas::KernelFacts kernel;
  std::vector<std::string> lineage;  // from the seed to the parent, ideas::DescribeTried of each
  std::size_t lineage_older = 0;     // steps before those, for which no prompt has room
  std::string briefing;              // codegen::BuildBriefing
};

// What an idea request depends on beside the parent.
struct IdeaQuestion {
  int round = 0;
  std::size_t wanted = 0;
  std::size_t most_of_category = 0;   // that the round takes from this parent; 0 = no limit
  bool radical = false;               // the search has stagnated: role kAdviser
  std::vector<std::string> hints;     // from the user, for this round
  std::string goal;                   // may be empty
  std::vector<std::string> proposed;  // titles that this round has already
  std::vector<std::string> refusals;  // why ideas of the last reply were refused, one line each
  int turn = 0;                       // repeated requests for one parent
};

class Prompts {
 public:
  // Borrows the configuration.
  Prompts(const seeds::Task& task, const eval::Device& device, const SearchConfig& config,
          ideas::Library library);

  // REQUIRES: nothing writes to the tree, or the caller holds its lock. Reads texts of the store.
  Result<ParentFacts> Describe(const RunTree& tree, const results::CandidateRow& parent) const;
  // Ideas for `parent`, given what the rounds before found. REQUIRES: as Describe.
  Result<llm::Request> ForIdeas(const RunTree& tree, const ParentFacts& parent,
                                const IdeaQuestion& question) const;
  // One implementation of `idea`; siblings differ by SeedOf(branch) alone. `named`: of
  // ChangesNamedBy.
  Result<llm::Request> ForImplementation(const ParentFacts& parent, const results::IdeaRow& idea,
                                         const std::vector<ideas::Change>& named, int branch,
                                         const std::vector<std::string>& hints) const;
  std::uint64_t SeedOf(int branch) const;
  // Another try after `failed` ended with `verdict`; `report` is RepairReport() of its evaluation,
  // `earlier` are the verdicts before that one.
  Result<llm::Request> ForRepair(const ParentFacts& parent, const results::IdeaRow& idea,
                                 const std::vector<ideas::Change>& named, int branch,
                                 const std::vector<std::string>& hints,
                                 const results::ProgramDraft& failed, const eval::Verdict& verdict,
                                 const std::string& report,
                                 const std::vector<std::string>& earlier) const;

 private:
  codegen::ImplementContext ContextOf(const ParentFacts& parent) const;
  codegen::ImplementContext Implementation(const ParentFacts& parent, const results::IdeaRow& idea,
                                           const std::vector<ideas::Change>& named, int branch,
                                           const std::vector<std::string>& hints) const;

  const SearchConfig& config_;
  const ideas::TaskFacts task_;
  const ideas::DeviceFacts device_;
  const ideas::Library library_;
  const ideas::PromptPage idea_page_;
  const codegen::ProgramPages pages_;
};

// What came of an idea, from its candidates. REQUIRES: as Prompts::Describe.
ideas::TriedIdea OutcomeOf(const RunTree& tree, const results::IdeaRow& idea);

}  // namespace grove::search
