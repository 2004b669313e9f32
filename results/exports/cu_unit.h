// The CUDA file of an exported kernel, as text: the part that every format in C++ has in common.
//
// A kernel's dims are constants when it is compiled, so a file that serves several cases contains
// the source once and includes itself once per case, each time with the case's constants and in a
// namespace of its own. The launch plan is host code (codegen/host_code.h) over a table of cases.
// Pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"
#include "seeds/task.h"

namespace grove::results {

struct ExportedKernel {
  std::string name;  // of the files and the module: an identifier
  std::vector<std::string>
      about;  // lines for people: where it is from, idea, numbers; may be hostile
  codegen::KernelProgram program;
  seeds::Task task;
  std::vector<std::size_t> cases;  // those to compile it for, into task.cases; at least one
};

// Replaces every @@KEY@@. REQUIRES: pairs of key and text.
std::string FillTemplate(std::string_view text,
                         const std::vector<std::pair<std::string, std::string>>& values);

// Lines of comment, each behind `prefix`; foreign text cannot end the comment or continue a line.
std::string CommentLines(const ExportedKernel& kernel, std::string_view prefix);

// How a plan is executed: namespace grove_plan, C++17. Wants <cuda.h>, <cuda_runtime.h>,
// <stdexcept>, <string>, <vector> and, with GROVE_BLAS, <cublas_v2.h>.
std::string_view HostRuntime();
// The host side of one kernel behind it: `struct Case`, `Cases()`, `Plan`. `kernels` is what stands
// in the table for case number {}: a format string for an expression of type const void* const*.
std::string HostUnit(const ExportedKernel& kernel, std::string_view kernels);

// Whether the plan has library steps, so that the file needs cuBLAS.
bool NeedsBlas(const ExportedKernel& kernel);

// How an exported program makes an input, since it stands alone: what the task keeps in a file
// (parameters) is drawn near the size of parameters, whole numbers there are 0.
seeds::Distribution DrawnDistribution(const seeds::Tensor& t);

struct CuUnitOptions {
  std::string self;        // the name under which the file will be saved: it includes itself
  bool with_main = false;  // with inputs, check and timing; else with what the PyTorch side calls
};
// kInvalidInput when the plan does not resolve for a case, and for a source that cannot be
// rewritten for nvcc.
Result<std::string> CuUnit(const ExportedKernel& kernel, const CuUnitOptions& options);

}  // namespace grove::results
