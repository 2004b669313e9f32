#include "llm/client.h"

#include <algorithm>
#include <cctype>

namespace grove::llm {

std::string_view Name(Role role) {
  switch (role) {
    case Role::kIdea:
      return "idea";
    case Role::kCode:
      return "code";
    case Role::kRepair:
      return "repair";
    case Role::kAdviser:
      return "adviser";
  }
  return "unknown";
}

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kFiltered:
      return "filtered";
    case FinishReason::kOther:
      return "other";
  }
  return "unknown";
}

Tokens EstimateTokens(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space && !inside) ++words;
    inside = !space;
  }
  return Tokens(std::max(words, static_cast<std::int64_t>((text.size() + 2) / 3)));
}

}  // namespace grove::llm
