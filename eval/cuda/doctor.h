// What a GPU really does, measured in this very process: copy bandwidth and matrix-product rates
// against the device table, and the vendor library's time on a task's case as a baseline. For
// `grove doctor` and `grove baseline`, which are short-lived; a run never calls this. Thread-safe
// as far as each call uses a context of its own; not to be run beside other GPU work.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/cuda/driver.h"
#include "eval/device.h"
#include "eval/model/device_spec.h"
#include "seeds/task.h"

namespace grove::cuda {

// A measured rate beside what the device table says.
struct Rate {
  std::string name;     // "copy", "gemm_fp32", ...
  double measured = 0;  // GB/s (bytes read plus written) or TFLOP/s
  double table = 0;     // of the device table; 0 = it does not say
  std::string unit;     // "GB/s", "TFLOP/s"
};

struct DoctorReport {
  DeviceFacts facts;
  eval::DeviceSpec spec;
  std::string blas;  // version, or why there is none
  std::vector<Rate> rates;
  Nanoseconds empty_kernel{0};
  double clock_ghz = 0;         // SM clock under the matrix products; 0 = not measured
  std::int64_t free_bytes = 0;  // of device memory
  // Whether the driver lets ordinary users read hardware counters, in words.
  std::string counters;
};
Result<DoctorReport> Diagnose(int ordinal, codegen::Compiler& compiler);

// One baseline of one case. Belongs to the physical GPU of `uuid` and no other.
struct Baseline {
  std::string name;     // "cublas_fp32", "cublas_tf32", ...
  std::string version;  // of the library
  std::string uuid;
  Nanoseconds median{0}, min{0}, q3{0};
  std::vector<Nanoseconds> samples;  // cold, as candidates are timed
};
// Baselines that the vendor's libraries offer for a case: for family "gemm" (inputs M x K and K x
// N, one output M x N) cuBLAS in every precision. Empty when none applies. kUnavailable without
// cuBLAS.
Result<std::vector<Baseline>> MeasureBaselines(int ordinal, codegen::Compiler& compiler,
                                               const seeds::Task& task, std::size_t case_index);

}  // namespace grove::cuda
