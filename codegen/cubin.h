// Reads a cubin (the ELF file that the GPU runs) for what each kernel takes: registers, shared
// memory, stack, threads. The cubin is the truth here; the compiler's log can be made to lie by the
// source. The layout is documented by NVIDIA only through its tools: sections .text.KERNEL,
// .nv.shared.KERNEL, .nv.info and .nv.info.KERNEL, the last two lists of attributes
// {u8 format, u8 attribute, u16 size or value[, data]} (`cuobjdump -elf` prints them by name).
// Thread-safety: free functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::codegen {

struct CubinKernel {
  std::string name;
  std::int64_t registers = 0;      // per thread
  std::int64_t static_shared = 0;  // bytes per block
  std::int64_t stack_bytes = 0;    // of local memory per thread
  std::int64_t max_threads = 0;    // of __launch_bounds__; 0 = none given
};

// The entry points in the order of the symbol table. kInvalidInput when the bytes are no cubin or
// any offset in it leads outside: every access is bounds-checked.
Result<std::vector<CubinKernel>> ReadCubin(std::string_view cubin);

}  // namespace grove::codegen
