#include "eval/cuda/factor.h"

#include <fmt/format.h>

#include "eval/cuda/vendor_library.h"

namespace grove::cuda {

struct Solver::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*version)(int*) = nullptr;
  int (*set_stream)(void*, CuStream) = nullptr;
  int (*buffer_size)(void*, int, int, void*, int, int*) = nullptr;
  int (*geqrf)(void*, int, int, void*, int, void*, void*, int, void*) = nullptr;
};

Result<std::unique_ptr<Solver>> Solver::Load() {
  auto library =
      VendorLibrary::Open("cuSOLVER", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"});
  if (!library) return Failure(std::move(library.error()));
  std::unique_ptr<Solver> solver(new Solver);
  solver->api_ = std::make_unique<Api>();
  Api& api = *solver->api_;
  const bool whole = library->Find("cusolverDnCreate", api.create) &&
                     library->Find("cusolverDnDestroy", api.destroy) &&
                     library->Find("cusolverGetVersion", api.version) &&
                     library->Find("cusolverDnSetStream", api.set_stream) &&
                     library->Find("cusolverDnSgeqrf_bufferSize", api.buffer_size) &&
                     library->Find("cusolverDnSgeqrf", api.geqrf);
  if (!whole) return Failure(library->Lacks());
  if (const int code = api.create(&solver->handle_); code != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cusolverDnCreate failed with status {}", code));
  }
  int number = 0;
  api.version(&number);
  solver->version_ =
      fmt::format("cuSOLVER {}.{}.{}", number / 1000, number / 100 % 10, number % 100);
  return solver;
}

Solver::~Solver() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

Result<std::int64_t> Solver::Workspace(std::int64_t n, CuDevicePtr matrix) {
  int floats = 0;
  const int code = api_->buffer_size(handle_, static_cast<int>(n), static_cast<int>(n),
                                     DevicePointer(matrix), static_cast<int>(n), &floats);
  if (code != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cusolverDnSgeqrf_bufferSize failed with status {}", code));
  }
  return std::int64_t{4} * floats;
}

Status Solver::Geqrf(CuStream stream, const QrBatch& batch, CuDevicePtr workspace,
                     std::int64_t workspace_bytes, CuDevicePtr info) {
  api_->set_stream(handle_, stream);
  const int n = static_cast<int>(batch.n);
  for (std::int64_t i = 0; i < batch.batch; ++i) {
    const auto matrix = batch.matrices + static_cast<CuDevicePtr>(4 * i * batch.n * batch.n);
    const auto tau = batch.taus + static_cast<CuDevicePtr>(4 * i * batch.n);
    const int code = api_->geqrf(handle_, n, n, DevicePointer(matrix), n, DevicePointer(tau),
                                 DevicePointer(workspace), static_cast<int>(workspace_bytes / 4),
                                 DevicePointer(info));
    if (code != 0) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("cusolverDnSgeqrf failed with status {} at matrix {}", code, i));
    }
  }
  return {};
}

struct BatchedQr::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*version)(void*, int*) = nullptr;
  int (*set_stream)(void*, CuStream) = nullptr;
  int (*geqrf)(void*, int, int, void*, int, void*, int*, int) = nullptr;
};

Result<std::unique_ptr<BatchedQr>> BatchedQr::Load() {
  auto library =
      VendorLibrary::Open("cuBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
  if (!library) return Failure(std::move(library.error()));
  std::unique_ptr<BatchedQr> batched(new BatchedQr);
  batched->api_ = std::make_unique<Api>();
  Api& api = *batched->api_;
  const bool whole = library->Find("cublasCreate_v2", api.create) &&
                     library->Find("cublasDestroy_v2", api.destroy) &&
                     library->Find("cublasGetVersion_v2", api.version) &&
                     library->Find("cublasSetStream_v2", api.set_stream) &&
                     library->Find("cublasSgeqrfBatched", api.geqrf);
  if (!whole) return Failure(library->Lacks());
  if (const int code = api.create(&batched->handle_); code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasCreate failed with status {}", code));
  }
  int number = 0;
  api.version(batched->handle_, &number);
  batched->version_ =
      fmt::format("cuBLAS {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  return batched;
}

BatchedQr::~BatchedQr() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

Status BatchedQr::Geqrf(CuStream stream, const QrBatch& batch, CuDevicePtr matrix_pointers,
                        CuDevicePtr tau_pointers) {
  api_->set_stream(handle_, stream);
  const int n = static_cast<int>(batch.n);
  int info = 0;  // about the arguments; written before the call returns
  const int code = api_->geqrf(handle_, n, n, DevicePointer(matrix_pointers), n,
                               DevicePointer(tau_pointers), &info, static_cast<int>(batch.batch));
  if (code != 0 || info != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cublasSgeqrfBatched failed with status {}, info {}", code, info));
  }
  return {};
}

}  // namespace grove::cuda
