// The machine that decoded PTX runs on: instructions, programs, warps and blocks.
//
// A warp's registers live in a frame of bytes. A register of up to 32 bits takes 128 bytes (a u32
// per lane, 8- and 16-bit values zero-extended), one of 64 bits takes 256, a predicate takes 4 (one
// bit per lane). An instruction names them by their byte offset in the frame. Immediate operands
// are registers that hold their value in every lane from the start. Everything here is used by one
// thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "eval/emulator/emulator.h"
#include "eval/emulator/memory.h"
#include "eval/emulator/ptx.h"

namespace grove::emulator {

constexpr int kLanes = 32;
constexpr std::uint32_t kFull = 0xffffffffu;

struct Warp;
struct Inst;
// Executes one instruction for the active lanes and answers the next one; null stops the warp, and
// Warp::stop says why.
using Handler = const Inst* (*)(Warp& warp, const Inst* inst);

struct Inst {
  Handler fn = nullptr;
  // Frame offsets or small constants, as the handler likes.
  std::uint32_t d = 0, a = 0, b = 0, c = 0;
  std::int64_t imm = 0;
  std::uint32_t x = 0;          // start in Program::extra of further operands
  std::uint32_t statement = 0;  // index into Program::sources
  const Inst* target = nullptr;
};

// What one warp-instruction counts as.
struct StaticCounts {
  Counters per_warp;  // the categories, once per issued warp instruction
  std::int64_t instructions = 0;
};

struct SourceLine {
  int line = 0;
  std::string text;
};

struct ParamSlot {
  std::uint32_t frame = 0;  // frame offset of its words ([word][lane])
  std::uint32_t bytes = 0;
};

struct FunctionCode {
  std::string name;
  bool entry = false;
  bool defined = false;
  std::uint32_t start = 0;        // index into Program::code
  std::uint32_t frame_bytes = 0;  // multiple of 256
  struct Constant {
    std::uint32_t offset;
    bool wide;
    std::uint64_t bits;
  };
  std::vector<Constant> constants;
  std::vector<std::byte> image;   // the frame as it starts: constants in place, zeros elsewhere
  std::uint32_t local_bytes = 0;  // per lane
  std::vector<ParamSlot> parameters, results;    // of .func
  std::vector<std::uint32_t> parameter_offsets;  // of .entry: in the parameter block
  std::vector<std::uint32_t> parameter_bytes;
  std::uint32_t parameter_block = 0;
  std::vector<std::uint32_t> shared_symbols;  // used here or in callees (entries only)
  std::int64_t max_threads = 0;
};

// A module-scope or function-scope variable that is not local: addressed through Warp::symbols.
struct Symbol {
  enum class Kind : std::uint8_t { kGlobal, kShared, kDynamicShared, kFunction };
  Kind kind = Kind::kGlobal;
  Variable variable;
  std::uint32_t function = 0;
};

struct Program {
  std::vector<Inst> code;
  std::vector<std::uint32_t> extra;
  std::vector<SourceLine> sources;
  std::vector<StaticCounts> blocks;  // by basic block
  std::vector<FunctionCode> functions;
  std::vector<Symbol> symbols;
  std::unordered_map<std::string, std::uint32_t> function_by_name;
  // Of matrix fragments: position by [register][element][lane], and the table by what it is for.
  std::vector<std::vector<std::uint16_t>> tables;
  std::map<std::array<int, 6>, std::uint32_t> table_index;
  std::uint32_t shared_granule = 4;  // the smallest access that may touch shared memory, at most 4
  std::shared_ptr<const int> identity = std::make_shared<const int>(0);
};

// Function pointers are this plus the function's index.
constexpr std::uint64_t kFunctionPointer = 0x0f00000000;

// The head of every frame.
struct FrameHead {
  std::array<std::uint32_t, kLanes> return_pc;     // code index
  std::array<std::uint32_t, kLanes> return_frame;  // arena offset
  std::array<std::uint32_t, kLanes> local_base;    // byte offset in the lane's local memory
};
constexpr std::uint32_t kFrameHead = 512;
static_assert(sizeof(FrameHead) <= kFrameHead);

enum class Stop : std::uint8_t { kNone, kReschedule, kFuel, kBarrier, kWarpSync, kExit, kFault };

// Lanes of a warp that go on together.
struct Group {
  enum class State : std::uint8_t { kRunnable, kBarrier, kWarpSync };
  State state = State::kRunnable;
  const Inst* pc = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t frame = 0;  // arena offset
  std::uint32_t depth = 0;  // of calls
  std::uint32_t need = 0;   // kWarpSync: the lanes that must come
  int barrier = 0;          // kBarrier
};

struct BlockCount {
  std::int64_t warps = 0;
  std::int64_t threads = 0;
};

struct Block;
struct Launch;
class RaceChecker;
class MemoryCounter;

struct Warp {
  std::byte* frame = nullptr;
  std::uint32_t mask = 0;       // active lanes
  std::uint32_t live = 0;       // lanes that have not exited
  const Inst* limit = nullptr;  // stop at a block that starts here or behind
  std::int64_t fuel = 0;        // instructions until the warp gives way
  std::int64_t granted = 0;     // of the present turn, used or not
  std::int64_t clock_base = 0;  // instructions issued so far, plus fuel
  BlockCount* counts = nullptr;
  bool slow_memory = false;  // checks or counters want to see every access
  std::uint32_t shared_bytes = 0;
  std::byte* shared = nullptr;
  const Slot* slots = nullptr;
  std::uint64_t slot_count = 0;
  const std::uint64_t* symbols = nullptr;
  Block* block = nullptr;
  Launch* launch = nullptr;
  const Program* program = nullptr;

