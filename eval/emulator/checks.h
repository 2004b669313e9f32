// What watches a block while it runs: races on shared memory, reads of bytes nobody wrote, and the
// counting of memory traffic. Used by the thread that runs the block.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "eval/emulator/machine.h"

namespace grove::emulator {

// Happens-before on the shared memory of one block. Every thread is a lane of a warp. Between warps
// order comes from barriers and from strong accesses (atomics, volatile, acquire and release: each
// such access to a byte is taken to see all earlier ones). Within a warp, lanes are ordered by one
// instruction after another only through __syncwarp, shfl.sync and the other warp-wide operations;
// two lanes of one instruction conflict when they store different values to one byte.
class RaceChecker {
 public:
  // `granule`: bytes that are told apart (1, 2 or 4): the kernel's smallest shared access.
  RaceChecker(std::uint32_t shared_bytes, int warps, std::uint32_t granule);

  // Forgets everything: a new block.
  void Reset();
  // The active lanes reach barrier `id`.
  void Arrive(const Warp& warp, int id);
  // The barrier lets lanes of a warp go on (called for each waiting group), then is free again.
  void Release(int id, int warp, std::uint32_t lanes, std::uint32_t live);
  void EndRelease(int id) { arrived_[static_cast<std::size_t>(id)].clear(); }
  // Lanes of `mask` of a warp meet.
  void SyncWarp(const Warp& warp, std::uint32_t mask);

  struct Conflict {
    bool write = false;  // the earlier access
    int warp = 0, lane = 0;
  };
  // An access to [offset, offset + bytes) by a lane. `same_value`: a store that changes nothing,
  // which does not conflict with stores.
  // True and `conflict` filled when it races with an earlier one.
  bool Read(const Warp& warp, int lane, std::uint32_t offset, std::uint32_t bytes, bool strong,
            Conflict& conflict);
  bool Write(const Warp& warp, int lane, std::uint32_t offset, std::uint32_t bytes, bool strong,
             bool same_value, Conflict& conflict);
  // Between instructions, so that lanes of one instruction are told from lanes of two.
  void NextInstruction() { ++instruction_; }

 private:
  struct Stamp {
    std::uint32_t epoch = 0;  // of the warp's clock; 0: never
    std::uint32_t lanes = 0;
    std::uint32_t instruction = 0;
    std::uint16_t warp = 0;
    bool strong = false;
  };
  struct Cell {
    Stamp write;
    Stamp read;
    std::uint32_t others = 0;  // index + 1 into readers_: stamps of more warps that read
  };
  bool Ordered(const Stamp& before, int warp, int lane) const;
  void Note(Stamp& stamp, int warp, int lane, bool strong) const;
  void Acquire(int warp, std::uint32_t cell);
  void Publish(int warp, std::uint32_t cell);
  std::uint32_t& Clock(int warp, int of) {
    return clocks_[static_cast<std::size_t>(warp * warps_ + of)];
  }
  std::uint32_t Clock(int warp, int of) const {
    return clocks_[static_cast<std::size_t>(warp * warps_ + of)];
  }
  void Join(int warp, const std::vector<std::uint32_t>& clock);
  std::vector<std::uint32_t> ClockOf(int warp) const;

  std::uint32_t granule_;
  int warps_ = 0;
  std::uint32_t instruction_ = 1;
  std::vector<Cell> cells_;
  std::vector<std::vector<Stamp>> readers_;
  std::vector<std::uint32_t> clocks_;  // [warp][warp]
  struct Meetings {
    std::uint32_t all = 0;            // epoch of the last meeting of all live lanes
    std::vector<std::uint32_t> pair;  // [lane][lane]: of the last meeting of both; empty: none
  };
  std::vector<Meetings> meetings_;                             // by warp
  std::array<std::vector<std::uint32_t>, kBarriers> arrived_;  // clocks of those who arrived
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> published_;  // by cell
};

// 32-byte sectors of global memory and bank conflicts of shared memory, of the blocks of one
// worker.
class MemoryCounter {
 public:
  std::int64_t load_sectors = 0, store_sectors = 0, wavefronts = 0;
  // The addresses of the lanes in `mask`, `bytes` each.
  void Global(const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes, bool store);
  void Shared(const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes);
  // Distinct sectors that each block loaded, summed over the blocks. A new block begins at
  // NextBlock.
  std::int64_t block_sectors = 0;
  void NextBlock() { ++block_; }
  // Adds what `other` saw.
  void Merge(const MemoryCounter& other);
  std::int64_t UniqueBytes(bool store) const;

 private:
  static constexpr std::uint64_t kPage = std::uint64_t{1} << 18;  // bytes: 8192 sectors
  using Bits = std::array<std::uint64_t, kPage / 32 / 64>;
  struct Page {
    Bits all{};    // of every block
    Bits block{};  // of the block numbered below
    std::int64_t number = 0;
  };
  void Mark(std::uint64_t sector, bool store);
  std::unordered_map<std::uint64_t, Page> pages_[2];
  std::uint64_t last_page_[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
  Page* last_[2] = {nullptr, nullptr};
  std::int64_t block_ = 1;
};

}  // namespace grove::emulator
