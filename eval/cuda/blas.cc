#include "eval/cuda/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

namespace grove::cuda {
namespace {

namespace fs = std::filesystem;

// Of cublas_api.h and library_types.h.
constexpr int kR32F = 0;
constexpr int kR16F = 2;
constexpr int kR64F = 1;
constexpr int kR16BF = 14;
constexpr int kCompute64F = 70;
constexpr int kCompute32FFast16F = 74;
constexpr int kCompute32FFast16BF = 75;
constexpr int kCompute32FEmulated16BFx9 = 78;
constexpr int kTranspose = 1;
constexpr int kCompute32F = 68;
constexpr int kCompute32FPedantic = 69;
constexpr int kCompute32FFastTf32 = 77;
constexpr int kDefaultAlgorithm = -1;
constexpr int kNoTranspose = 0;

void* Pointer(CuDevicePtr address) {
  void* p = nullptr;
  std::memcpy(&p, &address, sizeof p);
  return p;
}

int TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kR64F;
    case DType::kF16:
      return kR16F;
    case DType::kBF16:
      return kR16BF;
    default:
      return kR32F;
  }
}

int ComputeOf(const codegen::ResolvedGemm& gemm) {
  using codegen::GemmCompute;
  switch (gemm.compute) {
    case GemmCompute::kFp32:
      return gemm.a.dtype == DType::kF32 ? kCompute32FPedantic : kCompute32F;
    case GemmCompute::kTf32:
      return kCompute32FFastTf32;
    case GemmCompute::kFp16:
      return kCompute32FFast16F;
    case GemmCompute::kBf16:
      return kCompute32FFast16BF;
    case GemmCompute::kBf16x9:
      return kCompute32FEmulated16BFx9;
    case GemmCompute::kFp64:
      return kCompute64F;
  }
  return kCompute32FPedantic;
}

void AddWheels(const fs::path& root, std::vector<fs::path>& list) {
  std::error_code error;
  for (const auto& python : fs::directory_iterator(root, error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path nvidia = python.path() / packages / "nvidia";
      for (const char* leaf : {"cu13/lib", "cublas/lib", "cusolver/lib", "cudnn/lib", "cu12/lib"}) {
        list.push_back(nvidia / leaf);
      }
    }
  }
}

}  // namespace

std::vector<fs::path> VendorLibraryFolders() {
  std::vector<fs::path> list;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    for (const char* leaf : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
      list.push_back(fs::path(value) / leaf);
    }
  }
  list.emplace_back("/usr/local/cuda/lib64");
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr) {
    AddWheels(fs::path(environment) / "lib", list);
  }
  AddWheels("/usr/local/lib", list);
  AddWheels("/usr/lib", list);
  return list;
}

struct Blas::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*version)(void*, int*) = nullptr;
  int (*set_stream)(void*, CuStream) = nullptr;
  int (*set_workspace)(void*, void*, std::size_t) = nullptr;
  int (*gemm_batched)(void*, int, int, int, int, int, const void*, const void*, int, int, long long,
                      const void*, int, int, long long, const void*, void*, int, int, long long,
                      int, int, int) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
};

std::string_view Name(GemmKind kind) {
  switch (kind) {
    case GemmKind::kFp32:
      return "fp32";
    case GemmKind::kTf32:
      return "tf32";
    case GemmKind::kFp16:
      return "fp16";
    case GemmKind::kBf16:
      return "bf16";
  }
  return "fp32";
}

std::size_t ElementBytes(GemmKind kind) {
  return kind == GemmKind::kFp16 || kind == GemmKind::kBf16 ? 2 : 4;
}

Result<std::unique_ptr<Blas>> Blas::Load() {
  void* library = nullptr;
  std::string tried;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    for (const fs::path& folder : VendorLibraryFolders()) {
      std::error_code error;
      const fs::path path = folder / name;
      if (!fs::exists(path, error)) continue;
      library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
      if (const char* text = dlerror(); text != nullptr) tried = text;
    }
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                "no cuBLAS found (CUDA_HOME, /usr/local/cuda, Python wheels, the loader's path)" +
                    (tried.empty() ? "" : ": " + tried));
  }
  std::unique_ptr<Blas> blas(new Blas);
  blas->api_ = std::make_unique<Api>();
  const auto find = [&](const char* name, auto& slot) {
    void* address = dlsym(library, name);
    std::memcpy(&slot, &address, sizeof address);
    return address != nullptr;
  };
  Api& api = *blas->api_;
  if (!find("cublasCreate_v2", api.create) || !find("cublasDestroy_v2", api.destroy) ||
      !find("cublasGetVersion_v2", api.version) || !find("cublasSetStream_v2", api.set_stream) ||
      !find("cublasSetWorkspace_v2", api.set_workspace) ||
      !find("cublasGemmStridedBatchedEx", api.gemm_batched) || !find("cublasGemmEx", api.gemm)) {
    return Fail(ErrorCode::kUnavailable, "this cuBLAS lacks a function that is needed");
  }
  if (const int code = api.create(&blas->handle_); code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasCreate failed with status {}", code));
  }
  int number = 0;
  api.version(blas->handle_, &number);
  blas->version_ = fmt::format("cuBLAS {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  return blas;
}

