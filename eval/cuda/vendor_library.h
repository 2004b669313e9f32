// A shared library of the vendor, found and loaded at run time: where a toolkit or a Python wheel
// puts it, then by the loader. Stays loaded until the program ends (unloading CUDA libraries is not
// safe while the driver lives). Immutable after Open; safe to share between threads.
#pragma once

#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/cuda/driver_api.h"

namespace grove::cuda {

class VendorLibrary {
 public:
  // Tries each of `names` ("libcublas.so.13") in every folder, then without one. kUnavailable with
  // `product` ("cuBLAS") and the loader's last words.
  static Result<VendorLibrary> Open(const std::string& product,
                                    std::initializer_list<const char*> names);

  // The function of that name; false, and its name kept for missing(), when there is none.
  template <typename Function>
  bool Find(const char* name, Function*& slot) {
    void* address = Symbol(name);
    std::memcpy(&slot, &address, sizeof address);
    if (address == nullptr) missing_ = name;
    return address != nullptr;
  }
  // kUnavailable that names what Find missed last.
  Error Lacks() const;

 private:
  void* Symbol(const char* name) const;
  std::string product_;
  void* handle_ = nullptr;
  std::string missing_;
};

// Product and version of what Open would find, as baselines name it ("cuBLAS 13.1.0"), of cuBLAS,
// cuBLASLt, cuSOLVER and cuDNN; empty for another product and for one that is not here. Needs no
// GPU.
std::string InstalledVersion(const std::string& product);

// A device address as the pointer that these libraries take.
inline void* DevicePointer(CuDevicePtr address) {
  void* pointer = nullptr;
  std::memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

}  // namespace grove::cuda
