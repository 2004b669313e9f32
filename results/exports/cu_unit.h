// The C++ file of an exported kernel, as text: the part that every format in C++ has in common.
//
// A kernel's dims are constants when it is compiled, so it is compiled once per case. By NVRTC
// (kernel_text.h) the source is a literal that is compiled when a case is first used, exactly as
// grove compiles it, so to the machine code that was measured; the rest is plain C++ but for the
// program's own kernels, which check. By nvcc the file contains the source once, changed where
// nvcc takes less (codegen/nvcc_source.h), and includes itself once per case, each time with the
// case's constants and in a namespace of its own: no NVRTC is needed where it runs, but nvcc makes
// other machine code of the same text (matmul: 5% slower on an H200). The launch plan is host code
// (codegen/host_code.h) over a table of cases. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"
#include "seeds/task.h"

namespace grove::results {

enum class KernelCompiler { kNvrtc, kNvcc };
inline constexpr std::string_view Name(KernelCompiler compiler) {
  return compiler == KernelCompiler::kNvrtc ? "nvrtc" : "nvcc";
}

struct ExportedKernel {
  std::string name;  // of the files and the module: an identifier
  std::vector<std::string>
      about;  // lines for people: where it is from, idea, numbers; may be hostile
  codegen::KernelProgram program;
  seeds::Task task;
  std::vector<std::size_t> cases;  // those to compile it for, into task.cases; at least one
  KernelCompiler compiler = KernelCompiler::kNvrtc;
};

// A case as the task's reference sees it: outputs in f64.
seeds::Case Widened(seeds::Case c);

// Replaces every @@KEY@@. REQUIRES: pairs of key and text.
std::string FillTemplate(std::string_view text,
                         const std::vector<std::pair<std::string, std::string>>& values);

// Lines of comment, each behind `prefix`; foreign text cannot end the comment or continue a line.
std::string CommentLines(const ExportedKernel& kernel, std::string_view prefix);

// How a plan is executed: namespace grove_plan, C++17. Wants <cuda.h>, <cuda_runtime.h>,
// <stdexcept>, <string>, <vector> and, with GROVE_BLAS, <cublas_v2.h>; with kNvrtc also <cstdlib>,
// <map>, <memory>, <mutex>, <utility>, <dlfcn.h> and <unistd.h>.
std::string HostRuntime(KernelCompiler compiler);
// The member `kernels` of a case: its type, and a format string whose {} is the case's number.
struct KernelTable {
  std::string_view type, value;
};
// The host side of one kernel behind it: `struct Case`, `Cases()`, `Plan`.
std::string HostUnit(const ExportedKernel& kernel, const KernelTable& kernels);

// Whether the plan has library steps, so that the file needs cuBLAS.
bool NeedsBlas(const ExportedKernel& kernel);

// How an exported program makes an input, since it stands alone: what the task keeps in a file
// (parameters) is drawn near the size of parameters, whole numbers there are 0.
seeds::Distribution DrawnDistribution(const seeds::Tensor& t);

struct CuUnitOptions {
  std::string self;  // the name under which the file will be saved: by nvcc it includes itself
  bool with_main = false;  // with inputs, check and timing (CUDA); else with what the PyTorch side
                           // calls (by NVRTC plain C++)
};
// kInvalidInput when the plan does not resolve for a case, and, by nvcc, for a source that cannot
// be rewritten.
Result<std::string> CuUnit(const ExportedKernel& kernel, const CuUnitOptions& options);

}  // namespace grove::results
