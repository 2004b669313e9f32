// Errors as values. Every function that can fail for a reason outside the program returns
// Result<T>; exceptions end at a stage boundary. Thread-safety: plain values.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace grove {

// What went wrong, sorted by what the caller should do about it.
enum class ErrorCode {
  kInvalidInput,  // the user's or model's text is wrong: show the message, fix the input (exit 2)
  kNotFound,      // the named thing does not exist: show the message, name another
  kUnavailable,   // something outside is missing or down: retry later or install it
  kResource,      // disk full, read-only, out of memory: free it, then resume
  kCancelled,     // the user asked to stop: leave everything resumable
  kBudget,        // a limit that the user set is reached: spend no more, end cleanly
  kInternal,      // a bug of ours or a broken file: report it
};

std::string_view ToString(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one line: what, where and what to do

  // Adds where it happened in front: "reading task softmax: line 3, column 5: ...".
  Error&& Context(std::string_view where) &&;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;
using Failure = tl::unexpected<Error>;

// Makes the unexpected value of any Result<T>: `return Fail(ErrorCode::kNotFound, "...")`.
[[nodiscard]] inline Failure Fail(ErrorCode code, std::string message) {
  return Failure(Error{code, std::move(message)});
}

// Passes an error on, with where it happened in front.
[[nodiscard]] inline Failure Fail(Error error, std::string_view where = {}) {
  if (where.empty()) return Failure(std::move(error));
  return Failure(std::move(error).Context(where));
}

}  // namespace grove
