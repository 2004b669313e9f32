#include "base/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace grove {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::string_view cuda;
  std::size_t size;
};

constexpr Row kRows[] = {
    {DType::kF64, "f64", "double", 8},    {DType::kF32, "f32", "float", 4},
    {DType::kF16, "f16", "__half", 2},    {DType::kBF16, "bf16", "__nv_bfloat16", 2},
    {DType::kI64, "i64", "long long", 8}, {DType::kI32, "i32", "int", 4},
    {DType::kI8, "i8", "signed char", 1}, {DType::kU8, "u8", "unsigned char", 1},
    {DType::kBool, "bool", "bool", 1},
};

const Row& RowOf(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

template <typename T>
T Load(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void Store(std::byte* data, std::int64_t index, T value) {
  std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename T>
T Saturate(double value) {
  if (std::isnan(value)) return 0;
  // The upper limit of i64 is not a double; compare against the first double above it.
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits))
    return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(value);
}

// Rounds a double to float without the double rounding that a later conversion to a 16-bit type
// would suffer: round to odd keeps the sticky information.
float ToFloatRoundOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(nearest) || static_cast<double>(nearest) == value) {
    return nearest;
  }
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  // Step back towards zero when the conversion went away from it, then set the last bit.
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

}  // namespace

std::string_view Name(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view CudaName(DType dtype) { return RowOf(dtype).cuda; }
std::size_t SizeOf(DType dtype) { return RowOf(dtype).size; }
bool IsFloat(DType dtype) { return dtype <= DType::kBF16; }

std::uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7fffU);   // NaN
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // overflow
  if (magnitude < 0x33000000U) return sign;  // below half of the least denormal
  std::uint32_t result;
  std::uint32_t rest;
  std::uint32_t half;
  if (magnitude < 0x38800000U) {  // denormal result
    const int shift = 126 - static_cast<int>(magnitude >> 23);
    const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    result = mantissa >> shift;
    rest = mantissa & ((1U << shift) - 1);
    half = 1U << (shift - 1);
  } else {
    result = (magnitude - 0x38000000U) >> 13;
    rest = magnitude & 0x1fffU;
    half = 0x1000U;
  }
  if (rest > half || (rest == half && (result & 1U))) ++result;
  return static_cast<std::uint16_t>(sign | result);
}

float HalfToFloat(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign ? -magnitude : magnitude;
}

std::uint16_t FloatToBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fffU;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float BFloat16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

double LoadElement(DType dtype, const std::byte* data, std::int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return Load<double>(data, index);
    case DType::kF32:
      return static_cast<double>(Load<float>(data, index));
    case DType::kF16:
      return static_cast<double>(HalfToFloat(Load<std::uint16_t>(data, index)));
    case DType::kBF16:
      return static_cast<double>(BFloat16ToFloat(Load<std::uint16_t>(data, index)));
    case DType::kI64:
      return static_cast<double>(Load<std::int64_t>(data, index));
    case DType::kI32:
      return Load<std::int32_t>(data, index);
    case DType::kI8:
      return Load<std::int8_t>(data, index);
    case DType::kU8:
    case DType::kBool:
      return Load<std::uint8_t>(data, index);
  }
  return 0;
}

void StoreElement(DType dtype, std::byte* data, std::int64_t index, double value) {
  switch (dtype) {
    case DType::kF64:
      return Store(data, index, value);
    case DType::kF32:
      return Store(data, index, static_cast<float>(value));
    case DType::kF16:
      return Store(data, index, FloatToHalf(ToFloatRoundOdd(value)));
    case DType::kBF16:
      return Store(data, index, FloatToBFloat16(ToFloatRoundOdd(value)));
    case DType::kI64:
      return Store(data, index, Saturate<std::int64_t>(value));
    case DType::kI32:
      return Store(data, index, Saturate<std::int32_t>(value));
    case DType::kI8:
      return Store(data, index, Saturate<std::int8_t>(value));
    case DType::kU8:
      return Store(data, index, Saturate<std::uint8_t>(value));
    case DType::kBool:
      return Store<std::uint8_t>(data, index, value != 0 ? 1 : 0);
  }
}

}  // namespace grove
