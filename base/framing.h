// Framed messages between the head and its worker processes, over a stream socket. One frame:
//
//   offset  bytes  field (little-endian)
//        0      4  magic "GRVF"
//        4      2  version of the frame format (1); another version is kMalformed
//        6      2  type of message, meaning chosen by the two ends
//        8      8  size of the payload in bytes
//       16   size  payload
//
// A worker may have been taken over by what it compiled or ran, so the size is checked against the
// receiver's limit before any memory is asked for, and memory grows with what really arrives. Time
// limits cover the whole frame, however slowly its bytes drip in. Interrupted and partial transfers
// are continued; a peer that is gone is a value, never SIGPIPE.
//
// Thread-safety: one reader and one writer per socket at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace grove {

struct Frame {
  std::uint16_t type = 0;
  std::string payload;
};

struct FrameError {
  enum class Kind {
    kClosed,     // the peer has closed or died: reap it and look at its exit status
    kTimeout,    // the deadline passed; the stream is out of step now: kill the peer
    kTooLarge,   // the peer announced more than the limit: kill the peer
    kMalformed,  // not a frame of this version: kill the peer
    kSystem,     // the call failed otherwise
  };
  Kind kind = Kind::kSystem;
  std::string message;  // one line
};

// When to give up; nullopt waits for ever.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

inline Deadline After(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// REQUIRES: `socket` is a stream socket (blocking or not).
[[nodiscard]] tl::expected<void, FrameError> WriteFrame(int socket, std::uint16_t type,
                                                        std::string_view payload,
                                                        Deadline deadline);

// `limit` is the largest payload accepted, in bytes.
[[nodiscard]] tl::expected<Frame, FrameError> ReadFrame(int socket, std::size_t limit,
                                                        Deadline deadline);

}  // namespace grove
