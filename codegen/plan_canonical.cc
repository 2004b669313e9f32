// Writes a plan as canonical JSON: defaults left out, blanks in expressions dropped, keys sorted.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "codegen/plan.h"
#include "codegen/plan_names.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

using nlohmann::json;

// Dropping blanks cannot join two tokens: names and numbers never stand side by side.
json Canonical(const Expr& expression) {
  std::string text;
  for (const char c : expression.text()) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') text += c;
  }
  const bool number =
      text.size() <= 18 && !text.empty() &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (number) return std::stoll(text);
  return text;
}

json Canonical(const std::vector<Expr>& list) {
  json result = json::array();
  for (const Expr& item : list) result.push_back(Canonical(item));
  return result;
}

json Canonical(const std::array<Expr, 3>& extent) {
  json result = Canonical(std::vector<Expr>(extent.begin(), extent.end()));
  while (result.size() > 1 && result.back() == json(1)) result.erase(result.size() - 1);
  return result;
}

json Canonical(const Arg& arg) {
  if (arg.kind != Arg::Kind::kScalar) return arg.name;
  json result;
  if (arg.real) {
    result[std::string(Name(arg.type))] = *arg.real;
  } else {
    result[std::string(Name(arg.type))] = Canonical(arg.expression);
  }
  return result;
}

json Canonical(const Launch& launch) {
  json result = {{"kernel", launch.kernel},
                 {"grid", Canonical(launch.grid)},
                 {"block", Canonical(launch.block)}};
  if (const json shared = Canonical(launch.shared_bytes); shared != json(0)) {
    result["shared"] = shared;
  }
  if (launch.cluster) result["cluster"] = Canonical(*launch.cluster);
  if (launch.cooperative) result["cooperative"] = true;
  if (launch.dependent) result["dependent"] = true;
  result["args"] = json::array();
  for (const Arg& arg : launch.args) result["args"].push_back(Canonical(arg));
  return result;
}

json Canonical(const MatrixText& matrix) {
  json result = {{"buffer", matrix.buffer}, {"ld", Canonical(matrix.ld)}};
  if (const json offset = Canonical(matrix.offset); offset != json(0)) result["offset"] = offset;
  if (const json stride = Canonical(matrix.stride); stride != json(0)) result["stride"] = stride;
  if (matrix.transpose) result["transpose"] = true;
  return result;
}

json Canonical(const Gemm& gemm) {
  json result = {{"library", "gemm"},      {"m", Canonical(gemm.m)}, {"n", Canonical(gemm.n)},
                 {"k", Canonical(gemm.k)}, {"a", Canonical(gemm.a)}, {"b", Canonical(gemm.b)},
                 {"c", Canonical(gemm.c)}};
  if (const json batch = Canonical(gemm.batch); batch != json(1)) result["batch"] = batch;
  if (gemm.alpha != 1) result["alpha"] = gemm.alpha;
  if (gemm.beta != 0) result["beta"] = gemm.beta;
  if (gemm.compute) result["compute"] = std::string(Name(*gemm.compute));
  return result;
}

json Canonical(const std::vector<Step>& steps) {
  json result = json::array();
  for (const Step& step : steps) {
    if (const auto* launch = std::get_if<Launch>(&step.action)) {
      result.push_back(Canonical(*launch));
      continue;
    }
    if (const auto* gemm = std::get_if<Gemm>(&step.action)) {
      result.push_back(Canonical(*gemm));
      continue;
    }
    const Repeat& repeat = std::get<Repeat>(step.action);
    result.push_back({{"repeat",
                       {{"var", repeat.var},
                        {"from", Canonical(repeat.from)},
                        {"to", Canonical(repeat.to)},
                        {"step", Canonical(repeat.step)},
                        {"launches", Canonical(repeat.steps)}}}});
  }
  return result;
}

json Canonical(const TensorMap& map) {
  json result = {{"name", map.name}, {"tensor", map.tensor}, {"box", Canonical(map.box)}};
  const json strides = Canonical(map.element_strides);
  if (std::any_of(strides.begin(), strides.end(), [](const json& s) { return s != json(1); })) {
    result["element_strides"] = strides;
  }
  if (map.swizzle != "none") result["swizzle"] = map.swizzle;
  if (map.interleave != "none") result["interleave"] = map.interleave;
  if (map.l2_promotion != "none") result["l2_promotion"] = map.l2_promotion;
  return result;
}

json Canonical(const Variant& variant) {
  json result;
  if (variant.when) result["when"] = Canonical(*variant.when);
  for (const Workspace& workspace : variant.workspaces) {
    json entry = {{"name", workspace.name},
                  {"dtype", grove::Name(workspace.dtype)},
                  {"shape", Canonical(workspace.shape)}};
    if (workspace.zero) entry["init"] = "zero";
    result["workspace"].push_back(std::move(entry));
  }
  for (const TensorMap& map : variant.tensor_maps) result["tensor_maps"].push_back(Canonical(map));
  result["launches"] = Canonical(variant.steps);
  return result;
}

}  // namespace

std::string CanonicalJson(const LaunchPlan& plan) {
  json result;
  if (plan.variants.size() == 1) {
    result = Canonical(plan.variants[0]);
  } else {
    result["variants"] = json::array();
    for (const Variant& variant : plan.variants) result["variants"].push_back(Canonical(variant));
  }
  result["version"] = 1;
  // Names in a plan built by hand may be anything; a plan that was parsed has none to replace.
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace grove::codegen
