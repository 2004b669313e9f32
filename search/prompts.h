// The questions of a search: turns the run's rows into the contexts from which ideas/ and codegen/
// write prompts.
#pragma once

#include "base/result.h"
#include "eval/device.h"
#include "llm/client.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/config.h"
#include "seeds/task.h"

namespace grove::search {

class Prompts {
 public:
  // Borrows everything.
  Prompts(const seeds::Task& task, const eval::Device& device, const SearchConfig& config,
          results::Store& store);

  // Ideas for `parent` in round `round`, given what the run holds so far.
  Result<llm::Request> ForIdeas(const results::RunData& data, const results::CandidateRow& parent,
                                int round) const;
  // One implementation of `idea`; siblings differ by `branch`.
  Result<llm::Request> ForImplementation(const results::RunData& data,
                                         const results::CandidateRow& parent,
                                         const results::IdeaRow& idea, int branch) const;
  // Another try after a program failed with `verdict`.
  Result<llm::Request> ForRepair(const results::RunData& data,
                                 const results::CandidateRow& parent,
                                 const results::IdeaRow& idea, int branch, int turn,
                                 const results::ProgramDraft& failed,
                                 const eval::Verdict& verdict) const;

 private:
  const seeds::Task& task_;
  const eval::Device& device_;
  const SearchConfig& config_;
  results::Store& store_;
};

}  // namespace grove::search
