// Plain little-endian bytes for messages between our own processes and for our own files: numbers
// of fixed width and texts with a 64-bit length in front. Chosen over JSON (binary payloads such as
// cubins would be escaped) and over protocol buffers (a code generator for a dozen fields). There
// are no field names or tags: both ends agree on the order, and a version stands in front of the
// whole (the frame header of base/framing.h, or a file's own header).
//
// A reader never trusts the bytes: after the first value that does not fit, `ok()` is false for
// good and every later read gives 0 or an empty text, so a decoder may read all fields and check
// once. Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace grove {

class WireWriter {
 public:
  void U32(std::uint32_t value);
  void U64(std::uint64_t value);
  void I64(std::int64_t value) { U64(static_cast<std::uint64_t>(value)); }
  void F64(double value);
  void Text(std::string_view value);  // length in bytes, then the bytes; any byte may occur
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  // The bytes must outlive the reader; texts are copied out.
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::uint32_t U32();
  std::uint64_t U64();
  std::int64_t I64() { return static_cast<std::int64_t>(U64()); }
  double F64();
  std::string Text();
  // The number of elements that follow, each of at least `least_bytes` (>= 1): a count that cannot
  // fit in what is left fails here instead of asking for the memory.
  std::size_t Count(std::size_t least_bytes);

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace grove
