// The kernel program: what a model writes. One CUDA C++ source plus one launch plan.
#pragma once

#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "codegen/plan.h"
#include "seeds/task.h"

namespace grove::codegen {

struct KernelProgram {
  std::string source;     // as written
  std::string plan_json;  // as written, or made from `// grove:` comments
  LaunchPlan plan;

  // Identity after normalising comments, white space and the source's own names (own_names.h), and
  // the plan's formatting.
  Hash identity() const;
  // How much there is to read: characters of the same normalised texts. The smaller of two programs
  // is the simpler one.
  std::size_t size() const;
};

// From separate texts (files of a task, `grove eval`). An empty plan is made from the source's
// `// grove: grid=... block=... [shared=...] [args=...]` comments, one above each kernel.
// kInvalidInput with the position on refused includes (CheckSource) or a bad plan.
Result<KernelProgram> MakeProgram(std::string_view source, std::string_view plan_json);

// From a model's reply: a fenced CUDA block and a fenced JSON plan in any order, by language tag
// (cuda, cu, cpp, c++; json, plan), tolerant of prose around them. Where several blocks qualify the
// last complete one wins. kInvalidInput says what is missing or wrong and where.
//
// With a `base`, the program that the prompt showed, a reply without a source may give edits of the
// base's instead, in fenced blocks tagged `edit`, applied in their order:
//   <<<<<<< old
//   lines that occur once in the source as it is by then
//   =======
//   lines in their place
//   >>>>>>> new
// Trailing blanks of lines do not count. Without a plan block the plan stays the base's.
Result<KernelProgram> ParseReply(std::string_view reply, const seeds::ProgramText* base = nullptr);

// Refuses source that could reach the host's files or is not text: #include of anything outside the
// allow-list, absolute or relative paths, include by macro, #include_next, __has_include, #embed,
// assembler directives that read files (.incbin, .include), NUL bytes, invalid UTF-8, trigraphs,
// bidi control characters, over 1 MiB. Line splices and comments are seen through.
Status CheckSource(std::string_view source);

// The text put in front of the source for one case: namespaces dim, tensor and scalar, and the
// standard includes they need. Line numbers of the source are kept by a #line directive.
std::string Prelude(const seeds::Case& task_case);

}  // namespace grove::codegen
