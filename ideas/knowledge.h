// What is known about making kernels fast, in words: the Markdown files of the playbook, one per
// tier, and the excerpt of it that goes into a prompt. Read once, immutable afterwards, safe to
// share between threads.
//
// A file is
//   # Title of the tier
//   an introduction for people, not for prompts
//   ## Title of an entry
//   - Families: row_reduction, gemm      those of tasks, or all
//   - Arch: sm_90                        optional: the least compute capability that has it
//   - When: to what kernels it applies
//   - Moves: the quantity that it should change, and by how much
//   - See: how to tell from numbers that it did
//   a blank line, then the text
// Fields stand in any order, each once; a field goes on in lines that begin with two blanks.
// Nothing else is accepted: an entry that lacks its test of success is advice that nobody can
// check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/share.h"
#include "llm/playbook_client.h"

namespace grove::ideas {

struct KnowledgeEntry {
  std::string tier;
  std::string title;
  std::vector<std::string> families;  // "all", or names of families
  int arch = 0;                       // least compute capability times ten (90); 0 = any
  std::string when;
  std::string moves;
  std::string see;
  std::string text;  // paragraphs joined to one line
};

// The entries of one file in their order. kInvalidInput, "file:line: what was expected", for
// anything that is not of the form above, a title that is used twice, or more than 1 MiB of text.
Result<std::vector<KnowledgeEntry>> ReadKnowledge(std::string_view text, std::string_view file);

// "Title [tier]: text When: ... Moves: ... See: ..." as one line.
std::string Describe(const KnowledgeEntry& entry);

// Everything that prompts may quote: the knowledge files and the transformations of the catalogue.
class Library {
 public:
  // Reads *.md and the catalogue in `folder`. kNotFound without the folder or without any *.md;
  // kInvalidInput for a broken file or a title in two files.
  static Result<Library> Load(const std::filesystem::path& folder = ShareFolder("playbook"));
  // From parts, for tests.
  Library(std::vector<llm::PlaybookTip> tips, std::vector<KnowledgeEntry> knowledge);

  const std::vector<KnowledgeEntry>& knowledge() const { return knowledge_; }

  // What round `round` shows of what concerns a family on a device: a share (0.28 by default) of
  // the tips and of the knowledge, a different part every round, all of them after a few. `arch` is
  // the device's ("sm_90"); entries for newer ones are left out. One line each.
  std::vector<std::string> Excerpt(std::string_view family, std::string_view arch,
                                   std::int64_t round, double share = 0.28) const;

 private:
  std::vector<llm::PlaybookTip> tips_;
  std::vector<KnowledgeEntry> knowledge_;
};

}  // namespace grove::ideas
