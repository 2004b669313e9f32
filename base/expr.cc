#include "base/expr.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"

namespace grove {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr int kMaxDepth = 64;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

enum class Op {
  kConstant,
  kName,
  kNegate,
  kNot,
  kMultiply,
  kDivide,
  kRemainder,
  kAdd,
  kSubtract,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kSelect,
  kMinimum,
  kMaximum,
  kCeilDiv,
};

struct BinaryOperator {
  std::string_view text;
  int level;  // a higher level binds tighter
  Op op;
};
// The longer spelling first where one is the beginning of another.
constexpr std::array<BinaryOperator, 13> kBinary = {{
    {"||", 0, Op::kOr},
    {"&&", 1, Op::kAnd},
    {"==", 2, Op::kEqual},
    {"!=", 2, Op::kNotEqual},
    {"<=", 3, Op::kLessEqual},
    {">=", 3, Op::kGreaterEqual},
    {"<", 3, Op::kLess},
    {">", 3, Op::kGreater},
    {"+", 4, Op::kAdd},
    {"-", 4, Op::kSubtract},
    {"*", 5, Op::kMultiply},
    {"/", 5, Op::kDivide},
    {"%", 5, Op::kRemainder},
}};
constexpr int kTightest = 5;

struct Function {
  std::string_view name;
  Op op;
  std::size_t least, most;  // number of arguments
};
constexpr std::array<Function, 3> kFunctions = {{
    {"min", Op::kMinimum, 2, kMaxText},
    {"max", Op::kMaximum, 2, kMaxText},
    {"ceil_div", Op::kCeilDiv, 2, 2},
}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// A digit's value, or 16 for a character that is none.
unsigned DigitValue(char c) {
  if (IsDigit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 16;
}

Failure At(std::size_t offset, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("column {}: {}", offset + 1, what));
}

}  // namespace

struct Expr::Node {
  Op op = Op::kConstant;
  std::size_t offset = 0;  // of the operator or operand, in bytes
  std::int64_t value = 0;
  std::string name;
  std::vector<std::shared_ptr<const Node>> operands;

  Result<std::int64_t> Evaluate(const Lookup& lookup) const;
  Result<std::int64_t> Binary(std::int64_t a, std::int64_t b) const;
  void CollectNames(std::vector<std::string>& names) const;
};

Result<std::int64_t> Expr::Node::Binary(std::int64_t a, std::int64_t b) const {
  std::int64_t r = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &r);
      break;
    case Op::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &r);
      break;
    case Op::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &r);
      break;
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kCeilDiv:
      if (b == 0) return At(offset, "division by zero");
      // The processor traps on both the quotient and the remainder of this pair.
      if (a == kMin && b == -1) {
        overflow = op != Op::kRemainder;
        break;
      }
      if (op == Op::kRemainder) {
        r = a % b;
      } else {
        r = a / b;
        if (op == Op::kCeilDiv && a % b != 0 && ((a < 0) == (b < 0))) ++r;
      }
      break;
    case Op::kLess:
      return a < b ? 1 : 0;
    case Op::kLessEqual:
      return a <= b ? 1 : 0;
    case Op::kGreater:
      return a > b ? 1 : 0;
    case Op::kGreaterEqual:
      return a >= b ? 1 : 0;
    case Op::kEqual:
      return a == b ? 1 : 0;
    case Op::kNotEqual:
      return a != b ? 1 : 0;
    case Op::kMinimum:
      return std::min(a, b);
    case Op::kMaximum:
      return std::max(a, b);
    default:
      return Fail(ErrorCode::kInternal, "not a binary operator");
  }
  if (overflow) return At(offset, fmt::format("64-bit overflow (operands {} and {})", a, b));
  return r;
}

