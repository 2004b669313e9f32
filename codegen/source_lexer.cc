#include "codegen/source_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "codegen/text.h"

namespace grove::codegen {
namespace {

using Kind = SourceToken::Kind;

unsigned Byte(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

Failure Refuse(std::string_view source, std::size_t offset, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{}: {}", Place(PositionOf(source, offset)), what));
}

// The length of the UTF-8 character at `i` and its code point; nullopt when it is malformed,
// overlong, a surrogate or beyond U+10FFFF (RFC 3629).
struct CodePoint {
  std::uint32_t value;
  std::size_t length;
};
std::optional<CodePoint> DecodeUtf8(std::string_view text, std::size_t i) {
  const std::uint32_t first = Byte(text, i);
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || i + length > text.size()) return std::nullopt;
  std::uint32_t value = first & (0xffU >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    const std::uint32_t next = Byte(text, i + k);
    if ((next & 0xc0U) != 0x80U) return std::nullopt;
    value = (value << 6) | (next & 0x3fU);
  }
  static constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
    return std::nullopt;
  }
  return CodePoint{value, length};
}

// Characters that change the order in which text is shown ("Trojan Source", CVE-2021-42574).
bool IsBidiControl(std::uint32_t c) {
  return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
         c == 0x200f || c == 0x061c;
}

Status CheckText(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("the source has {} bytes, at most {} are "
                                                      "accepted",
                                                      source.size(), kMaxSourceBytes));
  }
  for (std::size_t i = 0; i < source.size();) {
    const unsigned c = Byte(source, i);
    if (c >= 0x80) {
      const std::optional<CodePoint> point = DecodeUtf8(source, i);
      if (!point) return Refuse(source, i, "invalid UTF-8");
      if (IsBidiControl(point->value)) {
        return Refuse(source, i,
                      fmt::format("bidirectional control character U+{:04X}", point->value));
      }
      i += point->length;
      continue;
    }
    if (c == '\r' && Byte(source, i + 1) != '\n') {
      return Refuse(source, i, "carriage return without line feed");
    }
    if (c == 0x7f || (c < 0x20 && (c < '\t' || c > '\r'))) {
      return Refuse(source, i, fmt::format("control character 0x{:02x}", c));
    }
    if (c == '?' && Byte(source, i + 1) == '?' &&
        std::string_view("=/'()!<>-").find(static_cast<char>(Byte(source, i + 2))) !=
            std::string_view::npos) {
      return Refuse(source, i, "trigraph");
    }
    if (c == '\\') {
      std::size_t k = i + 1;
      while (Byte(source, k) == ' ' || Byte(source, k) == '\t') ++k;
      if (k > i + 1 && (Byte(source, k) == '\n' || Byte(source, k) == '\r')) {
        return Refuse(source, i, "blanks after the backslash at the end of a line");
      }
    }
    ++i;
  }
  return {};
}

bool IsNameChar(char c) {
  return IsIdentifierChar(c) || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}
