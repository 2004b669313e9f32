// What the vendor's libraries take for a task's case, measured cold on one physical GPU
// (bare_gpu.h). For `grove baseline`; results are kept by eval/baselines.h.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/cuda/convolution.h"
#include "seeds/task.h"

namespace grove::cuda {

// One baseline of one case. Belongs to the physical GPU of `uuid` and no other.
struct Baseline {
  std::string name;     // "cublas_fp32", "cublaslt_tf32", "cusolver_geqrf", "cudnn_fp32", ...
  std::string version;  // of the library
  std::string uuid;
  Nanoseconds median{0}, min{0}, q3{0};
  std::vector<Nanoseconds> samples;  // cold, as candidates are timed
};

struct BaselineReport {
  std::vector<Baseline> baselines;
  std::vector<std::string> problems;  // a library that is not here or failed, one line each
};

// What libraries could do for a case, by its tensors alone.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
};
// A product C = A B: two inputs M x K and K x N, one output M x N, nothing else.
std::optional<Product> ProductOf(const seeds::Task& task, const seeds::Case& task_case);
struct Factorisation {
  std::int64_t batch = 0, n = 0;
};
// Householder QR: a task named "qr..." or of the family "qr" whose one input is fp32 (batch, n, n).
std::optional<Factorisation> FactorisationOf(const seeds::Task& task, const seeds::Case& task_case);
// A convolution with bias: family "conv", dims S and P, inputs x, w and bias, the output of exactly
// the convolution's shape, all fp32.
std::optional<ConvolutionShape> ConvolutionOf(const seeds::Task& task,
                                              const seeds::Case& task_case);

// Products by cuBLAS and cuBLASLt (its proposals measured, the fastest kept) in fp32, tf32, fp16
// and bf16; QR by cuSOLVER once per matrix and by cuBLAS batched (n up to 1024), on column-major
// copies: what turns a row-major batch around, as torch.geqrf does, is not in these times;
// convolution by cuDNN in fp32 and tf32. Empty when no library has the operation. An Error when the
// GPU itself cannot be used; what one library lacks is a problem in the report.
// With a stop requested nothing more is measured, and the report has what is there.
struct BaselineWatch {
  std::stop_token stop;
  std::function<void(const Baseline&)> measured;  // told of each as it is there; may be empty
};
Result<BaselineReport> MeasureBaselines(int ordinal, codegen::Compiler& compiler,
                                        const seeds::Task& task, std::size_t case_index,
                                        const BaselineWatch& watch = {});

}  // namespace grove::cuda
