#include "codegen/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace grove::codegen {

std::string Quoted(std::string_view text, std::size_t limit) {
  std::string quoted = "'";
  for (const char c : text.substr(0, limit)) quoted += c >= 0x20 && c < 0x7f ? c : '?';
  quoted += text.size() > limit ? "...'" : "'";
  return quoted;
}

Position PositionOf(std::string_view text, std::size_t offset) {
  Position position;
  offset = std::min(offset, text.size());
  for (std::size_t i = 0; i < offset; ++i) {
    const bool cr_of_crlf = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if ((text[i] == '\n' || text[i] == '\r') && !cr_of_crlf) {
      ++position.line;
      position.column = 1;
    } else {
      ++position.column;
    }
  }
  return position;
}

std::string Place(Position position) {
  return fmt::format("line {}, column {}", position.line, position.column);
}

bool IsIdentifierChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsIdentifier(std::string_view text) {
  if (text.empty() || text.size() > 128 || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), IsIdentifierChar);
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace grove::codegen
