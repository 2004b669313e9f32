// The catalogue of transformations: *.toml and *.mustache of one folder, read once. An entry says
// when a transformation applies to a kernel (by its traits and the task's shapes), what traits it
// sets and with which parameter choices; a template makes source and plan from traits. Format:
// docs/playbook.md. Immutable after loading, safe to share between threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/expr.h"
#include "base/result.h"
#include "llm/playbook/traits.h"

namespace grove::llm::playbook {

// A tensor of an operation: "x", of one of the operation's types, or "target:i64", always of that.
struct OpTensor {
  std::string name;
  std::string type;  // empty: one of Op::types, the same for all such tensors of a case
};

// An operation that templates exist for.
struct Op {
  std::string name;                // also a prefix of the names of the tasks it serves
  std::string family;              // as in task.toml
  std::vector<OpTensor> tensors;   // in the task's order
  std::vector<std::string> types;  // element types that its templates are written for
  std::vector<std::string> rows;   // dims whose product is the number of rows
  std::vector<std::string> row;    // dims whose product is the length of a row
};

struct Choice {
  Traits sets;
  std::vector<Condition> when;
};

struct Entry {
  std::string id;
  std::vector<std::string> ops;
  std::string title;
  std::string category;
  std::string rationale;           // mustache over the facts
  double expected_gain = 1;        // ratio of times, parent / child
  std::vector<Condition> needs;    // all must hold
  std::vector<Condition> forbids;  // none may hold
  Traits sets;
  Traits naive;                 // set as well when the parent's strategy is naive
  std::vector<Choice> choices;  // parameters of siblings; never empty
};

// Source and plan of one op and strategy, as functions of the traits.
struct Template {
  std::string op;
  std::string strategy;
  Traits defaults;  // every trait the template knows
  // Over facts and numeric traits; each must be non-zero (limits of shared memory and block size).
  std::vector<Expr> fits;
  std::string source;  // mustache
  std::string plan;    // mustache
};

struct Program {
  std::string source;
  std::string plan;
};

class Catalogue {
 public:
  // kNotFound without the folder or a template file, kInvalidInput with file and place for a broken
  // entry: unknown field, unknown op or category, duplicate id or title, a trait no template knows.
  static Result<Catalogue> Load(const std::filesystem::path& folder);

  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Template>& templates() const { return templates_; }

  // Whether `entry` changes something for a kernel with these traits (which include op).
  bool Applies(const Entry& entry, const Traits& traits, const Facts& facts) const;

  // Traits after the transformation for each of the entry's choices that the shapes allow, without
  // those equal to the parent's or beyond the limits of the template. Traits that the new strategy
  // does not know are dropped.
  std::vector<Traits> Apply(const Entry& entry, const Traits& traits, const Facts& facts) const;

  // Traits of the template's strategy: its defaults, overlaid with what `traits` sets of them.
  // kNotFound when no template has this op and strategy.
  Result<Traits> Complete(const Traits& traits) const;

  // Source (headed by the traits line) and plan for complete traits.
  Result<Program> Render(const Traits& traits, const Facts& facts) const;

  // The entry's rationale with the shapes filled in.
  std::string Rationale(const Entry& entry, const Facts& facts) const;
  // The same in general words, for no task in particular: R rows of N elements.
  std::string GeneralRationale(const Entry& entry) const;

 private:
  Status ReadToml(const std::filesystem::path& file);
  Status Check() const;
  const Template* Find(const Traits& traits) const;
  bool Fits(const Traits& complete, const Facts& facts) const;

  std::vector<Op> ops_;
  std::vector<Entry> entries_;
  std::vector<Template> templates_;
  std::map<std::string, std::string> partials_;  // by name without extension
};

}  // namespace grove::llm::playbook
