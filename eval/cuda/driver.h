// The CUDA driver, loaded at run time, and move-only owners for what it hands out.
// Driver is immutable after Load and may be shared between threads; it must outlive every owner
// made from it. An owner belongs to one thread at a time. Destructors ignore the driver's answer:
// after a sticky error every call fails, and the process is about to be replaced anyway. A context
// must be current on the calling thread (Context::MakeCurrent) for everything below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "eval/cuda/driver_api.h"

namespace grove::cuda {

// A driver call that failed. `code` decides what it means for a candidate (protocol.h, FaultOf).
struct CuError {
  CuResult code = kCuSuccess;
  std::string name;  // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string text;  // the driver's sentence
  std::string call;  // "cuStreamSynchronize"

  // "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string Message() const;
};
template <typename T>
using CuExpected = tl::expected<T, CuError>;
using CuStatus = tl::expected<void, CuError>;

// kResource for out of memory, kUnavailable otherwise.
Error ToError(const CuError& error);

class Driver {
 public:
  // Opens `library` (default libcuda.so.1, also in the folders where containers mount it), looks up
  // every entry point by name and version, and calls cuInit. kUnavailable with the loader's or the
  // driver's own words when that fails: no GPU, no driver, a driver older than CUDA 12.4.
  static Result<std::shared_ptr<const Driver>> Load(const std::string& library = {});
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

#define GROVE_MEMBER(member, name, version, signature) \
  std::add_pointer_t<std::remove_pointer_t<signature>> member = nullptr;
  GROVE_CUDA_ENTRY_POINTS(GROVE_MEMBER)
#undef GROVE_MEMBER

  int version() const { return version_; }  // 13000 for CUDA 13.0
  // Nothing when `code` is success, else the error with its name and text.
  CuStatus Check(CuResult code, std::string_view call) const;

 private:
  Driver() = default;
  void* library_ = nullptr;
  int version_ = 0;
};
using DriverPtr = std::shared_ptr<const Driver>;

// What the driver says of one device.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // "GPU-8-4-4-4-12" hex digits
  int driver_version = 0;  // 13000
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  int clock_khz = 0;  // maximum SM clock
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int l2_bytes = 0;
  int shared_per_sm = 0;     // bytes
  int shared_per_block = 0;  // bytes, opt-in
  int registers_per_sm = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int max_threads_per_block = 1024;
  bool virtual_memory = false;
  std::int64_t memory_bytes = 0;

  std::string arch() const;  // "sm_90a": what programs are compiled for
};
CuExpected<int> DeviceCount(const Driver& driver);
CuExpected<DeviceFacts> ReadDeviceFacts(const Driver& driver, int ordinal);

// The device's primary context, retained; current on the thread that made it.
class Context {
 public:
  static CuExpected<Context> Retain(DriverPtr driver, int ordinal);
  Context(Context&& other) noexcept;
  Context& operator=(Context&&) = delete;
  ~Context();

  CuStatus MakeCurrent() const;
  const Driver& driver() const { return *driver_; }
  const DriverPtr& driver_ptr() const { return driver_; }
  int ordinal() const { return device_; }

 private:
  Context(DriverPtr driver, CuDevice device, CuContext handle);
  DriverPtr driver_;
  CuDevice device_ = 0;
  CuContext handle_ = nullptr;
};

// One owned handle of the driver; `Destroy` is the member of Driver that gives it back.
template <typename Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Driver* driver, Handle handle) : driver_(driver), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) (driver_->*Destroy)(handle_);
  }
  Handle get() const { return handle_; }
  const Driver& driver() const { return *driver_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_{};
};

using Stream = Owned<CuStream, &Driver::StreamDestroy>;
using Event = Owned<CuEvent, &Driver::EventDestroy>;
using Graph = Owned<CuGraph, &Driver::GraphDestroy>;
using GraphExec = Owned<CuGraphExec, &Driver::GraphExecDestroy>;
using Module = Owned<CuModule, &Driver::ModuleUnload>;
using DeviceMemory = Owned<CuDevicePtr, &Driver::MemFree>;

CuExpected<Stream> MakeStream(const Driver& driver);  // does not wait for the null stream
CuExpected<Event> MakeEvent(const Driver& driver);    // with timing
CuExpected<Module> LoadModule(const Driver& driver, std::string_view cubin);
CuExpected<DeviceMemory> Allocate(const Driver& driver, Bytes size);
// Instantiates a captured graph.
CuExpected<GraphExec> Instantiate(const Driver& driver, const Graph& graph);
// Elapsed time between two recorded, completed events.
CuExpected<Nanoseconds> Elapsed(const Event& start, const Event& stop);

// Page-locked host memory that the device can address.
class HostPinned {
 public:
  static CuExpected<HostPinned> Make(const Driver& driver, Bytes size);
  static HostPinned None() { return HostPinned(nullptr, nullptr, 0); }
  HostPinned(HostPinned&& other) noexcept;
  HostPinned& operator=(HostPinned&& other) noexcept;
  ~HostPinned();

  std::byte* host() const { return host_; }
  CuDevicePtr device() const { return device_; }

 private:
  HostPinned(const Driver* driver, std::byte* host, CuDevicePtr device)
      : driver_(driver), host_(host), device_(device) {}
  const Driver* driver_ = nullptr;
  std::byte* host_ = nullptr;
  CuDevicePtr device_ = 0;
};

}  // namespace grove::cuda
