#include "eval/emulator/memory.h"

#include <algorithm>

namespace grove::emulator {

AddressSpace::AddressSpace() : impl_(std::make_unique<Impl>()) {}
AddressSpace::~AddressSpace() = default;
AddressSpace::AddressSpace(AddressSpace&&) noexcept = default;
AddressSpace& AddressSpace::operator=(AddressSpace&&) noexcept = default;

std::uint64_t AddressSpace::Map(const Buffer& buffer) { return impl_->Map(buffer); }

std::vector<std::pair<std::int64_t, std::int64_t>> AddressSpace::Written(
    std::uint64_t address) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  const Slot* slot = impl_->Find(address);
  if (slot == nullptr || slot->buffer->written == nullptr) return ranges;
  const MappedBuffer& buffer = *slot->buffer;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    if (!ranges.empty() && ranges.back().second == begin) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(begin, end);
    }
  };
  for (std::uint64_t word = 0; word <= buffer.bytes / 64; ++word) {
    const std::uint64_t bits = buffer.written[word].load(std::memory_order_relaxed);
    const auto first = static_cast<std::int64_t>(word * 64);
    if (bits == 0) continue;
    if (bits == ~std::uint64_t{0}) {
      add(first, first + 64);
      continue;
    }
    for (std::int64_t bit = 0; bit < 64; ++bit) {
      if ((bits >> bit & 1) != 0) add(first + bit, first + bit + 1);
    }
  }
  return ranges;
}

std::int64_t AddressSpace::FirstUnwritten(std::uint64_t address, std::int64_t offset,
                                          std::int64_t bytes) const {
  const Slot* slot = impl_->Find(address);
  if (slot == nullptr || slot->buffer->written == nullptr) return -1;
  return emulator::FirstUnwritten(*slot->buffer, static_cast<std::uint64_t>(offset),
                                  static_cast<std::uint64_t>(bytes));
}

void AddressSpace::MarkWritten(std::uint64_t address, std::int64_t offset, std::int64_t bytes) {
  const Slot* slot = impl_->Find(address);
  if (slot == nullptr || slot->buffer->written == nullptr) return;
  emulator::MarkWritten(*slot->buffer, static_cast<std::uint64_t>(offset),
                        static_cast<std::uint64_t>(bytes));
}

std::uint64_t AddressSpace::Impl::Map(const Buffer& buffer) {
  MappedBuffer& b = buffers.emplace_back();
  b.name = buffer.name;
  b.host = buffer.host;
  b.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(buffer.bytes, 0));
  b.writable = buffer.writable;
  b.period = static_cast<std::uint64_t>(std::max<std::int64_t>(buffer.period, 0));
  if (b.period >= b.bytes) b.period = 0;
  b.start = static_cast<std::uint64_t>(slots.size()) << kSlotBits;
  if (buffer.track_uninitialised && b.period == 0) {
    b.written = std::make_unique<std::atomic<std::uint64_t>[]>(b.bytes / 64 + 1);
  }
  Slot slot;
  slot.start = b.start;
  slot.bytes = b.bytes;
  slot.host = b.host;
  slot.plain_read = b.period == 0 && b.written == nullptr;
  slot.plain_write = slot.plain_read && b.writable;
  slot.buffer = &b;
  // At least 1 GiB stays unmapped behind every buffer.
  const std::uint64_t count = ((b.bytes + (std::uint64_t{1} << 30)) >> kSlotBits) + 1;
  slots.insert(slots.end(), count, slot);
  return b.start;
}

void AddressSpace::Impl::UnmapLast() {
  slots.resize(buffers.back().start >> kSlotBits);
  buffers.pop_back();
}

const MappedBuffer* AddressSpace::Impl::Nearest(std::uint64_t address) const {
  const MappedBuffer* best = nullptr;
  std::uint64_t distance = ~std::uint64_t{0};
  for (const MappedBuffer& b : buffers) {
    std::uint64_t d = 0;
    if (address < b.start)
      d = b.start - address;
    else if (address >= b.start + b.bytes)
      d = address - (b.start + b.bytes);
    if (d < distance) {
      distance = d;
      best = &b;
    }
  }
  return best;
}

void MarkWritten(MappedBuffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t bit = offset % 64;
    const std::uint64_t count = std::min<std::uint64_t>(64 - bit, bytes);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : ((std::uint64_t{1} << count) - 1);
    std::atomic<std::uint64_t>& word = buffer.written[offset / 64];
    if ((word.load(std::memory_order_relaxed) & (ones << bit)) != ones << bit) {
      word.fetch_or(ones << bit, std::memory_order_relaxed);
    }
    offset += count;
    bytes -= count;
  }
}

std::int64_t FirstUnwritten(const MappedBuffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t i = offset; i < offset + bytes; ++i) {
    if ((buffer.written[i / 64].load(std::memory_order_relaxed) >> (i % 64) & 1) == 0) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace grove::emulator
