// The Python side of the importers as processes: which interpreter has torch, where our scripts
// are, and what such a process is given. Used to import a problem (problem_import.h) and to ask a
// task's module again (eval/live_reference.h). Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::importers {

// An interpreter with torch: `preferred` alone when it is given, else $GROVE_PYTHON alone, else the
// first of python3 on PATH, /usr/bin/python3 and python3.N on PATH that has it. kUnavailable with
// what was tried.
Result<std::filesystem::path> FindTorchPython(const std::string& preferred);

// A script of torch/: in the installed share folder, or in the source tree. kNotFound.
Result<std::filesystem::path> TorchScript(std::string_view name);

// What a process sees of our environment: no keys, and of the GPUs only `gpu` (a uuid; empty:
// none).
std::vector<std::string> TorchEnvironment(const std::string& gpu);

// Address space for a process without a GPU: most of the machine's memory, and what torch maps of
// its libraries.
Bytes TorchMemory();

}  // namespace grove::importers
