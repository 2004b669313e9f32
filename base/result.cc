#include "base/result.h"

namespace grove {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid input";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kResource:
      return "resource";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kBudget:
      return "budget";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error&& Error::Context(std::string_view where) && {
  message = std::string(where) + ": " + message;
  return std::move(*this);
}

}  // namespace grove
