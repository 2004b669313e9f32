// What a GPU really does, measured in this very process (bare_gpu.h): copy bandwidth and
// matrix-product rates against the device table. For `grove doctor`; a run never calls this.
// Thread-safe as far as each call uses a context of its own; not to be run beside other GPU work.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/cuda/driver.h"
#include "eval/device.h"
#include "eval/model/device_spec.h"

namespace grove::cuda {

// A measured rate beside what the device table says.
struct Rate {
  std::string name;     // "copy", "gemm_fp32", ...
  double measured = 0;  // GB/s (bytes read plus written) or TFLOP/s
  double table = 0;     // of the device table; 0 = it does not say
  std::string unit;     // "GB/s", "TFLOP/s"
};

// A vendor library that baselines use.
struct LibraryFinding {
  std::string product;
  bool found = false;
  std::string words;  // its version, or why it cannot be used
};

struct DoctorReport {
  DeviceFacts facts;
  eval::DeviceSpec spec;
  std::string blas;                       // version, or why there is none
  std::vector<LibraryFinding> libraries;  // cuBLAS, cuBLASLt, cuSOLVER, cuDNN
  std::vector<Rate> rates;
  Nanoseconds empty_kernel{0};
  double clock_ghz = 0;         // SM clock under the matrix products; 0 = not measured
  std::int64_t free_bytes = 0;  // of device memory
  // Whether the driver lets ordinary users read hardware counters, in words.
  std::string counters;
};
Result<DoctorReport> Diagnose(int ordinal, codegen::Compiler& compiler);

}  // namespace grove::cuda
