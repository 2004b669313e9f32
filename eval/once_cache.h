// A value per (case, seed), made once however many candidates ask at the same time, dropped
// oldest-first above a limit of bytes. Of the emulator's device alone.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"

namespace grove::eval {

// Thread-safe.
template <typename T>
class OnceCache {
 public:
  using Key = std::pair<std::string, std::uint64_t>;
  explicit OnceCache(std::int64_t limit) : limit_(limit) {}

  // `make` gives Result<std::pair<std::shared_ptr<T>, bytes>>. The key's slot is locked while it
  // works, so it must not come to ask for the same key.
  template <typename Make>
  Result<std::shared_ptr<T>> Get(const Key& key, const Make& make) {
    std::shared_ptr<Slot> slot;
    {
      const std::scoped_lock lock(mutex_);
      auto& place = slots_[key];
      if (!place) place = std::make_shared<Slot>();
      slot = place;
    }
    const std::scoped_lock lock(slot->mutex);
    if (!slot->value) {
      auto made = make();
      if (!made) return Failure(std::move(made.error()));
      slot->value = std::move(made->first);
      Account(key, made->second);
    }
    return slot->value;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<T> value;
  };

  void Account(const Key& key, std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    order_.emplace_back(key, bytes);
    total_ += bytes;
    while (total_ > limit_ && order_.size() > 1) {
      total_ -= order_.front().second;
      slots_.erase(order_.front().first);
      order_.pop_front();
    }
  }

  const std::int64_t limit_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Slot>> slots_;
  std::list<std::pair<Key, std::int64_t>> order_;
  std::int64_t total_ = 0;
};

}  // namespace grove::eval
