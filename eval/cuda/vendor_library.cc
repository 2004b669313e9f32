#include "eval/cuda/vendor_library.h"

#include <dlfcn.h>

#include <system_error>

#include <fmt/format.h>

#include "eval/cuda/blas.h"

namespace grove::cuda {

Result<VendorLibrary> VendorLibrary::Open(const std::string& product,
                                          std::initializer_list<const char*> names) {
  VendorLibrary library;
  library.product_ = product;
  std::string words;
  for (const char* name : names) {
    for (const std::filesystem::path& folder : VendorLibraryFolders()) {
      std::error_code error;
      const std::filesystem::path path = folder / name;
      if (!std::filesystem::exists(path, error)) continue;
      library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library.handle_ != nullptr) return library;
      if (const char* text = dlerror(); text != nullptr) words = text;
    }
    library.handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) return library;
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("no {} found (CUDA_HOME, /usr/local/cuda, Python wheels, the loader's "
                          "path){}{}",
                          product, words.empty() ? "" : ": ", words));
}

std::string InstalledVersion(const std::string& product) {
  if (product == "cuBLAS") {
    auto library =
        VendorLibrary::Open(product, {"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
    int (*property)(int, int*) = nullptr;  // 0 = major, 1 = minor, 2 = patch
    if (!library || !library->Find("cublasGetProperty", property)) return {};
    int part[3] = {0, 0, 0};
    for (int i = 0; i < 3; ++i) {
      if (property(i, &part[i]) != 0) return {};
    }
    return fmt::format("{} {}.{}.{}", product, part[0], part[1], part[2]);
  }
  if (product == "cuBLASLt") {
    auto library =
        VendorLibrary::Open(product, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
    std::size_t (*version)() = nullptr;
    if (!library || !library->Find("cublasLtGetVersion", version)) return {};
    const std::size_t number = version();
    return fmt::format("{} {}.{}.{}", product, number / 10000, number / 100 % 100, number % 100);
  }
  if (product == "cuSOLVER") {
    auto library =
        VendorLibrary::Open(product, {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"});
    int (*version)(int*) = nullptr;
    int number = 0;
    if (!library || !library->Find("cusolverGetVersion", version) || version(&number) != 0) {
      return {};
    }
    return fmt::format("{} {}.{}.{}", product, number / 1000, number / 100 % 10, number % 100);
  }
  if (product == "cuDNN") {
    auto library = VendorLibrary::Open(product, {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
    std::size_t (*version)() = nullptr;
    if (!library || !library->Find("cudnnGetVersion", version)) return {};
    const std::size_t number = version();
    return number >= 90000 ? fmt::format("{} {}.{}.{}", product, number / 10000, number / 100 % 100,
                                         number % 100)
                           : fmt::format("{} {}.{}.{}", product, number / 1000, number / 100 % 10,
                                         number % 100);
  }
  return {};
}

void* VendorLibrary::Symbol(const char* name) const { return dlsym(handle_, name); }

Error VendorLibrary::Lacks() const {
  return {ErrorCode::kUnavailable, fmt::format("this {} lacks {}", product_, missing_)};
}

}  // namespace grove::cuda
