// How the worker's own steps (drawing, scanning, comparing) pass failures on. Only for the .cc
// files of this folder.
#pragma once

#include <chrono>

#include "eval/cuda/executor.h"

namespace grove::cuda {

// A failed call on the worker's own work: not the candidate's doing, unless the error is sticky (an
// earlier kernel's) or memory ran out.
inline tl::unexpected<Fault> Ours(const CuError& error) {
  Fault fault = FaultOf(error);
  if (!fault.sticky && fault.kind != eval::VerdictKind::kOutOfMemory) {
    fault.kind = eval::VerdictKind::kInfrastructure;
  }
  return tl::unexpected(std::move(fault));
}

// Our own work on any case: far above what it takes.
inline constexpr std::chrono::milliseconds kOwnDeadline{60000};

}  // namespace grove::cuda

// Returns from the function when a CuStatus, or an Executed, is a failure.
#define GROVE_TRY(expression)                                                   \
  do {                                                                          \
    if (auto ok_ = (expression); !ok_) return ::grove::cuda::Ours(ok_.error()); \
  } while (false)
#define GROVE_WAIT(expression)                                             \
  do {                                                                     \
    if (auto ok_ = (expression); !ok_) return tl::unexpected(ok_.error()); \
  } while (false)
