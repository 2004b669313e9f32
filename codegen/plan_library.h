// The checks of a library product (launch plan, docs/plan.md): what a vendor library would take on
// trust is proven here, before any call. Pure functions. Internal to codegen/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/plan.h"

namespace grove::codegen {

// Of m, n, k, batch and ld: the library takes them as 32-bit integers.
inline constexpr std::int64_t kMaxGemmSize = 2147483647;

// An operand and what is known of its buffer.
struct GemmOperand {
  ResolvedMatrix matrix;
  std::string name;
  std::int64_t elements = 0;  // of the buffer
  bool writable = false;
};

// Checks the operands (a, b, c) of a product whose sizes are in `gemm`, and completes it.
// kInvalidInput with the place on dtypes that do not go together, a row longer than its leading
// dimension, an element outside its buffer, an input as c, and a c that shares elements with a, b
// or itself. REQUIRES: m, n and batch from 1, k from 0 to kMaxGemmSize.
Status CheckGemm(std::string_view place, std::optional<GemmCompute> compute,
                 const std::array<GemmOperand, 3>& operands, ResolvedGemm& gemm);

}  // namespace grove::codegen
