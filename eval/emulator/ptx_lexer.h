// Tokens of PTX text. Views point into the text, which must outlive them.
#pragma once

#include <cstdint>
#include <string_view>

namespace grove::emulator {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kIdentifier,
    kDirective,
    kInteger,
    kFloat,
    kString,
    kPunct
  };
  Kind kind = Kind::kEnd;
  std::string_view text;   // with dots: "ld.global.f32", ".reg", "%tid.x"
  std::int64_t value = 0;  // integer, or the bits of a float
  bool single = false;     // kFloat: `value` is a binary32
  int line = 1;
  bool Is(std::string_view punct) const { return kind == Kind::kPunct && text == punct; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token Next();

 private:
  void SkipBlank();
  Token Number(std::size_t start);
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace grove::emulator
