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
constexpr int kR16BF = 14;
constexpr int kCompute32F = 68;
constexpr int kCompute32FPedantic = 69;
constexpr int kCompute32FFastTf32 = 77;
constexpr int kDefaultAlgorithm = -1;
constexpr int kNoTranspose = 0;

void AddWheels(const fs::path& root, std::vector<fs::path>& list) {
  std::error_code error;
  for (const auto& python : fs::directory_iterator(root, error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path nvidia = python.path() / packages / "nvidia";
      for (const char* leaf : {"cu13/lib", "cublas/lib", "cu12/lib"}) list.push_back(nvidia / leaf);
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
      !find("cublasGemmEx", api.gemm)) {
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
  const auto pointer = [](CuDevicePtr address) {
    void* p = nullptr;
    std::memcpy(&p, &address, sizeof p);
    return p;
  };
  // cuBLAS is column-major: C^T = B^T A^T, and a row-major matrix is its transpose in columns.
  const int code = api_->gemm(handle_, kNoTranspose, kNoTranspose, static_cast<int>(n),
                              static_cast<int>(m), static_cast<int>(k), &one, pointer(b), type,
                              static_cast<int>(n), pointer(a), type, static_cast<int>(k), &zero,
                              pointer(c), type, static_cast<int>(n), compute, kDefaultAlgorithm);
  if (code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasGemmEx failed with status {}", code));
  }
  return {};
}

}  // namespace grove::cuda
