// One checked access to memory by one lane, and the vector tests of the fast paths.
#pragma once

#include <cstdint>

#include "eval/emulator/machine.h"

namespace grove::emulator {

struct AccessKind {
  Space space = Space::kGeneric;
  std::uint32_t bytes = 4;  // of one lane; its alignment too
  bool store = false;
  bool atomic = false;  // reads and writes
  bool strong = false;  // volatile, relaxed, acquire, release, atomic
};

// Where a generic address of any space leads, after every check and record that the launch asks
// for. Null when it faults (the warp is stopped then). `value`: the bytes that a store brings.
std::byte* ResolveLane(Warp& warp, const Inst* inst, const AccessKind& kind, std::uint64_t address,
                       int lane, const std::byte* value);

// Counts a warp's access (option count_memory). `address`: generic.
void CountAccess(Warp& warp, const AccessKind& kind, const std::uint64_t* address,
                 std::uint32_t mask);

// Base of a space in the generic address space: what ld.shared adds to its offsets.
inline std::uint64_t WindowOf(Space space) {
  return space == Space::kShared ? kSharedWindow : space == Space::kLocal ? kLocalWindow : 0;
}

// Host memory of the device range [low, low + bytes) when all of it lies in one plain buffer.
inline std::byte* PlainWindow(const Warp& w, std::uint64_t low, std::uint64_t bytes, bool store) {
  const std::uint64_t index = low >> kSlotBits;
  if (index >= w.slot_count) return nullptr;
  const Slot& slot = w.slots[index];
  const std::uint64_t offset = low - slot.start;
  if (offset > slot.bytes || bytes > slot.bytes - offset) return nullptr;
  if (!(store ? slot.plain_write : slot.plain_read)) return nullptr;
  return slot.host + offset;
}
inline std::byte* SharedWindow(const Warp& w, std::uint64_t low, std::uint64_t bytes) {
  if (low > w.shared_bytes || bytes > w.shared_bytes - low) return nullptr;
  return w.shared + low;
}

// Addresses of all lanes: base register plus offset. `wide`: the base has 64 bits.
inline void LaneAddresses(Warp& w, std::uint32_t base, bool wide, std::int64_t offset,
                          std::uint64_t* address) {
  const auto add = static_cast<std::uint64_t>(offset);
  if (wide) {
    const std::uint64_t* a = w.At<std::uint64_t>(base);
    for (int i = 0; i < kLanes; ++i) address[i] = a[i] + add;
  } else {
    const std::uint32_t* a = w.At<std::uint32_t>(base);
    for (int i = 0; i < kLanes; ++i)
      address[i] = static_cast<std::uint32_t>(a[i] + static_cast<std::uint32_t>(add));
  }
}

// How the addresses of a warp lie.
struct Pattern {
  bool contiguous = false;  // lane i at low + i * size
  std::uint64_t low = 0, high = 0;
  std::uint64_t bits = 0;  // OR of all, for alignment
};

inline Pattern Classify(const std::uint64_t* address, std::uint64_t size) {
  Pattern p;
  const std::uint64_t first = address[0];
  std::uint64_t differ = 0;
  for (std::uint64_t i = 0; i < kLanes; ++i) differ |= address[i] ^ (first + i * size);
  if (differ == 0) {
    p.contiguous = true;
    p.low = first;
    p.high = first + 31 * size;
    p.bits = first;
    return p;
  }
  std::int64_t low = static_cast<std::int64_t>(first), high = low;
  std::uint64_t bits = 0;
  for (int i = 0; i < kLanes; ++i) {
    const auto a = static_cast<std::int64_t>(address[i]);
    low = a < low ? a : low;
    high = a > high ? a : high;
    bits |= address[i];
  }
  p.low = static_cast<std::uint64_t>(low);
  p.high = static_cast<std::uint64_t>(high);
  p.bits = bits;
  return p;
}

}  // namespace grove::emulator
