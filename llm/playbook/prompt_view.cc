#include "llm/playbook/prompt_view.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text_diff.h"

namespace grove::llm::playbook {
namespace {

constexpr std::size_t kMaxWanted = 64;
constexpr std::size_t kMaxCases = 1000;

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

template <typename Body>
void ForEachLine(std::string_view text, Body body) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    body(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// Offset of the line that consists of `wanted` alone, from `from` on; npos when there is none.
std::size_t FindLine(std::string_view text, std::string_view wanted, std::size_t from) {
  while (from < text.size()) {
    const std::size_t end = text.find('\n', from);
    const std::string_view line =
        text.substr(from, end == std::string_view::npos ? end : end - from);
    if (Trim(line) == wanted) return from;
    if (end == std::string_view::npos) break;
    from = end + 1;
  }
  return std::string_view::npos;
}

std::string Field(std::string_view section, std::string_view name) {
  std::string value;
  ForEachLine(section, [&](std::string_view line) {
    if (value.empty() && line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      value = Trim(line.substr(name.size() + 1));
    }
  });
  return value;
}

std::optional<std::int64_t> Integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "case crfm (scored): M=4096 N=65536; x f32 [4096,65536] input; ..."
std::optional<CaseView> ReadCase(std::string_view line) {
  const std::size_t colon = line.find("): ");
  if (!line.starts_with("case ") || colon == std::string_view::npos) return std::nullopt;
  CaseView view;
  view.scored = line.substr(0, colon).ends_with("(scored");
  std::string_view rest = line.substr(colon + 3);
  bool first = true;
  while (!rest.empty()) {
    const std::string_view part = Trim(rest.substr(0, rest.find(';')));
    rest.remove_prefix(
        std::min(rest.size(), rest.find(';') == rest.npos ? rest.size() : rest.find(';') + 1));
    if (first) {
      first = false;
      std::string_view dims = part;
      while (!dims.empty()) {
        const std::string_view dim = dims.substr(0, dims.find(' '));
        dims.remove_prefix(std::min(dims.size(), dim.size() + 1));
        const std::size_t equals = dim.find('=');
        if (equals == dim.npos) continue;
        const auto value = Integer(dim.substr(equals + 1));
        if (value && *value > 0) view.dims.emplace_back(dim.substr(0, equals), *value);
      }
      continue;
    }
    if (!part.ends_with(" input") && !part.ends_with(" output")) continue;
    const std::size_t space = part.find(' ');
    const std::size_t bracket = part.find(" [");
    if (bracket == part.npos || bracket <= space) continue;
    view.tensors.emplace_back(part.substr(0, space), part.substr(space + 1, bracket - space - 1));
  }
  return view;
}

// "- Title [category]: outcome, 1.80x; note"
struct TriedLine {
  std::string title;
  std::string outcome;
};
std::optional<TriedLine> ReadTried(std::string_view line) {
  if (!line.starts_with("- ")) return std::nullopt;
  line.remove_prefix(2);
  const std::size_t bracket = line.find(" [");
  if (bracket == line.npos) return std::nullopt;
  TriedLine tried;
  tried.title = line.substr(0, bracket);
  if (const std::size_t colon = line.find("]: ", bracket); colon != line.npos) {
    const std::string_view rest = line.substr(colon + 3);
    tried.outcome = rest.substr(0, rest.find_first_of(",; "));
  }
  return tried;
}

}  // namespace

std::optional<std::int64_t> CaseView::dim(std::string_view name) const {
  for (const auto& [key, value] : dims) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::string_view Section(std::string_view text, std::string_view name) {
  const std::string open = fmt::format("<{}>", name), close = fmt::format("</{}>", name);
  std::size_t begin = FindLine(text, open, 0);
  if (begin == std::string_view::npos) return {};
  begin = text.find('\n', begin);
  if (begin == std::string_view::npos) return {};
  const std::size_t end = FindLine(text, close, begin + 1);
  if (end == std::string_view::npos) return {};
  return text.substr(begin + 1, end - begin - 1);
}

std::string_view FencedBlock(std::string_view text, std::string_view language) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return {};
    const std::string_view line = Trim(text.substr(at, end - at));
    std::size_t ticks = 0;
    while (ticks < line.size() && line[ticks] == '`') ++ticks;
    if (ticks >= 3) {
      const std::size_t close = FindLine(text, line.substr(0, ticks), end + 1);
      if (close == std::string_view::npos) return {};
      if (line.substr(ticks) == language) return text.substr(end + 1, close - end - 1);
      end = text.find('\n', close);
      if (end == std::string_view::npos) return {};
    }
    at = end + 1;
  }
  return {};
}

PromptView PromptView::Read(std::string_view prompt) {
  PromptView view;
  const std::string_view task = Section(prompt, "task");
  view.task = Field(task, "name");
  view.family = Field(task, "family");
  view.demanded = Field(task, "precision demanded");
  ForEachLine(task, [&](std::string_view line) {
    if (view.cases.size() >= kMaxCases) return;
    if (auto c = ReadCase(line)) view.cases.push_back(std::move(*c));
  });
  const std::string_view device = Section(prompt, "device");
  view.arch = Field(device, "architecture");
  view.measured = Field(device, "times").starts_with("measured");
  view.parent_source = FencedBlock(Section(prompt, "parent"), "cuda");
  ForEachLine(Section(prompt, "tried_here"), [&](std::string_view line) {
    if (auto tried = ReadTried(line)) view.tried_here.push_back(std::move(tried->title));
  });
  ForEachLine(Section(prompt, "proposed"), [&](std::string_view line) {
    if (line.starts_with("- ")) view.tried_here.emplace_back(line.substr(2));
  });
  // "- "Title" is nearly the same as ..."
  ForEachLine(Section(prompt, "refusals"), [&](std::string_view line) {
    if (!line.starts_with("- \"")) return;
    const std::size_t end = line.find('"', 3);
    if (end != line.npos) view.tried_here.emplace_back(line.substr(3, end - 3));
  });
  ForEachLine(Section(prompt, "tried_elsewhere"), [&](std::string_view line) {
    const auto tried = ReadTried(line);
    if (tried && (tried->outcome == "loss" || tried->outcome == "failed")) {
      view.failed_titles.push_back(tried->title);
    }
  });
  const std::string_view idea = Section(prompt, "idea");
  view.idea_title = Field(idea, "title");
  view.idea_category = Field(idea, "category");
  view.failed_source = FencedBlock(Section(prompt, "failed"), "cuda");
  if (view.parent_source.empty()) {
    // A repair shows how the failed program differs from its parent instead of the parent.
    const std::string_view change = FencedBlock(Section(prompt, "failed"), "diff");
    view.parent_source = UndoHunks(view.failed_source, change).value_or(view.failed_source);
  }
  view.verdict = Field(Section(prompt, "failure"), "verdict");
  if (const auto wanted = Integer(Field(Section(prompt, "request"), "ideas wanted"));
      wanted && *wanted > 0) {
    view.wanted = std::min(static_cast<std::size_t>(*wanted), kMaxWanted);
  }
  return view;
}

}  // namespace grove::llm::playbook
