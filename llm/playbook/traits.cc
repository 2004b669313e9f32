#include "llm/playbook/traits.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace grove::llm::playbook {
namespace {

constexpr std::string_view kMark = "// traits:";
constexpr std::size_t kMaxPairs = 64;
constexpr std::size_t kMaxWord = 32;

bool IsWord(std::string_view text) {
  return !text.empty() && text.size() <= kMaxWord &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

std::optional<std::int64_t> Integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Traits TraitsOf(std::string_view source, std::string_view family) {
  Traits traits;
  const std::size_t at = source.find(kMark);
  if (at != std::string_view::npos) {
    std::string_view line = source.substr(at + kMark.size());
    line = line.substr(0, line.find_first_of("\r\n"));
    while (!line.empty() && traits.size() < kMaxPairs) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin == std::string_view::npos) break;
      line.remove_prefix(begin);
      const std::string_view pair = line.substr(0, line.find_first_of(" \t"));
      line.remove_prefix(pair.size());
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view name = pair.substr(0, equals), value = pair.substr(equals + 1);
      if (IsWord(name) && IsWord(value)) traits.emplace(name, value);
    }
  }
  if (traits.contains("strategy")) return traits;
  traits.clear();
  const auto uses = [&](std::string_view text) { return source.find(text) != source.npos; };
  const bool shared = uses("__shared__");
  traits["strategy"] = !shared ? "naive" : family == "gemm" ? "tile" : "block";
  if (shared && uses("float4")) traits["vec"] = "4";
  if (shared && (uses("__expf") || uses("ex2.approx") || uses("exp2f"))) traits["fastexp"] = "1";
  return traits;
}

std::string TraitsLine(const Traits& traits) {
  std::string line(kMark);
  for (const char* name : {"op", "strategy"}) {
    if (const auto found = traits.find(name); found != traits.end()) {
      line += fmt::format(" {}={}", found->first, found->second);
    }
  }
  for (const auto& [name, value] : traits) {
    if (name != "op" && name != "strategy") line += fmt::format(" {}={}", name, value);
  }
  return line;
}

Result<Condition> Condition::Parse(std::string_view text) {
  const std::size_t at = text.find_first_of("<>=");
  if (at == std::string_view::npos || !IsWord(text.substr(0, at))) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("condition \"{}\": expected name=value, name<=number or the like", text));
  }
  Condition condition;
  condition.name = text.substr(0, at);
  const bool equal = text.substr(at + 1).starts_with("=");
  std::string_view rest = text.substr(at + (text[at] != '=' && equal ? 2 : 1));
  if (text[at] != '=') {
    condition.kind = text[at] == '<' ? (equal ? Kind::kLessEqual : Kind::kLess)
                                     : (equal ? Kind::kGreaterEqual : Kind::kGreater);
    const auto bound = Integer(rest);
    if (!bound) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("condition \"{}\": \"{}\" is not a whole number", text, rest));
    }
    condition.bound = *bound;
    return condition;
  }
  while (true) {
    const std::string_view value = rest.substr(0, rest.find('|'));
    if (!IsWord(value)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("condition \"{}\": expected values of letters and digits", text));
    }
    condition.values.emplace_back(value);
    if (value.size() == rest.size()) return condition;
    rest.remove_prefix(value.size() + 1);
  }
}

bool Condition::Holds(const Traits& traits, const Facts& facts) const {
  if (kind == Kind::kIs) {
    const auto found = traits.find(name);
    return found != traits.end() &&
           std::find(values.begin(), values.end(), found->second) != values.end();
  }
  const auto found = facts.find(name);
  if (found == facts.end()) return false;
  switch (kind) {
    case Kind::kLess:
      return found->second < bound;
    case Kind::kLessEqual:
      return found->second <= bound;
    case Kind::kGreater:
      return found->second > bound;
    case Kind::kGreaterEqual:
      return found->second >= bound;
    case Kind::kIs:
      break;
  }
  return false;
}

}  // namespace grove::llm::playbook
