// Small helpers for messages about foreign text. Internal to codegen/. Thread-safe (pure
// functions).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace grove::codegen {

// Foreign text for a one-line message: in single quotes, what is not printable ASCII as '?', cut
// after `limit` bytes.
std::string Quoted(std::string_view text, std::size_t limit = 64);

// 1-based line and column (in bytes) of a byte offset; lines end with LF, CR or CRLF.
struct Position {
  std::size_t line = 1;
  std::size_t column = 1;
};
Position PositionOf(std::string_view text, std::size_t offset);

// "line 3, column 5"
std::string Place(Position position);

// A C identifier of at most 128 bytes.
bool IsIdentifier(std::string_view text);
bool IsIdentifierChar(char c);

// Without blanks, tabs and line ends at both ends.
std::string_view Trimmed(std::string_view text);

}  // namespace grove::codegen
