// NVRTC's options for one compilation: those that every compilation gets, and the allow-list for
// those that a request may add. Thread-safety: free functions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"

namespace grove::codegen {

// What every compilation gets besides its architecture, in the order given: C++17 (a request may
// replace it by another -std), unannotated functions are __device__, and ptxas tells registers and
// spills. --fmad stays NVRTC's default (on).
std::vector<std::string> BaseOptions();

// kInvalidInput, naming it, for an architecture other than sm_NN, sm_NNN, with an optional a or f,
// and for options outside the allow-list: NVRTC has options that read files (-I, -include, --pch),
// write them (--time, --fdevice-time-trace) or change what the output is (-rdc, -dlto, -G,
// -lineinfo), and a request may carry what a model wrote.
Status CheckRequest(const CompileRequest& request);

// All options of a compilation. REQUIRES: CheckRequest(request). `nvrtc_major` tells which exist.
std::vector<std::string> AllOptions(const CompileRequest& request, int nvrtc_major,
                                    const std::vector<std::filesystem::path>& include_folders);

}  // namespace grove::codegen
