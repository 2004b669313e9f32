#include "eval/emulator/ptx_lexer.h"

#include <bit>
#include <cstdlib>
#include <string>

namespace grove::emulator {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_' || c == '$';
}
int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Lexer::SkipBlank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\0') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() &&
             !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = std::min(at_ + 2, text_.size());
    } else {
      return;
    }
  }
}

Token Lexer::Number(std::size_t start) {
  Token token;
  token.line = line_;
  std::size_t end = start;
  auto take = [&](Token::Kind kind) {
    token.kind = kind;
    token.text = text_.substr(start, end - start);
    at_ = end;
    return token;
  };
  const char second = start + 1 < text_.size() ? text_[start + 1] : '\0';
  if (text_[start] == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    const int digits = (second == 'f' || second == 'F') ? 8 : 16;
    std::uint64_t bits = 0;
    end = start + 2;
    int seen = 0;
    while (end < text_.size() && seen < digits && HexDigit(text_[end]) >= 0) {
      bits = bits << 4 | static_cast<std::uint64_t>(HexDigit(text_[end]));
      ++end;
      ++seen;
    }
    if (seen == digits) {
      token.value = static_cast<std::int64_t>(bits);
      token.single = digits == 8;
      return take(Token::Kind::kFloat);
    }
    end = start;
  }
  std::uint64_t value = 0;
  if (text_[start] == '0' && (second == 'x' || second == 'X')) {
    end = start + 2;
    while (end < text_.size() && HexDigit(text_[end]) >= 0) {
      value = value << 4 | static_cast<std::uint64_t>(HexDigit(text_[end++]));
    }
  } else if (text_[start] == '0' && (second == 'b' || second == 'B')) {
    end = start + 2;
    while (end < text_.size() && (text_[end] == '0' || text_[end] == '1')) {
      value = value << 1 | static_cast<std::uint64_t>(text_[end++] - '0');
    }
  } else {
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    if (end < text_.size() && (text_[end] == '.' || text_[end] == 'e' || text_[end] == 'E') &&
        end + 1 < text_.size() && (IsDigit(text_[end + 1]) || text_[end] != '.')) {
      if (text_[end] == '.') {
        ++end;
        while (end < text_.size() && IsDigit(text_[end])) ++end;
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        ++end;
        if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
        while (end < text_.size() && IsDigit(text_[end])) ++end;
      }
      const double parsed =
          std::strtod(std::string(text_.substr(start, end - start)).c_str(), nullptr);
      token.value = std::bit_cast<std::int64_t>(parsed);
      return take(Token::Kind::kFloat);
    }
    const std::uint64_t base = text_[start] == '0' && end - start > 1 ? 8 : 10;
    for (std::size_t i = start; i < end; ++i) {
      value = value * base + static_cast<std::uint64_t>(text_[i] - '0');
    }
  }
  token.value = static_cast<std::int64_t>(value);
  if (end < text_.size() && text_[end] == 'U') ++end;
  return take(Token::Kind::kInteger);
}

Token Lexer::Next() {
  SkipBlank();
  Token token;
  token.line = line_;
  if (at_ >= text_.size()) return token;
  const std::size_t start = at_;
  const char c = text_[at_];
  if (IsDigit(c)) return Number(start);
  const bool directive = c == '.' && at_ + 1 < text_.size() && IsWord(text_[at_ + 1]);
  if (IsWord(c) || c == '%' || directive) {
    ++at_;
    while (at_ < text_.size()) {
      const char d = text_[at_];
      const bool more = at_ + 1 < text_.size();
      if (IsWord(d) || (d == '.' && !directive && more && IsWord(text_[at_ + 1]))) {
        ++at_;
      } else if (d == ':' && at_ + 2 < text_.size() && text_[at_ + 1] == ':' &&
                 IsWord(text_[at_ + 2])) {
        at_ += 2;
      } else {
        break;
      }
    }
    token.kind = directive ? Token::Kind::kDirective : Token::Kind::kIdentifier;
    token.text = text_.substr(start, at_ - start);
    return token;
  }
  if (c == '"') {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    token.kind = Token::Kind::kString;
    token.text = text_.substr(start + 1, at_ - start - 1);
    if (at_ < text_.size() && text_[at_] == '"') ++at_;
    return token;
  }
  ++at_;
  token.kind = Token::Kind::kPunct;
  token.text = text_.substr(start, 1);
  return token;
}

}  // namespace grove::emulator
