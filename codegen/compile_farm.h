// The compile farm: a pool of killable `grove-compile-worker` processes (NVRTC serialises inside one
// process), each with a memory limit and a deadline per compilation, behind a content-addressed
// cache on disk. Thread-safe: call Compile from as many oneTBB tasks as there are workers.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "codegen/compiler.h"

namespace grove::codegen {

struct FarmOptions {
  int workers = 0;                             // 0 = number of cores
  std::chrono::milliseconds deadline{30000};   // of one compilation
  Bytes memory_limit{std::int64_t{4} << 30};   // address space of one worker
  int compiles_per_worker = 200;               // then it is replaced
  std::filesystem::path worker_binary;         // empty = grove-compile-worker beside this program
  std::filesystem::path cache_folder;          // empty = no cache
};

// Finds NVRTC in CUDA_HOME, CUDA_PATH, /usr/local/cuda, the loader's path or an installed Python
// wheel (nvidia/cuda_nvrtc, nvidia/cu13). kUnavailable, with what was searched, when there is none.
struct Toolkit {
  std::filesystem::path nvrtc_library;
  std::vector<std::filesystem::path> include_folders;  // include, include/cccl
};
Result<Toolkit> FindToolkit();

// The cache of `$GROVE_CACHE`, or `$XDG_CACHE_HOME/grove`, or `~/.cache/grove`.
std::filesystem::path DefaultCacheFolder();

Result<std::unique_ptr<Compiler>> MakeCompileFarm(const FarmOptions& options);

}  // namespace grove::codegen
