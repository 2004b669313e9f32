#include "eval/cuda/memory_pool.h"

#include <algorithm>
#include <bit>

namespace grove::cuda {
namespace {

constexpr std::int64_t kFrontGuard = 4096;
constexpr std::int64_t kBackGuard = 4096;
constexpr std::int64_t kAlignment = 512;
constexpr std::int64_t kGranularity = std::int64_t{2} << 20;
constexpr std::int64_t kGap = std::int64_t{8} << 30;

constexpr std::int64_t RoundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
CuDevicePtr Address(std::int64_t value) { return static_cast<CuDevicePtr>(value); }
std::size_t Size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (pool_ != nullptr) pool_->GiveBack(base_, mapped_);
}

// Of a front slack of up to 2 MB, the 64 KB next to the data are watched: enough for any row
// that a kernel steps back by, cheap enough for every check.
CuDevicePtr GuardedBuffer::front_begin() const {
  constexpr CuDevicePtr kWatched = 65536;
  return data_ - base_ > kWatched ? data_ - kWatched : base_;
}

CuDevicePtr GuardedBuffer::back_end() const {
  constexpr CuDevicePtr kWatched = 65536;
  return std::min(base_ + static_cast<CuDevicePtr>(mapped_), back_begin() + kWatched);
}

MemoryPool::MemoryPool(const Context& context, const DeviceFacts& facts, Bytes idle_limit,
                       Guards guards)
    : driver_(context.driver()),
      ordinal_(facts.ordinal),
      exact_(guards == Guards::kNone),
      virtual_memory_(!exact_ && facts.virtual_memory),
      idle_limit_(exact_ ? 0 : idle_limit.value) {}

MemoryPool::~MemoryPool() { Trim(); }

std::int64_t MemoryPool::MappedSize(std::int64_t bytes, std::int64_t granularity) {
  const std::int64_t needed =
      RoundUp(RoundUp(bytes, kAlignment) + kFrontGuard + kBackGuard, granularity);
  // Above 16 units, eight classes per power of two: at most 1/8 is wasted, and sizes recur.
  if (needed <= 16 * granularity) return needed;
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(needed)));
  return RoundUp(needed, std::max(granularity, RoundUp(power / 8, granularity)));
}

CuExpected<GuardedBuffer> MemoryPool::Acquire(std::int64_t bytes) {
  const std::int64_t least = std::max<std::int64_t>(bytes, 1);
  const std::int64_t mapped = exact_ ? least : MappedSize(least, kGranularity);
  Block block;
  {
    const std::lock_guard lock(mutex_);
    if (auto found = idle_.find(mapped); found != idle_.end()) {
      block = found->second;
      idle_.erase(found);
      idle_bytes_ -= mapped;
    }
  }
  if (block.base == 0) {
    auto made = Create(mapped);
    if (!made && made.error().code == kCuOutOfMemory) {
      Trim();
      made = Create(mapped);
    }
    if (!made) return tl::unexpected(made.error());
    block = *made;
  }
  GuardedBuffer buffer;
  buffer.pool_ = this;
  buffer.base_ = block.base;
  buffer.mapped_ = mapped;
  buffer.bytes_ = bytes;
  buffer.data_ =
      exact_ ? block.base : block.base + Address(mapped - kBackGuard - RoundUp(bytes, kAlignment));
  const std::lock_guard lock(mutex_);
  used_[block.base] = block;
  return buffer;
}

CuExpected<MemoryPool::Block> MemoryPool::Create(std::int64_t mapped) {
  Block block;
  block.mapped = mapped;
  if (!virtual_memory_) {
    if (auto ok = driver_.Check(driver_.MemAlloc(&block.base, Size(mapped)), "cuMemAlloc"); !ok) {
      return tl::unexpected(ok.error());
    }
    return block;
  }
  CuMemAllocationProp prop;
  prop.location.id = ordinal_;
  if (auto ok =
          driver_.Check(driver_.MemCreate(&block.handle, Size(mapped), &prop, 0), "cuMemCreate");
      !ok) {
    return tl::unexpected(ok.error());
  }
  block.reserved = mapped + 2 * kGap;
  CuMemAccessDesc access;
  access.location.id = ordinal_;
  CuStatus ok =
      driver_.Check(driver_.MemAddressReserve(&block.reservation, Size(block.reserved), 0, 0, 0),
                    "cuMemAddressReserve");
  if (ok) {
    block.base = block.reservation + Address(kGap);
    ok = driver_.Check(driver_.MemMap(block.base, Size(mapped), 0, block.handle, 0), "cuMemMap");
    if (ok) {
      ok = driver_.Check(driver_.MemSetAccess(block.base, Size(mapped), &access, 1),
                         "cuMemSetAccess");
      if (!ok) driver_.MemUnmap(block.base, Size(mapped));
    }
    if (!ok) driver_.MemAddressFree(block.reservation, Size(block.reserved));
  }
  if (!ok) {
    driver_.MemRelease(block.handle);
    return tl::unexpected(ok.error());
  }
  return block;
}

void MemoryPool::Release(const Block& block) {
  if (block.reservation == 0) {
    driver_.MemFree(block.base);
    return;
  }
  driver_.MemUnmap(block.base, Size(block.mapped));
  driver_.MemAddressFree(block.reservation, Size(block.reserved));
  driver_.MemRelease(block.handle);
}

void MemoryPool::GiveBack(CuDevicePtr base, std::int64_t mapped) {
  std::vector<Block> surplus;
  {
    const std::lock_guard lock(mutex_);
    auto found = used_.find(base);
    if (found == used_.end()) return;
    idle_.emplace(mapped, found->second);
    idle_bytes_ += mapped;
    used_.erase(found);
    while (idle_bytes_ > idle_limit_ && !idle_.empty()) {
      auto largest = std::prev(idle_.end());
      idle_bytes_ -= largest->first;
      surplus.push_back(largest->second);
      idle_.erase(largest);
    }
  }
  for (const Block& block : surplus) Release(block);
}

void MemoryPool::Trim() {
  std::vector<Block> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, block] : idle_) all.push_back(block);
    idle_.clear();
    idle_bytes_ = 0;
  }
  for (const Block& block : all) Release(block);
}

}  // namespace grove::cuda
