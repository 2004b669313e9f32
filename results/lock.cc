#include "results/lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"

namespace grove::results {
namespace {

int Flock(int fd, int operation) {
  int rc = 0;
  do {
    rc = ::flock(fd, operation);
  } while (rc != 0 && errno == EINTR);
  return rc;
}

std::string Holder(const std::filesystem::path& file) {
  auto text = ReadFile(file, 4096);
  if (!text || text->empty()) return "another process";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

}  // namespace

Result<RunLock> RunLock::Take(const std::filesystem::path& file) {
  // Not inherited by children: a worker that outlives us must not keep the run locked.
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Fail(ErrorCode::kResource, fmt::format("cannot open the run's lock {}: {}",
                                                  file.string(), std::strerror(errno)));
  }
  RunLock lock(fd);
  // An inspector's IsLocked holds a shared lock for an instant; a run holds its lock for long.
  for (int tries = 0; Flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK) {
      return Fail(ErrorCode::kResource,
                  fmt::format("cannot lock {}: {}", file.string(), std::strerror(errno)));
    }
    if (tries == 20) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("run '{}' is being written by {}; wait for it or stop it first",
                              file.parent_path().filename().string(), Holder(file)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  char host[256] = "unknown";
  ::gethostname(host, sizeof host - 1);
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host);
  // Only a message: a full disk does not keep anyone from reading or stopping the run.
  if (::ftruncate(fd, 0) == 0) {
    [[maybe_unused]] const ssize_t n = ::pwrite(fd, text.data(), text.size(), 0);
  }
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool IsLocked(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = Flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

}  // namespace grove::results
