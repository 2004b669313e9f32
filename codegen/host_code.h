// The host side of a launch plan as source code, for programs that run a kernel without grove: what
// ResolvePlan works out for one case becomes statements that work it out when they run. One walk
// over the plan, two languages; everything around it (how a kernel is launched, where memory comes
// from) is the caller's. Pure and thread-safe.
//
// C++ (C++17): the body of `template <class Run> void Plan(const Case& it, Run& run)`, where
//   it.dim.NAME, it.scalar.NAME    the case's dims and scalars (long long, or double)
//   it.type                        element type of the first input, grove_plan::kF32 ...
//   it.tensors[i].{type, shape}    shape is a std::vector<long long>
//   it.kernels[i]                  kernel i of HostCode::kernels, whatever Run::Launch takes
//   run.Device("sm_count")         device constants
//   run.Tensor(i), run.Workspace(name, bytes, zero)    addresses (void*)
//   run.measuring()                true: return when all workspaces are known
//   run.TensorMap(name, type, address, shape, box, element_strides, swizzle, interleave, promotion)
//   run.Launch(kernel, {x, y, z}, {x, y, z}, shared, {x, y, z} or {0, 0, 0}, cooperative,
//              dependent, args...)
//   run.Gemm(m, n, k, batch, alpha, beta, compute, a, b, c)   operands: grove_plan::Matrix{address,
//              type, offset, ld, stride, transpose}
// Python: the body of `def plan(it, run)` with the same names in lower case; an argument is a pair
// of its type ("ptr", "map", "i32", "i64", "f32", "f64") and value.
#pragma once

#include <string>
#include <vector>

#include "codegen/expr_text.h"
#include "codegen/plan.h"
#include "seeds/task.h"

namespace grove::codegen {

struct HostCode {
  std::string body;                  // indented by one level
  std::vector<std::string> kernels;  // each once, in order of appearance
  bool gemm = false;                 // has library steps
  bool tensor_maps = false;
};

// REQUIRES: the plan resolves for a case with the names (tensors, dims, scalars) of `names`.
HostCode EmitHostCode(const LaunchPlan& plan, const seeds::Case& names, HostLanguage language);

// "grove_plan::kF32" or "F32".
std::string TypeConstant(DType dtype, HostLanguage language);

}  // namespace grove::codegen
