// A worker process without a GPU, for the tests of the pool. What it does with a request is written
// in the request: "echo TEXT" (after a moment), "crash", "hang", "garbage", "fatal TEXT". With an
// argument: "refuse" fails the handshake, "exit" dies before it, "flaky FILE" fails unless FILE
// exists, and makes it.
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "base/framing.h"
#include "base/process.h"
#include "eval/cuda/protocol.h"

namespace {

using grove::cuda::MessageType;

std::mutex write_mutex;

void Send(int channel, MessageType type, std::string_view payload) {
  const std::lock_guard lock(write_mutex);
  (void)grove::WriteFrame(channel, static_cast<std::uint16_t>(type), payload,
                          grove::After(std::chrono::seconds(10)));
}

void Serve(int channel, std::string message) {
  std::string_view payload = message;
  const auto id = grove::cuda::TakeId(payload);
  if (!id) _exit(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  if (payload.starts_with("echo ")) {
    return Send(channel, MessageType::kDone, grove::cuda::WithId(*id, payload.substr(5)));
  }
  if (payload == "hang") {
    for (;;) pause();
  }
  if (payload == "garbage") {
    const std::lock_guard lock(write_mutex);
    if (write(channel, "this is not a frame at all", 26) < 0) _exit(4);
    return;
  }
  if (payload == "unasked") {
    return Send(channel, MessageType::kDone, grove::cuda::WithId(*id + 1000000, "surprise"));
  }
  if (payload.starts_with("fatal ")) {
    Send(channel, MessageType::kFatal, payload.substr(6));
    kill(getpid(), SIGKILL);
  }
  if (payload == "crash") raise(SIGSEGV);  // in this very thread, so nothing runs on
  _exit(5);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  auto channel = grove::EnterWorker();
  if (!channel) return 2;
  if (mode == "exit") {
    std::fprintf(stderr, "library not found");
    return 9;
  }
  bool refuse = mode == "refuse";
  if (mode == "flaky" && !std::ifstream(argv[2])) {
    std::ofstream(argv[2]) << "seen";
    refuse = true;
  }
  if (refuse) {
    Send(channel->get(), MessageType::kFailed, "CUDA_ERROR_NO_DEVICE (no CUDA-capable device)");
    return 1;
  }
  Send(channel->get(), MessageType::kReady, {});
  for (;;) {
    auto frame = grove::ReadFrame(channel->get(), 1 << 20, std::nullopt);
    if (!frame) _exit(0);
    if (frame->type == static_cast<std::uint16_t>(MessageType::kTrim)) continue;
    std::thread(Serve, channel->get(), std::move(frame->payload)).detach();
  }
}
