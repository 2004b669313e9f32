#include "codegen/grove_comment.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

using nlohmann::json;
using Kind = SourceToken::Kind;

constexpr std::string_view kMark = "grove:";

// The text of a comment without its marks.
std::string_view Body(std::string_view comment) {
  std::string_view body = comment.substr(2);
  if (comment.starts_with("/*")) body.remove_suffix(2);
  return Trimmed(body);
}

const std::set<std::string_view>& Qualifiers() {
  static const std::set<std::string_view> kNames = {"const",      "volatile", "__restrict__",
                                                    "__restrict", "restrict", "__grid_constant__"};
  return kNames;
}

// For each opening bracket the index of the one that closes it; the number of tokens where there is
// none. Made once, since hostile text could make a search per bracket quadratic.
std::vector<std::size_t> ClosingBrackets(const std::vector<SourceToken>& tokens) {
  std::vector<std::size_t> closing(tokens.size(), tokens.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].Is("(") || tokens[i].Is("[") || tokens[i].Is("{")) open.push_back(i);
    if ((tokens[i].Is(")") || tokens[i].Is("]") || tokens[i].Is("}")) && !open.empty()) {
      closing[open.back()] = i;
      open.pop_back();
    }
  }
  return closing;
}

KernelParam ReadParam(const std::vector<SourceToken>& tokens, std::size_t first, std::size_t last) {
  KernelParam param;
  for (std::size_t i = first; i < last; ++i) {
    const SourceToken& token = tokens[i];
    if (token.Is("*") || token.Is("[")) param.pointer = true;
    if (token.Is("*") && !param.name.empty()) {  // the words so far were the type
      param.type += (param.type.empty() ? "" : " ") + param.name;
      param.name.clear();
    }
    if (token.Is("=") || token.Is("[")) break;
    if (token.kind != Kind::kIdentifier || Qualifiers().contains(token.text)) continue;
    if (!param.name.empty()) param.type += (param.type.empty() ? "" : " ") + param.name;
    param.name = std::string(token.text);
  }
  return param;
}

std::vector<KernelParam> ReadParams(const std::vector<SourceToken>& tokens, std::size_t open,
                                    std::size_t close) {
  std::vector<KernelParam> params;
  int depth = 0;
  std::size_t first = open + 1;
  for (std::size_t i = open + 1; i <= close; ++i) {
    const SourceToken& token = tokens[i];
    if (token.Is("(") || token.Is("<") || token.Is("[") || token.Is("{")) ++depth;
    if (i < close && (token.Is(")") || token.Is(">") || token.Is("]") || token.Is("}"))) --depth;
    if (i < close && !(depth == 0 && token.Is(","))) continue;
    if (i > first && !(i == first + 1 && tokens[first].IsName("void"))) {
      params.push_back(ReadParam(tokens, first, i));
    }
    first = i + 1;
  }
  return params;
}

// --- the comment ------------------------------------------------------------------------------

using Options = std::map<std::string, std::string>;

const std::vector<std::string>& Keys() {
  static const std::vector<std::string> kKeys = {"grid",    "block",       "shared",   "args",
                                                 "cluster", "cooperative", "dependent"};
  return kKeys;
}

// "grid=(M, 2) block=256 cooperative": values end where the next key begins, outside brackets.
Result<Options> ReadOptions(std::string_view text) {
  struct Mark {
    std::size_t start, value;  // of the key, of its value
    std::string key;
  };
  std::vector<Mark> marks;
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    const bool starts =
        depth == 0 && IsIdentifierChar(text[i]) && (i == 0 || !IsIdentifierChar(text[i - 1]));
    if (!starts) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && IsIdentifierChar(text[end])) ++end;
    std::size_t equals = end;
    while (equals < text.size() && (text[equals] == ' ' || text[equals] == '\t')) ++equals;
    const std::string key(text.substr(i, end - i));
    const bool assigned = equals < text.size() && text[equals] == '=' &&
                          (equals + 1 == text.size() || text[equals + 1] != '=');
    if (assigned) {
      marks.push_back({i, equals + 1, key});
      end = equals + 1;
    } else if (key == "cooperative" || key == "dependent") {
      marks.push_back({i, end, key});
    }
    i = end;
  }
  if (marks.empty() || !Trimmed(text.substr(0, marks[0].start)).empty()) {
    return Fail(ErrorCode::kInvalidInput, "expected grid=... block=...");
  }
  Options options;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Mark& mark = marks[i];
    if (std::find(Keys().begin(), Keys().end(), mark.key) == Keys().end()) {
      return Fail(ErrorCode::kInvalidInput, UnknownName("key", mark.key.substr(0, 64), Keys()));
    }
    const std::size_t end = i + 1 < marks.size() ? marks[i + 1].start : text.size();
    std::string_view value = Trimmed(text.substr(mark.value, end - mark.value));
    while (value.ends_with(',') || value.ends_with(';')) {
      value = Trimmed(value.substr(0, value.size() - 1));
    }
    if (!options.emplace(mark.key, value).second) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("'{}' is given twice", mark.key));
    }
  }
  for (const char* key : {"grid", "block"}) {
    if (!options.contains(key)) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("'{}=' is missing", key));
    }
  }
  return options;
}