  Stop stop = Stop::kNone;
  const Inst* resume = nullptr;
  std::uint32_t depth = 0;
  int index = 0;    // in the block
  int barrier = 0;  // kBarrier: which
  std::uint32_t need = 0;
  int group_count = 0;
  std::array<Group, kLanes> groups;  // the lanes that do not run now
  std::uint32_t rotate = 0;          // takes turns when a group spins

  std::vector<std::byte> arena;
  std::vector<std::byte> local;             // [lane][local_stride]
  std::vector<std::uint8_t> local_written;  // a byte per byte, when initialisation is checked
  std::uint32_t local_stride = 0;

  // Asynchronous copies of the lanes: issued, not yet waited for. They land when waited for.
  struct AsyncCopy {
    int lane = 0;
    std::uint32_t group = 0;  // of the lane
    std::uint32_t bytes = 0;
    std::uint64_t to = 0;  // offset in shared memory
    std::array<std::byte, 16> data{};
  };
  std::vector<AsyncCopy> copies;
  std::array<std::uint32_t, kLanes> copy_groups{};  // committed so far

  template <typename T>
  T* At(std::uint32_t offset) {
    return static_cast<T*>(static_cast<void*>(frame + offset));
  }
  std::uint32_t& Pred(std::uint32_t offset) { return *At<std::uint32_t>(offset); }
  FrameHead& head() { return *At<FrameHead>(0); }
  std::uint32_t frame_offset() const { return static_cast<std::uint32_t>(frame - arena.data()); }

  // Records the fault and stops. `lane` is the offending one, -1 for the lowest active.
  const Inst* Fail(const Inst* inst, Fault::Kind kind, std::string message, int lane = -1);
  // True when all of `members` that still live are active; otherwise the warp must stop with the
  // answer of WaitFor until they come.
  bool Together(std::uint32_t members) const { return (members & live & ~mask) == 0; }
  const Inst* WaitFor(const Inst* inst, std::uint32_t members) {
    stop = Stop::kWarpSync;
    resume = inst;
    need = members;
    return nullptr;
  }
};

constexpr int kBarriers = 16;

struct Barrier {
  std::int64_t arrived = 0;   // threads that wait or have arrived
  std::int64_t expected = 0;  // 0: all threads
  std::uint32_t popc = 0;
  bool all = true, any = false;
  bool used = false;
};

struct Block {
  Launch* launch = nullptr;
  std::array<std::uint32_t, 3> index{};
  std::int64_t flat = 0;
  std::vector<std::byte> shared;
  std::vector<std::uint8_t> shared_written;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, kBarriers> barriers;
  std::unique_ptr<RaceChecker> races;
  MemoryCounter* memory_counter = nullptr;
  std::optional<Fault> fault;
  std::int64_t slice = std::int64_t{1} << 14;  // warp instructions of one turn
  bool barrier_changed = false;                // a barrier or the set of live threads changed
};

// What all blocks of a launch share.
struct Launch {
  const Program* program = nullptr;
  const FunctionCode* kernel = nullptr;
  const LaunchConfig* config = nullptr;
  const LaunchOptions* options = nullptr;
  Access::Impl* memory = nullptr;
  std::array<std::uint32_t, 3> grid{}, block{};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::vector<std::byte> params;       // the parameter block
  std::vector<std::uint64_t> symbols;  // address by symbol index
  std::uint32_t shared_bytes = 0;      // static and dynamic
  std::uint32_t dynamic_shared = 0;
  std::int64_t threads = 0;             // per block
  std::uint64_t grid_workspace = 0;     // cooperative launches: for %envreg1 and 2
  std::atomic<std::int64_t> budget{0};  // thread-instructions left
};

// Predicate bits from 32 lane values that are 0 or all ones.
inline std::uint32_t MaskOf(const std::uint32_t* lanes);

}  // namespace grove::emulator

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace grove::emulator {

inline std::uint32_t MaskOf(const std::uint32_t* lanes) {
#if defined(__AVX2__)
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    const __m256 v =
        _mm256_load_ps(static_cast<const float*>(static_cast<const void*>(lanes + 8 * i)));
    bits |= static_cast<std::uint32_t>(_mm256_movemask_ps(v)) << (8 * i);
  }
  return bits;
#else
  std::uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= (lanes[i] >> 31) << i;
  return bits;
#endif
}

// Calls f(lane) for every set bit, lowest first.
template <typename F>
inline void ForEachLane(std::uint32_t mask, F&& f) {
  while (mask != 0) {
    f(std::countr_zero(mask));
    mask &= mask - 1;
  }
}

}  // namespace grove::emulator
