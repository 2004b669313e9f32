// What changed between two texts, by lines. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace grove {

// The lines of a text without their ends; they live as long as the text does.
std::vector<std::string_view> LinesOf(std::string_view text);

struct DiffLine {
  enum class Kind { kSame, kAdded, kRemoved };
  Kind kind = Kind::kSame;
  std::string text;
};
// The shortest edit from `before` to `after` in lines.
std::vector<DiffLine> DiffLines(std::string_view before, std::string_view after);

// What `diff -u` prints below the names of the files, with `context` unchanged lines around each
// change: lines that begin with '@', ' ', '+' or '-'. Empty when there is no change.
std::string DiffHunks(std::string_view before, std::string_view after, int context);

// The text that `hunks`, of DiffHunks(), lead from; nothing where they do not fit `after`. Both may
// be foreign.
std::optional<std::string> UndoHunks(std::string_view after, std::string_view hunks);

}  // namespace grove
