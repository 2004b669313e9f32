#include "ideas/regions.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace grove::ideas {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsBlank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// The text with comments, strings, characters and directives blanked, line ends apart, so that
// braces count and lines stay where they are.
std::string Blanked(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
    return std::min(to, text.size());
  };
  const auto after = [&](std::string_view what, std::size_t from) {
    const std::size_t at = text.find(what, from);
    return at == text.npos ? text.size() : at + what.size();
  };
  bool line_start = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '/' && text.substr(i, 2) == "//") {
      i = blank(i, std::min(text.find('\n', i), text.size()));
    } else if (c == '/' && text.substr(i, 2) == "/*") {
      i = blank(i, after("*/", i + 2));
    } else if (c == '"' && i > 0 && text[i - 1] == 'R') {
      const std::size_t open = std::min(text.find('(', i), text.size());
      const std::string close = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
      i = blank(i, after(close, open));
    } else if (c == '"' || (c == '\'' && (i == 0 || !IsWord(text[i - 1])))) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      i = blank(i, end + 1);
    } else if (c == '#' && line_start) {
      std::size_t end = std::min(text.find('\n', i), text.size());
      while (end < text.size() && text[end - 1] == '\\') {
        end = std::min(text.find('\n', end + 1), text.size());
      }
      i = blank(i, end);
    } else {
      ++i;
    }
    line_start = c == '\n' || (line_start && IsBlank(c));
  }
  return out;
}

// The name that a head declares: the first word in front of a parenthesis that is no attribute.
std::string NameIn(std::string_view head) {
  for (std::size_t at = head.find('('); at != head.npos; at = head.find('(', at + 1)) {
    std::size_t end = at;
    while (end > 0 && IsBlank(head[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && IsWord(head[begin - 1])) --begin;
    const std::string_view word = head.substr(begin, end - begin);
    if (!word.empty() && !word.starts_with("__") && word != "alignas" && word != "decltype") {
      return std::string(word);
    }
  }
  return {};
}

// What a brace opens that holds functions of its own.
bool HoldsFunctions(std::string_view head) {
  while (!head.empty() && IsBlank(head.back())) head.remove_suffix(1);
  return HasWord(head, "namespace") || head.ends_with("extern");
}

}  // namespace

bool HasWord(std::string_view code, std::string_view name) {
  if (name.empty()) return false;
  for (std::size_t at = code.find(name); at != code.npos; at = code.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !IsWord(code[at - 1])) && (end == code.size() || !IsWord(code[end]))) {
      return true;
    }
  }
  return false;
}

std::vector<Region> RegionsOf(std::string_view source) {
  const std::string text = Blanked(source);
  std::vector<Region> regions;
  std::size_t head = 0, line = 0, head_line = 0, body = 0;
  int depth = 0;
  const auto start_head = [&](std::size_t at) {
    head = at;
    head_line = line;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (depth == 0) {
      if (i == head && IsBlank(c)) start_head(i + 1);
      if (c == ';' || c == '}') start_head(i + 1);
      if (c != '{') continue;
      body = i;
      if (HoldsFunctions(std::string_view(text).substr(head, i - head))) {
        start_head(i + 1);
        continue;
      }
      depth = 1;
      continue;
    }
    if (c == '{') ++depth;
    if (c != '}' || --depth > 0) continue;
    const std::string_view opening = std::string_view(text).substr(head, body - head);
    Region region;
    region.name = NameIn(opening);
    if (!region.name.empty()) {
      region.first = head_line;
      region.last = line;
      region.kernel = HasWord(opening, "__global__");
      region.code = text.substr(head, i + 1 - head);
      regions.push_back(std::move(region));
    }
    start_head(i + 1);
  }
  return regions;
}

}  // namespace grove::ideas
