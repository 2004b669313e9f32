// What the playbook client reads in a prompt: the sections that ideas/idea_prompt.h and
// codegen/implement.h write. Foreign text: missing or odd parts are left empty, never an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grove::llm::playbook {

struct CaseView {
  bool scored = false;
  std::vector<std::pair<std::string, std::int64_t>> dims;
  std::vector<std::pair<std::string, std::string>> tensors;  // name, dtype; in the task's order
  std::optional<std::int64_t> dim(std::string_view name) const;
};

struct PromptView {
  std::string task;  // name
  std::string family;
  std::string demanded;  // class of accuracy, "fp32"
  std::vector<CaseView> cases;
  std::string arch;       // of the device, "sm_90a"
  bool measured = false;  // times come from a device, so what no emulator executes may be used
  std::string parent_source;
  std::vector<std::string> tried_here;     // titles
  std::vector<std::string> failed_titles;  // tried elsewhere and lost or failed
  std::string idea_title;
  std::string idea_category;
  std::string failed_source;
  std::string verdict;
  std::size_t wanted = 4;

  static PromptView Read(std::string_view prompt);
};

// Between the lines "<name>" and "</name>"; empty when there is no such section.
std::string_view Section(std::string_view text, std::string_view name);
// The first fenced block of `text` whose fence names `language`; empty when there is none.
std::string_view FencedBlock(std::string_view text, std::string_view language);

}  // namespace grove::llm::playbook
