#include "eval/cuda/lane.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <fmt/format.h>

namespace grove::cuda {
namespace {
using Clock = std::chrono::steady_clock;
}  // namespace

CuExpected<std::unique_ptr<Lane>> Lane::Make(WorkerParts& parts) {
  const Driver& driver = parts.context.driver();
  std::unique_ptr<Lane> lane(new Lane(parts));
  auto stream = MakeStream(driver);
  auto start = MakeEvent(driver);
  auto stop = MakeEvent(driver);
  const Bytes size(static_cast<std::int64_t>(kSlots * kSlotBytes));
  auto results = Allocate(driver, size);
  auto host = HostPinned::Make(driver, size);
  auto flag = HostPinned::Make(driver, Bytes(64));
  if (!stream) return tl::unexpected(stream.error());
  if (!start) return tl::unexpected(start.error());
  if (!stop) return tl::unexpected(stop.error());
  if (!results) return tl::unexpected(results.error());
  if (!host) return tl::unexpected(host.error());
  if (!flag) return tl::unexpected(flag.error());
  lane->stream_ = std::move(*stream);
  lane->start_ = std::move(*start);
  lane->stop_ = std::move(*stop);
  lane->results_ = std::move(*results);
  lane->results_host_ = std::move(*host);
  lane->flag_ = std::move(*flag);
  return lane;
}

Executed<void> Lane::Poll(std::chrono::milliseconds deadline, bool spin) {
  const auto begin = Clock::now();
  auto pause = std::chrono::microseconds(5);
  for (;;) {
    const CuResult code = driver().StreamQuery(stream_.get());
    if (code == kCuSuccess) return {};
    if (code != kCuNotReady) {
      return Failed(FaultOf(driver().Check(code, "cuStreamQuery").error()));
    }
    const auto waited = Clock::now() - begin;
    if (waited > deadline) {
      return Failed(Fault{eval::VerdictKind::kTimeout,
                          fmt::format("still running after {} ms", deadline.count()), true});
    }
    // Spin for the first 30 us, then sleep a tenth of what has passed, at most 0.5 ms.
    if (spin || waited < std::chrono::microseconds(30)) continue;
    pause = std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(waited / 10),
                       std::chrono::microseconds(5), std::chrono::microseconds(500));
    std::this_thread::sleep_for(pause);
  }
}

tl::unexpected<Fault> Lane::Failed(Fault fault) const {
  if (fault.sticky && parts_.on_sticky) parts_.on_sticky(fault);
  return tl::unexpected(std::move(fault));
}

Executed<void> Lane::Wait(std::chrono::milliseconds deadline) { return Poll(deadline, false); }
Executed<void> Lane::WaitSpinning(std::chrono::milliseconds deadline) {
  return Poll(deadline, true);
}

Executed<Blas*> Lane::BlasFor(const codegen::ResolvedPlan& plan) {
  if (!codegen::HasLibrarySteps(plan)) return nullptr;
  if (blas_) return blas_.get();
  const auto unsupported = [](const Error& error) {
    return tl::unexpected(Fault{eval::VerdictKind::kUnsupported,
                                "the plan's library steps: " + error.message, false});
  };
  auto memory = Allocate(driver(), Bytes(Blas::kWorkspaceBytes));
  if (!memory) return tl::unexpected(FaultOf(memory.error()));
  auto blas = Blas::Load();
  if (!blas) return unsupported(blas.error());
  if (auto ok = (*blas)->Use(stream_.get(), memory->get(), Blas::kWorkspaceBytes); !ok) {
    return unsupported(ok.error());
  }
  blas_memory_ = std::move(*memory);
  blas_ = std::move(*blas);
  return blas_.get();
}

CuDevicePtr Lane::slot(std::size_t index) const {
  return results_.get() + static_cast<CuDevicePtr>(index) * kSlotBytes;
}

CuStatus Lane::ClearResults() {
  return driver().Check(
      driver().MemsetD8Async(results_.get(), 0, kSlots * kSlotBytes, stream_.get()),
      "cuMemsetD8Async");
}

CuStatus Lane::ReadResults() {
  return driver().Check(driver().MemcpyDtoHAsync(results_host_.host(), results_.get(),
                                                 kSlots * kSlotBytes, stream_.get()),
                        "cuMemcpyDtoHAsync");
}

void Lane::Open(std::uint32_t token) {
  auto* flag = reinterpret_cast<std::uint32_t*>(flag_.host());
  std::atomic_ref<std::uint32_t>(*flag).store(token, std::memory_order_release);
}

}  // namespace grove::cuda
