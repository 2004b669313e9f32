// Any text either parses or gives a message with a column; evaluation never misbehaves.
#include <cstdint>
#include <cstdlib>

#include "base/expr.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const grove::Result<grove::Expr> expression = grove::Expr::Parse(text);
  if (!expression) {
    if (!expression.error().message.starts_with("column ")) std::abort();
    return 0;
  }
  const auto lookup = [](std::string_view name) -> std::optional<std::int64_t> {
    if (name.size() > 1) return std::nullopt;
    return name[0] == 'L' ? INT64_MIN : static_cast<std::int64_t>(name[0]);
  };
  (void)expression->Evaluate(lookup);
  (void)expression->Names();
  return 0;
}
