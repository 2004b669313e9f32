// The prompt that asks for ideas.
// Stateless; safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/share.h"
#include "ideas/changes.h"
#include "ideas/context.h"
#include "ideas/prompt_page.h"
#include "llm/client.h"

namespace grove::ideas {

struct IdeaContext {
  TaskFacts task;
  DeviceFacts device;
  KernelFacts parent;
  std::vector<std::string> lineage;          // from the seed to the parent, DescribeTried of each
  std::size_t lineage_older = 0;             // steps before those, left out
  std::vector<std::string> tried_here;       // from this parent, the same, the newest last
  std::size_t tried_here_older = 0;          // tried before those, left out
  std::vector<std::string> tried_elsewhere;  // from other kernels of the run, the same
  std::vector<Change> ties;                  // kernels as fast as the parent, fastest first
  std::vector<Change> changes;               // other kernels of these ideas, the most telling first
  std::vector<std::string> playbook;         // see Library::Excerpt
  std::vector<std::string> hints;            // from the user
  std::string goal;                          // "below 500 us"; may be empty
  std::vector<std::string> proposed;         // titles taken from an earlier reply to this question
  std::vector<std::string> refusals;         // why ideas of that reply were not taken
  std::size_t wanted = 4;                    // number of ideas
  // Of one category that this round takes from this parent, `proposed` included; 0 = no limit.
  std::size_t most_of_category = 0;
  std::string model;       // for Request::model
  std::uint64_t seed = 0;  // for Request::seed
  // Ask for radical directions: the search has stagnated (role kAdviser).
  bool radical = false;
  PromptBudget budget;
};

// The template, idea.mustache of `prompts`.
PromptPage IdeaPage(const std::filesystem::path& prompts = ShareFolder("prompts/ideas"));

// Errors of PromptPage::Render. Without a page the template is read for this one request.
Result<llm::Request> BuildIdeaRequest(const IdeaContext& context, const PromptPage& page);
Result<llm::Request> BuildIdeaRequest(const IdeaContext& context);

}  // namespace grove::ideas
