#include "codegen/entry_points.h"

#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "codegen/text.h"

namespace grove::codegen {
namespace {

constexpr std::int64_t kMaxParamBytes = std::int64_t{1} << 20;
constexpr std::int64_t kMaxThreads = 1024;

// Words (with their dots and dollars), quoted strings and single punctuation characters.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Empty at the end.
  std::string_view Next() {
    SkipBlanks();
    start_ = pos_;
    if (pos_ >= text_.size()) return {};
    if (text_[pos_] == '"') {
      const std::size_t end = text_.find('"', pos_ + 1);
      pos_ = end == std::string_view::npos ? text_.size() : end + 1;
    } else if (IsWordChar(text_[pos_])) {
      while (pos_ < text_.size() && IsWordChar(text_[pos_])) ++pos_;
    } else {
      ++pos_;
    }
    return text_.substr(start_, pos_ - start_);
  }

  std::string_view Peek() {
    const std::size_t start = start_, pos = pos_;
    const std::string_view token = Next();
    start_ = start;
    pos_ = pos;
    return token;
  }

  Failure Error(std::string_view what) const {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("PTX line {}: {}", PositionOf(text_, start_).line, what));
  }

 private:
  static bool IsWordChar(char c) {
    return IsIdentifierChar(c) || c == '.' || c == '$' || c == '%' || c == '@';
  }
  void SkipBlanks() {
    while (pos_ < text_.size()) {
      const std::string_view rest = text_.substr(pos_);
      if (rest.starts_with("//")) {
        const std::size_t end = rest.find('\n');
        pos_ = end == std::string_view::npos ? text_.size() : pos_ + end;
      } else if (rest.starts_with("/*")) {
        const std::size_t end = rest.find("*/", 2);
        pos_ = end == std::string_view::npos ? text_.size() : pos_ + end + 2;
      } else if (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r') {
        ++pos_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  std::size_t start_ = 0;
};

std::optional<std::int64_t> Number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

// ".f32" -> 4: the digits of a fundamental type are its bits; packed types have a factor ("x2").
std::optional<std::int64_t> TypeBytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return std::nullopt;
  std::size_t digits = 1;
  while (digits < type.size() && type[digits] >= 'a' && type[digits] <= 'z') ++digits;
  std::string_view rest = type.substr(digits);
  std::int64_t factor = 1;
  if (const std::size_t x = rest.find('x'); x != std::string_view::npos) {
    const auto packed = Number(rest.substr(x + 1));
    if (!packed || *packed > 8) return std::nullopt;
    factor = *packed;
    rest = rest.substr(0, x);
  }
  const auto bits = Number(rest);
  if (!bits || *bits < 8 || *bits > 128 || *bits % 8 != 0) return std::nullopt;
  return *bits / 8 * factor;
}

// The parameters after "(" up to and with ")".
Status ReadParams(Scanner& scanner, EntryPoint& entry) {
  std::optional<std::int64_t> element;
  std::int64_t bytes = 0;
  bool pending = false;
  for (;;) {
    const std::string_view word = scanner.Next();
    if (word.empty()) return scanner.Error("the parameter list does not end");
    if (word == ".param") {
      pending = true;
      element.reset();
    } else if (word == ".align") {
      scanner.Next();
    } else if (word == "," || word == ")") {
      if (pending) {
        if (!element) return scanner.Error("a parameter without a type");
        entry.param_sizes.push_back(static_cast<std::size_t>(bytes));
      }
      pending = false;
      if (word == ")") return {};
    } else if (word == "[") {
      const auto count = Number(scanner.Next());
      if (!count || *count > kMaxParamBytes || scanner.Next() != "]") {
        return scanner.Error("a parameter's array size is not a number");
      }
      bytes *= *count;
    } else if (const auto size = TypeBytes(word); size && !element) {
      element = size;
      bytes = *size;
    }
  }
}

// `.maxntid 256, 1, 1`: the product.
Result<std::int64_t> ReadThreads(Scanner& scanner) {
  std::int64_t product = 1;
  do {
    const auto extent = Number(scanner.Next());
    if (!extent || *extent < 1 || *extent > kMaxThreads) {
      return scanner.Error("a number of threads is not 1 to 1024");
    }
    product *= *extent;
    if (product > kMaxThreads) return scanner.Error("more than 1024 threads");
    if (scanner.Peek() != ",") return product;
    scanner.Next();
  } while (true);
}

}  // namespace

Result<std::vector<EntryPoint>> EntryPointsFromPtx(std::string_view ptx) {
  Scanner scanner(ptx);
  if (scanner.Next() != ".version") return scanner.Error("expected '.version'");
  std::vector<EntryPoint> entries;
  for (std::string_view word = scanner.Next(); !word.empty(); word = scanner.Next()) {
    if (word != ".entry") continue;
    EntryPoint entry;
    entry.name = std::string(scanner.Next());
    if (entry.name.empty() || entry.name[0] == '.' || !IsIdentifierChar(entry.name.back())) {
      return scanner.Error("expected a name after '.entry'");
    }
    if (scanner.Peek() == "(") {
      scanner.Next();
      if (Status s = ReadParams(scanner, entry); !s) return Fail(std::move(s).error());
    }
    // Directives up to the body; a ';' ends a mere declaration.
    for (word = scanner.Next(); word != "{" && word != ";"; word = scanner.Next()) {
      if (word.empty()) return scanner.Error("entry '" + entry.name + "' has no body");
      if (word != ".maxntid" && word != ".reqntid") continue;
      Result<std::int64_t> threads = ReadThreads(scanner);
      if (!threads) return Fail(std::move(threads).error());
      entry.max_threads = *threads;
    }
    if (word == "{") entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace grove::codegen
