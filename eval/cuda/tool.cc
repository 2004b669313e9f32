#include "eval/cuda/tool.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include "eval/cuda/blas.h"

namespace grove::cuda {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostOutput = std::size_t{64} << 20;

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Sub-folders of `parent` whose name begins with `prefix`, newest version last in the alphabet
// first.
std::vector<fs::path> Matching(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

}  // namespace

std::optional<fs::path> FindTool(std::string_view name) {
  std::vector<fs::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') {
      folders.push_back(fs::path(value) / "bin");
    }
  }
  if (const char* value = std::getenv("PATH"); value != nullptr) {
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (!folder.empty()) folders.emplace_back(folder);
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    }
  }
  for (const fs::path& toolkit : Matching("/usr/local", "cuda")) {
    folders.push_back(toolkit / "bin");
    for (const fs::path& nsight : Matching(toolkit, "nsight-compute")) folders.push_back(nsight);
  }
  for (const fs::path& nsight : Matching("/opt/nvidia/nsight-compute", "")) {
    folders.push_back(nsight);
  }
  for (const fs::path& library : VendorLibraryFolders()) {
    folders.push_back(library.parent_path() / "bin");
  }
  for (const fs::path& folder : folders) {
    if (IsProgram(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Result<ToolOutput> RunTool(const ToolRun& run) {
  ProcessOptions options;
  options.program = run.program;
  options.arguments = run.arguments;
  options.environment = SelectEnvironment(
      {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_HOME", "LANG"});
  options.environment.insert(options.environment.end(), run.environment.begin(),
                             run.environment.end());
  auto process = Process::Start(options);
  if (!process) return Failure(std::move(process.error()));
  const int channel = process->channel();
  const auto until = std::chrono::steady_clock::now() + run.deadline;
  const std::string name = run.program.filename().string();
  ToolOutput output;
  std::size_t sent = 0;
  bool closed = run.input.empty();
  if (closed) shutdown(channel, SHUT_WR);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      process->Kill();
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{} did not end within {} s", name, run.deadline.count() / 1000));
    }
    pollfd descriptor{channel, static_cast<short>(closed ? POLLIN : POLLIN | POLLOUT), 0};
    const int ready =
        poll(&descriptor, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    if (ready < 0 && errno != EINTR) {
      return Fail(ErrorCode::kResource, "poll: " + std::generic_category().message(errno));
    }
    if (ready <= 0) continue;
    if (!closed && (descriptor.revents & POLLOUT) != 0) {
      const ssize_t wrote = send(channel, run.input.data() + sent, run.input.size() - sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
      if (wrote > 0) sent += static_cast<std::size_t>(wrote);
      const bool refused = wrote < 0 && errno != EAGAIN && errno != EINTR;
      if (sent == run.input.size() || refused) {
        closed = true;
        shutdown(channel, SHUT_WR);
      }
    }
    if ((descriptor.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      char buffer[65536];
      const ssize_t got = recv(channel, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
      if (got > 0) output.out.append(buffer, static_cast<std::size_t>(got));
      if (output.out.size() > kMostOutput) {
        process->Kill();
        return Fail(ErrorCode::kUnavailable, name + " writes more than we keep");
      }
    }
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - std::chrono::steady_clock::now());
  auto status = process->WaitFor(std::max(left, std::chrono::milliseconds(1000)));
  output.status = status ? *status : process->Kill();
  output.errors = process->ErrorText();
  return output;
}

}  // namespace grove::cuda
