// What NVRTC is given for an exported kernel: the very text, headers and options of grove's own
// compilation, so that an exported file compiles to the machine code that was measured.
// Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/program.h"
#include "results/exports/cu_unit.h"

namespace grove::results {

// Name as in #include, and text.
using Header = std::pair<std::string, std::string>;

// Of the headers that grove serves from memory, those that the program's cases include, directly or
// through each other, by name. All of them when the toolkit's C++ headers (<cub/...>,
// <cuda/std/...>) are included, which have includes of their own.
std::vector<Header> HeadersOf(const ExportedKernel& kernel, const codegen::KernelProgram& program);

// The options besides architecture, include folders and NVRTC 13's --no-cache, as a list of
// literals: `"-default-device", "--std=c++17"`.
std::string OptionList();

// A C++ literal of any text, raw where it can be, so that people can read it.
std::string CppText(std::string_view text);

// C++: constants NAMESource and NAMEPreludes[] (one for each case) of a program. `widened` as the
// reference sees its cases.
std::string TextConstants(const ExportedKernel& kernel, const codegen::KernelProgram& program,
                          std::string_view name, bool widened);

// C++: constant Headers[][2].
std::string HeaderTable(const std::vector<Header>& headers);

// C++: `static const grove_plan::Text& NAME()` over those constants. Wants templates/nvrtc.cuh.
std::string TextFunction(const std::vector<std::string>& kernels, std::string_view name);

}  // namespace grove::results
