// The built-in model: ideas and implementations from a catalogue of transformations, offline and
// deterministic. It is a client like any other: it sees the prompt's text and nothing else, so its
// runs replay from the store and another model can take its place with the same prompts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/share.h"
#include "llm/client.h"
#include "seeds/task.h"

namespace grove::llm {

// A client over the catalogue in `folder`. Thread-safe; Complete never blocks.
//
// - kIdea, kAdviser: the transformations that apply to the parent kernel (its `// traits:` line)
// and
//   the task's shapes, best expected gain first with varied categories, without those listed as
//   tried from this parent, as {"ideas": [...]}. Fewer than wanted, or none, when no more apply.
// - kCode: the idea's transformation, recognised by its title (else the nearest one by words and
//   category), applied to the parent; choice `seed` modulo the number of choices.
// - kRepair: the next choices after the one that failed.
// The reply is a function of (messages, role, seed, max_tokens); usage is estimated. A reply longer
// than max_tokens is cut there and ends with kLength, as a model's would.
// Complete: kInvalidInput for a prompt without a task that the catalogue knows. MakePlaybookClient:
// kNotFound without the folder, kInvalidInput for a broken catalogue.
Result<std::unique_ptr<Client>> MakePlaybookClient(
    const std::filesystem::path& folder = ShareFolder("playbook"));

// Whether the catalogue in `folder` has transformations for the task (its tensors in fp32, its
// dims). kInvalidInput, saying which tasks it knows and which models could do it, when it has none:
// to be asked before a run begins, because ideas for it would be refused.
Status CheckPlaybookKnows(const seeds::Task& task, const std::filesystem::path& folder);

// What the catalogue knows, as advice for other models' prompts.
struct PlaybookTip {
  std::string id;
  std::string family;
  std::string title;
  std::string category;
  std::string rationale;  // in general words, without a task's numbers
  double expected_gain = 1;
};
Result<std::vector<PlaybookTip>> LoadPlaybookTips(
    const std::filesystem::path& folder = ShareFolder("playbook"));

}  // namespace grove::llm
