// The inside of AddressSpace: where device addresses lead. Every 64 GiB slot of the address range
// belongs to at most one buffer, so a lookup is one shift and one table entry, and an address just
// outside a buffer never falls into its neighbour.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "eval/emulator/emulator.h"
#include "eval/emulator/ptx.h"

namespace grove::emulator {

constexpr int kSlotBits = 36;
// Generic addresses of the other spaces; all below the first slot. 16 MiB each.
constexpr std::uint64_t kSharedWindow = 0x01000000;
constexpr std::uint64_t kLocalWindow = 0x02000000;
constexpr std::uint64_t kParamWindow = 0x03000000;
constexpr std::uint64_t kWindowBytes = 0x01000000;

struct MappedBuffer {
  std::string name;
  std::byte* host = nullptr;
  std::uint64_t start = 0;  // device address
  std::uint64_t bytes = 0;
  bool writable = true;
  std::uint64_t period = 0;
  // One bit per byte, set once written; null when not tracked. Set by concurrent blocks.
  std::unique_ptr<std::atomic<std::uint64_t>[]> written;
  std::vector<std::byte> owned;  // of module variables
};

struct Slot {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;  // 0: nothing here
  std::byte* host = nullptr;
  bool plain_read = false;   // neither periodic nor tracked
  bool plain_write = false;  // that, and writable
  MappedBuffer* buffer = nullptr;
};

// The variables of one module in one address space: device address by variable index.
struct ModuleInstance {
  std::shared_ptr<const void> identity;  // keeps the key from being reused
  std::vector<std::uint64_t> addresses;
};

struct AddressSpace::Impl {
  std::deque<MappedBuffer> buffers;
  std::vector<Slot> slots{1};  // slot 0: the windows
  std::unordered_map<const void*, ModuleInstance> modules;
  std::mutex mutex;  // of `modules`

  std::uint64_t Map(const Buffer& buffer);
  void UnmapLast();  // the buffer mapped last
  const Slot* Find(std::uint64_t address) const {
    const std::uint64_t slot = address >> kSlotBits;
    return slot < slots.size() && slots[slot].bytes != 0 ? &slots[slot] : nullptr;
  }
  // The buffer whose range is nearest to `address`, null when nothing is mapped.
  const MappedBuffer* Nearest(std::uint64_t address) const;
};

class Access {
 public:
  using Impl = AddressSpace::Impl;  // private there
  static Impl& Get(AddressSpace& space) { return *space.impl_; }
};

void MarkWritten(MappedBuffer& buffer, std::uint64_t offset, std::uint64_t bytes);
// The first byte of the range that nobody wrote, or -1.
std::int64_t FirstUnwritten(const MappedBuffer& buffer, std::uint64_t offset, std::uint64_t bytes);

}  // namespace grove::emulator
