#include "codegen/nvrtc.h"

#include <chrono>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

std::string LoaderMessage() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown loader error" : text;
}

// NVRTC loads libnvrtc-builtins by its bare name. In a Python wheel's folder the loader would not
// find it; loaded here under the same name it is found in memory.
void LoadBuiltins(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.")) ::dlopen(it->path().c_str(), RTLD_NOW);
  }
}

using Sizer = int (*)(struct NvrtcProgram*, std::size_t*);
using Getter = int (*)(struct NvrtcProgram*, char*);

std::string Fetch(struct NvrtcProgram* program, Sizer size_of, Getter get, bool text) {
  std::size_t size = 0;
  if (size_of(program, &size) != 0 || size == 0) return {};
  std::string bytes(size, '\0');
  if (get(program, bytes.data()) != 0) return {};
  while (text && !bytes.empty() && bytes.back() == '\0') bytes.pop_back();  // one, at times two
  return bytes;
}

}  // namespace

Result<Nvrtc> Nvrtc::Load(const fs::path& library) {
  LoadBuiltins(library.parent_path());
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Fail(ErrorCode::kUnavailable, "cannot load NVRTC: " + LoaderMessage());
  }
  Nvrtc nvrtc;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* address = ::dlsym(handle, name);
    if (address == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find(nvrtc.f_.version, "nvrtcVersion");
  find(nvrtc.f_.error_string, "nvrtcGetErrorString");
  find(nvrtc.f_.create, "nvrtcCreateProgram");
  find(nvrtc.f_.destroy, "nvrtcDestroyProgram");
  find(nvrtc.f_.compile, "nvrtcCompileProgram");
  find(nvrtc.f_.log_size, "nvrtcGetProgramLogSize");
  find(nvrtc.f_.log, "nvrtcGetProgramLog");
  find(nvrtc.f_.ptx_size, "nvrtcGetPTXSize");
  find(nvrtc.f_.ptx, "nvrtcGetPTX");
  find(nvrtc.f_.cubin_size, "nvrtcGetCUBINSize");
  find(nvrtc.f_.cubin, "nvrtcGetCUBIN");
  if (!missing.empty()) {
    return Fail(ErrorCode::kUnavailable,
                library.string() + " lacks " + missing + ": NVRTC 12.4 or newer is needed");
  }
  if (nvrtc.f_.version(&nvrtc.major_, &nvrtc.minor_) != 0) {
    return Fail(ErrorCode::kUnavailable, library.string() + " does not tell its version");
  }
  return nvrtc;
}

NvrtcOutput Nvrtc::Compile(const std::string& source, const std::vector<std::string>& options,
                           const std::vector<Header>& headers) const {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());

  NvrtcOutput output;
  Program program = nullptr;
  output.result = f_.create(&program, source.c_str(), "kernel.cu", static_cast<int>(names.size()),
                            texts.data(), names.data());
  if (output.result == 0) {
    const auto start = std::chrono::steady_clock::now();
    output.result = f_.compile(program, static_cast<int>(arguments.size()), arguments.data());
    output.time = std::chrono::steady_clock::now() - start;
    output.log = Fetch(program, f_.log_size, f_.log, true);
    if (output.result == 0) {
      output.ptx = Fetch(program, f_.ptx_size, f_.ptx, true);
      output.cubin = Fetch(program, f_.cubin_size, f_.cubin, false);
    }
    f_.destroy(&program);
  }
  output.result_name = f_.error_string(output.result);
  return output;
}

}  // namespace grove::codegen
