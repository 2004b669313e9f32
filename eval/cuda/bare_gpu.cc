#include "eval/cuda/bare_gpu.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace grove::cuda {
namespace {

constexpr std::chrono::milliseconds kDeadline{60000};
constexpr std::size_t kBefore = 0;
constexpr std::size_t kAfter = 1;
constexpr std::size_t kBlock = 2;

}  // namespace

Result<BareGpu> OpenGpu(int ordinal, codegen::Compiler& compiler) {
  auto driver = Driver::Load();
  if (!driver) return Fail(driver.error());
  auto count = DeviceCount(**driver);
  if (!count) return Fail(ToError(count.error()));
  if (ordinal < 0 || ordinal >= *count) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU {}: the driver shows {}", ordinal, *count));
  }
  auto facts = ReadDeviceFacts(**driver, ordinal);
  if (!facts) return Fail(ToError(facts.error()));
  auto context = Context::Retain(*driver, ordinal);
  if (!context) return Fail(ToError(context.error()));
  auto compiled = compiler.Compile(SupportRequest(*facts));
  if (!compiled) return Fail(compiled.error());
  if (!(*compiled)->ok()) return Fail(ErrorCode::kInternal, (*compiled)->log.substr(0, 500));
  auto support = SupportCode::Load(*context, (*compiled)->cubin, *facts);
  if (!support) return Fail(ToError(support.error()));
  BareGpu opened;
  opened.parts = std::make_unique<WorkerParts>(std::move(*context), std::move(*facts),
                                               std::move(*support), Bytes(0));
  auto lane = Lane::Make(*opened.parts);
  if (!lane) return Fail(ToError(lane.error()));
  opened.lane = std::move(*lane);
  auto flush = opened.parts->pool.Acquire(2 * std::max(1, opened.parts->facts.l2_bytes));
  if (!flush) return Fail(ToError(flush.error()));
  opened.flush = std::move(*flush);
  return opened;
}

Status Draw(BareGpu& gpu, const seeds::Tensor& tensor, std::size_t index, std::uint64_t seed,
            CuDevicePtr data) {
  auto drawn = gpu.parts->support.Generate(gpu.lane->stream(), tensor, index, seed, data);
  if (!drawn) return Fail(ToError(drawn.error()));
  return {};
}

Result<GuardedBuffer> Memory(BareGpu& gpu, std::int64_t bytes) {
  auto buffer = gpu.parts->pool.Acquire(std::max<std::int64_t>(bytes, 16));
  if (!buffer) return Fail(ToError(buffer.error()));
  return std::move(*buffer);
}

Result<ColdTimes> TimeCold(BareGpu& gpu, const ColdTiming& how,
                           const std::function<Status()>& enqueue) {
  Lane& lane = *gpu.lane;
  const Driver& driver = lane.driver();
  const SupportCode& support = gpu.parts->support;
  ColdTimes timed;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = -2; i < how.most; ++i) {
    if (timed.samples.size() >= 2 && std::chrono::steady_clock::now() - begin > how.wall) break;
    // Warm-up without the blocking kernel: a library loads its kernels and takes memory at its
    // first call, which waits for the device.
    const bool warm_up = i < 0;
    const bool blocked = how.blocked && !warm_up;
    const std::uint32_t token = lane.NextToken();
    if (how.before) {
      if (auto prepared = how.before(); !prepared) return Failure(std::move(prepared.error()));
    }
    CuStatus ok = lane.ClearResults();
    if (ok) {
      ok = driver.Check(
          driver.MemsetD8Async(gpu.flush.data(), 0, static_cast<std::size_t>(gpu.flush.bytes()),
                               lane.stream()),
          "cuMemsetD8Async");
    }
    if (ok) ok = support.TakeStamp(lane.stream(), lane.slot(kBefore));
    if (ok && blocked)
      ok = support.Block(lane.stream(), lane.flag(), token, 10'000'000'000, lane.slot(kBlock));
    if (ok)
      ok = driver.Check(driver.EventRecord(lane.start().get(), lane.stream()), "cuEventRecord");
    if (!ok) return Fail(ToError(ok.error()));
    Status ours = enqueue();
    ok = driver.Check(driver.EventRecord(lane.stop().get(), lane.stream()), "cuEventRecord");
    if (ok) ok = support.TakeStamp(lane.stream(), lane.slot(kAfter));
    if (ok) ok = lane.ReadResults();
    lane.Open(token);
    if (auto waited = lane.Wait(kDeadline); !waited) {
      return Fail(ErrorCode::kUnavailable, waited.error().message);
    }
    if (!ours) return Fail(ours.error());
    if (!ok) return Fail(ToError(ok.error()));
    auto time = Elapsed(lane.start(), lane.stop());
    if (!time) return Fail(ToError(time.error()));
    if (warm_up) {
      if (*time > Nanoseconds(3e8)) i = -1;  // once is warm enough
      continue;
    }
    timed.samples.push_back(*time);
    const auto before = lane.result<Stamp>(kBefore);
    const auto after = lane.result<Stamp>(kAfter);
    if (before.sm == after.sm && after.nanoseconds > before.nanoseconds + 2000) {
      timed.clock_ghz = static_cast<double>(after.cycles - before.cycles) /
                        static_cast<double>(after.nanoseconds - before.nanoseconds);
    }
  }
  return timed;
}

}  // namespace grove::cuda
