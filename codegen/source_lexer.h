// CUDA C++ source as tokens, as far as our checks need them: it sees what the preprocessor sees
// (line splices, comments, digraphs, raw strings, header names) without expanding macros. Internal
// to codegen/. Where compilers disagree about the text, the text is refused.
// Thread-safe (pure function); time and memory linear in the source.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::codegen {

inline constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;

struct SourceToken {
  enum class Kind {
    kIdentifier,
    kNumber,
    kString,       // with prefix and quotes
    kCharacter,    // with prefix and quotes
    kHeaderName,   // of an #include, with < > or quotes
    kPunctuation,  // one character, or "##"; digraphs as what they mean
    kComment,
  };
  Kind kind = Kind::kPunctuation;
  bool raw = false;           // R"( )"
  bool space_before = false;  // blank, line end or comment
  bool line_start = false;    // first token of its line that is no comment
  bool in_directive = false;  // from '#' to the end of its line
  std::uint32_t offset = 0;   // in the source as written, bytes
  std::uint32_t end = 0;      // one past its last byte
  std::string_view text;      // splices removed

  bool Is(std::string_view punctuation) const {
    return kind == Kind::kPunctuation && text == punctuation;
  }
  bool IsName(std::string_view name) const { return kind == Kind::kIdentifier && text == name; }
};

struct LexedSource {
  std::vector<SourceToken> tokens;
  std::shared_ptr<const std::string> logical;  // owns the tokens' text
};

// REQUIRES: `source` outlives the result. kInvalidInput with line and column for what is not text
// (NUL and other control characters, invalid UTF-8, bidi controls, over 1 MiB), what compilers read
// differently (trigraphs, lone CR, blanks after a line's last backslash), and unterminated literals
// and comments. A byte order mark at the start is skipped.
Result<LexedSource> LexSource(std::string_view source);

// The characters of a string or character literal token, escapes resolved, as bytes.
std::string DecodeLiteral(const SourceToken& token);

}  // namespace grove::codegen
