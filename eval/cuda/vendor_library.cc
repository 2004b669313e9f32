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

void* VendorLibrary::Symbol(const char* name) const { return dlsym(handle_, name); }

Error VendorLibrary::Lacks() const {
  return {ErrorCode::kUnavailable, fmt::format("this {} lacks {}", product_, missing_)};
}

}  // namespace grove::cuda
