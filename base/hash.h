// Content addresses: 128-bit XXH3, written as 32 lower-case hex digits. Not cryptographic: it names
// content we made or stored ourselves, it does not authenticate anything.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace grove {

struct Hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Hash&, const Hash&) = default;
  std::string Hex() const;  // 32 digits
};

Hash HashBytes(std::span<const std::byte> bytes);
Hash HashText(std::string_view text);
// Hash of a list of texts; the boundaries count ("ab","c" differs from "a","bc").
Hash HashTexts(std::span<const std::string_view> texts);

}  // namespace grove
