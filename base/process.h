// Child processes: an owner that starts a program without a shell, limits it, talks to it over a
// socket, kills and reaps it. For the compile farm's workers and the GPU workers.
//
// What a child gets is chosen, never inherited: its argv, its environment (give names through
// SelectEnvironment; an API key in ours is not in its), its folder, and exactly the descriptors 0,
// 1 and 2. It is started by posix_spawn: a fork of this multi-threaded, possibly CUDA-using program
// could do nothing safely. It gets a process group of its own, so an interrupt typed at the
// terminal stops the head, which then stops its children in order, and Kill reaches grandchildren
// too.
//
// Children must not outlive the head, even when the head is killed with SIGKILL. PR_SET_PDEATHSIG
// is not used: it fires when the *thread* that started the child ends, and ours are started by pool
// threads. Instead a worker calls EnterWorker first of all, and dies when its channel is closed.
//
// Thread-safety: a Process belongs to one thread at a time; Start may run in many threads at once.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove {

// Owns one descriptor. Copying is deleted; -1 holds none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Close() noexcept;

 private:
  int fd_ = -1;
};

// Limits set by setrlimit(2); nullopt leaves the head's own. Core files are always off.
struct ProcessLimits {
  std::optional<Bytes> address_space;       // RLIMIT_AS; not for CUDA (it reserves terabytes)
  std::optional<std::chrono::seconds> cpu;  // RLIMIT_CPU of the whole life, then SIGKILL
  std::optional<Bytes> file_size;           // RLIMIT_FSIZE; 0 = may write no file at all
};

struct ProcessOptions {
  std::filesystem::path program;         // a path; PATH is not searched
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // "NAME=value", the whole of it
  std::filesystem::path folder;          // working directory; empty = ours
  ProcessLimits limits;
  bool channel = true;  // one stream socket as descriptors 0 and 1; false = /dev/null
};

// How a child ended.
struct ExitStatus {
  int code = 0;          // exit code, when signal is 0
  int signal = 0;        // the signal that killed it, or 0
  Bytes peak_memory{0};  // peak resident size

  bool ok() const { return code == 0 && signal == 0; }
  std::string Describe() const;  // "exit code 3", "killed by SIGSEGV"
};

class Process {
 public:
  // kNotFound when there is no such program, kResource when out of processes, descriptors or
  // memory. Limits are in force before the child can receive its first message.
  static Result<Process> Start(const ProcessOptions& options);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills and reaps

  int pid() const { return pid_; }
  // Our end of the channel, for ReadFrame and WriteFrame; -1 without one or after CloseChannel.
  int channel() const { return channel_.get(); }
  // Tells a worker to finish: it reads the end of its input.
  void CloseChannel() { channel_.Close(); }

  // The exit status once it has ended; nullopt when it still runs after `time`.
  std::optional<ExitStatus> WaitFor(std::chrono::milliseconds time);
  // SIGKILL to the child and its process group, then reaps. Gives the status of an earlier end when
  // it had already ended.
  ExitStatus Kill();

  // What the child has written to its standard error so far: the first 64 KB or so, the rest is
  // dropped; a child never blocks on it.
  const std::string& ErrorText();

 private:
  Process() = default;
  std::optional<ExitStatus> Reap(bool block);

  int pid_ = -1;
  FileDescriptor channel_;
  FileDescriptor errors_;
  std::string error_text_;
  std::optional<ExitStatus> status_;
};

// "NAME=value" of those `names` that are set in our environment: the allow-list of a child.
std::vector<std::string> SelectEnvironment(const std::vector<std::string_view>& names);

// --- the child's side ---------------------------------------------------------------------------

// To be called first in the main of a worker that was started with a channel. Returns the channel,
// moved away from descriptors 0 and 1 (which become /dev/null, so a library that prints cannot
// break the protocol). From then on a watching thread ends this process at once (exit code
// kOrphanedExitCode) when the head closes the channel or dies, also in the middle of work.
// REQUIRES: no other thread runs yet. kInvalidInput when descriptor 0 is no socket.
Result<FileDescriptor> EnterWorker();
inline constexpr int kOrphanedExitCode = 76;

}  // namespace grove
