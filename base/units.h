// Strong types for ids and units, so that a number never travels without its meaning.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>

namespace grove {

// A row id of one kind; 0 means "none". Ids of different kinds do not mix.
template <typename Tag>
struct Id {
  std::int64_t value = 0;
  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(v) {}
  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RoundId = Id<struct RoundTag>;
using IdeaId = Id<struct IdeaTag>;
using CandidateId = Id<struct CandidateTag>;
using CallId = Id<struct CallTag>;

// A size or traffic in bytes.
struct Bytes {
  std::int64_t value = 0;
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t v) : value(v) {}
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.value + b.value); }
};

// Model tokens.
struct Tokens {
  std::int64_t value = 0;
  constexpr Tokens() = default;
  constexpr explicit Tokens(std::int64_t v) : value(v) {}
  friend constexpr auto operator<=>(Tokens, Tokens) = default;
  friend constexpr Tokens operator+(Tokens a, Tokens b) { return Tokens(a.value + b.value); }
};

// Kernel times are fractional (a cold softmax is 524.3 us), so the tick is a double.
using Nanoseconds = std::chrono::duration<double, std::nano>;
using Microseconds = std::chrono::duration<double, std::micro>;
using Milliseconds = std::chrono::duration<double, std::milli>;
using Seconds = std::chrono::duration<double>;

}  // namespace grove

template <typename Tag>
struct std::hash<grove::Id<Tag>> {
  std::size_t operator()(grove::Id<Tag> id) const noexcept {
    return std::hash<std::int64_t>{}(id.value);
  }
};
