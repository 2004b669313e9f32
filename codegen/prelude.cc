#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "codegen/program.h"

namespace grove::codegen {
namespace {

// NVRTC warns (#177-D) about constants that the kernel does not use.
constexpr std::string_view kConstant = "[[maybe_unused]] constexpr";

std::string Integer(std::string_view name, std::int64_t value, bool wide) {
  if (!wide) return fmt::format("{} int {} = {};", kConstant, name, value);
  // The least 64-bit integer has no literal.
  if (value == std::numeric_limits<std::int64_t>::min()) {
    return fmt::format("{} long long {} = -{}LL - 1;", kConstant, name,
                       std::numeric_limits<std::int64_t>::max());
  }
  return fmt::format("{} long long {} = {}LL;", kConstant, name, value);
}

bool FitsInt(std::int64_t value) {
  // -2^31 is left to long long: `-2147483648` is an expression of that type anyway.
  return value > std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

// Hexadecimal, so that the compiler reads back the same bits; infinities and NaN by their bits,
// since NVRTC has no builtin for them.
std::string Real(const seeds::Scalar& scalar) {
  const bool narrow = scalar.dtype == DType::kF32;
  const double value =
      narrow ? static_cast<double>(static_cast<float>(scalar.value)) : scalar.value;
  std::string text;
  if (std::isfinite(value)) {
    text = fmt::format("{:a}{}", value, narrow ? "f" : "");
  } else if (std::isnan(value)) {
    text = narrow ? "__builtin_bit_cast(float, 0x7fffffffU)"
                  : "__builtin_bit_cast(double, 0x7fffffffffffffffULL)";
  } else {
    text = fmt::format("{}{}", value < 0 ? "-" : "",
                       narrow ? "__builtin_bit_cast(float, 0x7f800000U)"
                              : "__builtin_bit_cast(double, 0x7ff0000000000000ULL)");
  }
  return fmt::format("{} {} {} = {};  // {}", kConstant, narrow ? "float" : "double", scalar.name,
                     text, scalar.value);
}

}  // namespace

std::string Prelude(const seeds::Case& task_case) {
  bool half = false, bfloat = false;
  for (const seeds::Tensor& tensor : task_case.tensors) {
    half |= tensor.dtype == DType::kF16;
    bfloat |= tensor.dtype == DType::kBF16;
  }
  // nvcc includes its runtime header, and with it the C ones, by itself; models rely on INFINITY,
  // FLT_MAX and uint32_t without an #include. All four are served from memory (codegen/headers.h).
  std::string text =
      "#include <math.h>\n#include <float.h>\n#include <limits.h>\n#include <stdint.h>\n";
  if (half) text += "#include <cuda_fp16.h>\n";
  if (bfloat) text += "#include <cuda_bf16.h>\n";
  // The same for the preprocessor, by which a combination of programs chooses (combine.h).
  for (const seeds::Dim& dim : task_case.dims) {
    if (dim.value == std::numeric_limits<std::int64_t>::min()) continue;  // has no literal
    text += fmt::format("#define GROVE_DIM_{} {}\n", dim.name, dim.value);
  }
  for (const seeds::Tensor& tensor : task_case.tensors) {
    if (tensor.role != seeds::TensorRole::kInput) continue;
    text += fmt::format("#define GROVE_IS_{} 1\n", Name(tensor.dtype));
    break;
  }
  text += "namespace dim {\n";
  for (const seeds::Dim& dim : task_case.dims) {
    text += Integer(dim.name, dim.value, !FitsInt(dim.value)) + "\n";
  }
  text += "}\nnamespace tensor {\n";
  for (const seeds::Tensor& tensor : task_case.tensors) {
    text += fmt::format("using {} = {};\n", tensor.name, CudaName(tensor.dtype));
  }
  text += "}\nnamespace scalar {\n";
  for (const seeds::Scalar& scalar : task_case.scalars) {
    if (IsFloat(scalar.dtype)) {
      text += Real(scalar) + "\n";
      continue;
    }
    const auto value = static_cast<std::int64_t>(scalar.value);
    text += Integer(scalar.name, value, scalar.dtype == DType::kI64 || !FitsInt(value)) + "\n";
  }
  text += "}\n#line 1 \"kernel.cu\"\n";
  return text;
}

}  // namespace grove::codegen
