// The emulator device's memory: a case's tensors and a plan's workspaces in the host's memory, seen
// by kernels as one address space, and the execution of a whole plan on it. Internal to
// emulator_device.cc. A PlanMemory belongs to one execution at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/plan.h"
#include "eval/check.h"
#include "eval/device.h"
#include "eval/emulator/emulator.h"
#include "eval/host_memory.h"
#include "seeds/task.h"

namespace grove::eval {

// The verdict that a fault of the interpreter stands for; names the kernel.
ExecutionFault ToExecutionFault(const emulator::Fault& fault, const std::string& kernel);

// One buffer per tensor of the case, in its order; only those of one role are filled in.
using TensorMemory = std::vector<HostMemory>;

// In f64, or as the case has them. kResource when there is not enough memory.
Result<TensorMemory> AllocateTensors(const seeds::Case& task_case, seeds::TensorRole role,
                                     bool in_f64);

// Global memory of one execution of a plan: the case's tensors and the plan's workspaces.
class PlanMemory {
 public:
  struct Options {
    bool poison_workspaces = true;  // "init": "none" means that anything may be in there
    bool track_uninitialised = false;
  };

  static Result<std::unique_ptr<PlanMemory>> Make(const codegen::ResolvedPlan& plan,
                                                  const seeds::Case& task_case,
                                                  const TensorMemory& inputs,
                                                  const TensorMemory& outputs,
                                                  const Options& options);

  emulator::LaunchConfig Configure(const codegen::ResolvedLaunch& launch) const;

  // Workspaces as before the first execution. Module variables keep what they hold, as they do in a
  // process that calls a kernel again and again.
  void ResetWorkspaces(const codegen::ResolvedPlan& plan);

  // Executes a library step. With `detect`, an operand that nobody wrote is a fault.
  std::optional<ExecutionFault> RunLibrary(const codegen::ResolvedLaunch& step, bool detect);

  emulator::AddressSpace& space() { return space_; }
  // The ranges of elements of a tensor that were written. REQUIRES: track_uninitialised.
  std::vector<ElementRange> Written(std::size_t tensor, std::size_t element_size) const;

 private:
  // Calls `visit(first element, count)` for every stored row until it returns false.
  template <typename Visit>
  static void EachRow(const codegen::ResolvedMatrix& m, std::int64_t rows, std::int64_t columns,
                      std::int64_t batch, Visit visit) {
    if (m.transpose) std::swap(rows, columns);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t r = 0; r < rows; ++r) {
        if (!visit(m.offset + b * m.stride + r * m.ld, columns)) return;
      }
    }
  }
  // The first element of the operand that nobody wrote, or -1.
  std::int64_t FirstUnwritten(const codegen::ResolvedMatrix& m, std::int64_t rows,
                              std::int64_t columns, std::int64_t batch) const;
  std::size_t Number(const codegen::ResolvedMatrix& m) const {
    return m.kind == codegen::ResolvedArg::Kind::kTensor ? m.index : tensors_.size() + m.index;
  }
  std::uint64_t Address(const codegen::ResolvedMatrix& m) const {
    return m.kind == codegen::ResolvedArg::Kind::kTensor ? tensors_[m.index] : workspaces_[m.index];
  }
  std::byte* hosts(const codegen::ResolvedMatrix& m) const {
    return m.kind == codegen::ResolvedArg::Kind::kTensor ? tensor_hosts_[m.index]
                                                         : owned_[m.index].data();
  }

  emulator::AddressSpace space_;
  std::vector<std::string> names_;  // tensors, then workspaces
  std::vector<std::byte*> tensor_hosts_;
  std::vector<std::uint64_t> tensors_;
  std::vector<std::uint64_t> workspaces_;
  std::vector<HostMemory> owned_;
};

// Whether any element still has the bits of poison 0.
bool ShowsPoison(std::span<const std::byte> values, DType dtype);

// Executes every launch of the plan, all blocks. `most_instructions`: of one launch, when asked
// for.
std::optional<ExecutionFault> ExecuteWhole(const emulator::Module& module,
                                           const codegen::ResolvedPlan& plan, PlanMemory& memory,
                                           const emulator::LaunchOptions& options,
                                           std::int64_t* most_instructions = nullptr);

}  // namespace grove::eval
