// A key that cannot be printed by accident: streams and fmt show ***, and Mask() takes it out of
// any text that an endpoint may have echoed it into. Thread-safety: a plain value.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace grove::llm {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  bool empty() const { return value_.empty(); }
  // The value itself: for the header of the request that it opens, and for nothing else.
  const std::string& Reveal() const { return value_; }
  // `text` with *** for every occurrence of the value.
  std::string Mask(std::string text) const;
  // Whether it can stand in an HTTP header: printable ASCII without blanks.
  bool FitsHeader() const;

  friend std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

 private:
  std::string value_;
};

}  // namespace grove::llm

template <>
struct fmt::formatter<grove::llm::Secret> : fmt::formatter<fmt::string_view> {
  template <typename Context>
  auto format(const grove::llm::Secret&, Context& context) const {
    return fmt::formatter<fmt::string_view>::format("***", context);
  }
};
