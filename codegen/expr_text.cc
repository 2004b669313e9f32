#include "codegen/expr_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::codegen {
namespace {

struct Operator {
  std::string_view text;
  int level;
};
// As base/expr.cc: the longer spelling first where one is the beginning of another.
constexpr std::array<Operator, 13> kOperators = {{{"||", 0},
                                                  {"&&", 1},
                                                  {"==", 2},
                                                  {"!=", 2},
                                                  {"<=", 3},
                                                  {">=", 3},
                                                  {"<", 3},
                                                  {">", 3},
                                                  {"+", 4},
                                                  {"-", 4},
                                                  {"*", 5},
                                                  {"/", 5},
                                                  {"%", 5}}};
constexpr int kTightest = 5;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// REQUIRES a text that Expr::Parse took: nothing is checked again.
class Printer {
 public:
  Printer(std::string_view text, HostLanguage language, const Rename& rename)
      : text_(text), python_(language == HostLanguage::kPython), rename_(rename) {}

  std::string Print() { return Select(); }

 private:
  char Next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Next() != c) return false;
    ++at_;
    return true;
  }

  std::string Select() {
    std::string condition = Binary(0);
    if (!Take('?')) return condition;
    const std::string yes = Select();
    Take(':');
    const std::string no = Select();
    if (python_) return fmt::format("({} if {} else {})", yes, condition, no);
    return fmt::format("({} ? {} : {})", condition, yes, no);
  }

  std::string Binary(int level) {
    if (level > kTightest) return Unary();
    std::string left = Binary(level + 1);
    while (true) {
      Next();
      const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](const Operator& o) {
        return text_.substr(at_).starts_with(o.text);
      });
      if (found == kOperators.end() || found->level != level) return left;
      at_ += found->text.size();
      left = Combine(found->text, left, Binary(level + 1));
    }
  }

  std::string Combine(std::string_view op, const std::string& a, const std::string& b) const {
    if (!python_) return fmt::format("({} {} {})", a, op, b);
    if (op == "/") return fmt::format("_div({}, {})", a, b);
    if (op == "%") return fmt::format("_mod({}, {})", a, b);
    if (op == "&&") return fmt::format("int(bool({}) and bool({}))", a, b);
    if (op == "||") return fmt::format("int(bool({}) or bool({}))", a, b);
    if (op == "+" || op == "-" || op == "*") return fmt::format("({} {} {})", a, op, b);
    return fmt::format("int({} {} {})", a, op, b);
  }

  std::string Unary() {
    if (Take('-')) {
      if (std::isdigit(static_cast<unsigned char>(Next())) != 0) return Integer(true);
      return fmt::format("(-{})", Unary());
    }
    if (Next() == '!') {
      ++at_;
      const std::string operand = Unary();
      return python_ ? fmt::format("int(not {})", operand) : fmt::format("(!{})", operand);
    }
    return Primary();
  }

  std::string Primary() {
    if (std::isdigit(static_cast<unsigned char>(Next())) != 0) return Integer(false);
    if (Take('(')) {
      std::string inner = Select();
      Take(')');
      return inner;
    }
    const std::size_t start = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (!Take('(')) return rename_(name);
    std::vector<std::string> arguments;
    do {
      arguments.push_back(Select());
    } while (Take(','));
    Take(')');
    const std::string_view prefix = python_ ? (name == "ceil_div" ? "_" : "") : "grove_plan::";
    return fmt::format("{}{}({})", prefix, name, fmt::join(arguments, ", "));
  }

  std::string Integer(bool negative) {
    const std::size_t start = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    std::string digits(text_.substr(start, at_ - start));
    // A plan may write 010 for ten, where C++ would read eight and Python nothing.
    if (!(digits.size() > 1 && (digits[1] | 0x20) == 'x')) {
      digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    }
    if (python_) return negative ? fmt::format("(-{})", digits) : digits;
    // The least 64-bit integer has no literal of its own.
    if (negative && (digits == "9223372036854775808" || digits.ends_with("8000000000000000"))) {
      return "(-9223372036854775807LL - 1)";
    }
    return negative ? fmt::format("(-{}LL)", digits) : digits + "LL";
  }

  std::string_view text_;
  bool python_;
  const Rename& rename_;
  std::size_t at_ = 0;
};

}  // namespace

std::string ExpressionText(const Expr& expression, HostLanguage language, const Rename& rename) {
  return Printer(expression.text(), language, rename).Print();
}

}  // namespace grove::codegen
