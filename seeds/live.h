// Tasks with `reference = "live"`: the right outputs of a case are those of the PyTorch module that
// the task was imported from, asked for the very inputs that were drawn (eval/live_reference.h).
// Such a case has `golden` outputs that no file holds: instead of a tensor's place each names the
// task's folder, where problem.json says how the module is called. Cases with golden outputs of
// their own keep those.
#pragma once

#include <cstdint>

#include "seeds/task.h"

namespace grove::seeds {

inline constexpr std::int64_t kLiveOffset =
    -1;  // Stored::offset; Stored::file is the task's folder

inline bool IsLive(const Case& task_case) {
  return !task_case.golden.empty() && task_case.golden.front().offset == kLiveOffset;
}

}  // namespace grove::seeds
