// What keeps the compiler's process from the host: entered by grove-compile-worker before the first
// source arrives. Linux only; x86-64 and arm64.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace grove::codegen {

struct Sandbox {
  // The only folders, with all below them, whose files can be opened from here on, for reading.
  std::vector<std::filesystem::path> readable;
};

// What was put in force; false where the kernel cannot.
struct SandboxState {
  bool files = false;     // Landlock (Linux 5.13): nothing outside `readable` opens
  bool syscalls = false;  // seccomp: see EnterSandbox
};

// For this thread and those it starts from here on, irrevocably:
// - no file opens for writing, none is created, renamed, linked, removed or changed in mode or
// size;
// - no socket of any kind, no new process or program, no ptrace, no other process's memory, no
//   signal to another process, no mount, namespace, module, key, BPF or io_uring call;
// - with Landlock, no file outside the readable folders opens at all.
// What is refused fails with EPERM or EACCES; reading and writing of descriptors that are open,
// memory and threads work as before. kUnavailable names the call when seccomp could not be put in
// force; an old kernel without Landlock is not an error.
// REQUIRES: called before other threads that should be bound by it exist.
Result<SandboxState> EnterSandbox(const Sandbox& sandbox);

}  // namespace grove::codegen
