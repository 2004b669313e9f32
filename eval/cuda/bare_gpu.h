// A GPU opened in this very process, for what is short-lived and trusted: `grove doctor` and `grove
// baseline` measure the vendor's libraries here. Candidates never run here. Belongs to one thread;
// not to be run beside other GPU work.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "codegen/compiler.h"
#include "eval/cuda/lane.h"
#include "eval/cuda/memory_pool.h"
#include "seeds/task.h"

namespace grove::cuda {

struct BareGpu {
  std::unique_ptr<WorkerParts> parts;
  std::unique_ptr<Lane> lane;
  GuardedBuffer flush;  // twice the L2 cache
};
// kNotFound for an ordinal that does not exist, kUnavailable without a driver.
Result<BareGpu> OpenGpu(int ordinal, codegen::Compiler& compiler);

// Draws a tensor's contents as the checks do.
Status Draw(BareGpu& gpu, const seeds::Tensor& tensor, std::size_t index, std::uint64_t seed,
            CuDevicePtr data);
Result<GuardedBuffer> Memory(BareGpu& gpu, std::int64_t bytes);

struct ColdTiming {
  int most = 30;        // samples
  Seconds wall{3.0};    // ends earlier once this has passed, with at least two samples
  bool blocked = true;  // launches wait behind a blocking kernel; false for work of more launches
                        // than the queue holds, which then includes its launch latency
  std::function<Status()> before;  // enqueued before every execution, not timed; may be empty
};
struct ColdTimes {
  std::vector<Nanoseconds> samples;
  double clock_ghz = 0;  // SM clock in the last sample; 0 = not known
};
// Cold times of `enqueue`: as timer.h times candidates, but for the ring of inputs.
Result<ColdTimes> TimeCold(BareGpu& gpu, const ColdTiming& how,
                           const std::function<Status()>& enqueue);

}  // namespace grove::cuda
