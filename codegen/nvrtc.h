// NVRTC, loaded at run time, so that nothing of ours needs the CUDA toolkit to start. Only the
// compile worker uses it: what it compiles can make it run for ever, exhaust memory or crash.
// Thread-safety: one thread at a time (NVRTC itself serialises).
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::codegen {

// Name as in #include, and text.
using Header = std::pair<std::string, std::string>;

struct NvrtcOutput {
  int result = 0;  // nvrtcResult: 0 success, 1 out of memory, 5 invalid option, 6 compilation
  std::string result_name;  // "NVRTC_ERROR_COMPILATION"
  std::string log;          // as NVRTC wrote it: holds host paths
  std::string ptx;
  std::string cubin;
  Milliseconds time{0};  // of nvrtcCompileProgram
};

class Nvrtc {
 public:
  // kUnavailable with the loader's message. Never unloaded: NVRTC does not survive dlclose.
  static Result<Nvrtc> Load(const std::filesystem::path& library);

  int major() const { return major_; }
  int minor() const { return minor_; }

  // The source is named kernel.cu. With a real architecture among the options one compilation gives
  // both PTX and cubin.
  NvrtcOutput Compile(const std::string& source, const std::vector<std::string>& options,
                      const std::vector<Header>& headers) const;

 private:
  using Program = struct NvrtcProgram*;  // _nvrtcProgram, opaque
  struct Functions {
    int (*version)(int*, int*) = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*create)(Program*, const char*, const char*, int, const char* const*,
                  const char* const*) = nullptr;
    int (*destroy)(Program*) = nullptr;
    int (*compile)(Program, int, const char* const*) = nullptr;
    int (*log_size)(Program, std::size_t*) = nullptr;
    int (*log)(Program, char*) = nullptr;
    int (*ptx_size)(Program, std::size_t*) = nullptr;
    int (*ptx)(Program, char*) = nullptr;
    int (*cubin_size)(Program, std::size_t*) = nullptr;
    int (*cubin)(Program, char*) = nullptr;
  };

  Nvrtc() = default;
  Functions f_;
  int major_ = 0;
  int minor_ = 0;
};

}  // namespace grove::codegen
