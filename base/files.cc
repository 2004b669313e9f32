#include "base/files.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

namespace grove {
namespace {

Failure SystemFailure(std::string_view what, const std::filesystem::path& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kResource;
  return Fail(code, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error)));
}

}  // namespace

Result<std::string> ReadFile(const std::filesystem::path& path, std::uintmax_t limit) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemFailure("open", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return SystemFailure("read", path, errno);
  if (S_ISDIR(info.st_mode)) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{} is a folder, not a file", path.string()));
  }
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemFailure("read", path, errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} is larger than the limit of {} bytes", path.string(), limit));
    }
  }
}

Status WriteFileAtomic(const std::filesystem::path& path, std::string_view content) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp{}.{}", ::getpid(), counter.fetch_add(1));
  const auto fail = [&](int error) {
    ::unlink(temporary.c_str());
    return SystemFailure("write", path, error);
  };
  {
    const FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return SystemFailure("write", path, errno);
    for (std::size_t done = 0; done < content.size();) {
      const ssize_t n = ::write(file.get(), content.data() + done, content.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno);
      done += static_cast<std::size_t>(n);
    }
    if (::fsync(file.get()) != 0) return fail(errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno);
  return {};
}

std::filesystem::path ExecutableFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::current_path() : path.parent_path();
}

}  // namespace grove
