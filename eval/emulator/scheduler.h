// Runs the warps of a block.
#pragma once

#include "eval/emulator/machine.h"

namespace grove::emulator {

// What a worker keeps between blocks: warps and their memory, counts by basic block.
struct Worker {
  std::vector<BlockCount> counts;
};

// Makes `block` ready to run block `flat` of the launch; memory of an earlier block is reused.
void PrepareBlock(Block& block, Launch& launch, std::int64_t flat, Worker& worker);

enum class Progress {
  kDone,     // every thread exited
  kFault,    // block.fault is set
  kBudget,   // the launch's budget is spent; block.fault is set
  kWaiting,  // `rounds` are over and threads are left
};
// Runs warps in turn until the block ends, or for `rounds` turns of every warp.
Progress RunBlock(Block& block, std::int64_t rounds);

}  // namespace grove::emulator
