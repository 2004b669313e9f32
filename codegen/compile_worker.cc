#include "codegen/compile_worker.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include <fmt/format.h>

namespace grove::codegen {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

constexpr std::chrono::seconds kStartTime{60};  // NVRTC is 100 MB, perhaps on a network file system
constexpr std::size_t kHelloLimit = 1 << 20;

// One line: messages of dying libraries come with line ends.
std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, std::min(text.find('\n'), std::size_t{500})));
}

bool SaysOutOfMemory(std::string_view text) {
  return text.find("out of memory") != std::string_view::npos ||
         text.find("bad_alloc") != std::string_view::npos;
}

}  // namespace

Result<CompileWorker> CompileWorker::Start(const WorkerSettings& settings) {
  ProcessOptions options;
  options.program = settings.binary;
  // Nothing of the head's environment is needed but where to find libraries (and, in sanitizer
  // builds, their options).
  options.environment =
      SelectEnvironment({"LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"});
  options.environment.emplace_back("CUDA_CACHE_DISABLE=1");
  // A name relative to the working folder can only be a CUDA header there.
  options.folder = settings.toolkit.include_folders.empty()
                       ? std::filesystem::path("/")
                       : settings.toolkit.include_folders.front();
  // A sanitizer's runtime maps terabytes and grows files before main.
  if (!kSanitized) {
    options.limits.file_size = Bytes(0);
    options.limits.address_space = settings.memory_limit;
  }
  options.arguments = {settings.toolkit.nvrtc_library.string(),
                       std::to_string(kSanitized ? 0 : settings.memory_limit.value)};
  for (const auto& folder : settings.toolkit.include_folders) {
    options.arguments.push_back(folder.string());
  }
  auto process = Process::Start(options);
  if (!process) return Fail(std::move(process.error()));

  CompileWorker worker(std::move(*process));
  const Deadline deadline = After(kStartTime);
  const auto frame = ReadFrame(worker.process_.channel(), kHelloLimit, deadline);
  if (!frame) {
    const WorkerDeath death = worker.Bury(frame.error());
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the compile worker did not start ({})", death.detail));
  }
  const auto hello = DecodeHello(frame->payload);
  if (frame->type != static_cast<std::uint16_t>(Message::kHello) || !hello) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} is no compile worker of this version", settings.binary.string()));
  }
  if (!hello->error.empty()) return Fail(ErrorCode::kUnavailable, FirstLine(hello->error));
  worker.hello_ = *hello;
  const auto sent =
      WriteFrame(worker.process_.channel(), static_cast<std::uint16_t>(Message::kHeaders),
                 Encode(settings.headers), deadline);
  if (!sent) {
    return Fail(ErrorCode::kUnavailable, fmt::format("the compile worker did not start ({})",
                                                     worker.Bury(sent.error()).detail));
  }
  return worker;
}

std::optional<std::chrono::nanoseconds> CompileWorker::CpuTime() const {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process_.pid(), &clock) != 0) return std::nullopt;
  if (::clock_gettime(clock, &time) != 0) return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// False when the worker has used up its processor time; else there is something to read, or the
// deadline has passed, which reading finds out.
bool CompileWorker::AwaitAnswer(std::chrono::milliseconds cpu_limit, Deadline deadline) const {
  const auto start = CpuTime();
  for (;;) {
    pollfd ready{process_.channel(), POLLIN, 0};
    if (::poll(&ready, 1, 50) != 0) return true;
    if (deadline && std::chrono::steady_clock::now() >= *deadline) return true;
    const auto now = CpuTime();
    // A process whose clock cannot be read has ended; reading its channel says how.
    if (!start || !now) return true;
    if (*now - *start >= cpu_limit) return false;
  }
}

std::variant<NvrtcOutput, WorkerDeath> CompileWorker::Compile(const CompileCall& call,
                                                              std::chrono::milliseconds cpu_limit,
                                                              Deadline deadline) {
  ++compiles_;
  const auto sent = WriteFrame(process_.channel(), static_cast<std::uint16_t>(Message::kCompile),
                               Encode(call), deadline);
  if (!sent) return Bury(sent.error());
  if (!AwaitAnswer(cpu_limit, deadline)) {
    return Bury({FrameError::Kind::kTimeout, "its processor time is used up"});
  }
  auto frame = ReadFrame(process_.channel(), kOutputLimit, deadline);
  if (!frame) return Bury(frame.error());
  std::optional<NvrtcOutput> output;
  if (frame->type == static_cast<std::uint16_t>(Message::kOutput)) {
    output = DecodeOutput(frame->payload);
  }
  if (!output) return Bury({FrameError::Kind::kMalformed, "its answer is damaged"});
  return std::move(*output);
}

WorkerDeath CompileWorker::Bury(const FrameError& error) {
  using Kind = WorkerDeath::Kind;
  if (error.kind == FrameError::Kind::kTimeout) {
    process_.Kill();
    return {Kind::kTimeout, "killed at the deadline"};
  }
  if (error.kind != FrameError::Kind::kClosed) {
    process_.Kill();
    return {Kind::kCrashed, error.message};
  }
  // It closed its end, so it is dying: a moment for the exit status to be its own and not ours.
  process_.WaitFor(std::chrono::seconds(5));
  const ExitStatus status = process_.Kill();
  const std::string& said = process_.ErrorText();
  std::string detail = status.Describe();
  if (!said.empty()) detail += ": " + FirstLine(said);
  const bool aborted =
      status.signal == SIGABRT || status.signal == SIGSEGV || status.signal == SIGBUS;
  if (status.code == kOutOfMemoryExitCode || (aborted && SaysOutOfMemory(said))) {
    return {Kind::kMemory, std::move(detail)};
  }
  if (status.signal == SIGKILL || status.signal == SIGTERM) {
    return {Kind::kOutside, std::move(detail)};
  }
  return {Kind::kCrashed, std::move(detail)};
}

}  // namespace grove::codegen