Result<std::int64_t> Expr::Node::Evaluate(const Lookup& lookup) const {
  switch (op) {
    case Op::kConstant:
      return value;
    case Op::kName: {
      const std::optional<std::int64_t> found = lookup ? lookup(name) : std::nullopt;
      if (!found) return At(offset, fmt::format("unknown name '{}'", name));
      return *found;
    }
    default:
      break;
  }
  const Result<std::int64_t> first = operands[0]->Evaluate(lookup);
  if (!first) return first;
  switch (op) {
    case Op::kNegate:
      if (*first == kMin) return At(offset, fmt::format("64-bit overflow (operand {})", *first));
      return -*first;
    case Op::kNot:
      return *first == 0 ? 1 : 0;
    case Op::kSelect:
      return operands[*first != 0 ? 1 : 2]->Evaluate(lookup);
    case Op::kAnd:
    case Op::kOr: {
      if ((*first != 0) == (op == Op::kOr)) return op == Op::kOr ? 1 : 0;
      const Result<std::int64_t> second = operands[1]->Evaluate(lookup);
      if (!second) return second;
      return *second != 0 ? 1 : 0;
    }
    default:
      break;
  }
  Result<std::int64_t> result = first;
  for (std::size_t i = 1; i < operands.size() && result; ++i) {
    const Result<std::int64_t> next = operands[i]->Evaluate(lookup);
    if (!next) return next;
    result = Binary(*result, *next);
  }
  return result;
}

