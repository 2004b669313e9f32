#include "base/wire.h"

#include <bit>

namespace grove {
namespace {

template <typename T>
void Append(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

template <typename T>
T Read(std::string_view& rest, bool& ok) {
  if (!ok || rest.size() < sizeof(T)) {
    ok = false;
    return 0;
  }
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  rest.remove_prefix(sizeof(T));
  return value;
}

}  // namespace

void WireWriter::U32(std::uint32_t value) { Append(bytes_, value); }
void WireWriter::U64(std::uint64_t value) { Append(bytes_, value); }
void WireWriter::F64(double value) { U64(std::bit_cast<std::uint64_t>(value)); }
void WireWriter::Text(std::string_view value) {
  U64(value.size());
  bytes_ += value;
}

std::uint32_t WireReader::U32() { return Read<std::uint32_t>(rest_, ok_); }
std::uint64_t WireReader::U64() { return Read<std::uint64_t>(rest_, ok_); }
double WireReader::F64() { return std::bit_cast<double>(U64()); }

std::string WireReader::Text() {
  const std::uint64_t size = U64();
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

std::size_t WireReader::Count(std::size_t least_bytes) {
  const std::uint64_t count = U64();
  if (!ok_ || count > rest_.size() / least_bytes) {
    ok_ = false;
    return 0;
  }
  return count;
}

}  // namespace grove
