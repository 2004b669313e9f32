// The prompts that ask for kernel programs: implement an idea, and repair a program that did not
// compile or was wrong. Stateless; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/share.h"
#include "ideas/changes.h"
#include "ideas/context.h"
#include "ideas/idea.h"
#include "ideas/prompt_page.h"
#include "llm/client.h"

namespace grove::codegen {

struct ImplementContext {
  ideas::TaskFacts task;
  ideas::DeviceFacts device;
  ideas::KernelFacts parent;
  ideas::Idea idea;
  std::vector<std::string> lineage;  // from the seed to the parent, ideas::DescribeTried of each
  std::size_t lineage_older = 0;     // steps before those, left out
  std::vector<ideas::Change> named;  // kernels that the idea names
  std::vector<std::string> hints;    // from the user
  std::string model;                 // for Request::model
  Tokens longest_reply = llm::Request().max_tokens;
  // Siblings have the same prompt and consecutive seeds: each is another sample, and the playbook
  // client makes its parameter choice number seed modulo the number of choices.
  std::uint64_t seed = 0;
};

// The templates briefing.mustache, implement.mustache and repair.mustache of `prompts`.
struct ProgramPages {
  explicit ProgramPages(const std::filesystem::path& prompts = ShareFolder("prompts/codegen"));
  ideas::PromptPage briefing, implement, repair;
};

// What implementers of every idea from one parent are told first: task, device, rules, the parent
// and its lineage. Errors of PromptPage::Render.
Result<std::string> BuildBriefing(const ImplementContext& context, const ProgramPages& pages);

// Role kCode; the message begins with `briefing`, which is its shared part. Errors of
// PromptPage::Render. Without pages the templates are read for this one request.
Result<llm::Request> BuildImplementRequest(const ImplementContext& context,
                                           const ProgramPages& pages, std::string_view briefing);
Result<llm::Request> BuildImplementRequest(const ImplementContext& context);

// A program that failed and what is known about the failure, all sanitised (no host path).
struct RepairContext {
  ImplementContext implement;
  std::string source;  // as the model wrote it; empty when no program could be read
  std::string plan;
  std::string verdict;               // "compile_error", "wrong_result", ...
  std::string case_name;             // empty when it belongs to no case
  std::string message;               // the compiler's log, the worst element, the fault
  std::string report;                // lines: checks that it passed, its kernels as compiled
  std::vector<std::string> earlier;  // verdicts of earlier attempts at this candidate, oldest first
};

// Role kRepair. The prompt stands alone: it repeats task, idea, parent and rules.
Result<llm::Request> BuildRepairRequest(const RepairContext& context, const ProgramPages& pages);
Result<llm::Request> BuildRepairRequest(const RepairContext& context);

}  // namespace grove::codegen
