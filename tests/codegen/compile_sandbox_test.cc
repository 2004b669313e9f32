// Each test enters the sandbox in a child of its own (a death test) and tries one thing there.
#include "codegen/compile_sandbox.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

// The exit code of a child that went in and ran `attempt`; 99 when it could not go in.
template <typename Attempt>
int Inside(Attempt attempt) {
  const int pid = ::fork();
  if (pid == 0) {
    const auto entered = EnterSandbox({{GROVE_SOURCE_DIR "/codegen"}});
    ::_exit(entered ? attempt(*entered) : 99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

constexpr int kRefused = 1;  // with EPERM or EACCES
int Code(long result) {
  if (result >= 0) return 0;
  return errno == EPERM || errno == EACCES ? kRefused : 2;
}

TEST(CompileSandboxTest, NoFileOpensForWriting) {
  const std::string path = ::testing::TempDir() + "sandbox_write_test";
  EXPECT_EQ(Inside([&](auto) { return Code(::open(path.c_str(), O_WRONLY | O_CREAT, 0600)); }),
            kRefused);
  EXPECT_EQ(Inside([&](auto) { return Code(::open("/dev/null", O_RDWR)); }), kRefused);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(CompileSandboxTest, NothingIsCreatedRenamedOrRemoved) {
  const std::string path = ::testing::TempDir() + "sandbox_folder_test";
  EXPECT_EQ(Inside([&](auto) { return Code(::mkdir(path.c_str(), 0700)); }), kRefused);
  EXPECT_EQ(Inside([&](auto) { return Code(::rename("/dev/null", path.c_str())); }), kRefused);
  EXPECT_EQ(Inside([&](auto) { return Code(::unlink("/dev/null")); }), kRefused);
  EXPECT_EQ(Inside([&](auto) { return Code(::symlink("/etc/hostname", path.c_str())); }), kRefused);
}

TEST(CompileSandboxTest, NoSocketAndNoProgram) {
  EXPECT_EQ(Inside([](auto) { return Code(::socket(AF_INET, SOCK_STREAM, 0)); }), kRefused);
  EXPECT_EQ(Inside([](auto) { return Code(::socket(AF_UNIX, SOCK_STREAM, 0)); }), kRefused);
  EXPECT_EQ(Inside([](auto) {
              char* const arguments[] = {nullptr};
              return Code(::execve("/bin/true", arguments, arguments));
            }),
            kRefused);
  EXPECT_EQ(Inside([](auto) { return Code(::fork()); }), kRefused);
}

TEST(CompileSandboxTest, NoOtherProcessIsSignalledOrRead) {
  EXPECT_EQ(Inside([](auto) { return Code(::kill(::getppid(), 0)); }), kRefused);
  EXPECT_EQ(Inside([](auto) { return Code(::kill(::getpid(), 0)); }), 0);
}

TEST(CompileSandboxTest, FilesOutsideTheReadableFoldersDoNotOpen) {
  const int code = Inside([](const SandboxState& state) {
    return state.files ? Code(::open("/etc/hostname", O_RDONLY)) : 50;
  });
  if (code == 50) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(code, kRefused);
  EXPECT_EQ(Inside([](auto) { return Code(::open("/proc/self/environ", O_RDONLY)); }), kRefused);
}

TEST(CompileSandboxTest, WhatTheCompilerNeedsStillWorks) {
  EXPECT_EQ(
      Inside([](auto) { return Code(::open(GROVE_SOURCE_DIR "/codegen/README.md", O_RDONLY)); }),
      0);
  EXPECT_EQ(Inside([](auto) {
              int value = 0;
              std::thread([&] { value = 7; }).join();
              return value == 7 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(Inside([](auto) {
              void* memory = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return memory == MAP_FAILED ? 3 : 0;
            }),
            0);
}

}  // namespace
}  // namespace grove::codegen