// "(M, ceil_div(N, 4))" or "M, 2" or "dim3(M)" as its parts.
std::vector<std::string> Split(std::string_view list) {
  list = Trimmed(list);
  if (list.starts_with("dim3(")) list.remove_prefix(4);
  // Only brackets that enclose the whole list are the list's own.
  while (!list.empty() && (list[0] == '(' || list[0] == '[')) {
    int depth = 0;
    std::size_t i = 0;
    for (; i < list.size(); ++i) {
      if (list[i] == '(' || list[i] == '[') ++depth;
      if ((list[i] == ')' || list[i] == ']') && --depth == 0) break;
    }
    if (i + 1 != list.size()) break;
    list = Trimmed(list.substr(1, list.size() - 2));
  }
  std::vector<std::string> parts;
  if (list.empty()) return parts;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '(') ++depth;
    if (i < list.size() && list[i] == ')') --depth;
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.emplace_back(Trimmed(list.substr(first, i - first)));
      first = i + 1;
    }
  }
  return parts;
}

// "f32:1.5", "i64:N", "x": a typed value keeps its type, numbers stay numbers.
json ArgFromText(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  const std::string type(Trimmed(std::string_view(text).substr(0, colon)));
  if (type != "i32" && type != "i64" && type != "f32" && type != "f64") return text;
  const std::string value(Trimmed(std::string_view(text).substr(colon + 1)));
  const json number = json::parse(value, nullptr, false);
  return json{{type, number.is_number() ? number : json(value)}};
}

std::optional<json> ArgFromParam(const KernelParam& param) {
  static const std::map<std::string_view, std::string> kTypes = {{"int", "i32"},
                                                                 {"unsigned", "i32"},
                                                                 {"unsigned int", "i32"},
                                                                 {"int32_t", "i32"},
                                                                 {"uint32_t", "i32"},
                                                                 {"signed int", "i32"},
                                                                 {"std int32_t", "i32"},
                                                                 {"long long", "i64"},
                                                                 {"long", "i64"},
                                                                 {"size_t", "i64"},
                                                                 {"int64_t", "i64"},
                                                                 {"uint64_t", "i64"},
                                                                 {"unsigned long long", "i64"},
                                                                 {"unsigned long", "i64"},
                                                                 {"long long int", "i64"},
                                                                 {"std int64_t", "i64"},
                                                                 {"ptrdiff_t", "i64"},
                                                                 {"float", "f32"},
                                                                 {"double", "f64"}};
  if (param.name.empty()) return std::nullopt;
  if (param.pointer) return json(param.name);
  const auto type = kTypes.find(param.type);
  if (type == kTypes.end()) return std::nullopt;
  return json{{type->second, param.name}};
}

