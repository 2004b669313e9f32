#include "ideas/idea.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace grove::ideas {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxReply = 4 << 20;
constexpr std::size_t kMaxTitle = 200;
constexpr std::size_t kMaxRationale = 4000;
constexpr int kMaxDepth = 64;

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

// One line of printable text: control characters become spaces, runs of white space one space.
std::string Clean(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (out.size() > limit) {
    out.resize(limit);
    // Not in the middle of a UTF-8 sequence.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// The end (one past '}') of the balanced object that begins at `begin`; npos when the text ends
// before it does. Strings are seen through.
std::size_t ObjectEnd(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return std::string_view::npos;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::string_view::npos;
}

// JSON as models write it: commas before a closing bracket dropped, raw line breaks and tabs inside
// strings made blanks.
std::string Mend(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        out += c;
        out += text[++i];
        continue;
      }
      if (c == '"') in_string = false;
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ',') {
      const std::size_t next = text.find_first_not_of(" \t\r\n,", i + 1);
      if (next == std::string_view::npos || text[next] == '}' || text[next] == ']') continue;
    }
    out += c;
  }
  return out;
}

std::string TextField(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end() && found->is_string()) {
      return found->get<std::string>();
    }
  }
  return {};
}

// A number, or a text that begins with one: 1.8, "1.8x", "~2", "30%" (a gain of 1.3).
std::optional<double> GainOf(const Json& object) {
  for (const char* name : {"expected_gain", "gain", "speedup", "expected_speedup"}) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (found->is_number()) return found->get<double>();
    if (!found->is_string()) continue;
    const std::string text = found->get<std::string>();
    const std::size_t begin = text.find_first_of("0123456789");
    if (begin == std::string::npos) continue;
    char* end = nullptr;
    double value = std::strtod(text.c_str() + begin, &end);
    if (end != nullptr && *end == '%') value = 1 + value / 100;
    return value;
  }
  return std::nullopt;
}

// Reads one object as an idea; nullopt (with a note) when it has no title.
std::optional<Idea> ReadIdea(const Json& object, std::size_t number,
                             std::vector<std::string>& notes) {
  Idea idea;
  idea.title = Clean(TextField(object, {"title", "name", "idea"}), kMaxTitle);
  if (idea.title.empty()) {
    notes.push_back(fmt::format("idea {} has no title: dropped", number));
    return std::nullopt;
  }
  idea.rationale =
      Clean(TextField(object, {"rationale", "description", "reason", "why"}), kMaxRationale);
  if (idea.rationale.empty()) notes.push_back(fmt::format("idea {} has no rationale", number));
  const std::string category = Clean(TextField(object, {"category", "kind", "type"}), kMaxTitle);
  if (const auto known = CategoryFromName(category)) {
    idea.category = *known;
  } else {
    idea.category = NearestCategory(category.empty() ? idea.title : category);
    notes.push_back(fmt::format("idea {}: {}, taken as \"{}\"", number,
                                category.empty() ? std::string("no category")
                                                 : fmt::format("unknown category \"{}\"", category),
                                Name(idea.category)));
  }
  if (const auto gain = GainOf(object); gain && std::isfinite(*gain) && *gain > 0) {
    idea.expected_gain = std::clamp(*gain, 0.1, 1000.0);
  } else {
    notes.push_back(
        fmt::format("idea {} has no usable expected_gain: {} assumed", number, idea.expected_gain));
  }
  return idea;
}

struct Word {
  std::string_view word;
  Category category;
};

// What models call the categories when they do not use our names.
constexpr Word kVocabulary[] = {
    {"coalesc", Category::kMemoryAccess},    {"vectori", Category::kMemoryAccess},
    {"cache", Category::kMemoryAccess},      {"shared memory", Category::kMemoryAccess},
    {"memory", Category::kMemoryAccess},     {"bandwidth", Category::kMemoryAccess},
    {"layout", Category::kMemoryAccess},     {"async", Category::kAsynchrony},
    {"latency", Category::kAsynchrony},      {"pipelin", Category::kAsynchrony},
    {"prefetch", Category::kAsynchrony},     {"overlap", Category::kAsynchrony},
    {"buffer", Category::kAsynchrony},       {"precision", Category::kPrecision},
    {"dtype", Category::kPrecision},         {"data type", Category::kPrecision},
    {"fp16", Category::kPrecision},          {"tf32", Category::kPrecision},
    {"tensor core", Category::kPrecision},   {"numeric", Category::kPrecision},
    {"occupancy", Category::kParallelism},   {"parallel", Category::kParallelism},
    {"thread", Category::kParallelism},      {"warp", Category::kParallelism},
    {"block", Category::kParallelism},       {"launch", Category::kParallelism},
    {"control", Category::kControlFlow},     {"index", Category::kControlFlow},
    {"branch", Category::kControlFlow},      {"loop", Category::kControlFlow},
    {"unroll", Category::kControlFlow},      {"instruction", Category::kInstructions},
    {"arithmetic", Category::kInstructions}, {"compute", Category::kInstructions},
    {"math", Category::kInstructions},       {"algorithm", Category::kInstructions},
    {"fusion", Category::kInstructions},
};

}  // namespace

