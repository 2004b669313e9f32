// Stored tensors (seeds/safetensors.h) in host memory: the timer draws inputs hundreds of times,
// and parameters are the same in every draw. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "seeds/safetensors.h"

namespace grove::cuda {

class StoredCache {
 public:
  using Contents = std::shared_ptr<const std::vector<std::byte>>;

  // `bytes` from where the tensor begins. kResource when the file cannot be read.
  Result<Contents> Get(const seeds::Stored& stored, std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const Key key{stored.file, stored.offset, bytes};
    if (const auto found = contents_.find(key); found != contents_.end()) return found->second;
    auto data = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
    if (auto read = seeds::ReadStored(stored, 0, *data); !read) {
      return Failure(std::move(read.error()));
    }
    if (total_ + bytes > kLimit) {
      contents_.clear();
      total_ = 0;
    }
    total_ += bytes;
    contents_.emplace(key, data);
    return Contents(std::move(data));
  }

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;
  static constexpr std::int64_t kLimit = std::int64_t{4} << 30;  // bytes; beyond it all are dropped

  std::mutex mutex_;
  std::map<Key, Contents> contents_;
  std::int64_t total_ = 0;
};

}  // namespace grove::cuda
