// A real GPU as an eval::Device. The head's side: nothing here touches the driver; a few worker
// processes do (worker_pool.h), and the head survives whatever happens to them.
//
// Checks of many candidates run at once, over all workers. A timing waits until none runs, has the
// GPU to itself, and holds new checks back meanwhile; timings that wait are taken together.
// Deadlines come from the reference: the first check of a case waits at most first_deadline, later
// ones deadline_factor times what the reference took there (at least least_deadline); a candidate
// that is no faster than that has lost anyway.
//
// What kind of death means what: an illegal address kOutOfBounds, a misaligned one kMisaligned, a
// trap, an assertion or a stack overflow kTrap, no end in time kTimeout, memory that does not fit
// when the candidate has the device to itself kOutOfMemory.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/cuda/counters.h"
#include "eval/cuda/driver.h"
#include "eval/cuda/sanitizer.h"
#include "eval/cuda/statistics.h"
#include "eval/cuda/worker_pool.h"
#include "eval/device.h"

namespace grove::cuda {

struct CudaOptions {
  int ordinal = 0;
  int workers = 3;                        // processes that share the GPU for checks
  int in_flight = 4;                      // checks at a time in each
  std::filesystem::path worker_binary;    // empty = grove-gpu-worker beside this program
  codegen::Compiler* compiler = nullptr;  // compiles our own device code, once; must outlive
  std::chrono::milliseconds first_deadline{10000};
  std::chrono::milliseconds least_deadline{1000};
  double deadline_factor = 50;
  Bytes idle_memory{std::int64_t{12} << 30};  // of the GPU, that each worker keeps for reuse
  StoppingLimits timing;                      // of the cold measurement
  bool all_modes = true;                      // also hot, graph replay and host-inclusive
};

// A device, and what only a real one can say.
class CudaDevice : public eval::Device {
 public:
  virtual const DeviceFacts& facts() const = 0;
  virtual PoolCounters counters() const = 0;  // of worker processes
  // Hardware counters of one execution (counters.h), with the GPU to itself. kUnavailable with one
  // line when they cannot be had.
  virtual Result<std::vector<CounterRow>> Profile(const eval::TimeRequest& request) = 0;
  // One execution of each request's candidate in a process of its own under compute-sanitizer
  // (sanitizer.h); no lease, so that several run at once. kUnavailable without the tool.
  virtual Result<SanitizerReport> Sanitize(SanitizerTool tool,
                                           const std::vector<eval::CheckRequest>& requests,
                                           std::chrono::milliseconds deadline) = 0;
};

// Starts the first worker. kUnavailable with the driver's own message when there is no usable GPU,
// kNotFound for an ordinal that does not exist, kInvalidInput without a compiler.
Result<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaOptions& options);

// Every GPU the driver shows, read in this process without creating a context; empty, not an Error,
// when there is a driver but no device. kUnavailable without a driver.
Result<std::vector<DeviceFacts>> ListGpus();

// The version of the kernel driver from the text of /proc/driver/nvidia/version; empty when it is
// not there ("580.159.04").
std::string ParseDriverVersion(std::string_view text);
// The same of this machine's driver; without that file, the CUDA version it offers ("CUDA 13.0").
std::string DriverText(const DeviceFacts& facts);

// The device table's entry for a GPU by the driver's name, else one derived from its facts.
eval::DeviceSpec SpecOf(const DeviceFacts& facts);

}  // namespace grove::cuda
