// Names with a fixed meaning in a launch plan, and the spelling of its types: for whoever reads or
// evaluates a plan's expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan.h"

namespace grove::codegen {

// sm_count, max_shared, l2_bytes, min, max, ceil_div and the dtype names: no workspace, tensor map
// or loop variable may be called so.
bool IsReservedName(std::string_view name);
// "a device constant", "a function", "a dtype test".
std::string_view ReservedMeaning(std::string_view name);

// The value of a device constant; nullopt for another name.
std::optional<std::int64_t> DeviceConstant(std::string_view name, const DeviceLimits& limits);

std::string_view Name(ScalarType type);  // "i32", "i64", "f32", "f64"
std::optional<ScalarType> ScalarTypeFromName(std::string_view name);

// "f64", "f32", ...: every dtype, for messages.
std::vector<std::string> DTypeNames();

}  // namespace grove::codegen
