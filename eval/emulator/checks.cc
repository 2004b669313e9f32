#include "eval/emulator/checks.h"

#include <algorithm>

namespace grove::emulator {

RaceChecker::RaceChecker(std::uint32_t shared_bytes, int warps, std::uint32_t granule)
    : granule_(granule), warps_(warps), cells_(shared_bytes / granule + 1) {
  Reset();
}

void RaceChecker::Reset() {
  std::fill(cells_.begin(), cells_.end(), Cell{});
  readers_.clear();
  const auto n = static_cast<std::size_t>(warps_);
  clocks_.assign(n * n, 0);
  for (int w = 0; w < warps_; ++w) Clock(w, w) = 1;
  meetings_.assign(n, Meetings{});
  for (auto& clock : arrived_) clock.clear();
  published_.clear();
}

std::vector<std::uint32_t> RaceChecker::ClockOf(int warp) const {
  const auto begin = clocks_.begin() + static_cast<std::ptrdiff_t>(warp) * warps_;
  return {begin, begin + warps_};
}

void RaceChecker::Join(int warp, const std::vector<std::uint32_t>& clock) {
  for (int v = 0; v < warps_; ++v) {
    std::uint32_t& mine = Clock(warp, v);
    if (v != warp) mine = std::max(mine, clock[static_cast<std::size_t>(v)]);
  }
}

void RaceChecker::Arrive(const Warp& w, int id) {
  std::vector<std::uint32_t>& clock = arrived_[static_cast<std::size_t>(id)];
  const std::vector<std::uint32_t> mine = ClockOf(w.index);
  if (clock.empty()) clock.resize(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) clock[i] = std::max(clock[i], mine[i]);
  ++Clock(w.index, w.index);
}

void RaceChecker::Release(int id, int warp, std::uint32_t lanes, std::uint32_t live) {
  Join(warp, arrived_[static_cast<std::size_t>(id)]);
  Meetings& m = meetings_[static_cast<std::size_t>(warp)];
  std::uint32_t& epoch = Clock(warp, warp);
  if ((live & ~lanes) == 0) {
    m.all = epoch;
  } else {
    if (m.pair.empty()) m.pair.resize(kLanes * kLanes);
    ForEachLane(lanes, [&](int a) {
      ForEachLane(lanes, [&](int b) { m.pair[static_cast<std::size_t>(a * kLanes + b)] = epoch; });
    });
  }
  ++epoch;
}

void RaceChecker::SyncWarp(const Warp& w, std::uint32_t mask) {
  Meetings& m = meetings_[static_cast<std::size_t>(w.index)];
  std::uint32_t& epoch = Clock(w.index, w.index);
  if ((w.live & ~mask) == 0) {
    m.all = epoch;
  } else {
    if (m.pair.empty()) m.pair.resize(kLanes * kLanes);
    ForEachLane(mask, [&](int a) {
      ForEachLane(mask, [&](int b) { m.pair[static_cast<std::size_t>(a * kLanes + b)] = epoch; });
    });
  }
  ++epoch;
}

bool RaceChecker::Ordered(const Stamp& before, int warp, int lane) const {
  if (before.epoch == 0) return true;
  if (before.warp != warp) return Clock(warp, before.warp) >= before.epoch;
  if (before.lanes == 1u << lane) return true;
  const Meetings& m = meetings_[static_cast<std::size_t>(warp)];
  if (m.all >= before.epoch) return true;
  bool ordered = true;
  ForEachLane(before.lanes, [&](int other) {
    if (other == lane) return;
    ordered = ordered && !m.pair.empty() &&
              m.pair[static_cast<std::size_t>(other * kLanes + lane)] >= before.epoch;
  });
  return ordered;
}

// Adds a reader. Readers that are ordered before this one need not be remembered.
void RaceChecker::Note(Stamp& stamp, int warp, int lane, bool strong) const {
  if (stamp.epoch == 0 || Ordered(stamp, warp, lane)) {
    stamp = {Clock(warp, warp), 1u << lane, instruction_, static_cast<std::uint16_t>(warp), strong};
  } else {
    stamp.lanes |= 1u << lane;
    stamp.strong = stamp.strong && strong;
  }
}

void RaceChecker::Acquire(int warp, std::uint32_t cell) {
  if (const auto found = published_.find(cell); found != published_.end()) {
    Join(warp, found->second);
  }
}

void RaceChecker::Publish(int warp, std::uint32_t cell) {
  std::vector<std::uint32_t>& clock = published_[cell];
  const std::vector<std::uint32_t> mine = ClockOf(warp);
  if (clock.empty()) clock.resize(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) clock[i] = std::max(clock[i], mine[i]);
  ++Clock(warp, warp);
}

bool RaceChecker::Read(const Warp& w, int lane, std::uint32_t offset, std::uint32_t bytes,
                       bool strong, Conflict& conflict) {
  const int warp = w.index;
  for (std::uint32_t c = offset / granule_; c <= (offset + bytes - 1) / granule_; ++c) {
    Cell& cell = cells_[c];
    if (strong) Acquire(warp, c);
    if (!(strong && cell.write.strong) && !Ordered(cell.write, warp, lane)) {
      conflict = {true, cell.write.warp, std::countr_zero(cell.write.lanes)};
      return true;
    }
    if (cell.read.epoch == 0 || cell.read.warp == warp || Ordered(cell.read, warp, lane)) {
      Note(cell.read, warp, lane, strong);
      continue;
    }
    if (cell.others == 0) {
      readers_.emplace_back();
      cell.others = static_cast<std::uint32_t>(readers_.size());
    }
    std::vector<Stamp>& others = readers_[cell.others - 1];
    auto mine =
        std::find_if(others.begin(), others.end(), [&](const Stamp& s) { return s.warp == warp; });
    if (mine == others.end()) mine = others.insert(others.end(), Stamp{});
    Note(*mine, warp, lane, strong);
  }
  return false;
}

bool RaceChecker::Write(const Warp& w, int lane, std::uint32_t offset, std::uint32_t bytes,
                        bool strong, bool same_value, Conflict& conflict) {
  const int warp = w.index;
  for (std::uint32_t c = offset / granule_; c <= (offset + bytes - 1) / granule_; ++c) {
    Cell& cell = cells_[c];
    if (!same_value && !(strong && cell.write.strong) && !Ordered(cell.write, warp, lane)) {
      conflict = {true, cell.write.warp, std::countr_zero(cell.write.lanes)};
      return true;
    }
    const auto clashes = [&](const Stamp& read) {
      if ((strong && read.strong) || Ordered(read, warp, lane)) return false;
      // All lanes of an instruction read before any of them writes.
      if (read.warp == warp && read.instruction == instruction_) return false;
      const std::uint32_t others = read.warp == warp ? read.lanes & ~(1u << lane) : read.lanes;
      conflict = {false, read.warp, std::countr_zero(others)};
      return true;
    };
    if (!same_value) {
      if (clashes(cell.read)) return true;
      if (cell.others != 0) {
        for (const Stamp& read : readers_[cell.others - 1]) {
          if (clashes(read)) return true;
        }
      }
    }
    if (same_value && !Ordered(cell.write, warp, lane)) continue;
    if (strong) Publish(warp, c);
    cell.write = {Clock(warp, warp) - (strong ? 1u : 0u), 1u << lane, instruction_,
                  static_cast<std::uint16_t>(warp), strong};
    cell.read = Stamp{};
    if (cell.others != 0) readers_[cell.others - 1].clear();
  }
  return false;
}

// --- counting ---

void MemoryCounter::Mark(std::uint64_t sector, bool store) {
  const std::uint64_t page = sector * 32 / kPage;
  const std::size_t s = store ? 1 : 0;
  if (page != last_page_[s]) {
    last_[s] = &pages_[s][page];
    last_page_[s] = page;
  }
  const std::uint64_t bit = sector % (kPage / 32), mask = std::uint64_t{1} << (bit % 64);
  Page& p = *last_[s];
  p.all[bit / 64] |= mask;
  if (store) return;
  if (p.number != block_) {
    p.number = block_;
    p.block = {};
  }
  block_sectors += (p.block[bit / 64] & mask) == 0 ? 1 : 0;
  p.block[bit / 64] |= mask;
}

void MemoryCounter::Global(const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes,
                           bool store) {
  std::array<std::uint64_t, 2 * kLanes> sectors;
  std::size_t n = 0;
  ForEachLane(mask, [&](int lane) {
    const std::uint64_t first = address[lane] / 32, last = (address[lane] + bytes - 1) / 32;
    if (n == 0 || sectors[n - 1] != first) sectors[n++] = first;
    if (last != first) sectors[n++] = last;
  });
  const auto end = sectors.begin() + static_cast<std::ptrdiff_t>(n);
  std::sort(sectors.begin(), end);
  const auto unique = std::unique(sectors.begin(), end);
  (store ? store_sectors : load_sectors) += unique - sectors.begin();
  for (auto s = sectors.begin(); s != unique; ++s) Mark(*s, store);
}

// 32 banks of 4 bytes. Accesses of 8 bytes go in two halves of the warp, of 16 in four quarters;
// lanes that read the same word share it.
void MemoryCounter::Shared(const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes) {
  const int parts = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4;
  const int lanes = kLanes / parts;
  for (int part = 0; part < parts; ++part) {
    std::array<std::uint64_t, kLanes * 8> words;
    std::size_t n = 0;
    for (int lane = part * lanes; lane < (part + 1) * lanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const std::uint64_t first = address[lane] / 4, last = (address[lane] + bytes - 1) / 4;
      for (std::uint64_t word = first; word <= last && n < words.size(); ++word) words[n++] = word;
    }
    if (n == 0) continue;
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(n);
    std::sort(words.begin(), end);
    const auto unique = std::unique(words.begin(), end);
    std::array<int, 32> banks{};
    int most = 0;
    for (auto word = words.begin(); word != unique; ++word) {
      most = std::max(most, ++banks[*word % 32]);
    }
    wavefronts += most;
  }
}

void MemoryCounter::Merge(const MemoryCounter& other) {
  load_sectors += other.load_sectors;
  store_sectors += other.store_sectors;
  wavefronts += other.wavefronts;
  block_sectors += other.block_sectors;
  for (std::size_t s = 0; s < 2; ++s) {
    for (const auto& [number, page] : other.pages_[s]) {
      Bits& mine = pages_[s][number].all;
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] |= page.all[i];
    }
  }
}

std::int64_t MemoryCounter::UniqueBytes(bool store) const {
  std::int64_t sectors = 0;
  for (const auto& [number, page] : pages_[store ? 1 : 0]) {
    for (const std::uint64_t word : page.all) sectors += std::popcount(word);
  }
  return sectors * 32;
}

}  // namespace grove::emulator
