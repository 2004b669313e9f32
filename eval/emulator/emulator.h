// A warp-synchronous interpreter of the PTX that NVRTC emits. It needs no GPU and runs no native
// code from a model: every access is bounds-checked, every launch is bounded by an instruction
// budget. The public interface of the emulator; everything else in this folder is its inside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::emulator {

// A parsed PTX module. Immutable, shareable between threads.
class Module;

// kInvalidInput for text that is not PTX, with the line. Instructions that are not known are kept
// and become the fault kUnsupported when (and only when) a thread reaches them... unless they make
// the module unreadable.
Result<std::shared_ptr<const Module>> LoadModule(std::string_view ptx);

// Global memory as the kernels of one plan execution see it: named buffers at 256-byte-aligned
// device addresses with unmapped guard zones of at least 4 KB (and at least one large row) between.
// Not thread-safe for Map; launches may run concurrently on different AddressSpaces.
class AddressSpace {
 public:
  AddressSpace();
  ~AddressSpace();
  AddressSpace(AddressSpace&&) noexcept;
  AddressSpace& operator=(AddressSpace&&) noexcept;

  struct Buffer {
    std::string name;           // tensor or workspace name, for messages
    std::byte* host = nullptr;  // caller owns it, must outlive the space
    std::int64_t bytes = 0;
    bool writable = true;  // a store to a read-only buffer is a kWriteToInput fault
    // Bytes nobody wrote yet are tracked: a load of one is kUninitialised. Costs a bit per byte.
    bool track_uninitialised = false;
    // > 0: `host` holds only this many bytes (a power of two, multiple of 4096) and the buffer's
    // contents repeat with that period: device offset o lives at host[o % period]. For timing runs
    // of large cases, whose contents do not matter.
    std::int64_t period = 0;
  };
  // Returns the device address. Thread-compatible.
  std::uint64_t Map(const Buffer& buffer);
  // Half-open ranges of the bytes that kernels have written to the buffer at this address, in
  // order. REQUIRES: it was mapped with track_uninitialised.
  std::vector<std::pair<std::int64_t, std::int64_t>> Written(std::uint64_t address) const;
  // For what executes beside kernels (library steps), on a buffer by its device address: the first
  // byte of the range that nobody wrote yet, -1 when there is none or it is not tracked; and the
  // mark that the range is written. REQUIRES: the range lies in the buffer.
  std::int64_t FirstUnwritten(std::uint64_t address, std::int64_t offset, std::int64_t bytes) const;
  void MarkWritten(std::uint64_t address, std::int64_t offset, std::int64_t bytes);

 private:
  friend class Access;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct LaunchConfig {
  std::string kernel;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::array<std::int64_t, 3> block{1, 1, 1};
  std::int64_t shared_bytes = 0;  // dynamic
  std::optional<std::array<std::int64_t, 3>> cluster;
  bool cooperative = false;
  std::vector<std::vector<std::byte>> params;  // one entry per parameter, its bytes
  // Flattened block indices to execute (x fastest); empty = all. Not with cooperative launches.
  std::vector<std::int64_t> blocks;
};

struct LaunchOptions {
  std::int64_t instruction_budget = std::int64_t{1} << 36;  // thread-instructions of the launch
  bool count_memory = false;          // sectors, unique bytes, bank conflicts (costs time)
  bool detect_races = false;          // shared memory, per block
  bool detect_uninitialised = false;  // shared and local memory, and buffers that ask for it
  bool parallel = true;               // blocks over the calling oneTBB arena
  // The order in which blocks begin. A result that depends on it is not deterministic on a GPU.
  enum class Order { kNatural, kReversed, kScattered } order = Order::kNatural;
};

// What was executed. Thread counts count active lanes; warp counts count issued instructions.
struct Counters {
  std::int64_t blocks = 0;
  std::int64_t warp_instructions = 0;
  std::int64_t thread_instructions = 0;
  // warp-instructions by the unit that executes them
  std::int64_t fp32 = 0, fp64 = 0, fp16 = 0, integer = 0, special = 0, conversion = 0, control = 0;
  std::int64_t tensor = 0;      // mma/wmma instructions
  double tensor_flops_f16 = 0;  // FLOP done by 16-bit tensor instructions
  double tensor_flops_tf32 = 0;
  std::int64_t global_loads = 0, global_stores = 0, shared_loads = 0, shared_stores = 0,
               local_accesses = 0, atomics = 0, barriers = 0, shuffles = 0;
  // with count_memory
  std::int64_t global_load_sectors = 0;  // 32-byte sectors requested, per warp instruction
  std::int64_t global_store_sectors = 0;
  std::int64_t unique_load_bytes = 0;  // distinct 32-byte sectors over the sampled blocks, x 32
  std::int64_t unique_store_bytes = 0;
  std::int64_t block_load_bytes = 0;   // distinct sectors of each block, x 32, summed over blocks
  std::int64_t shared_wavefronts = 0;  // >= shared accesses; the surplus is bank conflicts
  Counters& operator+=(const Counters& other);
};

struct Fault {
  enum class Kind {
    kOutOfBounds,
    kWriteToInput,
    kMisaligned,
    kRace,
    kUninitialised,
    kBarrierDivergence,
    kTrap,
    kBudget,
    kUnsupported,
    kStackOverflow,
    kBadLaunch,
  };
  Kind kind = Kind::kBadLaunch;
  std::string message;      // whole sentence: what, which buffer and byte, which instruction
  std::string instruction;  // PTX text of the instruction
  int ptx_line = 0;
  std::array<std::int64_t, 3> block{0, 0, 0};
  std::array<std::int64_t, 3> thread{0, 0, 0};
  std::string buffer;       // nearest buffer, when an address is the matter
  std::int64_t offset = 0;  // byte offset from that buffer's start (may be negative)
};
std::string_view Name(Fault::Kind kind);

struct LaunchOutcome {
  Counters counters;
  std::optional<Fault> fault;  // the first by block order among those found
};

// Executes one launch to its end or first fault. Deterministic results for kernels without races:
// the fault reported does not depend on the number of threads.
LaunchOutcome Run(const Module& module, const LaunchConfig& config, AddressSpace& memory,
                  const LaunchOptions& options);

}  // namespace grove::emulator
