#include "eval/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace grove::cuda {
namespace {

using GetProcAddress = CuResult (*)(const char*, void**, int, std::uint64_t, int*);

CuExpected<int> Attribute(const Driver& driver, CuDevice device, int attribute) {
  int value = 0;
  if (auto ok = driver.Check(driver.DeviceGetAttribute(&value, attribute, device),
                             "cuDeviceGetAttribute");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return value;
}

}  // namespace

std::string CuError::Message() const {
  return text.empty() ? fmt::format("{}: {}", call, name)
                      : fmt::format("{}: {} ({})", call, name, text);
}

Error ToError(const CuError& error) {
  return Error{error.code == kCuOutOfMemory ? ErrorCode::kResource : ErrorCode::kUnavailable,
               error.Message()};
}

Result<std::shared_ptr<const Driver>> Driver::Load(const std::string& library) {
  std::vector<std::string> names;
  if (!library.empty()) {
    names = {library};
  } else {
    names = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
             "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
  }
  std::shared_ptr<Driver> driver(new Driver);
  std::string first_error;
  for (const std::string& name : names) {
    driver->library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (driver->library_ != nullptr) break;
    const char* text = dlerror();
    if (first_error.empty()) first_error = text != nullptr ? text : "unknown";
  }
  if (driver->library_ == nullptr) {
    return Fail(ErrorCode::kUnavailable, "no CUDA driver on this machine: " + first_error);
  }
  void* get = dlsym(driver->library_, "cuGetProcAddress_v2");
  if (get == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                "the CUDA driver is older than 12.0 (it has no cuGetProcAddress_v2)");
  }
  GetProcAddress get_address = nullptr;
  std::memcpy(&get_address, &get, sizeof get);
  auto find = [&](const char* name, int version, void* slot) -> bool {
    void* address = nullptr;
    int found = 0;
    const CuResult code = get_address(name, &address, version, 0, &found);
    if (code != kCuSuccess || address == nullptr) return false;
    std::memcpy(slot, &address, sizeof address);
    return true;
  };
#define GROVE_FIND(member, name, version, signature)                                      \
  if (!find(#name, version, &driver->member)) {                                           \
    return Fail(ErrorCode::kUnavailable,                                                  \
                "the CUDA driver is too old: it lacks " #name " (12.4 or newer needed)"); \
  }
  GROVE_CUDA_ENTRY_POINTS(GROVE_FIND)
#undef GROVE_FIND
  if (auto ok = driver->Check(driver->Init(0), "cuInit"); !ok) {
    return Fail(ErrorCode::kUnavailable, ok.error().Message());
  }
  driver->DriverGetVersion(&driver->version_);
  return std::shared_ptr<const Driver>(std::move(driver));
}

Driver::~Driver() = default;  // the driver library stays loaded: unloading it is not supported

CuStatus Driver::Check(CuResult code, std::string_view call) const {
  if (code == kCuSuccess) return {};
  CuError error;
  error.code = code;
  error.call = call;
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName != nullptr && GetErrorName(code, &name) == kCuSuccess && name != nullptr) {
    error.name = name;
  } else {
    error.name = fmt::format("CUDA error {}", code);
  }
  if (GetErrorString != nullptr && GetErrorString(code, &text) == kCuSuccess && text != nullptr) {
    error.text = text;
  }
  return tl::unexpected(std::move(error));
}

std::string DeviceFacts::arch() const {
  // From Hopper on the chip's own instructions (wgmma, setmaxnreg, tcgen05) need the suffix.
  return fmt::format("sm_{}{}{}", compute_major, compute_minor, compute_major >= 9 ? "a" : "");
}

CuExpected<int> DeviceCount(const Driver& driver) {
  int count = 0;
  if (auto ok = driver.Check(driver.DeviceGetCount(&count), "cuDeviceGetCount"); !ok) {
    return tl::unexpected(ok.error());
  }
  return count;
}

CuExpected<DeviceFacts> ReadDeviceFacts(const Driver& driver, int ordinal) {
  DeviceFacts facts;
  facts.ordinal = ordinal;
  facts.driver_version = driver.version();
  CuDevice device = 0;
  if (auto ok = driver.Check(driver.DeviceGet(&device, ordinal), "cuDeviceGet"); !ok) {
    return tl::unexpected(ok.error());
  }
  std::array<char, 256> name{};
  if (auto ok = driver.Check(driver.DeviceGetName(name.data(), 255, device), "cuDeviceGetName");
      !ok) {
    return tl::unexpected(ok.error());
  }
  facts.name = name.data();
  CuUuid uuid{};
  if (driver.DeviceGetUuid(&uuid, device) == kCuSuccess) {
    facts.uuid = "GPU-";
    for (int i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) facts.uuid += '-';
      facts.uuid += fmt::format("{:02x}", uuid.bytes[i]);
    }
  }
  std::size_t memory = 0;
  if (auto ok = driver.Check(driver.DeviceTotalMem(&memory, device), "cuDeviceTotalMem"); !ok) {
    return tl::unexpected(ok.error());
  }
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  int virtual_memory = 0;
  const std::pair<int, int*> wanted[] = {
      {kAttrComputeMajor, &facts.compute_major},
      {kAttrComputeMinor, &facts.compute_minor},
      {kAttrSmCount, &facts.sm_count},
      {kAttrClockRateKhz, &facts.clock_khz},
      {kAttrMemoryClockKhz, &facts.memory_clock_khz},
      {kAttrMemoryBusBits, &facts.memory_bus_bits},
      {kAttrL2Bytes, &facts.l2_bytes},
      {kAttrSharedPerSm, &facts.shared_per_sm},
      {kAttrSharedPerBlockOptin, &facts.shared_per_block},
      {kAttrRegistersPerSm, &facts.registers_per_sm},
      {kAttrMaxThreadsPerSm, &facts.threads_per_sm},
      {kAttrMaxBlocksPerSm, &facts.blocks_per_sm},
      {kAttrMaxThreadsPerBlock, &facts.max_threads_per_block},
      {kAttrVirtualMemory, &virtual_memory},
  };
  for (const auto& [attribute, slot] : wanted) {
    auto value = Attribute(driver, device, attribute);
    if (!value) return tl::unexpected(value.error());
    *slot = *value;
  }
  facts.virtual_memory = virtual_memory != 0;
  return facts;
}

