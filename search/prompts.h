// The questions of a search: turns the run's rows into the contexts from which ideas/ and codegen/
// write prompts. Thread-safe: what it holds (the playbook, read once) does not change.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/implement.h"
#include "eval/device.h"
#include "ideas/context.h"
#include "ideas/knowledge.h"
#include "llm/client.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/config.h"
#include "seeds/task.h"

namespace grove::search {

class Prompts {
 public:
  // Borrows everything. Reads the playbook; that it could not be read is what ForIdeas says.
  Prompts(const seeds::Task& task, const eval::Device& device, const SearchConfig& config,
          results::Store& store);

  // Ideas for `parent` in round `round`, given what the rounds before it found.
  Result<llm::Request> ForIdeas(const results::RunData& data, const results::CandidateRow& parent,
                                int round) const;
  // One implementation of `idea`; siblings differ by `branch`.
  Result<llm::Request> ForImplementation(const results::CandidateRow& parent,
                                         const results::IdeaRow& idea, int branch) const;
  // Another try after `failed` ended with `verdict`; `earlier` are the verdicts before that one.
  Result<llm::Request> ForRepair(const results::CandidateRow& parent, const results::IdeaRow& idea,
                                 int branch, const results::ProgramDraft& failed,
                                 const eval::Verdict& verdict,
                                 const std::vector<std::string>& earlier) const;

 private:
  Result<ideas::KernelFacts> Describe(const results::CandidateRow& candidate) const;
  Result<codegen::ImplementContext> Implementation(const results::CandidateRow& parent,
                                                   const results::IdeaRow& idea, int branch) const;

  const seeds::Task& task_;
  const eval::Device& device_;
  const SearchConfig& config_;
  results::Store& store_;
  const Result<ideas::Library> library_;
};

}  // namespace grove::search
