// grove-test-child MODE: a child process for tests, which behaves as it is told.
//   echo     enters as a worker and sends every frame back
//   hang     enters as a worker and never reads again, busy
//   report   enters as a worker and sends one frame: its limits, folder, descriptors and
//   environment drip     enters as a worker and sends a frame's header, one byte in 20 ms shout
//   writes 1 MiB to its standard error, then exits with code 5 plain    no worker: exits with code
//   3
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/framing.h"
#include "base/process.h"

namespace {

std::string Limit(const char* name, __rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return std::string(name) + "=" +
         (limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur)) + "\n";
}

std::string Report() {
  std::string text = Limit("AS", RLIMIT_AS) + Limit("CPU", RLIMIT_CPU) +
                     Limit("CORE", RLIMIT_CORE) + Limit("FSIZE", RLIMIT_FSIZE);
  char folder[4096] = {};
  if (::getcwd(folder, sizeof folder) != nullptr) text += std::string("CWD=") + folder + "\n";
  text += "PGROUP_OWN=" + std::to_string(::getpgrp() == ::getpid() ? 1 : 0) + "\n";
  // 0, 1, 2 and the channel are ours; anything else would have leaked in.
  int open = 0;
  for (int fd = 0; fd < 256; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  text += "OPEN=" + std::to_string(open) + "\n";
  for (char** entry = environ; *entry != nullptr; ++entry)
    text += std::string("ENV ") + *entry + "\n";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "plain") return 3;
  if (mode == "shout") {
    const std::string line(1023, 'x');
    for (int i = 0; i < 1024; ++i) std::fprintf(stderr, "%s\n", line.c_str());
    return 5;
  }
  auto channel = grove::EnterWorker();
  if (!channel) {
    std::fprintf(stderr, "%s\n", channel.error().message.c_str());
    return 2;
  }
  const int socket = channel->get();
  if (mode == "report") {
    std::puts("a library that prints");
    std::fflush(stdout);
    // The limits are set by the parent right after the start: wait for its word.
    if (!grove::ReadFrame(socket, 100, std::nullopt)) return 1;
    if (!grove::WriteFrame(socket, 1, Report(), std::nullopt)) return 1;
    return 0;
  }
  if (mode == "hang") {
    if (!grove::WriteFrame(socket, 1, "hanging", std::nullopt)) return 1;
    for (std::atomic<unsigned> spin = 0;; ++spin) {
    }
  }
  if (mode == "drip") {
    for (int i = 0; i < 1000; ++i) {
      const char byte = i < 4 ? "GRVF"[i] : '\1';
      if (::send(socket, &byte, 1, MSG_NOSIGNAL) != 1) return 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  for (;;) {
    const auto frame = grove::ReadFrame(socket, std::size_t{64} << 20, std::nullopt);
    if (!frame) return frame.error().kind == grove::FrameError::Kind::kClosed ? 0 : 1;
    if (!grove::WriteFrame(socket, frame->type, frame->payload, std::nullopt)) return 1;
  }
}
