// JSON of what has no store row yet: tasks, devices, and an evaluation made by hand. Field names
// carry their unit (time_ns, memory_gbs).
#pragma once

#include <string>
#include <vector>

#include "eval/evaluator.h"
#include "eval/model/device_spec.h"
#include "seeds/task.h"

namespace grove::cli {

std::string TaskJson(const seeds::Task& task);
std::string DevicesJson(const std::vector<eval::DeviceSpec>& devices);
std::string EvaluationJson(const seeds::Task& task, const eval::Evaluation& evaluation);

}  // namespace grove::cli
