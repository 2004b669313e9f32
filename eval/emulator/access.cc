#include "eval/emulator/access.h"

#include <algorithm>

#include <fmt/format.h>

#include "eval/emulator/checks.h"

namespace grove::emulator {
namespace {

std::byte* Refuse(Warp& w, const Inst* inst, Fault::Kind kind, int lane, std::string buffer,
                  std::int64_t offset, std::string message) {
  w.Fail(inst, kind, std::move(message), lane);
  w.block->fault->buffer = std::move(buffer);
  w.block->fault->offset = offset;
  return nullptr;
}

const char* Verb(const AccessKind& kind) {
  return kind.atomic ? "atomic access to" : kind.store ? "store to" : "load from";
}

std::byte* Shared(Warp& w, const Inst* inst, const AccessKind& kind, std::uint64_t offset, int lane,
                  const std::byte* value) {
  Block& block = *w.block;
  const auto signed_offset = static_cast<std::int64_t>(offset);
  if (offset > w.shared_bytes || kind.bytes > w.shared_bytes - offset) {
    return Refuse(w, inst, Fault::Kind::kOutOfBounds, lane, "shared memory", signed_offset,
                  fmt::format("{} {} bytes at byte {} of shared memory, which has {}", Verb(kind),
                              kind.bytes, signed_offset, w.shared_bytes));
  }
  std::byte* host = w.shared + offset;
  const auto at = static_cast<std::uint32_t>(offset);
  if (!block.shared_written.empty()) {
    if (!kind.store || kind.atomic) {
      for (std::uint32_t i = 0; i < kind.bytes; ++i) {
        if (block.shared_written[at + i] == 0) {
          return Refuse(
              w, inst, Fault::Kind::kUninitialised, lane, "shared memory", at + i,
              fmt::format("{} byte {} of shared memory, which nobody wrote", Verb(kind), at + i));
        }
      }
    }
    if (kind.store || kind.atomic) {
      std::fill_n(block.shared_written.begin() + at, kind.bytes, std::uint8_t{1});
    }
  }
  if (block.races != nullptr) {
    RaceChecker::Conflict conflict;
    bool race = false;
    if (!kind.store || kind.atomic) {
      race = block.races->Read(w, lane, at, kind.bytes, kind.strong, conflict);
    }
    if (!race && (kind.store || kind.atomic)) {
      const bool same = value != nullptr && std::memcmp(host, value, kind.bytes) == 0;
      race = block.races->Write(w, lane, at, kind.bytes, kind.strong, same, conflict);
    }
    if (race) {
      return Refuse(w, inst, Fault::Kind::kRace, lane, "shared memory", at,
                    fmt::format("{} byte {} of shared memory races with the {} by thread {} of the "
                                "block: no barrier lies between",
                                Verb(kind), at, conflict.write ? "store" : "load",
                                conflict.warp * kLanes + conflict.lane));
    }
  }
  return host;
}

std::byte* Local(Warp& w, const Inst* inst, const AccessKind& kind, std::uint64_t offset,
                 int lane) {
  if (offset > w.local_stride || kind.bytes > w.local_stride - offset) {
    return Refuse(
        w, inst, Fault::Kind::kOutOfBounds, lane, "local memory", static_cast<std::int64_t>(offset),
        fmt::format("{} {} bytes at byte {} of the thread's local memory, which has {}", Verb(kind),
                    kind.bytes, static_cast<std::int64_t>(offset), w.local_stride));
  }
  const std::size_t at = static_cast<std::size_t>(lane) * w.local_stride + offset;
  if (!w.local_written.empty()) {
    if (!kind.store || kind.atomic) {
      for (std::uint32_t i = 0; i < kind.bytes; ++i) {
        if (w.local_written[at + i] == 0) {
          return Refuse(w, inst, Fault::Kind::kUninitialised, lane, "local memory",
                        static_cast<std::int64_t>(offset + i),
                        fmt::format("{} byte {} of local memory, which the thread never wrote",
                                    Verb(kind), offset + i));
        }
      }
    }
    if (kind.store || kind.atomic) {
      std::fill_n(w.local_written.begin() + static_cast<std::ptrdiff_t>(at), kind.bytes,
                  std::uint8_t{1});
    }
  }
  return w.local.data() + at;
}

std::byte* Global(Warp& w, const Inst* inst, const AccessKind& kind, std::uint64_t address,
                  int lane) {
  const Access::Impl& memory = *w.launch->memory;
  const Slot* slot = memory.Find(address);
  const std::uint64_t offset = slot == nullptr ? 0 : address - slot->start;
  if (slot == nullptr || offset > slot->bytes || kind.bytes > slot->bytes - offset) {
    const MappedBuffer* nearest = memory.Nearest(address);
    if (nearest == nullptr || address < 65536) {
      return Refuse(w, inst, Fault::Kind::kOutOfBounds, lane, "",
                    static_cast<std::int64_t>(address),
                    fmt::format("{} address 0x{:x}, where nothing is mapped{}", Verb(kind), address,
                                address < 65536 ? " (a null pointer)" : ""));
    }
    const auto at = static_cast<std::int64_t>(address - nearest->start);
    return Refuse(w, inst, Fault::Kind::kOutOfBounds, lane, nearest->name, at,
                  fmt::format("{} {} bytes at byte {} of buffer {}, which has {}", Verb(kind),
                              kind.bytes, at, nearest->name, nearest->bytes));
  }
  MappedBuffer& buffer = *slot->buffer;
  const bool writes = kind.store || kind.atomic;
  if (writes && !buffer.writable) {
    return Refuse(w, inst, Fault::Kind::kWriteToInput, lane, buffer.name,
                  static_cast<std::int64_t>(offset),
                  fmt::format("{} byte {} of buffer {}, which is read-only", Verb(kind), offset,
                              buffer.name));
  }
  if (buffer.written != nullptr) {
    if ((!kind.store || kind.atomic) && w.launch->options->detect_uninitialised) {
      if (const std::int64_t at = FirstUnwritten(buffer, offset, kind.bytes); at >= 0) {
        return Refuse(w, inst, Fault::Kind::kUninitialised, lane, buffer.name, at,
                      fmt::format("{} byte {} of buffer {}, which nobody wrote", Verb(kind), at,
                                  buffer.name));
      }
    }
    if (writes) MarkWritten(buffer, offset, kind.bytes);
  }
  return buffer.host + (buffer.period != 0 ? offset % buffer.period : offset);
}

}  // namespace

std::byte* ResolveLane(Warp& w, const Inst* inst, const AccessKind& kind, std::uint64_t address,
                       int lane, const std::byte* value) {
  if ((address & (std::bit_ceil(kind.bytes) - 1)) != 0) {
    const MappedBuffer* nearest =
        address >> kSlotBits != 0 ? w.launch->memory->Nearest(address) : nullptr;
    const std::string name = nearest != nullptr ? nearest->name : "";
    const auto at = static_cast<std::int64_t>(nearest != nullptr ? address - nearest->start
                                                                 : address % kWindowBytes);
    return Refuse(
        w, inst, Fault::Kind::kMisaligned, lane, name, at,
        fmt::format("{} {} bytes at byte {}{}{}, which is not a multiple of {}", Verb(kind),
                    kind.bytes, at, name.empty() ? "" : " of buffer ", name, kind.bytes));
  }
  if (kind.space == Space::kShared) {
    return Shared(w, inst, kind, address - kSharedWindow, lane, value);
  }
  if (kind.space == Space::kLocal) return Local(w, inst, kind, address - kLocalWindow, lane);
  if (address >> kSlotBits != 0 || address < kSharedWindow ||
      address >= kParamWindow + kWindowBytes) {
    return Global(w, inst, kind, address, lane);
  }
  if (address < kLocalWindow) return Shared(w, inst, kind, address - kSharedWindow, lane, value);
  if (address < kParamWindow) return Local(w, inst, kind, address - kLocalWindow, lane);
  const std::uint64_t offset = address - kParamWindow;
  const std::vector<std::byte>& params = w.launch->params;
  if (kind.store || kind.atomic || offset > params.size() || kind.bytes > params.size() - offset) {
    return Refuse(w, inst, Fault::Kind::kOutOfBounds, lane, "parameters",
                  static_cast<std::int64_t>(offset),
                  fmt::format("{} byte {} of the parameters, which have {}", Verb(kind), offset,
                              params.size()));
  }
  return w.launch->params.data() + offset;
}

void CountAccess(Warp& w, const AccessKind& kind, const std::uint64_t* address,
                 std::uint32_t mask) {
  MemoryCounter* counter = w.block->memory_counter;
  if (counter == nullptr) return;
  std::uint32_t global = 0, shared = 0;
  ForEachLane(mask, [&](int lane) {
    const std::uint64_t a = address[lane];
    if (kind.space == Space::kShared || a / kWindowBytes == kSharedWindow / kWindowBytes) {
      shared |= 1u << lane;
    } else if (a >> kSlotBits != 0) {
      global |= 1u << lane;
    }
  });
  if (global != 0) {
    if (!kind.store || kind.atomic) counter->Global(address, global, kind.bytes, false);
    if (kind.store || kind.atomic) counter->Global(address, global, kind.bytes, true);
  }
  if (shared != 0) counter->Shared(address, shared, kind.bytes);
}

}  // namespace grove::emulator
