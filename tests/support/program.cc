#include "tests/support/program.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"

extern char** environ;

namespace grove::testing {
namespace {

using Clock = std::chrono::steady_clock;

// Reads what is there; false at the end of the stream.
bool Drain(int fd, std::string& into) {
  char buffer[1 << 16];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) into.append(buffer, static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

// Beside the test's own binary, as in a bundle on another machine; else in the build's bin folder.
std::string PathOf(const std::string& program) {
  const std::filesystem::path beside = ExecutableFolder() / program;
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return beside.string();
  return std::string(GROVE_BINARY_DIR) + "/" + program;
}

}  // namespace

ProgramResult RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                         const ProgramOptions& options) {
  ProgramResult result;
  const std::string path = PathOf(program);
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = options.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);

  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
  if (options.terminal) {
    winsize size{};
    size.ws_row = 40;
    size.ws_col = 100;
    EXPECT_EQ(::openpty(&out[0], &out[1], nullptr, nullptr, &size), 0);
    ::fcntl(out[0], F_SETFD, FD_CLOEXEC);
  } else {
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, options.terminal ? out[1] : err[1], 2);
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  if (err[1] >= 0) ::close(err[1]);
  EXPECT_EQ(failed, 0) << path;
  if (failed != 0) return result;

  const auto start = Clock::now();
  bool killed = false;
  bool interrupted = false;
  bool out_open = true;
  bool err_open = err[0] >= 0;
  while (out_open || err_open) {
    const auto now = Clock::now() - start;
    if (!killed && (now > options.deadline || (options.kill_after && now > *options.kill_after))) {
      ::kill(pid, SIGKILL);
      killed = true;
    }
    if (!interrupted && !options.interrupt_on.empty() &&
        result.err.find(options.interrupt_on) != std::string::npos) {
      ::kill(pid, SIGINT);
      interrupted = true;
    }
    pollfd fds[2] = {{out_open ? out[0] : -1, POLLIN, 0}, {err_open ? err[0] : -1, POLLIN, 0}};
    ::poll(fds, 2, 5);
    if (fds[0].revents != 0) out_open = Drain(out[0], result.out);
    if (fds[1].revents != 0) err_open = Drain(err[0], result.err);
    // A grandchild may hold the pipes open after the program itself is gone.
    int status = 0;
    if (killed && ::waitpid(pid, &status, WNOHANG) == pid) {
      result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      ::close(out[0]);
      if (err[0] >= 0) ::close(err[0]);
      return result;
    }
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  ::close(out[0]);
  if (err[0] >= 0) ::close(err[0]);
  return result;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = ::testing::TempDir() + "grove-test-XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace grove::testing
