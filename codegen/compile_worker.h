// The head's side of one compile worker process. Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/framing.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "codegen/compile_farm.h"
#include "codegen/compile_protocol.h"

namespace grove::codegen {

struct WorkerSettings {
  std::filesystem::path binary;
  Toolkit toolkit;
  Bytes memory_limit;  // address space; not applied in sanitizer builds, whose shadow needs it all
  std::vector<Header> headers;  // served from memory
};

// Why a worker gave no answer. It is dead now, whatever the kind.
struct WorkerDeath {
  enum class Kind {
    kTimeout,  // killed at the deadline
    kMemory,   // it ran into its memory limit
    kCrashed,  // the compiler died: SIGSEGV, SIGABRT, an answer that is none
    kOutside,  // SIGKILL, SIGTERM from somebody else: says nothing about the program
  };
  Kind kind = Kind::kCrashed;
  std::string detail;  // "killed by SIGSEGV"
};

class CompileWorker {
 public:
  // Starts the process and waits until NVRTC is loaded. kUnavailable with the worker's own message.
  static Result<CompileWorker> Start(const WorkerSettings& settings);

  int pid() const { return process_.pid(); }
  int nvrtc_major() const { return hello_.major; }
  int nvrtc_minor() const { return hello_.minor; }
  int compiles() const { return compiles_; }  // so far

  // Killed after `cpu_limit` of its own processor time, so that a busy machine fails no program, or
  // at the deadline, whatever comes first.
  std::variant<NvrtcOutput, WorkerDeath> Compile(const CompileCall& call,
                                                 std::chrono::milliseconds cpu_limit,
                                                 Deadline deadline);

 private:
  explicit CompileWorker(Process process) : process_(std::move(process)) {}
  std::optional<std::chrono::nanoseconds> CpuTime() const;  // of the process, so far
  bool AwaitAnswer(std::chrono::milliseconds cpu_limit, Deadline deadline) const;
  WorkerDeath Bury(const FrameError& error);

  Process process_;
  Hello hello_;
  int compiles_ = 0;
};

}  // namespace grove::codegen
