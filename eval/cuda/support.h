// Our own device code (kernels/support.cu) as calls: drawing inputs, poison, guards, hashes,
// comparison with the reference, and the pieces of the timer. All calls enqueue on a stream and
// return; results appear in the caller's result slots once the stream has caught up.
// Immutable after Load; shared by all lanes of a worker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/compiler.h"
#include "eval/check.h"
#include "eval/cuda/driver.h"
#include "seeds/task.h"

namespace grove::cuda {

// The source of kernels/support.cu, and how it is to be compiled for a device.
codegen::CompileRequest SupportRequest(const DeviceFacts& facts);

// What the guards around buffers hold: a NaN of an unusual payload in f64, f32, f16 and bf16.
inline constexpr std::uint64_t kGuardPattern = 0x7ffde37d7fede37dULL;
// The poisons of eval/inputs.h as eight bytes, repeated to fill them.
std::uint64_t PoisonPattern(DType dtype, int which);

// The result of a scan. Slots start zeroed, so indices are stored inverted: 0 = nothing found.
struct ScanResult {
  std::uint64_t count = 0;           // elements (or bytes) found
  std::uint64_t first_inverted = 0;  // ~smallest index
  std::uint64_t hash_a = 0;          // order-independent sums of two mixes of (index, word)
  std::uint64_t hash_b = 0;
  std::int64_t first() const { return static_cast<std::int64_t>(~first_inverted); }
};

// A clock reading.
struct Stamp {
  std::uint64_t nanoseconds = 0;  // %globaltimer
  std::uint64_t cycles = 0;       // clock64 of multiprocessor `sm`
  std::uint64_t sm = 0;
  std::uint64_t timed_out = 0;  // the blocking kernel gave up
};

// How rows are cut into segments, by value to the comparison kernels.
struct CompareShape {
  std::int64_t elements = 0;
  std::int64_t row = 0;  // elements of a row
  std::int64_t rows = 0;
  std::int64_t segment = 0;  // elements of a segment
  std::int64_t per_row = 0;  // segments of a row
  double overflow = 0;
  double tiny = 0;
  int dtype = 0;
  int threads = 32;  // that share one segment
};
CompareShape ShapeOf(const seeds::Tensor& output, std::int64_t row_elements);

struct CompareResult {
  double worst_row_l2 = 0;
  std::int64_t worst_row = 0;
  double scaled_max = 0;
  std::int64_t worst_element = 0;
  double expected = 0, got = 0;
  double mismatches = 0;
  std::int64_t first_mismatch = 0, first_mismatch_row = 0;
  // A square may have left the range of a double: compare on the host instead (eval::Compare).
  std::uint64_t extreme = 0;
};

// Scratch memory of one comparison, in bytes, and what lies where in it.
struct CompareScratch {
  std::int64_t sums = 0, worst = 0, scales = 0, errors = 0, mismatches = 0, medians = 0;
  std::int64_t bytes = 0;
  std::int64_t median_stride = 1, median_count = 0;
};
CompareScratch ScratchOf(const CompareShape& shape);

class SupportCode {
 public:
  static CuExpected<SupportCode> Load(const Context& context, std::string_view cubin,
                                      const DeviceFacts& facts);

  // Draws tensor `index` of a case as eval/inputs.h defines it.
  CuStatus Generate(CuStream stream, const seeds::Tensor& tensor, std::size_t index,
                    std::uint64_t seed, CuDevicePtr data) const;
  // The byte at address p gets byte p % 8 of the pattern.
  CuStatus Fill(CuStream stream, CuDevicePtr data, std::int64_t bytes, std::uint64_t pattern) const;
  // Counts elements of `element_bytes` equal to the pattern. With a `mask` (one byte per element,
  // 0 = none) the first pass records which; a later pass counts only those recorded.
  CuStatus CountPattern(CuStream stream, CuDevicePtr data, std::int64_t elements, int element_bytes,
                        std::uint64_t pattern, CuDevicePtr mask, bool first_pass,
                        CuDevicePtr result) const;
  // Counts bytes in [begin, end) that do not hold the pattern as Fill wrote it.
  CuStatus CheckGuard(CuStream stream, CuDevicePtr begin, CuDevicePtr end, std::uint64_t pattern,
                      CuDevicePtr result) const;
  CuStatus Hash(CuStream stream, CuDevicePtr data, std::int64_t bytes, CuDevicePtr result) const;
  // Counts bytes that differ between two buffers, both aligned to 16 bytes.
  CuStatus Differ(CuStream stream, CuDevicePtr a, CuDevicePtr b, std::int64_t bytes,
                  CuDevicePtr result) const;
  // The whole of eval::Compare but for the median, whose rows are gathered at scratch.medians.
  CuStatus Compare(CuStream stream, CuDevicePtr got, CuDevicePtr reference,
                   const CompareShape& shape, const CompareScratch& scratch, CuDevicePtr memory,
                   CuDevicePtr result) const;
  // Fills batch * n eval::QrColumn from `a`, `h` and `tau`; `transposed` is scratch of h's size.
  CuStatus QrColumns(CuStream stream, CuDevicePtr a, CuDevicePtr h, CuDevicePtr tau,
                     std::int64_t batch, std::int64_t n, CuDevicePtr transposed,
                     CuDevicePtr columns) const;
  // Waits until *flag (mapped host memory) has reached token, or sets timed_out in `stamp`.
  CuStatus Block(CuStream stream, CuDevicePtr flag, std::uint32_t token, std::uint64_t timeout_ns,
                 CuDevicePtr stamp) const;
  CuStatus TakeStamp(CuStream stream, CuDevicePtr stamp) const;
  CuStatus Empty(CuStream stream) const;

 private:
  CuStatus Launch(CuStream stream, CuFunction function, unsigned grid, unsigned block,
                  void** params, std::string_view name) const;
  unsigned GridFor(std::int64_t items, unsigned block) const;

  const Driver* driver_ = nullptr;
  Module module_;
  unsigned sm_count_ = 1;
  CuFunction generate_ = nullptr, fill_ = nullptr, count_ = nullptr, guard_ = nullptr,
             hash_ = nullptr, differ_ = nullptr, sums_ = nullptr, rows_ = nullptr, worst_ = nullptr,
             report_ = nullptr, gather_ = nullptr, block_ = nullptr, stamp_ = nullptr,
             empty_ = nullptr, transpose_ = nullptr, qr_columns_ = nullptr;
};

}  // namespace grove::cuda
