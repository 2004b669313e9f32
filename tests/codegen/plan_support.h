// A small task case and shorthands for the plan tests.
#pragma once

#include <string>
#include <string_view>

#include "codegen/plan.h"

namespace grove::codegen {

// x: M x N f32 input, y: M x N f32 output; M = 4096, N = 1000; eps (f32) = 1e-5, k_max (i32) = 7.
inline seeds::Case SampleCase() {
  seeds::Case sample;
  sample.name = "sample";
  sample.dims = {{"M", 4096}, {"N", 1000}};
  sample.scalars = {{"eps", DType::kF32, 1e-5}, {"k_max", DType::kI32, 7}};
  seeds::Tensor x;
  x.name = "x";
  x.shape = {4096, 1000};
  seeds::Tensor y = x;
  y.name = "y";
  y.role = seeds::TensorRole::kOutput;
  sample.tensors = {x, y};
  return sample;
}

// The message of ParsePlan's error, empty when it parses.
inline std::string ParseComplaint(std::string_view json) {
  const Result<LaunchPlan> plan = ParsePlan(json);
  return plan ? "" : plan.error().message;
}

// Parses and resolves for the sample case.
inline Result<ResolvedPlan> Resolved(std::string_view json,
                                     const seeds::Case& sample = SampleCase(),
                                     const DeviceLimits& limits = {}) {
  const Result<LaunchPlan> plan = ParsePlan(json);
  if (!plan) return Fail(plan.error());
  return ResolvePlan(*plan, sample, limits);
}

inline std::string ResolveComplaint(std::string_view json,
                                    const seeds::Case& sample = SampleCase()) {
  const Result<ResolvedPlan> plan = Resolved(json, sample);
  return plan ? "" : plan.error().message;
}

// A plan of one launch of kernel "k" with one block of 32 threads, with `fields` added or, where
// they name grid or block, in their place.
inline std::string OneLaunch(std::string_view fields) {
  std::string text = R"({"launches": [{"kernel": "k")";
  if (fields.find("\"grid\"") == std::string_view::npos) text += R"(, "grid": [1])";
  if (fields.find("\"block\"") == std::string_view::npos) text += R"(, "block": [32])";
  if (!fields.empty()) text += ", ";
  return text + std::string(fields) + "}]}";
}

}  // namespace grove::codegen