bool IsNumberStart(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {
    auto text = std::make_shared<std::string>();
    text->reserve(source.size());
    offsets_.reserve(source.size() + 1);
    std::size_t i = source.starts_with("\xef\xbb\xbf") ? 3 : 0;
    while (i < source.size()) {
      if (source[i] == '\\' && Byte(source, i + 1) == '\n') {
        i += 2;
      } else if (source[i] == '\\' && Byte(source, i + 1) == '\r') {
        i += 3;
      } else if (source[i] == '\r') {  // of CR LF
        ++i;
      } else {
        *text += source[i];
        offsets_.push_back(static_cast<std::uint32_t>(i++));
      }
    }
    offsets_.push_back(static_cast<std::uint32_t>(source.size()));
    logical_ = text;
    text_ = *text;
  }

  Result<LexedSource> Lex() {
    while (pos_ < text_.size()) {
      const char c = text_[pos_];
      if (c == '\n') {
        StartLine();
        ++pos_;
      } else if (c == ' ' || c == '\t' || c == '\v' || c == '\f') {
        space_ = true;
        ++pos_;
      } else if (Status status = LexToken(c); !status) {
        return Fail(std::move(status).error());
      }
    }
    return LexedSource{std::move(tokens_), logical_};
  }

 private:
  char At(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool Starts(std::string_view what) const { return text_.substr(pos_).starts_with(what); }

  Failure Refuse(std::size_t position, std::string_view what) const {
    return codegen::Refuse(source_, offsets_[position], what);
  }

  void StartLine() {
    space_ = true;
    line_empty_ = true;
    in_directive_ = false;
    after_include_ = false;
    comment_spans_lines_ = false;
  }

  void Push(Kind kind, std::size_t end, std::string_view text) {
    SourceToken token;
    token.kind = kind;
    token.space_before = space_;
    token.line_start = kind != Kind::kComment && line_empty_;
    token.in_directive = in_directive_;
    token.offset = offsets_[pos_];
    token.end = end > pos_ ? offsets_[end - 1] + 1 : token.offset;
    token.text = text;
    tokens_.push_back(token);
    if (kind == Kind::kComment) {
      space_ = true;
    } else {
      space_ = false;
      line_empty_ = false;
      directive_name_next_ = false;
      after_include_ = false;
    }
    pos_ = end;
  }
  void Push(Kind kind, std::size_t end) { Push(kind, end, text_.substr(pos_, end - pos_)); }

  Status LexToken(char c) {
    if (Starts("//")) {
      const std::size_t end = std::min(text_.find('\n', pos_), text_.size());
      Push(Kind::kComment, end);
      return {};
    }
    if (Starts("/*")) return LexBlockComment();
    if (after_include_ && (c == '<' || c == '"')) return LexHeaderName(c == '<' ? '>' : '"');
    if (IsNumberStart(c) || (c == '.' && IsNumberStart(At(pos_ + 1)))) return LexNumber();
    if (IsNameChar(c)) return LexName();
    if (c == '"' || c == '\'') return LexLiteral(pos_);
    return LexPunctuation();
  }

  Status LexBlockComment() {
    const std::size_t end = text_.find("*/", pos_ + 2);
    if (end == std::string_view::npos) return Refuse(pos_, "the comment does not end");
    const std::string_view comment = text_.substr(pos_, end + 2 - pos_);
    if (comment.find('\n') != std::string_view::npos) comment_spans_lines_ = true;
    Push(Kind::kComment, end + 2);
    return {};
  }

  Status LexHeaderName(char close) {
    std::size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != close && text_[end] != '\n') ++end;
    if (At(end) != close) return Refuse(pos_, "the header name does not end");
    Push(Kind::kHeaderName, end + 1);
    return {};
  }

  Status LexNumber() {
    std::size_t end = pos_ + 1;
    while (end < text_.size()) {
      const char c = text_[end];
      const char before = text_[end - 1];
      const bool exponent = before == 'e' || before == 'E' || before == 'p' || before == 'P';
      if (IsNameChar(c) || c == '.' || (c == '\'' && IsNameChar(At(end + 1))) ||
          (exponent && (c == '+' || c == '-'))) {
        ++end;
      } else {
        break;
      }
    }
    Push(Kind::kNumber, end);
    return {};
  }

  Status LexName() {
    std::size_t end = pos_;
    while (end < text_.size() && IsNameChar(text_[end])) ++end;
    const std::string_view name = text_.substr(pos_, end - pos_);
    const bool plain_prefix = name == "L" || name == "u" || name == "U" || name == "u8";
    if ((At(end) == '"' || At(end) == '\'') && plain_prefix) return LexLiteral(end);
    if (At(end) == '"' &&
        (name == "R" || name == "LR" || name == "uR" || name == "UR" || name == "u8R")) {
      return LexRawString(end);
    }
    const bool names_directive = directive_name_next_;
    Push(Kind::kIdentifier, end);
    if (names_directive) {
      after_include_ =
          name == "include" || name == "include_next" || name == "import" || name == "embed";
    }
    return {};
  }

  Status LexLiteral(std::size_t quote) {
    const char close = text_[quote];
    std::size_t end = quote + 1;
    while (end < text_.size() && text_[end] != close && text_[end] != '\n') {
      end += text_[end] == '\\' && At(end + 1) != '\n' ? 2 : 1;
    }
    if (At(end) != close || end >= text_.size()) {
      return Refuse(pos_, fmt::format("the literal has no closing {} on its line (prose belongs in "
                                      "comments)",
                                      close));
    }
    Push(close == '"' ? Kind::kString : Kind::kCharacter, end + 1);
    return {};
  }

  // A raw string is made of the characters as written: splices inside it are no splices.
  Status LexRawString(std::size_t quote) {
    const std::size_t start = offsets_[pos_];
    const std::size_t written_quote = offsets_[quote];
    const std::size_t open = source_.find('(', written_quote);
    if (written_quote - start != quote - pos_ || open == std::string_view::npos ||
        open - written_quote > 17) {
      return Refuse(pos_, "malformed raw string");
    }
    const std::string_view delimiter = source_.substr(written_quote + 1, open - written_quote - 1);
    if (delimiter.find_first_of(" ()\\\t\v\f\r\n\"") != std::string_view::npos) {
      return Refuse(pos_, "malformed raw string");
    }
    const std::string close = ")" + std::string(delimiter) + "\"";
    const std::size_t found = source_.find(close, open + 1);
    if (found == std::string_view::npos) return Refuse(pos_, "the raw string does not end");
    const std::string_view whole = source_.substr(start, found + close.size() - start);
    if (in_directive_ && whole.find('\n') != std::string_view::npos) {
      return Refuse(pos_, "a raw string over several lines in a directive");
    }
    const auto next = std::lower_bound(offsets_.begin(), offsets_.end(), start + whole.size());
    Push(Kind::kString, static_cast<std::size_t>(next - offsets_.begin()), whole);
    tokens_.back().raw = true;
    tokens_.back().end = static_cast<std::uint32_t>(start + whole.size());
    return {};
  }

  Status LexPunctuation() {
    struct Spelling {
      std::string_view written, meant;
    };
    static constexpr std::array<Spelling, 7> kSpellings = {{{"%:%:", "##"},
                                                            {"##", "##"},
                                                            {"%:", "#"},
                                                            {"<:", "["},
                                                            {":>", "]"},
                                                            {"<%", "{"},
                                                            {"%>", "}"}}};
    std::string_view meant = text_.substr(pos_, 1);
    std::size_t length = 1;
    for (const Spelling& spelling : kSpellings) {
      if (!Starts(spelling.written)) continue;
      // "<::" is "<" and "::" unless a third ':' or '>' follows (C++ [lex.pptoken]).
      if (spelling.written == "<:" && At(pos_ + 2) == ':' && At(pos_ + 3) != ':' &&
          At(pos_ + 3) != '>') {
        break;
      }
      meant = spelling.meant;
      length = spelling.written.size();
      break;
    }
    if (meant == "#" && !in_directive_) {
      if (!line_empty_ && comment_spans_lines_) {
        return Refuse(pos_, "a directive behind a comment that spans lines");
      }
      if (line_empty_) {
        in_directive_ = true;
        Push(Kind::kPunctuation, pos_ + length, meant);
        directive_name_next_ = true;
        return {};
      }
    }
    Push(Kind::kPunctuation, pos_ + length, meant);
    return {};
  }

  std::string_view source_;
  std::shared_ptr<const std::string> logical_;
  std::string_view text_;               // *logical_
  std::vector<std::uint32_t> offsets_;  // of each logical character in the source; then its size
  std::size_t pos_ = 0;
  std::vector<SourceToken> tokens_;
  bool space_ = false;
  bool line_empty_ = true;
  bool in_directive_ = false;
  bool directive_name_next_ = false;
  bool after_include_ = false;
  bool comment_spans_lines_ = false;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<LexedSource> LexSource(std::string_view source) {
  if (Status status = CheckText(source); !status) return Fail(std::move(status).error());
  return Lexer(source).Lex();
}

std::string DecodeLiteral(const SourceToken& token) {
  const std::string_view text = token.text;
  const std::size_t quote = text.find_first_of("\"'");
  if (quote == std::string_view::npos) return {};
  if (token.raw) {
    const std::size_t open = text.find('(', quote);
    const std::size_t close = text.rfind(')');
    return std::string(text.substr(open + 1, close - open - 1));
  }
  std::string decoded;
  for (std::size_t i = quote + 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      decoded += text[i];
      continue;
    }
    const char kind = text[++i];
    unsigned value = 0;
    if (kind == 'x' || kind == 'u' || kind == 'U') {
      const std::size_t most = kind == 'x' ? text.size() : kind == 'u' ? 4 : 8;
      for (std::size_t n = 0; n < most && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0; ++n) {
        value = value * 16 + static_cast<unsigned>(HexDigit(text[++i]));
      }
      decoded += static_cast<char>(value);
    } else if (kind >= '0' && kind <= '7') {
      value = static_cast<unsigned>(kind - '0');
      for (int n = 0; n < 2 && i + 2 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '7';
           ++n) {
        value = value * 8 + static_cast<unsigned>(text[++i] - '0');
      }
      decoded += static_cast<char>(value);
    } else {
      static constexpr std::string_view kLetters = "abfnrtv";
      static constexpr std::string_view kValues = "\a\b\f\n\r\t\v";
      const std::size_t letter = kLetters.find(kind);
      decoded += letter == std::string_view::npos ? kind : kValues[letter];
    }
  }
  return decoded;
}

}  // namespace grove::codegen
