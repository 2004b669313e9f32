// The headers a kernel may include: those of the CUDA toolkit that are meant for device code, and
// what models include by habit, served from memory because NVRTC has none of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grove::codegen {

// Whether `#include <name>` or `#include "name"` is allowed. Absolute paths, "..", "." components,
// backslashes and doubled slashes never are.
bool HeaderAllowed(std::string_view name);

// One line for messages and prompts: the allowed headers.
std::string AllowedHeaders();

// (name, content) of the headers served from memory: pass them to nvrtcCreateProgram. They need no
// include folder but for C++ ones (<type_traits>, <limits>, ...), which forward to <cuda/std/...>
// in the toolkit's include/cccl. "cuda.h" is the tensor map type only. With <cuda/std/cmath> behind
// <math.h>, NVRTC warns (#47-D) that INFINITY and NAN are defined again.
std::vector<std::pair<std::string, std::string>> BuiltinHeaders();

}  // namespace grove::codegen
