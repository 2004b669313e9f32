// One process writes a run at a time: flock on runs/NAME/lock, held as long as the object lives and
// given up by the kernel however the process dies. The file names the holder, for messages only.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace grove::results {

class RunLock {
 public:
  // kUnavailable, naming the holder's process, when another holds it; kResource when the file
  // cannot be made.
  static Result<RunLock> Take(const std::filesystem::path& file);

  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Whether a process holds the lock now. False when the file is not there. Looks by taking a shared
// lock for an instant, which Take waits out.
bool IsLocked(const std::filesystem::path& file);

}  // namespace grove::results
