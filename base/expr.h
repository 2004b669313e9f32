// Integer expressions of task files and launch plans, evaluated in exact 64-bit integers.
// Grammar (precedence from low to high, left-associative but for ?:):
//   a ? b : c | a || b | a && b | == != | < <= > >= | + - | * / % | unary - ! | primary
//   primary: integer | name | ( expr ) | min(a, b, ...) | max(a, b, ...) | ceil_div(a, b)
// Integers are decimal or 0x hex. `/` and `%` truncate towards zero as in C. Comparisons and logic
// give 0 or 1; && || and ?: evaluate only the operand they need.
// A parsed Expr is immutable and may be evaluated from many threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove {

// Looks a name up; nullopt makes evaluation fail with the name and its position.
using Lookup = std::function<std::optional<std::int64_t>(std::string_view name)>;

class Expr {
 public:
  Expr();  // the constant 0

  // kInvalidInput with the 1-based column and what was expected. Text over 4096 bytes or nested
  // deeper than 64 is refused.
  static Result<Expr> Parse(std::string_view text);
  static Expr Constant(std::int64_t value);

  // kInvalidInput on an unknown name, overflow or division by zero, with the column.
  Result<std::int64_t> Evaluate(const Lookup& lookup) const;

  const std::string& text() const { return text_; }
  // The names used, each once, in order of appearance.
  std::vector<std::string> Names() const;

 private:
  struct Node;
  friend class ExprParser;
  Expr(std::string text, std::shared_ptr<const Node> root);
  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace grove
