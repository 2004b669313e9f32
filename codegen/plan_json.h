// A JSON document as plain values, read with limits that hostile text cannot exceed. Internal to
// codegen/ (the plan and reply parsers); keeps the JSON library out of headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::codegen {

struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;  // also set for integers, and for those beyond 64 bits (kind kReal)
  std::string string;
  std::vector<JsonValue> items;   // array; object: the members' values, in the order written
  std::vector<std::string> keys;  // object: the members' names

  // The member of that name, or nullptr.
  const JsonValue* Find(std::string_view name) const;
  // "the string 'abc'", "an object": for messages.
  std::string Describe() const;
};

inline constexpr std::size_t kMaxPlanBytes = std::size_t{1} << 20;

// Strict JSON (RFC 8259), at most 1 MiB and 32 levels deep. kInvalidInput with line and column on a
// syntax error, a key written twice in one object, a number beyond a double, or invalid UTF-8.
Result<JsonValue> ReadJson(std::string_view text);

}  // namespace grove::codegen
