#include "eval/cuda/profile_run.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/wire.h"
#include "eval/cuda/checker.h"
#include "eval/cuda/lane.h"

namespace grove::cuda {
namespace {

// Not among the driver's needed entry points: a driver without them still runs everything else.
class ProfilerSwitch {
 public:
  ProfilerSwitch() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    void* address = dlsym(library, "cuProfilerStart");
    std::memcpy(&start_, &address, sizeof address);
    address = dlsym(library, "cuProfilerStop");
    std::memcpy(&stop_, &address, sizeof address);
  }
  bool ok() const { return start_ != nullptr && stop_ != nullptr; }
  void Start() const { start_(); }
  void Stop() const { stop_(); }

 private:
  CuResult (*start_)() = nullptr;
  CuResult (*stop_)() = nullptr;
};

Status Told(const CuStatus& status) {
  if (!status) return Fail(ToError(status.error()));
  return {};
}
template <typename T>
Status Told(const Executed<T>& done) {
  if (!done) return Fail(ErrorCode::kUnavailable, done.error().message);
  return {};
}

}  // namespace

std::string EncodeProfileJob(int ordinal, const std::string& support_cubin, const Job& job) {
  TimeJob whole;
  static_cast<Job&>(whole) = job;
  WireWriter writer;
  writer.U32(kProtocolVersion);
  writer.I64(ordinal);
  writer.Text(support_cubin);
  writer.Text(Encode(whole));
  return std::move(writer).Take();
}

Result<ProfileJob> DecodeProfileJob(std::string_view bytes) {
  WireReader reader(bytes);
  ProfileJob profile;
  const std::uint32_t version = reader.U32();
  profile.ordinal = static_cast<int>(reader.I64());
  profile.support_cubin = reader.Text();
  const std::string job = reader.Text();
  if (!reader.AtEnd() || version != kProtocolVersion) {
    return Fail(ErrorCode::kInternal, "not a profile job of this program's version");
  }
  auto decoded = DecodeTimeJob(job);
  if (!decoded) return Failure(std::move(decoded.error()));
  profile.job = std::move(*decoded);
  return profile;
}

namespace {

Result<ProfileJob> ReadProfileJob(const std::filesystem::path& file) {
  auto bytes = ReadFile(file);
  if (!bytes) return Failure(std::move(bytes.error()));
  return DecodeProfileJob(*bytes);
}

// The GPU of a job, opened in this process.
Result<std::unique_ptr<WorkerParts>> Open(const ProfileJob& profile, MemoryPool::Guards guards) {
  auto driver = Driver::Load();
  if (!driver) return Failure(std::move(driver.error()));
  auto facts = ReadDeviceFacts(**driver, profile.ordinal);
  if (!facts) return Fail(ToError(facts.error()));
  auto context = Context::Retain(*driver, profile.ordinal);
  if (!context) return Fail(ToError(context.error()));
  auto support = SupportCode::Load(*context, profile.support_cubin, *facts);
  if (!support) return Fail(ToError(support.error()));
  return std::make_unique<WorkerParts>(std::move(*context), std::move(*facts), std::move(*support),
                                       Bytes(0), guards);
}

// A job's tensors with its inputs drawn, and its program bound to them. Stays where it is.
struct Execution {
  TensorSet set;
  std::optional<LoadedProgram> program;
  std::optional<BoundProgram> bound;

  Status Prepare(Lane& lane, const TimeJob& job) {
    WorkerParts& parts = lane.parts();
    auto tensors = MakeTensors(parts.pool, job.task_case, false);
    if (!tensors) return Fail(ErrorCode::kUnavailable, tensors.error().message);
    set = std::move(*tensors);
    if (auto ok = Told(DrawInputs(lane, job.task_case, job.seed, set)); !ok) return ok;
    auto loaded = LoadedProgram::Load(parts.context, job.candidate.cubin, job.candidate.plan,
                                      TensorNames(job.task_case));
    if (!loaded) return Fail(ErrorCode::kUnavailable, loaded.error().message);
    program.emplace(std::move(*loaded));
    auto blas = lane.BlasFor(job.candidate.plan);
    if (!blas) return Fail(ErrorCode::kUnavailable, blas.error().message);
    auto ready = program->Bind(set.addresses(), parts.pool, *blas);
    if (!ready) return Fail(ErrorCode::kUnavailable, ready.error().message);
    bound.emplace(std::move(*ready));
    return {};
  }
};

}  // namespace

Status RunProfileJob(const std::filesystem::path& file) {
  auto profile = ReadProfileJob(file);
  if (!profile) return Failure(std::move(profile.error()));
  const TimeJob& job = profile->job;
  auto parts = Open(*profile, MemoryPool::Guards::kPages);
  if (!parts) return Failure(std::move(parts.error()));
  const ProfilerSwitch profiler;  // finds the library that is loaded now
  if (!profiler.ok()) {
    return Fail(ErrorCode::kUnavailable, "this driver has no cuProfilerStart");
  }
  auto made = Lane::Make(**parts);
  if (!made) return Fail(ToError(made.error()));
  Lane& lane = **made;
  Execution execution;
  if (auto ok = execution.Prepare(lane, job); !ok) return ok;
  if (auto ok = Told(PoisonOutputs(lane, job.task_case, execution.set, 0)); !ok) return ok;
  if (auto ok = Told(execution.bound->Enqueue(lane.stream())); !ok) return ok;
  if (auto ok = Told(lane.Wait(job.deadline)); !ok) return ok;
  profiler.Start();
  Status ran = Told(execution.bound->Enqueue(lane.stream()));
  // Every launch is replayed for every pass of the profiler.
  if (ran) ran = Told(lane.Wait(job.deadline * 100));
  profiler.Stop();
  return ran;
}

Status RunSanitizeJobs(const std::vector<std::filesystem::path>& files) {
  std::unique_ptr<WorkerParts> parts;
  std::unique_ptr<Lane> lane;
  for (const std::filesystem::path& file : files) {
    auto profile = ReadProfileJob(file);
    if (!profile) return Failure(std::move(profile.error()));
    if (!parts) {
      auto opened = Open(*profile, MemoryPool::Guards::kNone);
      if (!opened) return Failure(std::move(opened.error()));
      parts = std::move(*opened);
      auto made = Lane::Make(*parts);
      if (!made) return Fail(ToError(made.error()));
      lane = std::move(*made);
    }
    Execution execution;
    if (auto ok = execution.Prepare(*lane, profile->job); !ok) return ok;
    if (auto ok = Told(execution.bound->Enqueue(lane->stream())); !ok) return ok;
    if (auto ok = Told(lane->Wait(profile->job.deadline)); !ok) return ok;
  }
  return {};
}

}  // namespace grove::cuda