void Expr::Node::CollectNames(std::vector<std::string>& names) const {
  if (op == Op::kName && std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
  for (const auto& operand : operands) operand->CollectNames(names);
}

class ExprParser {
 public:
  using NodePtr = std::shared_ptr<const Expr::Node>;

  explicit ExprParser(std::string_view text) : text_(text) {}

  Result<NodePtr> ParseAll() {
    Result<NodePtr> node = ParseSelect();
    if (!node) return node;
    if (!AtEnd()) return Unexpected("an operator or the end");
    return node;
  }

 private:
  static NodePtr Make(Op op, std::size_t offset, std::vector<NodePtr> operands) {
    auto node = std::make_shared<Expr::Node>();
    node->op = op;
    node->offset = offset;
    node->operands = std::move(operands);
    return node;
  }

  bool AtEnd() {
    while (pos_ < text_.size() && IsBlank(text_[pos_])) ++pos_;
    return pos_ == text_.size();
  }

  bool Take(char c) {
    if (AtEnd() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }

  Failure Unexpected(std::string_view wanted) {
    if (AtEnd()) return At(pos_, fmt::format("expected {}, but the expression ends", wanted));
    const auto c = static_cast<unsigned char>(text_[pos_]);
    if (c < 0x20 || c > 0x7e) {
      return At(pos_, fmt::format("expected {}, found byte 0x{:02x}", wanted, c));
    }
    return At(pos_, fmt::format("expected {}, found '{}'", wanted, text_[pos_]));
  }

  Result<NodePtr> ParseSelect() {
    if (depth_ >= kMaxDepth) {
      return At(pos_, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    ++depth_;
    Result<NodePtr> node = ParseSelectBody();
    --depth_;
    return node;
  }

  Result<NodePtr> ParseSelectBody() {
    Result<NodePtr> condition = ParseBinary(0);
    if (!condition) return condition;
    if (AtEnd() || text_[pos_] != '?') return condition;
    const std::size_t offset = pos_++;
    Result<NodePtr> yes = ParseSelect();
    if (!yes) return yes;
    if (!Take(':')) return Unexpected("':' of '?:'");
    Result<NodePtr> no = ParseSelect();
    if (!no) return no;
    return Make(Op::kSelect, offset, {*condition, *yes, *no});
  }

  const BinaryOperator* PeekOperator(int level) {
    if (AtEnd()) return nullptr;
    for (const BinaryOperator& candidate : kBinary) {
      if (text_.substr(pos_).starts_with(candidate.text)) {
        return candidate.level == level ? &candidate : nullptr;
      }
    }
    return nullptr;
  }

  Result<NodePtr> ParseBinary(int level) {
    if (level > kTightest) return ParseUnary();
    Result<NodePtr> left = ParseBinary(level + 1);
    while (left) {
      const BinaryOperator* found = PeekOperator(level);
      if (found == nullptr) break;
      const std::size_t offset = pos_;
      pos_ += found->text.size();
      Result<NodePtr> right = ParseBinary(level + 1);
      if (!right) return right;
      left = Make(found->op, offset, {*left, *right});
    }
    return left;
  }

  Result<NodePtr> ParseUnary() {
    if (AtEnd() || (text_[pos_] != '-' && text_[pos_] != '!')) return ParsePrimary(false);
    if (depth_ >= kMaxDepth) {
      return At(pos_, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    const std::size_t offset = pos_;
    const bool minus = text_[pos_++] == '-';
    if (minus && !AtEnd() && IsDigit(text_[pos_])) return ParsePrimary(true);
    ++depth_;
    Result<NodePtr> operand = ParseUnary();
    --depth_;
    if (!operand) return operand;
    return Make(minus ? Op::kNegate : Op::kNot, offset, {*operand});
  }

  Result<NodePtr> ParsePrimary(bool negative) {
    if (AtEnd()) return Unexpected("a number, a name or '('");
    const char c = text_[pos_];
    if (IsDigit(c)) return ParseInteger(negative);
    if (IsNameStart(c)) return ParseName();
    if (!Take('(')) return Unexpected("a number, a name or '('");
    Result<NodePtr> inner = ParseSelect();
    if (!inner) return inner;
    if (!Take(')')) return Unexpected("')'");
    return inner;
  }

  // The sign belongs to the literal, since the least 64-bit integer has no positive twin.
  Result<NodePtr> ParseInteger(bool negative) {
    const std::size_t start = pos_;
    unsigned base = 10;
    if (text_[pos_] == '0' && pos_ + 1 < text_.size() && (text_[pos_ + 1] | 0x20) == 'x') {
      base = 16;
      pos_ += 2;
      if (pos_ == text_.size() || DigitValue(text_[pos_]) >= base) return Unexpected("a hex digit");
    }
    std::int64_t value = 0;
    bool overflow = false;
    while (pos_ < text_.size() && DigitValue(text_[pos_]) < base) {
      const auto digit = static_cast<std::int64_t>(DigitValue(text_[pos_++]));
      overflow |= __builtin_mul_overflow(value, std::int64_t{base}, &value);
      overflow |= __builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    if (overflow) return At(start, "the number does not fit in 64 bits");
    if (pos_ < text_.size() && (text_[pos_] == '.' || IsNameChar(text_[pos_]))) {
      return At(pos_, fmt::format("expected an integer without suffix or fraction, found '{}'",
                                  text_[pos_]));
    }
    auto node = std::make_shared<Expr::Node>();
    node->offset = start;
    node->value = value;
    return node;
  }

  Result<NodePtr> ParseName() {
    const std::size_t start = pos_;
    while (pos_ < text_.size() && IsNameChar(text_[pos_])) ++pos_;
    const std::string_view name = text_.substr(start, pos_ - start);
    const auto function = std::find_if(kFunctions.begin(), kFunctions.end(),
                                       [&](const Function& f) { return f.name == name; });
    if (!Take('(')) {
      if (function != kFunctions.end()) return Unexpected(fmt::format("'(' after '{}'", name));
      auto node = std::make_shared<Expr::Node>();
      node->op = Op::kName;
      node->offset = start;
      node->name = std::string(name);
      return node;
    }
    if (function == kFunctions.end()) {
      std::vector<std::string> valid;
      for (const Function& f : kFunctions) valid.emplace_back(f.name);
      return At(start, UnknownName("function", name.substr(0, 64), valid));
    }
    std::vector<NodePtr> arguments;
    do {
      Result<NodePtr> argument = ParseSelect();
      if (!argument) return argument;
      arguments.push_back(*argument);
    } while (Take(','));
    if (!Take(')')) return Unexpected("',' or ')'");
    if (arguments.size() < function->least || arguments.size() > function->most) {
      return At(start, fmt::format("{} takes {}{} arguments, found {}", name,
                                   function->most == function->least ? "" : "at least ",
                                   function->least, arguments.size()));
    }
    return Make(function->op, start, std::move(arguments));
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  int depth_ = 0;
};

Expr::Expr() : Expr(Constant(0)) {}

Result<Expr> Expr::Parse(std::string_view text) {
  if (text.size() > kMaxText) {
    return At(kMaxText, fmt::format("the expression is longer than {} bytes", kMaxText));
  }
  Result<std::shared_ptr<const Node>> root = ExprParser(text).ParseAll();
  if (!root) return Fail(std::move(root).error());
  Expr expression = Constant(0);
  expression.text_ = std::string(text);
  expression.root_ = *std::move(root);
  return expression;
}

Expr Expr::Constant(std::int64_t value) {
  auto node = std::make_shared<Node>();
  node->value = value;
  return Expr(std::to_string(value), std::move(node));
}

Expr::Expr(std::string text, std::shared_ptr<const Node> root)
    : text_(std::move(text)), root_(std::move(root)) {}

Result<std::int64_t> Expr::Evaluate(const Lookup& lookup) const { return root_->Evaluate(lookup); }

std::vector<std::string> Expr::Names() const {
  std::vector<std::string> names;
  root_->CollectNames(names);
  return names;
}

}  // namespace grove
