// What asynchronous copies do to an mbarrier object. Used by the thread that runs the block.
#pragma once

#include <cstdint>

#include "eval/emulator/machine.h"

namespace grove::emulator {

// complete_tx: `bytes` of those that the current phase waits for have come. `address` is generic.
// False when the access faults (the warp is stopped then).
bool CompleteBytes(Warp& warp, const Inst* inst, std::uint64_t address, int lane,
                   std::uint64_t bytes);
// One arrival of those that the phase expects (cp.async.mbarrier.arrive.noinc).
bool ArriveOnce(Warp& warp, const Inst* inst, std::uint64_t address, int lane);

}  // namespace grove::emulator