Result<json> LaunchOf(const KernelDefinition& kernel) {
  Result<Options> options = ReadOptions(kernel.comment);
  if (!options) return Fail(std::move(options).error());
  json launch = {{"kernel", kernel.name}, {"args", json::array()}};
  for (const char* key : {"grid", "block", "cluster"}) {
    if (options->contains(key)) launch[key] = Split((*options)[key]);
  }
  if (options->contains("shared")) launch["shared"] = (*options)["shared"];
  for (const char* key : {"cooperative", "dependent"}) {
    const auto option = options->find(key);
    if (option == options->end()) continue;
    const std::string& value = option->second;
    if (value != "" && value != "true" && value != "1" && value != "false" && value != "0") {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("expected {}=true or false, found {}", key, Quoted(value)));
    }
    launch[key] = value != "false" && value != "0";
  }
  if (options->contains("args")) {
    for (const std::string& arg : Split((*options)["args"])) {
      launch["args"].push_back(ArgFromText(arg));
    }
    return launch;
  }
  for (const KernelParam& param : kernel.params) {
    const std::optional<json> arg = ArgFromParam(param);
    if (!arg) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("what to pass as {} of type {} cannot be inferred; add args=...",
                              Quoted(param.name), Quoted(param.type)));
    }
    launch["args"].push_back(*arg);
  }
  return launch;
}

Failure At(std::string_view source, std::uint32_t offset, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{}: {}", Place(PositionOf(source, offset)), what));
}

}  // namespace

std::vector<KernelDefinition> FindKernels(const LexedSource& lexed) {
  std::vector<SourceToken> code;
  std::vector<const SourceToken*> comments;
  for (const SourceToken& token : lexed.tokens) {
    if (token.kind == Kind::kComment) {
      if (Body(token.text).starts_with(kMark)) comments.push_back(&token);
    } else if (!token.in_directive) {
      code.push_back(token);
    }
  }
  const std::vector<std::size_t> closing = ClosingBrackets(code);
  std::vector<KernelDefinition> kernels;
  std::size_t next_comment = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!code[i].IsName("__global__")) continue;
    // The name is the word before the parameter list; attributes look like calls, so they are
    // skipped by name.
    std::size_t at = i + 1;
    bool found = false;
    while (at + 1 < code.size() && !found) {
      if (code[at].Is(";") || code[at].Is("{") || code[at].Is(")") ||
          code[at].IsName("__global__")) {
        break;
      }
      found = code[at].kind == Kind::kIdentifier && code[at + 1].Is("(") &&
              !code[at].text.starts_with("__") && code[at].text != "alignas";
      if (!found) at = code[at].Is("(") ? closing[at] + 1 : at + 1;
    }
    if (!found) continue;
    const std::size_t close = closing[at + 1];
    std::size_t body = close + 1;
    // __launch_bounds__ may also stand behind the parameters.
    while (body + 1 < code.size() && code[body].text.starts_with("__") && code[body + 1].Is("(")) {
      body = closing[body + 1] + 1;
    }
    if (body >= code.size() || !code[body].Is("{")) continue;
    KernelDefinition kernel;
    kernel.name = std::string(code[at].text);
    kernel.offset = code[at].offset;
    kernel.params = ReadParams(code, at + 1, close);
    for (; next_comment < comments.size() && comments[next_comment]->offset < kernel.offset;
         ++next_comment) {
      kernel.has_comment = true;
      kernel.comment =
          std::string(Trimmed(Body(comments[next_comment]->text).substr(kMark.size())));
      kernel.comment_offset = comments[next_comment]->offset;
    }
    kernels.push_back(std::move(kernel));
    i = std::min(closing[body], code.size() - 1);
  }
  return kernels;
}

Result<std::string> PlanFromComments(std::string_view source) {
  Result<LexedSource> lexed = LexSource(source);
  if (!lexed) return Fail(std::move(lexed).error());
  const std::vector<KernelDefinition> kernels = FindKernels(*lexed);
  if (kernels.empty()) {
    return Fail(ErrorCode::kInvalidInput, "the source has no __global__ function with a body");
  }
  json launches = json::array();
  std::set<std::string_view> names;
  for (const KernelDefinition& kernel : kernels) {
    if (!kernel.has_comment) {
      return At(
          source, kernel.offset,
          fmt::format("there is no launch plan, and no `// grove: grid=... block=...` comment "
                      "above kernel {}",
                      Quoted(kernel.name)));
    }
    if (!names.insert(kernel.name).second) {
      return At(
          source, kernel.offset,
          fmt::format("kernel {} is defined twice; write a launch plan", Quoted(kernel.name)));
    }
    Result<json> launch = LaunchOf(kernel);
    if (!launch) return At(source, kernel.comment_offset, "grove: " + launch.error().message);
    launches.push_back(*std::move(launch));
  }
  const json plan = {{"version", 1}, {"launches", std::move(launches)}};
  return plan.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace grove::codegen
