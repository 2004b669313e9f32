#include "cli/report_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace grove::cli {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity and no NaN.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Model text may hold invalid UTF-8; it is replaced, not refused.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json CaseJson(const seeds::Case& task_case) {
  Json json;
  json["name"] = task_case.name;
  json["role"] = seeds::Name(task_case.role);
  json["suites"] = task_case.suites;
  if (task_case.demanded) json["demanded_class"] = seeds::Name(*task_case.demanded);
  for (const seeds::Dim& dim : task_case.dims) json["dims"][dim.name] = dim.value;
  for (const seeds::Tensor& tensor : task_case.tensors) {
    Json row;
    row["name"] = tensor.name;
    row["role"] = tensor.role == seeds::TensorRole::kInput ? "input" : "output";
    row["dtype"] = Name(tensor.dtype);
    row["shape"] = tensor.shape;
    if (tensor.role == seeds::TensorRole::kInput) {
      row["distribution"] = {{"kind", seeds::Name(tensor.distribution.kind)},
                             {"a", tensor.distribution.a},
                             {"b", tensor.distribution.b}};
      if (!tensor.distribution.stored.key.empty()) {
        row["distribution"]["key"] = tensor.distribution.stored.key;
      }
    }
    json["tensors"].push_back(std::move(row));
  }
  for (const seeds::Scalar& scalar : task_case.scalars) {
    json["scalars"][scalar.name] = scalar.value;
  }
  json["flops"] = task_case.flops;
  json["min_bytes"] = task_case.min_bytes.value;
  return json;
}

}  // namespace

std::string TaskJson(const seeds::Task& task) {
  Json json;
  json["name"] = task.name;
  json["title"] = task.title;
  json["family"] = task.family;
  json["contract"] = task.contract;
  json["demanded_class"] = seeds::Name(task.demanded);
  json["suites"] = task.suites;
  json["cases"] = Json::array();
  for (const seeds::Case& task_case : task.cases) json["cases"].push_back(CaseJson(task_case));
  json["seed"] = {{"source", task.seed.source}, {"plan", task.seed.plan}};
  return Dump(json);
}

std::string DevicesJson(const std::vector<eval::DeviceSpec>& devices) {
  Json json = Json::array();
  for (const eval::DeviceSpec& device : devices) {
    json.push_back({{"name", device.name},
                    {"arch", device.arch},
                    {"sm_count", device.sm_count},
                    {"memory_gbs", device.memory_gbs},
                    {"copy_gbs", device.copy_gbs},
                    {"fp32_tflops", device.fp32_tflops},
                    {"tf32_tflops", device.tf32_tflops},
                    {"fp16_tflops", device.fp16_tflops},
                    {"memory_gb", device.memory_gb}});
  }
  return Dump(json);
}

std::string EvaluationJson(const seeds::Task& task, const eval::Evaluation& evaluation) {
  const eval::Verdict& verdict = evaluation.verdict;
  Json json;
  json["task"] = task.name;
  json["demanded_class"] = seeds::Name(task.demanded);
  if (task.instead_of) json["demanded_instead_of"] = seeds::Name(*task.instead_of);
  json["verdict"] = eval::Name(verdict.kind);
  json["stage"] = eval::Name(verdict.stage);
  if (!verdict.case_name.empty()) json["case"] = verdict.case_name;
  if (!verdict.message.empty()) json["message"] = verdict.message;
  if (!verdict.tensor.empty()) {
    json["tensor"] = verdict.tensor;
    json["element"] = verdict.element;
    json["expected"] = Number(verdict.expected);
    json["got"] = Number(verdict.got);
    json["error"] = Number(verdict.error);
    json["tolerance"] = Number(verdict.tolerance);
  }
  if (evaluation.score) {
    json["score_ns"] = evaluation.score->count();
    json["score_kind"] = evaluation.modelled ? "modelled" : "measured";
  }
  if (evaluation.measured_class) json["precision_class"] = seeds::Name(*evaluation.measured_class);
  json["worst_error"] = Number(evaluation.worst_error);
  json["stages"] = Json::array();
  for (const eval::StageRecord& stage : evaluation.stages) {
    json["stages"].push_back({{"stage", eval::Name(stage.stage)},
                              {"case", stage.case_name},
                              {"passed", stage.passed},
                              {"duration_ms", stage.duration.count()},
                              {"error", Number(stage.error)},
                              {"tolerance", Number(stage.tolerance)}});
  }
  json["times"] = Json::array();
  for (const eval::CaseTime& time : evaluation.times) {
    Json row = {{"case", time.case_name},
                {"time_ns", time.time.count()},
                {"kind", time.modelled ? "modelled" : "measured"},
                {"impossible_floor_ns", time.impossible_floor.count()},
                {"class_floor_ns", time.class_floor.count()},
                {"checked_share", time.checked_share},
                {"note", time.note}};
    for (const eval::LaunchReport& launch : time.launches) {
      row["launches"].push_back({{"kernel", launch.kernel},
                                 {"time_ns", launch.time.count()},
                                 {"bound", launch.bound},
                                 {"dram_bytes", launch.dram_bytes},
                                 {"occupancy", launch.occupancy.warps_share},
                                 {"blocks_per_sm", launch.occupancy.blocks_per_sm},
                                 {"limiter", launch.occupancy.limiter}});
    }
    json["times"].push_back(std::move(row));
  }
  if (!evaluation.gates.empty()) json["gates"] = Json::array();
  for (const eval::GateRecord& record : evaluation.gates) {
    json["gates"].push_back({{"case", record.case_name},
                             {"gate", record.gate.name},
                             {"value", Number(record.gate.value)},
                             {"limit", record.gate.limit},
                             {"decides", record.gate.decides},
                             {"matrix", record.gate.matrix},
                             {"column", record.gate.column}});
  }
  json["kernels"] = Json::array();
  for (const eval::KernelRecord& kernel : evaluation.kernels) {
    json["kernels"].push_back({{"case", kernel.case_name},
                               {"entry", kernel.entry.name},
                               {"registers", kernel.entry.registers},
                               {"spill_store_bytes", kernel.entry.spill_stores},
                               {"spill_load_bytes", kernel.entry.spill_loads},
                               {"static_shared_bytes", kernel.entry.static_shared},
                               {"stack_bytes", kernel.entry.stack_bytes}});
  }
  return Dump(json);
}

}  // namespace grove::cli
