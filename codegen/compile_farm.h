// The compile farm: a pool of killable `grove-compile-worker` processes (NVRTC serialises inside
// one process), each with a memory limit and a deadline per compilation, behind a content-addressed
// cache on disk. Thread-safe: call Compile from as many oneTBB tasks as there are workers; a caller
// beyond that blocks its thread until a worker is free, which is harmless in an arena of its own.
// Equal requests in flight at the same time are compiled once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiler.h"

namespace grove::codegen {

struct FarmOptions {
  int workers = 0;  // 0 = number of cores
  // Processor time of one compilation; ten times as much on the wall.
  std::chrono::milliseconds deadline{30000};
  Bytes memory_limit{std::int64_t{4}
                     << 30};            // address space of one worker (not in sanitizer builds)
  int compiles_per_worker = 200;        // then it is replaced
  std::filesystem::path worker_binary;  // empty = grove-compile-worker beside this program
  std::filesystem::path cache_folder;   // empty = no cache
  Bytes cache_limit{std::int64_t{2} << 30};  // the longest unused entries go first
  std::filesystem::path cuda_home;  // the only place to look for NVRTC; empty = FindToolkit
  // Told, in one line each, what is worth telling but fails nothing: once, when the cache cannot be
  // written. May be called from any thread that calls Compile.
  std::function<void(std::string_view)> warning;
};

// Finds NVRTC in CUDA_HOME, CUDA_PATH, /usr/local/cuda, the loader's path or an installed Python
// wheel (nvidia/cuda_nvrtc, nvidia/cu13). kUnavailable, with what was searched, when there is none.
// With `cuda_home` only that toolkit folder is looked at, but for CCCL's headers (nv/target), which
// are another place's where the toolkit has none.
struct Toolkit {
  std::filesystem::path nvrtc_library;
  std::vector<std::filesystem::path> include_folders;  // include, and CCCL's
};
Result<Toolkit> FindToolkit(const std::filesystem::path& cuda_home = {});

// The cache of `$GROVE_CACHE`, or `$XDG_CACHE_HOME/grove`, or `~/.cache/grove`.
std::filesystem::path DefaultCacheFolder();

// What a farm has done so far.
struct FarmCounts {
  std::int64_t compiles = 0;  // sent to a worker
  std::int64_t cache_hits = 0;
  std::int64_t shared = 0;  // answered by an equal request that was in flight
  std::int64_t workers_started = 0;
  std::int64_t workers_lost = 0;  // killed at a limit, or died
};

// Compile fails (an Error, not an outcome) with kUnavailable when no worker can be started, and
// with kInvalidInput for an architecture or option that NVRTC or we refuse: options are limited to
// a list of those that neither read nor write files (see compile_options.h).
class CompileFarm : public Compiler {
 public:
  virtual FarmCounts counts() const = 0;
  // Process ids of the workers alive now, for diagnosis.
  virtual std::vector<int> WorkerPids() const = 0;
};

// Starts no process yet: workers start when first needed. kUnavailable without NVRTC, kNotFound
// without the worker's binary.
Result<std::unique_ptr<CompileFarm>> MakeCompileFarm(const FarmOptions& options);

}  // namespace grove::codegen
