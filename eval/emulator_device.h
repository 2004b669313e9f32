// The emulator as a device: kernels are executed by the PTX interpreter, values are compared with
// the reference executed the same way, and times are modelled for a named GPU.
//
// A large scored case is not executed whole: a stratified sample of its blocks is, on the real
// inputs, and what those blocks wrote is compared with the reference (so a kernel that is right for
// small cases only is still found out). Plans of several launches, whose later launches need the
// whole output of the earlier ones, are executed whole when the sample says that this is
// affordable; where it is not, the time outcome says that the case was not rechecked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "eval/device.h"

namespace grove::eval {

struct EmulatorOptions {
  // Thread-instructions of one launch of a check case. A case has at most about 1e6 elements, so a
  // kernel that needs more is stuck or hopeless.
  std::int64_t check_budget = std::int64_t{4} << 30;
  // Thread-instructions of the blocks of one launch that are sampled on a scored case: a block that
  // needs more is hopeless on any GPU.
  std::int64_t pilot_budget = std::int64_t{16} << 30;
  // Thread-instructions that sampling one launch may cost, about half a second on two cores.
  std::int64_t sample_budget = std::int64_t{400} << 20;
  // Thread-instructions up to which a plan of several launches is executed whole on a scored case.
  std::int64_t full_budget = std::int64_t{6} << 30;
  std::int64_t sample_blocks = 32;
  // Host memory for inputs and reference outputs kept between candidates.
  Bytes cache_limit{std::int64_t{6} << 30};
};

// `model` is the GPU whose time is estimated. Thread-safe.
std::unique_ptr<Device> MakeEmulatorDevice(const DeviceSpec& model, const EmulatorOptions& options);

// The reference's outputs of a case, one vector per output tensor in the task's order, with input i
// drawn by seeds[i] (so that one input can change by itself). Nothing is kept.
// REQUIRES: one seed per tensor of the case. kInternal when the reference faults.
Result<std::vector<std::vector<double>>> EmulateReference(const CaseContext& context,
                                                          const std::vector<std::uint64_t>& seeds);

// Runs a kernel program once on a case (all of whose inputs may be files) and gives the bytes of
// its outputs, in the task's order. kInternal when it faults.
Result<std::vector<std::string>> EmulateProgram(const seeds::Case& task_case,
                                                const Prepared& program);

}  // namespace grove::eval
