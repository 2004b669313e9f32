// Householder QR by the vendor's libraries, loaded at run time, for baselines: cuSOLVER's geqrf
// once per matrix, and cuBLAS's geqrfBatched. Both take column-major matrices and overwrite them
// with R and the reflectors (LAPACK's geqrf). Needs a current context; belongs to one thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "eval/cuda/driver_api.h"

namespace grove::cuda {

// A batch of n x n fp32 matrices, one after the other, and n taus for each.
struct QrBatch {
  std::int64_t batch = 0;
  std::int64_t n = 0;
  CuDevicePtr matrices = 0;
  CuDevicePtr taus = 0;
};

class Solver {
 public:
  // kUnavailable when there is no cuSOLVER.
  static Result<std::unique_ptr<Solver>> Load();
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  const std::string& version() const { return version_; }  // "cuSOLVER 12.0.4"
  // Bytes of workspace that one n x n factorisation takes.
  Result<std::int64_t> Workspace(std::int64_t n, CuDevicePtr matrix);
  // Enqueues `batch` factorisations, one after the other. `info` is one int of device memory.
  Status Geqrf(CuStream stream, const QrBatch& batch, CuDevicePtr workspace,
               std::int64_t workspace_bytes, CuDevicePtr info);

 private:
  struct Api;
  Solver() = default;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  std::string version_;
};

class BatchedQr {
 public:
  // kUnavailable when there is no cuBLAS.
  static Result<std::unique_ptr<BatchedQr>> Load();
  ~BatchedQr();
  BatchedQr(const BatchedQr&) = delete;
  BatchedQr& operator=(const BatchedQr&) = delete;

  const std::string& version() const { return version_; }  // "cuBLAS 13.1.0"
  // Enqueues the whole batch. The pointer arrays (batch addresses each) lie in device memory.
  Status Geqrf(CuStream stream, const QrBatch& batch, CuDevicePtr matrix_pointers,
               CuDevicePtr tau_pointers);

 private:
  struct Api;
  BatchedQr() = default;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  std::string version_;
};

}  // namespace grove::cuda
