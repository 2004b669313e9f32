// The worker's side of timing: honest times of one candidate, or of two interleaved.
// REQUIRES: the head holds the exclusive lease, so that nothing else runs on this GPU.
//
// One cold sample, all enqueued before any of it runs:
//   draw fresh inputs into the next set of the ring, poison its outputs, write twice the size of
//   the L2 cache, clock stamp, blocking kernel, event, the candidate, event, clock stamp
// and then the host opens the blocking kernel's gate. So launch latency is hidden, neither the
// addresses nor the contents were seen before, and nothing of the inputs is cached. The clock over
// the sample is (cycles between the stamps) / (time between them); below 75% of the default clock
// the sample is thrown away and counted.
//
// What the last cold sample wrote is compared with the reference on its inputs, and the module is
// loaded anew for timing, so a result kept from a check cannot be replayed.
#pragma once

#include "eval/cuda/checker.h"

namespace grove::cuda {

// A sticky fault means that the worker must end; any other is in the outcome.
Executed<TimeDone> RunTime(Lane& lane, const TimeJob& job);

}  // namespace grove::cuda
