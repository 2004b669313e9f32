// A compiled kernel program on a device: loads the cubin, checks the plan against the kernels as
// the driver sees them, lays out parameters and launches. Belongs to one thread at a time;
// executions of different programs may overlap on different streams. The module is private to the
// program, so that
// `__device__` variables never carry anything from one request to the next.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "eval/cuda/blas.h"
#include "eval/cuda/driver.h"
#include "eval/cuda/memory_pool.h"
#include "eval/verdict.h"

namespace grove::cuda {

// What keeps a candidate from being executed, or ended it.
struct Fault {
  eval::VerdictKind kind = eval::VerdictKind::kInfrastructure;
  std::string message;
  bool sticky = false;  // the context is unusable from here on: the worker must be replaced
};
// The meaning of a driver error raised by a candidate's own launch or wait (table in the .cc).
Fault FaultOf(const CuError& error);

template <typename T>
using Executed = tl::expected<T, Fault>;

// The resources of one launch as the driver reports them.
struct LaunchResources {
  std::string kernel;
  int registers = 0;                // per thread
  int local_bytes = 0;              // per thread: stack frame and spills
  int static_shared = 0;            // bytes
  std::int64_t dynamic_shared = 0;  // bytes
  int blocks_per_sm = 0;            // cuOccupancyMaxActiveBlocksPerMultiprocessor
  int threads = 0;                  // of a block
};

// A program bound to device addresses: parameters laid out, tensor maps encoded.
class BoundProgram;

class LoadedProgram {
 public:
  // kPlanError when a kernel is missing or its parameters do not match the plan in number or size,
  // or its shared memory, cluster or threads do not fit; kUnsupported for a cubin of another
  // architecture.
  // `tensor_names` are the case's tensors in order, for the tensor maps.
  static Executed<LoadedProgram> Load(const Context& context, std::string_view cubin,
                                      const codegen::ResolvedPlan& plan,
                                      std::vector<std::string> tensor_names);

  const codegen::ResolvedPlan& plan() const { return plan_; }
  const std::vector<LaunchResources>& resources() const { return resources_; }

  // `tensors` are the addresses of the case's tensors, in order. Workspaces are taken from `pool`
  // and belong to the result. kOutOfMemory when there is none left. The program must outlive the
  // result and stay where it is. `blas` executes library steps on the stream it was told to use,
  // and must outlive the result as well; kUnsupported without it when the plan has any.
  Executed<BoundProgram> Bind(std::span<const CuDevicePtr> tensors, MemoryPool& pool,
                              Blas* blas = nullptr) const;

 private:
  friend class BoundProgram;
  const Driver* driver_ = nullptr;
  Module module_;
  codegen::ResolvedPlan plan_;
  std::vector<std::string> tensor_names_;
  std::vector<CuFunction> functions_;  // one per launch
  std::vector<LaunchResources> resources_;
};

class BoundProgram {
 public:
  // Enqueues one execution: zero-initialised workspaces are cleared first (a part of the execution,
  // so it is timed too), then every launch in order. Returns before the device has finished.
  CuStatus Enqueue(CuStream stream) const;
  // The same, recording events[0] before the first launch and events[i + 1] after launch i.
  // REQUIRES: events is empty or one longer than the launches.
  CuStatus EnqueueWithEvents(CuStream stream, std::span<const Event> events) const;
  // Points the tensors elsewhere (another input set); workspaces stay.
  Executed<void> Rebind(std::span<const CuDevicePtr> tensors);
  std::span<const GuardedBuffer> workspaces() const { return workspaces_; }
  // Work items one execution enqueues.
  std::size_t items() const;

 private:
  friend class LoadedProgram;
  CuStatus Launch(CuStream stream, std::size_t index) const;
  CuStatus Multiply(const codegen::ResolvedLaunch& step) const;
  const LoadedProgram* program_ = nullptr;
  Blas* blas_ = nullptr;
  std::vector<GuardedBuffer> workspaces_;
  std::vector<CuDevicePtr> tensors_;
  std::vector<CuTensorMap> tensor_maps_;
};

}  // namespace grove::cuda
