#include "base/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace grove {
namespace {

// Descriptors that a spawn's dup2 calls must not overwrite before they are used.
constexpr int kFirstFreeDescriptor = 10;
constexpr std::size_t kErrorTextLimit = 64 * 1024;

Failure SystemFailure(std::string_view what, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kResource;
  return Fail(code, fmt::format("{}: {}", what, std::strerror(error)));
}

// The same open file under a number that no dup2 of the spawn will hit.
FileDescriptor MoveUp(FileDescriptor fd) {
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFreeDescriptor));
}

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class SpawnAttributes {
 public:
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Sets a limit of another process, within what we may set ourselves.
int SetLimit(int pid, __rlimit_resource resource, rlim_t value) {
  rlimit limit{};
  if (::prlimit(pid, resource, nullptr, &limit) != 0) return errno;
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  return ::prlimit(pid, resource, &limit, nullptr) == 0 ? 0 : errno;
}

int ApplyLimits(int pid, const ProcessLimits& limits) {
  int error = SetLimit(pid, RLIMIT_CORE, 0);
  if (error == 0 && limits.address_space) {
    error = SetLimit(pid, RLIMIT_AS, static_cast<rlim_t>(limits.address_space->value));
  }
  if (error == 0 && limits.cpu) {
    error = SetLimit(pid, RLIMIT_CPU, static_cast<rlim_t>(limits.cpu->count()));
  }
  if (error == 0 && limits.file_size) {
    error = SetLimit(pid, RLIMIT_FSIZE, static_cast<rlim_t>(limits.file_size->value));
  }
  return error;
}

}  // namespace

void FileDescriptor::Close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string ExitStatus::Describe() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("killed by SIG{}", name)
                         : fmt::format("killed by signal {}", signal);
}

Result<Process> Process::Start(const ProcessOptions& options) {
  Process process;
  FileDescriptor input;  // the child's
  if (options.channel) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return SystemFailure("socketpair", errno);
    }
    process.channel_ = FileDescriptor(ends[0]);
    input = MoveUp(FileDescriptor(ends[1]));
  } else {
    input = MoveUp(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  }
  if (!input) return SystemFailure("no descriptor for a child", errno);
  // Both ends do not block: the child drops what does not fit, and we read what is there.
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return SystemFailure("pipe", errno);
  process.errors_ = FileDescriptor(pipe_ends[0]);
  const FileDescriptor errors = MoveUp(FileDescriptor(pipe_ends[1]));
  if (!errors) return SystemFailure("no descriptor for a child", errno);

  SpawnActions actions;
  const SpawnAttributes attributes;
  ::posix_spawn_file_actions_adddup2(actions.get(), input.get(), 0);
  ::posix_spawn_file_actions_adddup2(actions.get(), input.get(), 1);
  ::posix_spawn_file_actions_adddup2(actions.get(), errors.get(), 2);
  ::posix_spawn_file_actions_addclosefrom_np(actions.get(), 3);
  if (!options.folder.empty()) {
    ::posix_spawn_file_actions_addchdir_np(actions.get(), options.folder.c_str());
  }
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program.string());
  std::vector<std::string> environment = options.environment;
  const int error =
      ::posix_spawn(&process.pid_, options.program.c_str(), actions.get(), attributes.get(),
                    Pointers(arguments).data(), Pointers(environment).data());
  if (error != 0) {
    process.pid_ = -1;
    return SystemFailure(fmt::format("cannot start {}", options.program.string()), error);
  }
  if (const int failed = ApplyLimits(process.pid_, options.limits); failed != 0) {
    // A child that has already ended (ESRCH) needs no limits; the caller finds out when it talks.
    if (failed != ESRCH) return SystemFailure("cannot limit a child process", failed);
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      channel_(std::move(other.channel_)),
      errors_(std::move(other.errors_)),
      error_text_(std::move(other.error_text_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    channel_ = std::move(other.channel_);
    errors_ = std::move(other.errors_);
    error_text_ = std::move(other.error_text_);
    status_ = std::exchange(other.status_, std::nullopt);
  }
  return *this;
}

Process::~Process() { Kill(); }

std::optional<ExitStatus> Process::Reap(bool block) {
  if (status_ || pid_ < 0) return status_;
  int raw = 0;
  rusage usage{};
  pid_t got = 0;
  do {
    got = ::wait4(pid_, &raw, block ? 0 : WNOHANG, &usage);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return std::nullopt;
  ExitStatus status;
  if (got < 0) {
    status.code = -1;  // reaped by someone else (SIGCHLD ignored): it has ended, nobody knows how
  } else if (WIFSIGNALED(raw)) {
    status.signal = WTERMSIG(raw);
  } else {
    status.code = WEXITSTATUS(raw);
  }
  status.peak_memory = Bytes(static_cast<std::int64_t>(usage.ru_maxrss) * 1024);
  status_ = status;
  return status_;
}

std::optional<ExitStatus> Process::WaitFor(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  // pidfd_open has no wrapper in glibc 2.35; where the kernel refuses it, look every 2 ms.
  const FileDescriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  for (;;) {
    if (auto status = Reap(false)) return status;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    if (watch) {
      pollfd item{watch.get(), POLLIN, 0};
      ::poll(&item, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    } else {
      std::this_thread::sleep_for(std::min(left, std::chrono::milliseconds(2)));
    }
  }
}

ExitStatus Process::Kill() {
  if (pid_ < 0) return status_.value_or(ExitStatus{});
  if (!status_) {
    // Not yet reaped, so neither id can have been given to anyone else.
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    Reap(true);
  }
  return *status_;
}

const std::string& Process::ErrorText() {
  std::array<char, 4096> buffer;
  while (errors_) {
    const ssize_t n = ::read(errors_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const std::size_t room = kErrorTextLimit - std::min(kErrorTextLimit, error_text_.size());
    error_text_.append(buffer.data(), std::min(room, static_cast<std::size_t>(n)));
  }
  return error_text_;
}

std::vector<std::string> SelectEnvironment(const std::vector<std::string_view>& names) {
  std::vector<std::string> environment;
  for (const std::string_view name : names) {
    const std::string key(name);
    if (const char* value = std::getenv(key.c_str())) environment.push_back(key + "=" + value);
  }
  return environment;
}

Result<FileDescriptor> EnterWorker() {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    return Fail(ErrorCode::kInvalidInput,
                "standard input is no channel: this program is started by grove, not by hand");
  }
  FileDescriptor channel(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!channel || !null || ::dup2(null.get(), 0) < 0 || ::dup2(null.get(), 1) < 0) {
    return SystemFailure("cannot set up the channel", errno);
  }
  // Refused writes (file size limit, closed peer) are errors to handle, not reasons to die.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);

  // A raw thread with a small stack that allocates nothing: with the default stack and its own
  // malloc arena it would take 136 MB of a limited address space.
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, 64 * 1024);
  pthread_t thread{};
  const int error = ::pthread_create(
      &thread, &attributes,
      [](void* fd) -> void* {
        pollfd item{static_cast<int>(reinterpret_cast<std::intptr_t>(fd)), POLLRDHUP, 0};
        while (::poll(&item, 1, -1) <= 0) {
        }
        ::_exit(kOrphanedExitCode);
      },
      reinterpret_cast<void*>(static_cast<std::intptr_t>(channel.get())));
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return SystemFailure("cannot start the watching thread", error);
  return channel;
}

}  // namespace grove
