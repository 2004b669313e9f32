// Threads for work that waits for the outside: a model call blocks one of these and never a worker
// of oneTBB, so that many calls are in flight on a machine with few cores. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace grove::search {

class CallPool {
 public:
  // At most `threads` (at least 1) at once; a thread starts when there is work and none is free.
  explicit CallPool(int threads);
  // Does what was posted, then ends.
  ~CallPool();
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;

  // Runs `work` later, in the order of posting; from any thread, also from work.
  void Post(std::function<void()> work);

 private:
  void Work();

  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mutex_)
  std::vector<std::thread> threads_;         // GUARDED_BY(mutex_)
  std::size_t free_ = 0;                     // threads that wait; GUARDED_BY(mutex_)
  bool ending_ = false;                      // GUARDED_BY(mutex_)
};

}  // namespace grove::search
