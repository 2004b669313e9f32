#include "base/hash.h"

#include <cstdio>

#include <xxhash.h>

namespace grove {

std::string Hash::Hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Hash HashBytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

Hash HashText(std::string_view text) {
  return HashBytes(std::as_bytes(std::span(text.data(), text.size())));
}

Hash HashTexts(std::span<const std::string_view> texts) {
  std::string joined;
  for (const std::string_view text : texts) {
    joined += std::to_string(text.size());
    joined += ':';
    joined += text;
  }
  return HashText(joined);
}

}  // namespace grove
