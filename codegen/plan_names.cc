#include "codegen/plan_names.h"

namespace grove::codegen {

bool IsReservedName(std::string_view name) { return !ReservedMeaning(name).empty(); }

std::string_view ReservedMeaning(std::string_view name) {
  if (DeviceConstant(name, DeviceLimits{})) return "a device constant";
  if (name == "min" || name == "max" || name == "ceil_div") return "a function";
  if (DTypeFromName(name)) return "a dtype test";
  return {};
}

std::optional<std::int64_t> DeviceConstant(std::string_view name, const DeviceLimits& limits) {
  if (name == "sm_count") return limits.sm_count;
  if (name == "max_shared") return limits.max_shared;
  if (name == "l2_bytes") return limits.l2_bytes;
  return std::nullopt;
}

std::string_view Name(ScalarType type) {
  switch (type) {
    case ScalarType::kI32:
      return "i32";
    case ScalarType::kI64:
      return "i64";
    case ScalarType::kF32:
      return "f32";
    case ScalarType::kF64:
      return "f64";
  }
  return "";
}

std::optional<ScalarType> ScalarTypeFromName(std::string_view name) {
  for (const ScalarType type :
       {ScalarType::kI32, ScalarType::kI64, ScalarType::kF32, ScalarType::kF64}) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

std::vector<std::string> DTypeNames() {
  std::vector<std::string> names;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                            DType::kI32, DType::kI8, DType::kU8, DType::kBool}) {
    names.emplace_back(grove::Name(dtype));
  }
  return names;
}

}  // namespace grove::codegen
