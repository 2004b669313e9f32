// cuBLAS, loaded at run time: the vendor's matrix product as baseline and as yardstick. Not
// thread-safe; one handle belongs to one thread. The context must be current.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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
