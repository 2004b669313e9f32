// cuBLASLt, loaded at run time, for baselines: matrix products with the algorithm chosen by
// measuring what its heuristic proposes. Needs a current context; belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/cuda/blas.h"

namespace grove::cuda {

class BlasLt {
 public:
  // kUnavailable when there is no such library.
  static Result<std::unique_ptr<BlasLt>> Load();
  ~BlasLt();
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;

  const std::string& version() const { return version_; }  // "cuBLASLt 13.1.0"

  // Bytes of device memory that a product may use besides its matrices.
  static constexpr std::int64_t kWorkspace = std::int64_t{64} << 20;

  // Makes C = A B for row-major A (m x k), B (k x n), C (m x n) ready, and says how many algorithms
  // the heuristic proposes for it, best guess first. kUnavailable when it proposes none.
  Result<int> Prepare(GemmKind kind, std::int64_t m, std::int64_t n, std::int64_t k);
  // Enqueues the prepared product by one of those algorithms. `workspace` has kWorkspace bytes.
  Status Gemm(CuStream stream, int algorithm, CuDevicePtr a, CuDevicePtr b, CuDevicePtr c,
              CuDevicePtr workspace);

 private:
  struct Api;
  BlasLt() = default;
  void Forget();
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  std::string version_;
};

}  // namespace grove::cuda
