#include "search/call_pool.h"

#include <algorithm>
#include <utility>

namespace grove::search {

CallPool::CallPool(int threads) : limit_(static_cast<std::size_t>(std::max(1, threads))) {}

CallPool::~CallPool() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  // Work that is still queued may post more and start threads; take them as they come.
  for (std::size_t i = 0;; ++i) {
    std::thread thread;
    {
      const std::scoped_lock lock(mutex_);
      if (i == threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    thread.join();
  }
}

void CallPool::Post(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(work));
    if (queue_.size() > free_ && threads_.size() < limit_) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  wake_.notify_one();
}

void CallPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++free_;
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    --free_;
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace grove::search
