// The header of a safetensors file, and a whole file. What is accepted must lie inside the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "seeds/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::int64_t after = std::int64_t{data[0]} * 64;  // bytes of data behind the header
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto end = static_cast<std::int64_t>(json.size()) + 8;
  const auto header = grove::seeds::ParseSafetensorsHeader(json, end, end + after);
  if (!header) return 0;
  for (const auto& tensor : header->tensors) {
    if (tensor.offset < end || tensor.bytes < 0 || tensor.offset + tensor.bytes > end + after) {
      std::abort();
    }
    if (header->Find(tensor.name) == nullptr) std::abort();
  }
  return 0;
}
