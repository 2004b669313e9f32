#include "codegen/combine.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/expr.h"

namespace grove::codegen {
namespace {

using Json = nlohmann::ordered_json;

bool StartsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool InName(char c) { return StartsName(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool IsPlain(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return InName(c) || c == '.' || c == '-'; });
}

}  // namespace

Result<std::string> PreprocessorCondition(std::string_view when) {
  if (auto parsed = Expr::Parse(when); !parsed) return Failure(std::move(parsed.error()));
  if (when.find('?') != std::string_view::npos) {
    return Fail(ErrorCode::kInvalidInput, "a condition of a combination cannot use ?:");
  }
  std::string text;
  for (std::size_t i = 0; i < when.size();) {
    // The x of 0x10 begins no name.
    if (std::isdigit(static_cast<unsigned char>(when[i])) != 0) {
      while (i < when.size() && InName(when[i])) text += when[i++];
      continue;
    }
    if (!StartsName(when[i])) {
      text += when[i] == '\n' || when[i] == '\t' ? ' ' : when[i];
      ++i;
      continue;
    }
    std::string name;
    while (i < when.size() && InName(when[i])) name += when[i++];
    if (name == "min" || name == "max" || name == "ceil_div") {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("a condition of a combination cannot use {}()", name));
    }
    text += (DTypeFromName(name) ? "GROVE_IS_" : "GROVE_DIM_") + name;
  }
  return text;
}

Result<KernelProgram> Combine(std::span<const CombinePart> parts) {
  if (parts.size() < 2) return Fail(ErrorCode::kInvalidInput, "one program is no combination");
  std::string source;
  Json variants = Json::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const CombinePart& part = parts[i];
    const bool last = i + 1 == parts.size();
    if (part.when.empty() != last) {
      return Fail(ErrorCode::kInvalidInput,
                  "every part of a combination but the last has a condition");
    }
    if (last) {
      source += "#else\n";
    } else {
      auto condition = PreprocessorCondition(part.when);
      if (!condition) return Failure(std::move(condition.error()));
      source += fmt::format("{} {}\n", i == 0 ? "#if" : "#elif", *condition);
    }
    if (IsPlain(part.name)) source += fmt::format("// {}\n", part.name);
    source += part.program->source;
    if (!source.ends_with('\n')) source += '\n';

    Json plan = Json::parse(CanonicalJson(part.program->plan));
    plan.erase("version");
    Json own = plan.contains("variants") ? plan["variants"] : Json::array({plan});
    for (Json& variant : own) {
      if (!part.when.empty()) {
        const auto it = variant.find("when");
        // The plan's own condition may be a number.
        const std::string inner = it == variant.end() ? ""
                                  : it->is_string()   ? it->get<std::string>()
                                                      : it->dump();
        variant["when"] = inner.empty() ? part.when : fmt::format("({}) && ({})", part.when, inner);
      }
      variants.push_back(std::move(variant));
    }
  }
  source += "#endif\n";
  const Json plan = {{"version", 1}, {"variants", std::move(variants)}};
  return MakeProgram(source, plan.dump(1));
}

}  // namespace grove::codegen
