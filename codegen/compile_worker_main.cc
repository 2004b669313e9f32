// grove-compile-worker NVRTC_LIBRARY ADDRESS_SPACE FOLDER...: compiles what the head sends over the
// channel on descriptor 0, one program after another, until the head closes it. Started by
// codegen/compile_worker.cc with its limits, an empty environment and a folder that holds nothing
// but CUDA headers. ADDRESS_SPACE is the limit in bytes that the head sets on this process, 0 for
// none. Once NVRTC is loaded the process locks itself in (codegen/compile_sandbox.h): of the file
// system only the FOLDERs, which hold CUDA headers, and the library's own are left to read.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "base/framing.h"
#include "base/process.h"
#include "codegen/compile_protocol.h"
#include "codegen/compile_sandbox.h"
#include "codegen/nvrtc.h"

namespace {

using namespace grove;           // NOLINT(google-build-using-namespace): a main
using namespace grove::codegen;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kLeastProbe = std::size_t{64} << 20;  // bytes
std::size_t g_probe_size = 0;  // read by the signal handler, which takes no argument of ours

// The compiler's own code aborts or follows a null pointer when an allocation fails. A mapping that
// is refused now tells that from a true crash.
void OnFatalSignal(int signal) {
  void* probe = ::mmap(nullptr, g_probe_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) ::_exit(kOutOfMemoryExitCode);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Without a limit (sanitizer builds) there is nothing to tell apart.
void WatchMemory(std::size_t limit) {
  if (limit == 0) return;
  g_probe_size = std::max(kLeastProbe, limit / 8);
  std::set_new_handler([] { ::_exit(kOutOfMemoryExitCode); });
  static std::array<char, 32 * 1024>
      stack;  // a stack overflow needs another stack to be handled on
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  ::sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = OnFatalSignal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) ::sigaction(signal, &action, nullptr);
}

int Fatal(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

int Serve(int channel, const Nvrtc& nvrtc) {
  std::vector<Header> headers;
  for (;;) {
    auto frame = ReadFrame(channel, kRequestLimit, std::nullopt);
    if (!frame) {
      return frame.error().kind == FrameError::Kind::kClosed ? 0 : Fatal(frame.error().message);
    }
    if (frame->type == static_cast<std::uint16_t>(Message::kHeaders)) {
      auto decoded = DecodeHeaders(frame->payload);
      if (!decoded) return Fatal("a message of headers is damaged");
      headers = std::move(*decoded);
      continue;
    }
    const auto call = DecodeCall(frame->payload);
    if (frame->type != static_cast<std::uint16_t>(Message::kCompile) || !call) {
      return Fatal("a message of the head is damaged");
    }
    const NvrtcOutput output = nvrtc.Compile(call->source, call->options, headers);
    const auto sent = WriteFrame(channel, static_cast<std::uint16_t>(Message::kOutput),
                                 Encode(output), std::nullopt);
    if (!sent) return Fatal(sent.error().message);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto channel = EnterWorker();
  if (!channel) return Fatal(channel.error().message);
  if (argc < 3) return Fatal("usage: grove-compile-worker NVRTC_LIBRARY ADDRESS_SPACE FOLDER...");
  WatchMemory(std::strtoull(argv[2], nullptr, 10));
  const auto nvrtc = Nvrtc::Load(argv[1]);
  Hello hello;
  if (nvrtc) {
    hello.major = nvrtc->major();
    hello.minor = nvrtc->minor();
  } else {
    hello.error = nvrtc.error().message;
  }
  Sandbox sandbox;
  std::error_code ignored;
  // NVRTC loads its built-ins from beside itself when it first compiles.
  sandbox.readable.push_back(std::filesystem::canonical(argv[1], ignored).parent_path());
  for (int i = 3; i < argc; ++i) sandbox.readable.emplace_back(argv[i]);
  const auto locked = EnterSandbox(sandbox);
  if (!locked && hello.error.empty()) hello.error = locked.error().message;
  const auto sent = WriteFrame(channel->get(), static_cast<std::uint16_t>(Message::kHello),
                               Encode(hello), std::nullopt);
  if (!sent) return Fatal(sent.error().message);
  return nvrtc && locked ? Serve(channel->get(), *nvrtc) : 1;
}
