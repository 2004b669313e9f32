#include "base/framing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/wire.h"

namespace grove {
namespace {

using Kind = FrameError::Kind;
using Outcome = tl::expected<void, FrameError>;

constexpr std::uint32_t kMagic = 0x46565247;  // "GRVF"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderSize = 16;

tl::unexpected<FrameError> FailFrame(Kind kind, std::string message) {
  return tl::unexpected(FrameError{kind, std::move(message)});
}

tl::unexpected<FrameError> SystemFailure(std::string_view call) {
  const int error = errno;
  const bool gone = error == EPIPE || error == ECONNRESET;
  return FailFrame(gone ? Kind::kClosed : Kind::kSystem,
                   fmt::format("{}: {}", call, std::strerror(error)));
}

// Waits until the socket is ready for `events` or broken (the transfer then says how).
Outcome WaitReady(int socket, short events, const Deadline& deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          *deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return FailFrame(Kind::kTimeout, "no answer before the deadline");
      timeout = static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30));
    }
    pollfd item{socket, events, 0};
    const int ready = ::poll(&item, 1, timeout);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return SystemFailure("poll");
  }
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Outcome SendAll(int socket, std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    if (auto ready = WaitReady(socket, POLLOUT, deadline); !ready) return ready;
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && !WouldBlock(errno)) return SystemFailure("send");
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// Appends exactly `size` bytes to `bytes`.
Outcome ReceiveAll(int socket, std::size_t size, const Deadline& deadline, std::string& bytes) {
  std::array<char, 1 << 16> buffer;
  while (size > 0) {
    if (auto ready = WaitReady(socket, POLLIN, deadline); !ready) return ready;
    const ssize_t n = ::recv(socket, buffer.data(), std::min(size, buffer.size()), MSG_DONTWAIT);
    if (n == 0) return FailFrame(Kind::kClosed, "the other end has closed");
    if (n < 0 && !WouldBlock(errno)) return SystemFailure("recv");
    if (n > 0) {
      bytes.append(buffer.data(), static_cast<std::size_t>(n));
      size -= static_cast<std::size_t>(n);
    }
  }
  return {};
}

}  // namespace

tl::expected<void, FrameError> WriteFrame(int socket, std::uint16_t type, std::string_view payload,
                                          Deadline deadline) {
  WireWriter header;
  header.U32(kMagic);
  header.U32(kVersion | static_cast<std::uint32_t>(type) << 16);
  header.U64(payload.size());
  if (auto sent = SendAll(socket, std::move(header).Take(), deadline); !sent) return sent;
  return SendAll(socket, payload, deadline);
}

tl::expected<Frame, FrameError> ReadFrame(int socket, std::size_t limit, Deadline deadline) {
  std::string bytes;
  if (auto got = ReceiveAll(socket, kHeaderSize, deadline, bytes); !got) {
    return tl::unexpected(std::move(got.error()));
  }
  WireReader header(bytes);
  const std::uint32_t magic = header.U32();
  const std::uint32_t version_and_type = header.U32();
  const std::uint64_t size = header.U64();
  if (magic != kMagic) return FailFrame(Kind::kMalformed, "the answer is not a frame");
  if ((version_and_type & 0xffff) != kVersion) {
    return FailFrame(Kind::kMalformed, fmt::format("frame version {} where {} was expected",
                                                   version_and_type & 0xffff, kVersion));
  }
  if (size > limit) {
    return FailFrame(Kind::kTooLarge,
                     fmt::format("a frame of {} bytes where {} are allowed", size, limit));
  }
  Frame frame;
  frame.type = static_cast<std::uint16_t>(version_and_type >> 16);
  if (auto got = ReceiveAll(socket, size, deadline, frame.payload); !got) {
    return tl::unexpected(std::move(got.error()));
  }
  return frame;
}

}  // namespace grove
