// What comes from a worker or from the head: frames on a socket, and every message of both
// protocols. The first byte chooses the decoder; the rest is the message.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/framing.h"
#include "codegen/compile_protocol.h"
#include "eval/cuda/protocol.h"

namespace {

// Frames as they come, until the stream ends or is refused.
void ReadFrames(std::string_view bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  if (::send(ends[0], bytes.data(), bytes.size(), MSG_DONTWAIT) < 0) {
    // Too long for the socket's buffer: the part that fits will do.
  }
  ::close(ends[0]);
  for (;;) {
    const auto frame = grove::ReadFrame(ends[1], 4096, grove::After(std::chrono::seconds(5)));
    if (!frame) break;
    if (frame->payload.size() > 4096) std::abort();
  }
  ::close(ends[1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 12) {
    case 0:
      ReadFrames(bytes);
      break;
    case 1:
      (void)grove::codegen::DecodeHello(bytes);
      break;
    case 2:
      (void)grove::codegen::DecodeHeaders(bytes);
      break;
    case 3:
      (void)grove::codegen::DecodeCall(bytes);
      break;
    case 4:
      (void)grove::codegen::DecodeOutput(bytes);
      break;
    case 5:
      (void)grove::cuda::DecodeOpen(bytes);
      break;
    case 6:
      (void)grove::cuda::DecodeFacts(bytes);
      break;
    case 7:
      (void)grove::cuda::DecodeCheckJob(bytes);
      break;
    case 8:
      (void)grove::cuda::DecodeTimeJob(bytes);
      break;
    case 9:
      (void)grove::cuda::DecodeCheckDone(bytes);
      break;
    case 10:
      (void)grove::cuda::DecodeTimeDone(bytes);
      break;
    default:
      if (auto id = grove::cuda::TakeId(bytes)) (void)grove::cuda::DecodeFatal(bytes);
      break;
  }
  return 0;
}
