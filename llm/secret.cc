#include "llm/secret.h"

#include <algorithm>

namespace grove::llm {

std::string Secret::Mask(std::string text) const {
  if (value_.empty()) return text;
  std::string masked;
  std::size_t from = 0;
  for (std::size_t at = text.find(value_); at != std::string::npos; at = text.find(value_, from)) {
    masked.append(text, from, at - from);
    masked += "***";
    from = at + value_.size();
  }
  if (from == 0) return text;
  masked.append(text, from);
  return masked;
}

bool Secret::FitsHeader() const {
  return std::all_of(value_.begin(), value_.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace grove::llm
