// Element types of tensors, and exact conversions between them and double on the host.
// Conversions round to nearest even, keep NaN, overflow to infinity, and handle denormals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace grove {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

// "f32", "f16", "bf16", ...: the names used in task files, plans and the store.
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// The type's name in CUDA C++: "float", "__half", "__nv_bfloat16", "long long", ...
std::string_view CudaName(DType dtype);
// Bytes of one element.
std::size_t SizeOf(DType dtype);
bool IsFloat(DType dtype);

std::uint16_t FloatToHalf(float value);      // IEEE binary16
float HalfToFloat(std::uint16_t bits);       // exact
std::uint16_t FloatToBFloat16(float value);  // upper half of binary32, nearest even
float BFloat16ToFloat(std::uint16_t bits);   // exact

// Element `index` of an array of `dtype` at `data`, as a double (i64 beyond 2^53 rounds).
double LoadElement(DType dtype, const std::byte* data, std::int64_t index);
// Stores `value` rounded to `dtype` (integers: truncated towards zero and saturated).
void StoreElement(DType dtype, std::byte* data, std::int64_t index, double value);

}  // namespace grove