Blas::~Blas() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

Status Blas::Gemm(CuStream stream, GemmKind kind, std::int64_t m, std::int64_t n, std::int64_t k,
                  CuDevicePtr a, CuDevicePtr b, CuDevicePtr c) {
  api_->set_stream(handle_, stream);
  const float one = 1;
  const float zero = 0;
  int type = kR32F;
  int compute = kCompute32F;
  switch (kind) {
    case GemmKind::kFp32:
      compute = kCompute32FPedantic;
      break;
    case GemmKind::kTf32:
      compute = kCompute32FFastTf32;
      break;
    case GemmKind::kFp16:
      type = kR16F;
      break;
    case GemmKind::kBf16:
      type = kR16BF;
      break;
  }
  // cuBLAS is column-major: C^T = B^T A^T, and a row-major matrix is its transpose in columns.
  const int code = api_->gemm(handle_, kNoTranspose, kNoTranspose, static_cast<int>(n),
                              static_cast<int>(m), static_cast<int>(k), &one, Pointer(b), type,
                              static_cast<int>(n), Pointer(a), type, static_cast<int>(k), &zero,
                              Pointer(c), type, static_cast<int>(n), compute, kDefaultAlgorithm);
  if (code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasGemmEx failed with status {}", code));
  }
  return {};
}

Status Blas::Use(CuStream stream, CuDevicePtr workspace, std::int64_t workspace_bytes) {
  // In this order: a new stream gives the workspace back to the library's own pool.
  int code = api_->set_stream(handle_, stream);
  if (code == 0) {
    code =
        api_->set_workspace(handle_, Pointer(workspace), static_cast<std::size_t>(workspace_bytes));
  }
  if (code == 0) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cublasSetStream or cublasSetWorkspace failed with status {}", code));
}

Status Blas::Multiply(const codegen::ResolvedGemm& gemm, CuDevicePtr a, CuDevicePtr b,
                      CuDevicePtr c) {
  const float alpha32 = static_cast<float>(gemm.alpha);
  const float beta32 = static_cast<float>(gemm.beta);
  const bool in_double = gemm.compute == codegen::GemmCompute::kFp64;
  const void* alpha = in_double ? static_cast<const void*>(&gemm.alpha) : &alpha32;
  const void* beta = in_double ? static_cast<const void*>(&gemm.beta) : &beta32;
  const auto at = [](const codegen::ResolvedMatrix& m, CuDevicePtr start) {
    return Pointer(start +
                   static_cast<CuDevicePtr>(m.offset * static_cast<std::int64_t>(SizeOf(m.dtype))));
  };
  const auto operation = [](const codegen::ResolvedMatrix& m) {
    return m.transpose ? kTranspose : kNoTranspose;
  };
  // cuBLAS is column-major: C^T = B^T A^T, and a row-major matrix is its transpose in columns.
  const int code = api_->gemm_batched(
      handle_, operation(gemm.b), operation(gemm.a), static_cast<int>(gemm.n),
      static_cast<int>(gemm.m), static_cast<int>(gemm.k), alpha, at(gemm.b, b),
      TypeOf(gemm.b.dtype), static_cast<int>(gemm.b.ld), gemm.b.stride, at(gemm.a, a),
      TypeOf(gemm.a.dtype), static_cast<int>(gemm.a.ld), gemm.a.stride, beta, at(gemm.c, c),
      TypeOf(gemm.c.dtype), static_cast<int>(gemm.c.ld), gemm.c.stride,
      static_cast<int>(gemm.batch), ComputeOf(gemm), kDefaultAlgorithm);
  if (code == 0) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cublasGemmStridedBatchedEx ({}, {} x {} x {}, batch {}) failed with "
                          "status {}",
                          Name(gemm.compute), gemm.m, gemm.n, gemm.k, gemm.batch, code));
}

}  // namespace grove::cuda
