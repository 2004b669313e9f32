// A kernel source as nvcc takes it, for programs and extensions that people compile themselves.
// NVRTC takes more than nvcc does (functions without an execution space are device code, one source
// is compiled once per case), so the text is changed where the two differ and nowhere else:
//  - `extern "C"` goes, so that the kernels of several cases may stand in namespaces of one file;
//  - functions, and variables other than constexpr scalars, that say no execution space get
//    `__device__` (NVRTC's -default-device);
//  - `#include` lines move out (they may not stand inside a namespace), `#pragma once` goes.
// Lines stay where they are. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::codegen {

struct NvccSource {
  std::string text;
  std::vector<std::string> includes;  // with their delimiters: "<cuda_fp16.h>"; each once
  std::vector<std::string> macros;    // that the source defines; each once
};

// kInvalidInput for what LexSource refuses, and for braces that do not match.
Result<NvccSource> ForNvcc(std::string_view source);

}  // namespace grove::codegen
