// What one job of a worker executes with: the shared parts of the process and a lane of its own
// (stream, events, result memory). A Lane belongs to one thread at a time; WorkerParts is shared by
// all lanes and thread-safe.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "eval/cuda/blas.h"
#include "eval/cuda/executor.h"
#include "eval/cuda/memory_pool.h"
#include "eval/cuda/phase_gate.h"
#include "eval/cuda/stored_cache.h"
#include "eval/cuda/support.h"

namespace grove::cuda {

// Phases of a worker's gate: while any candidate's kernel may run, no reference result exists in
// this process's address space, and the other way round.
inline constexpr int kCandidatePhase = 0;
inline constexpr int kReferencePhase = 1;

struct WorkerParts {
  WorkerParts(Context c, DeviceFacts f, SupportCode s, Bytes idle_memory,
              MemoryPool::Guards guards = MemoryPool::Guards::kPages)
      : context(std::move(c)),
        facts(std::move(f)),
        support(std::move(s)),
        pool(context, facts, idle_memory, guards),
        gate(64, 64) {}
  Context context;
  DeviceFacts facts;
  SupportCode support;
  MemoryPool pool;
  PhaseGate gate;
  StoredCache stored;
  // Told of a sticky fault before anything is taken down. A worker reports it and ends itself here:
  // giving memory or a module back would wait for a kernel that may never end. May be empty.
  std::function<void(const Fault&)> on_sticky;
};

class Lane {
 public:
  static CuExpected<std::unique_ptr<Lane>> Make(WorkerParts& parts);

  WorkerParts& parts() { return parts_; }
  const Driver& driver() const { return parts_.context.driver(); }
  CuStream stream() const { return stream_.get(); }
  const Event& start() const { return start_; }
  const Event& stop() const { return stop_; }

  // Waits for everything enqueued on the stream. A sticky kTimeout fault when it is not done at the
  // deadline; the meaning of the driver's error otherwise. Polls: short waits spin, long ones
  // sleep.
  Executed<void> Wait(std::chrono::milliseconds deadline);
  // The same, spinning all the time: for timing the host's side.
  Executed<void> WaitSpinning(std::chrono::milliseconds deadline);

  // Result slots of the current job, each 128 bytes: address on the device, and the content once
  // ReadResults and Wait are done. Slots count from 0; ClearResults zeroes them all.
  static constexpr std::size_t kSlots = 512;
  static constexpr std::size_t kSlotBytes = 128;
  CuDevicePtr slot(std::size_t index) const;
  CuStatus ClearResults();
  CuStatus ReadResults();
  template <typename T>
  T result(std::size_t index) const {
    static_assert(sizeof(T) <= kSlotBytes);
    T value{};
    std::memcpy(static_cast<void*>(&value), results_host_.host() + index * kSlotBytes, sizeof(T));
    return value;
  }

  // What executes the library steps of a plan on this lane's stream: loaded when a plan first needs
  // it, null for a plan without any. kUnsupported when this machine has no cuBLAS.
  Executed<Blas*> BlasFor(const codegen::ResolvedPlan& plan);

  // The flag of the blocking kernel, in mapped host memory.
  CuDevicePtr flag() const { return flag_.device(); }
  std::uint32_t NextToken() { return ++token_; }
  void Open(std::uint32_t token);  // lets every kernel blocked on a token <= this one go on

 private:
  explicit Lane(WorkerParts& parts) : parts_(parts) {}
  Executed<void> Poll(std::chrono::milliseconds deadline, bool spin);
  tl::unexpected<Fault> Failed(Fault fault) const;

  WorkerParts& parts_;
  Stream stream_;
  Event start_, stop_;
  DeviceMemory results_;
  HostPinned results_host_ = HostPinned::None();
  HostPinned flag_ = HostPinned::None();
  std::uint32_t token_ = 0;
  DeviceMemory blas_memory_;  // before the library's handle: given back after it
  std::unique_ptr<Blas> blas_;
};

}  // namespace grove::cuda
