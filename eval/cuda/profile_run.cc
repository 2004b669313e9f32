#include "eval/cuda/profile_run.h"

#include <dlfcn.h>

#include <cstring>

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

Status RunProfileJob(const std::filesystem::path& file) {
  auto bytes = ReadFile(file);
  if (!bytes) return Failure(std::move(bytes.error()));
  auto profile = DecodeProfileJob(*bytes);
  if (!profile) return Failure(std::move(profile.error()));
  const TimeJob& job = profile->job;
  auto driver = Driver::Load();
  if (!driver) return Failure(std::move(driver.error()));
  const ProfilerSwitch profiler;  // finds the library that is loaded now
  if (!profiler.ok()) {
    return Fail(ErrorCode::kUnavailable, "this driver has no cuProfilerStart");
  }
  auto facts = ReadDeviceFacts(**driver, profile->ordinal);
  if (!facts) return Fail(ToError(facts.error()));
  auto context = Context::Retain(*driver, profile->ordinal);
  if (!context) return Fail(ToError(context.error()));
  auto support = SupportCode::Load(*context, profile->support_cubin, *facts);
  if (!support) return Fail(ToError(support.error()));
  WorkerParts parts(std::move(*context), std::move(*facts), std::move(*support), Bytes(0));
  auto made = Lane::Make(parts);
  if (!made) return Fail(ToError(made.error()));
  Lane& lane = **made;
  auto set = MakeTensors(parts.pool, job.task_case, false);
  if (!set) return Fail(ErrorCode::kUnavailable, set.error().message);
  if (auto ok = Told(DrawInputs(lane, job.task_case, job.seed, *set)); !ok) return ok;
  if (auto ok = Told(PoisonOutputs(lane, job.task_case, *set, 0)); !ok) return ok;
  auto program = LoadedProgram::Load(parts.context, job.candidate.cubin, job.candidate.plan,
                                     TensorNames(job.task_case));
  if (!program) return Fail(ErrorCode::kUnavailable, program.error().message);
  auto blas = lane.BlasFor(job.candidate.plan);
  if (!blas) return Fail(ErrorCode::kUnavailable, blas.error().message);
  auto bound = program->Bind(set->addresses(), parts.pool, *blas);
  if (!bound) return Fail(ErrorCode::kUnavailable, bound.error().message);
  if (auto ok = Told(bound->Enqueue(lane.stream())); !ok) return ok;
  if (auto ok = Told(lane.Wait(job.deadline)); !ok) return ok;
  profiler.Start();
  Status ran = Told(bound->Enqueue(lane.stream()));
  // Every launch is replayed for every pass of the profiler.
  if (ran) ran = Told(lane.Wait(job.deadline * 100));
  profiler.Stop();
  return ran;
}

}  // namespace grove::cuda
