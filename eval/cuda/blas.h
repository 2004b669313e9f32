// cuBLAS, loaded at run time: the vendor's matrix product as baseline and as yardstick. Not
// thread-safe; one handle belongs to one thread. The context must be current.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/plan.h"
#include "eval/cuda/driver.h"

namespace grove::cuda {

// How a matrix product computes; fp32 keeps CUDA cores, tf32 lets fp32 data go through tensor
// cores, fp16 and bf16 have such inputs and outputs and accumulate in fp32.
enum class GemmKind { kFp32, kTf32, kFp16, kBf16 };
std::string_view Name(GemmKind kind);  // "fp32", "tf32", ...
std::size_t ElementBytes(GemmKind kind);

class Blas {
 public:
  // Looks where a toolkit or a Python wheel puts the library ($CUDA_HOME/lib64, /usr/local/cuda,
  // site-packages/nvidia/...), then asks the loader. kUnavailable with what was tried.
  static Result<std::unique_ptr<Blas>> Load();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  const std::string& version() const { return version_; }  // "cuBLAS 13.0.2"
  // Enqueues C = A B for row-major A (m x k), B (k x n), C (m x n).
  Status Gemm(CuStream stream, GemmKind kind, std::int64_t m, std::int64_t n, std::int64_t k,
              CuDevicePtr a, CuDevicePtr b, CuDevicePtr c);

  // For the products of launch plans: everything that follows runs on `stream` with the caller's
  // scratch memory, so that it neither allocates nor waits and can be captured into a graph.
  // kUnavailable when the library refuses. REQUIRES: the memory outlives the calls' execution.
  Status Use(CuStream stream, CuDevicePtr workspace, std::int64_t workspace_bytes);
  // Enqueues a product that ResolvePlan has checked; the pointers are the starts of the operands'
  // buffers. REQUIRES: Use, and the same stream. kUnavailable with the library's status.
  Status Multiply(const codegen::ResolvedGemm& gemm, CuDevicePtr a, CuDevicePtr b, CuDevicePtr c);
  // Scratch memory that the library wants on Hopper, bytes (cuBLAS manual, cublasSetWorkspace).
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

 private:
  struct Api;
  Blas() = default;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  std::string version_;
};

// The folders looked at for vendor libraries, best first.
std::vector<std::filesystem::path> VendorLibraryFolders();

}  // namespace grove::cuda
