// What a kernel of the playbook is made of, as name=value pairs, and conditions over them. The
// traits of a kernel stand in its source, in a comment line
//   // traits: op=softmax strategy=block passes=3 vec=1 threads=256
// so that the client, which sees only the prompt's text, can build on it. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::llm::playbook {

// Ordered, so that everything made from traits is deterministic.
using Traits = std::map<std::string, std::string>;

// Facts about the task's shapes, e.g. row=65536.
using Facts = std::map<std::string, std::int64_t>;

// The traits of the first `// traits:` line of `source`. Without such a line (a seed, a kernel from
// elsewhere) what the text shows: strategy=block (row_reduction) or tile (gemm) when it uses shared
// memory, else strategy=naive; vec=4 for float4; fastexp=1 for ex2 and __expf. Foreign text: at
// most 64 pairs are read, names and values of letters, digits, '_' and at most 32 characters,
// anything else is skipped.
Traits TraitsOf(std::string_view source, std::string_view family);

// "// traits: op=... strategy=... " and the rest in alphabetical order.
std::string TraitsLine(const Traits& traits);

// One condition of a catalogue entry.
//   name=a|b   the trait has one of the values; false when the kernel has no such trait
//   name<=N    (also < >= >) a fact about shapes; false when the task has no such fact
struct Condition {
  enum class Kind { kIs, kLess, kLessEqual, kGreater, kGreaterEqual };
  Kind kind = Kind::kIs;
  std::string name;
  std::vector<std::string> values;  // kIs
  std::int64_t bound = 0;           // the others

  // kInvalidInput when the text is neither form.
  static Result<Condition> Parse(std::string_view text);
  bool Holds(const Traits& traits, const Facts& facts) const;
};

}  // namespace grove::llm::playbook
