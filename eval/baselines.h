// Baselines that were measured, kept between runs: what vendor libraries and PyTorch take for a
// task's cases, tied to the physical GPU, its driver, the library's version and the exact case.
//
// Constraints: a baseline must never be used for another GPU, be it of the same model; a person
// must be able to read and delete them; several programs may write at once. Rejected: rows in a
// run's database (measured once for many runs), one SQLite file (no better than a small JSON file
// that is replaced as a whole). So: one file per GPU, FOLDER/baselines/UUID.json,
//
//   {"version": 1, "uuid": "GPU-...", "gpu": "NVIDIA H200", "baselines": [
//     {"task": ..., "case": ..., "case_key": 32 hex digits, "name": "cublas_fp32",
//      "library": "cuBLAS 13.1.0", "driver": "580.159.04", "time_ns": ..., "low_ns": ...,
//      "high_ns": ..., "samples_ns": [...], "measured_us": microseconds since 1970}]}
//
// written whole and renamed, under a lock file. The case key is the hash of the task's name and the
// case's dims, constants, tensors and inputs: a case that changes loses its baselines. An entry of
// another driver or another version of its library than the present ones is kept, but not found.
//
// Thread-safety: plain functions; SaveBaselines may run in many processes.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/units.h"
#include "eval/device.h"
#include "seeds/task.h"

namespace grove::eval {

struct StoredBaseline {
  std::string task, case_name;
  Hash case_key;
  std::string name;                      // "cublas_fp32", "torch_compile", "seed", ...
  std::string library;                   // product and version
  std::string driver;                    // of the GPU, then
  Nanoseconds time{0};                   // cold median
  std::optional<Nanoseconds> low, high;  // [min, q3]
  std::vector<Nanoseconds> samples;
  std::chrono::system_clock::time_point measured;  // kept to the microsecond
};

Hash CaseKey(const seeds::Task& task, const seeds::Case& task_case);

// Adds `entries` to the GPU's file below `cache`; one of the same task, case key, name and driver
// is replaced. kInvalidInput for a uuid that is none ("GPU-" and hex digits with dashes); kResource
// when the folder cannot be written; a damaged file is replaced, never an error.
Status SaveBaselines(const std::filesystem::path& cache, const GpuIdentity& gpu,
                     const std::vector<StoredBaseline>& entries);

// What is installed now of a product ("cuBLAS"), in the words of StoredBaseline::library ("cuBLAS
// 13.1.0"); empty when that is not known. Asked once for each product of the entries.
using PresentLibrary = std::function<std::string(const std::string& product)>;

// Those of this very GPU with its present driver for the scored cases of `task`, in the task's
// order, fastest first, without those that an installed library of another version took (where
// `present` is given and knows). Empty when there are none or the file is damaged or names another
// GPU.
std::vector<StoredBaseline> FindBaselines(const std::filesystem::path& cache,
                                          const GpuIdentity& gpu, const seeds::Task& task,
                                          const PresentLibrary& present = {});

// What scripts/torch_baseline.py reads: the scored cases of `task`. `folder`: of an imported task,
// whose module is measured then; empty = the operation that the task's name says.
std::string TorchRequest(const seeds::Task& task, const std::filesystem::path& folder = {});

// What it wrote, for the scored cases of `task`: "torch_eager" and "torch_compile" entries, and the
// GPU that it ran on (without a driver). Cases that failed there are problems, one line each.
// kInvalidInput for text that is not its output, or that does not name a GPU.
struct TorchResults {
  GpuIdentity gpu;
  std::vector<StoredBaseline> baselines;
  std::vector<std::string> problems;
};
Result<TorchResults> ParseTorchResults(std::string_view json, const seeds::Task& task);

}  // namespace grove::eval