Context::Context(DriverPtr driver, CuDevice device, CuContext handle)
    : driver_(std::move(driver)), device_(device), handle_(handle) {}

CuExpected<Context> Context::Retain(DriverPtr driver, int ordinal) {
  CuDevice device = 0;
  if (auto ok = driver->Check(driver->DeviceGet(&device, ordinal), "cuDeviceGet"); !ok) {
    return tl::unexpected(ok.error());
  }
  // Blocking waits: many threads wait for many streams, and spinning would eat the cores.
  driver->PrimaryCtxSetFlags(device, kContextBlockingSync);
  CuContext handle = nullptr;
  if (auto ok =
          driver->Check(driver->PrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain");
      !ok) {
    return tl::unexpected(ok.error());
  }
  Context context(std::move(driver), device, handle);
  if (auto ok = context.MakeCurrent(); !ok) return tl::unexpected(ok.error());
  return context;
}

Context::Context(Context&& other) noexcept
    : driver_(std::move(other.driver_)),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)) {}

Context::~Context() {
  if (handle_ != nullptr) driver_->PrimaryCtxRelease(device_);
}

CuStatus Context::MakeCurrent() const {
  return driver_->Check(driver_->CtxSetCurrent(handle_), "cuCtxSetCurrent");
}

CuExpected<Stream> MakeStream(const Driver& driver) {
  CuStream handle = nullptr;
  if (auto ok = driver.Check(driver.StreamCreate(&handle, kStreamNonBlocking), "cuStreamCreate");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return Stream(&driver, handle);
}

CuExpected<Event> MakeEvent(const Driver& driver) {
  CuEvent handle = nullptr;
  if (auto ok = driver.Check(driver.EventCreate(&handle, kEventDefault), "cuEventCreate"); !ok) {
    return tl::unexpected(ok.error());
  }
  return Event(&driver, handle);
}

CuExpected<Module> LoadModule(const Driver& driver, std::string_view cubin) {
  CuModule handle = nullptr;
  if (auto ok = driver.Check(driver.ModuleLoadData(&handle, cubin.data()), "cuModuleLoadData");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return Module(&driver, handle);
}

CuExpected<DeviceMemory> Allocate(const Driver& driver, Bytes size) {
  CuDevicePtr address = 0;
  if (auto ok = driver.Check(driver.MemAlloc(&address, static_cast<std::size_t>(size.value)),
                             "cuMemAlloc");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return DeviceMemory(&driver, address);
}

CuExpected<GraphExec> Instantiate(const Driver& driver, const Graph& graph) {
  CuGraphExec handle = nullptr;
  if (auto ok = driver.Check(driver.GraphInstantiate(&handle, graph.get(), 0),
                             "cuGraphInstantiateWithFlags");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return GraphExec(&driver, handle);
}

CuExpected<Nanoseconds> Elapsed(const Event& start, const Event& stop) {
  float milliseconds = 0;
  const Driver& driver = start.driver();
  if (auto ok = driver.Check(driver.EventElapsedTime(&milliseconds, start.get(), stop.get()),
                             "cuEventElapsedTime");
      !ok) {
    return tl::unexpected(ok.error());
  }
  return Nanoseconds(static_cast<double>(milliseconds) * 1e6);
}

CuExpected<HostPinned> HostPinned::Make(const Driver& driver, Bytes size) {
  void* host = nullptr;
  if (auto ok = driver.Check(
          driver.MemHostAlloc(&host, static_cast<std::size_t>(size.value), kHostAllocDeviceMap),
          "cuMemHostAlloc");
      !ok) {
    return tl::unexpected(ok.error());
  }
  CuDevicePtr device = 0;
  if (auto ok = driver.Check(driver.MemHostGetDevicePointer(&device, host, 0),
                             "cuMemHostGetDevicePointer");
      !ok) {
    driver.MemFreeHost(host);
    return tl::unexpected(ok.error());
  }
  std::memset(host, 0, static_cast<std::size_t>(size.value));
  return HostPinned(&driver, static_cast<std::byte*>(host), device);
}

HostPinned::HostPinned(HostPinned&& other) noexcept
    : driver_(other.driver_), host_(std::exchange(other.host_, nullptr)), device_(other.device_) {}

HostPinned& HostPinned::operator=(HostPinned&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  return *this;
}

HostPinned::~HostPinned() {
  if (host_ != nullptr) driver_->MemFreeHost(host_);
}

}  // namespace grove::cuda
