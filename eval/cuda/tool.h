// Programs of the CUDA toolkit and others (ncu, cuobjdump, nvdisasm, python), found and run with a
// deadline; their output is kept. Thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace grove::cuda {

// In $CUDA_HOME/bin, on $PATH, in /usr/local/cuda*/bin, in the folders of Nsight Compute below
// /opt/nvidia and /usr/local/cuda*, and (for toolkit programs) in Python wheels.
std::optional<std::filesystem::path> FindTool(std::string_view name);

struct ToolRun {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // beside PATH, HOME, TMPDIR, LD_LIBRARY_PATH, VIRTUAL_ENV
  std::string input;                     // its standard input
  std::chrono::milliseconds deadline{120000};
};
struct ToolOutput {
  ExitStatus status;
  std::string out;     // up to 64 MiB
  std::string errors;  // the first 64 KB
};
// kNotFound when there is no such program, kUnavailable when it ran past its deadline (it is
// killed) or wrote more than we keep. An exit code that is not 0 is in the output, not an Error.
Result<ToolOutput> RunTool(const ToolRun& run);

}  // namespace grove::cuda