std::string_view Name(Category category) {
  switch (category) {
    case Category::kMemoryAccess:
      return "memory access";
    case Category::kAsynchrony:
      return "asynchrony and latency hiding";
    case Category::kPrecision:
      return "data type and precision";
    case Category::kInstructions:
      return "instructions and arithmetic";
    case Category::kParallelism:
      return "parallelism and occupancy";
    case Category::kControlFlow:
      return "control flow and indexing";
  }
  return "unknown";
}

std::optional<Category> CategoryFromName(std::string_view name) {
  // As it is stored, most of the time.
  for (const Category category : kCategories) {
    if (name == Name(category)) return category;
  }
  const std::string wanted = NormalisedTitle(name);
  for (const Category category : kCategories) {
    if (wanted == Name(category)) return category;
  }
  return std::nullopt;
}

Category NearestCategory(std::string_view text) {
  if (const auto exact = CategoryFromName(text)) return *exact;
  const std::string lower = LowerCase(text);
  for (const Word& entry : kVocabulary) {
    if (lower.find(entry.word) != std::string::npos) return entry.category;
  }
  return Category::kInstructions;
}

std::string NormalisedTitle(std::string_view title) {
  std::string out;
  for (const char c : title) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 || u >= 0x80) {
      out += Lower(c);
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::uint64_t TitleKey(std::string_view title) { return HashText(NormalisedTitle(title)).low; }

bool SameIdea(const Idea& a, const Idea& b) {
  return NormalisedTitle(a.title) == NormalisedTitle(b.title);
}

Result<ParsedIdeas> ParseIdeas(std::string_view reply, std::size_t wanted) {
  if (reply.size() > kMaxReply) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the reply has {} bytes, more than {}", reply.size(), kMaxReply));
  }
  ParsedIdeas parsed;
  std::size_t seen = 0;
  std::size_t dropped = 0;
  bool cut = false;
  std::string first_problem;
  const auto keep = [&](const Json& object) {
    auto idea = ReadIdea(object, ++seen, parsed.notes);
    if (!idea) return;
    const auto same = [&](const Idea& other) { return SameIdea(*idea, other); };
    if (std::any_of(parsed.ideas.begin(), parsed.ideas.end(), same)) {
      parsed.notes.push_back(fmt::format("idea {} repeats \"{}\": dropped", seen, idea->title));
    } else if (parsed.ideas.size() >= wanted) {
      ++dropped;
    } else {
      parsed.ideas.push_back(std::move(*idea));
    }
  };
  // Objects are looked for from the left. One that holds a list of ideas is opened; one that is
  // incomplete or broken is opened too, so that complete ideas inside it survive.
  for (std::size_t at = reply.find('{'); at != std::string_view::npos; at = reply.find('{', at)) {
    const std::size_t end = ObjectEnd(reply, at);
    if (end == std::string_view::npos) {
      cut = true;
      ++at;
      continue;
    }
    Json object;
    try {
      object = Json::parse(Mend(reply.substr(at, end - at)), nullptr, true, true);
    } catch (const Json::exception& problem) {
      if (first_problem.empty()) first_problem = problem.what();
      ++at;
      continue;
    }
    if (object.contains("ideas")) {
      if (!object["ideas"].is_array()) {
        parsed.notes.push_back("\"ideas\" is not a list");
      } else {
        for (const Json& item : object["ideas"]) {
          if (item.is_object()) {
            keep(item);
          } else {
            parsed.notes.push_back(fmt::format("idea {} is not an object: dropped", ++seen));
          }
        }
      }
      at = end;
    } else if (object.contains("title") || object.contains("rationale")) {
      keep(object);
      at = end;
    } else {
      at = end;
    }
  }
  if (cut) parsed.notes.push_back("the reply ends inside an object: complete ideas were kept");
  if (dropped > 0) {
    parsed.notes.push_back(fmt::format("{} ideas beyond the {} wanted: dropped", dropped, wanted));
  }
  if (parsed.ideas.empty()) {
    std::string why = "no idea in the reply";
    if (!first_problem.empty()) {
      why += ": " + first_problem;
    } else if (!parsed.notes.empty()) {
      why += ": " + parsed.notes.front();
    } else if (reply.find('{') == std::string_view::npos) {
      why += ": it holds no JSON object";
    }
    return Fail(ErrorCode::kInvalidInput, Clean(why, 500));
  }
  return parsed;
}

}  // namespace grove::ideas
