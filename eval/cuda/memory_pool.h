// Device buffers between guards, reused without giving memory back to the driver for every check.
// Where the device has virtual memory management, every buffer lives in its own reservation of the
// address space with 8 GB of nothing before and behind it, so that a wild access faults instead of
// reaching a neighbour's data; the rest of the last page and at least 4 KB in front hold a pattern
// that is checked after the kernel ran (eval/cuda/support.h). Without it, buffers come from
// cuMemAlloc with pattern guards only.
// Thread-safe. A buffer may be given back only when no work on the device still uses it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "eval/cuda/driver.h"

namespace grove::cuda {

class MemoryPool;

// A buffer from a pool; goes back to it when destroyed.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  CuDevicePtr data() const { return data_; }  // aligned to 512 bytes
  std::int64_t bytes() const { return bytes_; }
  // The guards: [front_begin, data) and [data + bytes, back_end).
  CuDevicePtr front_begin() const;
  CuDevicePtr back_begin() const { return data_ + static_cast<CuDevicePtr>(bytes_); }
  CuDevicePtr back_end() const;

 private:
  friend class MemoryPool;
  MemoryPool* pool_ = nullptr;
  CuDevicePtr base_ = 0;     // of the mapped memory
  std::int64_t mapped_ = 0;  // bytes
  CuDevicePtr data_ = 0;
  std::int64_t bytes_ = 0;
};

class MemoryPool {
 public:
  enum class Guards {
    kPages,  // as above
    kNone,   // every buffer an allocation of exactly its bytes, given back at once: for a tool that
             // knows every allocation itself (sanitizer.h); guards must not be asked for
  };
  // Keeps at most `idle_limit` of unused memory; more is given back to the driver.
  MemoryPool(const Context& context, const DeviceFacts& facts, Bytes idle_limit,
             Guards guards = Guards::kPages);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // kCuOutOfMemory when the device has no more, idle buffers given back first.
  CuExpected<GuardedBuffer> Acquire(std::int64_t bytes);
  // Gives every idle buffer back to the driver.
  void Trim();

  // The mapped size that a buffer of `bytes` takes: two guards, rounded to a size class.
  static std::int64_t MappedSize(std::int64_t bytes, std::int64_t granularity);

 private:
  friend class GuardedBuffer;
  struct Block {
    CuDevicePtr base = 0;
    std::int64_t mapped = 0;
    CuDevicePtr reservation = 0;  // 0 = from cuMemAlloc
    std::int64_t reserved = 0;
    CuMemHandle handle = 0;
  };
  CuExpected<Block> Create(std::int64_t mapped);
  void Release(const Block& block);
  void GiveBack(CuDevicePtr base, std::int64_t mapped);

  const Driver& driver_;
  const int ordinal_;
  const bool exact_;
  const bool virtual_memory_;
  const std::int64_t idle_limit_;
  std::mutex mutex_;
  std::multimap<std::int64_t, Block> idle_;  // by mapped size
  std::map<CuDevicePtr, Block> used_;        // by base
  std::int64_t idle_bytes_ = 0;
};

}  // namespace grove::cuda
