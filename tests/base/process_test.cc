#include "base/process.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/framing.h"

namespace grove {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

ProcessOptions Child(const char* mode) {
  ProcessOptions options;
  options.program = std::filesystem::path(GROVE_BINARY_DIR) / "grove-test-child";
  options.arguments = {mode};
  return options;
}

ProcessOptions Shell(const char* script) {
  ProcessOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  options.channel = false;
  return options;
}

// Whether a process of this id exists and is no zombie.
bool Alive(int pid) {
  const auto stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return stat && stat->find(") Z ") == std::string::npos;
}

// Waits for a change that another process makes by itself; false when it never comes.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

std::string ReportOf(const ProcessOptions& options) {
  auto child = Process::Start(options);
  EXPECT_TRUE(child) << child.error().message;
  EXPECT_TRUE(WriteFrame(child->channel(), 1, "go", After(seconds(30))));
  auto frame = ReadFrame(child->channel(), 1 << 20, After(seconds(30)));
  EXPECT_TRUE(frame) << frame.error().message << child->ErrorText();
  return frame ? frame->payload : std::string();
}

TEST(Process, AnExitCodeIsTold) {
  auto child = Process::Start(Shell("exit 7"));
  ASSERT_TRUE(child) << child.error().message;
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 7);
  EXPECT_EQ(status->signal, 0);
  EXPECT_FALSE(status->ok());
  EXPECT_EQ(status->Describe(), "exit code 7");
}

TEST(Process, ASignalIsNamed) {
  auto child = Process::Start(Shell("kill -SEGV $$"));
  ASSERT_TRUE(child) << child.error().message;
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGSEGV);
  EXPECT_EQ(status->Describe(), "killed by SIGSEGV");
}

TEST(Process, AMissingProgramIsNotFound) {
  ProcessOptions options;
  options.program = "/nonexistent/program";
  const auto child = Process::Start(options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(child.error().message, HasSubstr("/nonexistent/program"));
}

TEST(Process, ArgumentsPassWithoutAShell) {
  ProcessOptions options = Shell("test \"$1\" = '; exit 9 $(false) \"'");
  options.arguments.push_back("name");
  options.arguments.push_back("; exit 9 $(false) \"");
  auto child = Process::Start(options);
  ASSERT_TRUE(child) << child.error().message;
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->ok()) << status->Describe();
}

TEST(Process, WaitForGivesUpOnAChildThatRuns) {
  auto child = Process::Start(Shell("sleep 1000"));
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_FALSE(child->WaitFor(milliseconds(20)));
  const ExitStatus status = child->Kill();
  EXPECT_EQ(status.signal, SIGKILL);
}

TEST(Process, KillReachesGrandchildren) {
  auto child = Process::Start(Shell("sleep 1000 & echo $! >&2; wait"));
  ASSERT_TRUE(child) << child.error().message;
  ASSERT_TRUE(Eventually([&] { return child->ErrorText().ends_with("\n"); }));
  const int grandchild = std::stoi(child->ErrorText());
  EXPECT_TRUE(Alive(grandchild));
  child->Kill();
  EXPECT_TRUE(Eventually([&] { return !Alive(grandchild); }));
}

TEST(Process, KillAfterTheEndKeepsTheStatus) {
  auto child = Process::Start(Shell("exit 4"));
  ASSERT_TRUE(child) << child.error().message;
  ASSERT_TRUE(child->WaitFor(seconds(30)));
  EXPECT_EQ(child->Kill().code, 4);
}

TEST(Process, TheDestructorKillsAndReaps) {
  int pid = 0;
  {
    auto child = Process::Start(Child("hang"));
    ASSERT_TRUE(child) << child.error().message;
    pid = child->pid();
    EXPECT_TRUE(Alive(pid));
  }
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
}

TEST(Process, MovingKeepsOneOwner) {
  auto started = Process::Start(Child("echo"));
  ASSERT_TRUE(started) << started.error().message;
  Process first = std::move(*started);
  const int pid = first.pid();
  Process second = std::move(first);
  EXPECT_EQ(first.pid(), -1);  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(second.pid(), pid);
  EXPECT_TRUE(Alive(pid));
  auto other = Process::Start(Child("echo"));
  ASSERT_TRUE(other) << other.error().message;
  second = std::move(*other);
  EXPECT_FALSE(Alive(pid));
}

TEST(Process, AChannelCarriesFramesBothWays) {
  auto child = Process::Start(Child("echo"));
  ASSERT_TRUE(child) << child.error().message;
  for (std::uint16_t i = 0; i < 3; ++i) {
    const std::string text(1000 * i, static_cast<char>('a' + i));
    ASSERT_TRUE(WriteFrame(child->channel(), i, text, After(seconds(30))));
    const auto frame = ReadFrame(child->channel(), 1 << 20, After(seconds(30)));
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(frame->type, i);
    EXPECT_EQ(frame->payload, text);
  }
}

TEST(Process, AClosedChannelEndsAWorker) {
  auto child = Process::Start(Child("echo"));
  ASSERT_TRUE(child) << child.error().message;
  ASSERT_TRUE(WriteFrame(child->channel(), 1, "x", After(seconds(30))));
  ASSERT_TRUE(ReadFrame(child->channel(), 100, After(seconds(30))));
  child->CloseChannel();
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->code == 0 || status->code == kOrphanedExitCode) << status->Describe();
}

TEST(Process, ABusyWorkerEndsTooWhenItsChannelCloses) {
  auto child = Process::Start(Child("hang"));
  ASSERT_TRUE(child) << child.error().message;
  ASSERT_TRUE(ReadFrame(child->channel(), 100, After(seconds(30))));
  child->CloseChannel();
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, kOrphanedExitCode);
}

TEST(Process, AWorkerOutlivesTheThreadThatStartedIt) {
  std::optional<Process> child;
  std::thread([&] {
    auto started = Process::Start(Child("echo"));
    ASSERT_TRUE(started) << started.error().message;
    child = std::move(*started);
  }).join();
  ASSERT_TRUE(child);
  ASSERT_TRUE(WriteFrame(child->channel(), 1, "still here", After(seconds(30))));
  const auto frame = ReadFrame(child->channel(), 100, After(seconds(30)));
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(frame->payload, "still here");
}

TEST(Process, ADeadlineCoversAFrameThatDripsIn) {
  auto child = Process::Start(Child("drip"));
  ASSERT_TRUE(child) << child.error().message;
  const auto frame = ReadFrame(child->channel(), 1 << 20, After(milliseconds(100)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, FrameError::Kind::kTimeout);
}

TEST(Process, AChildThatDiesGivesAClosedChannel) {
  auto child = Process::Start(Child("plain"));
  ASSERT_TRUE(child) << child.error().message;
  const auto frame = ReadFrame(child->channel(), 100, After(seconds(30)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, FrameError::Kind::kClosed);
  EXPECT_EQ(child->WaitFor(seconds(30))->code, 3);
}

TEST(Process, StandardErrorIsKeptAndNeverBlocksTheChild) {
  auto child = Process::Start(Child("shout"));
  ASSERT_TRUE(child) << child.error().message;
  const auto status = child->WaitFor(seconds(30));  // nobody reads meanwhile
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 5);
  EXPECT_GE(child->ErrorText().size(), 4096u);
  EXPECT_LE(child->ErrorText().size(), 65536u);
  EXPECT_THAT(child->ErrorText().substr(0, 10), "xxxxxxxxxx");
}

TEST(Process, TheEnvironmentIsOnlyWhatWasChosen) {
  ::setenv("FAKE_API_KEY", "sk-secret", 1);
  ::setenv("GROVE_TEST_CHOSEN", "yes", 1);
  ProcessOptions options = Child("report");
  options.environment = SelectEnvironment({"GROVE_TEST_CHOSEN", "GROVE_TEST_ABSENT"});
  options.environment.emplace_back("EXTRA=1");
  const std::string report = ReportOf(options);
  ::unsetenv("FAKE_API_KEY");
  ::unsetenv("GROVE_TEST_CHOSEN");
  EXPECT_THAT(report, HasSubstr("ENV GROVE_TEST_CHOSEN=yes\nENV EXTRA=1\n"));
  EXPECT_THAT(report, Not(HasSubstr("sk-secret")));
  EXPECT_THAT(report, Not(HasSubstr("ENV PATH")));
}

TEST(Process, LimitsAreInForceBeforeTheFirstMessage) {
  ProcessOptions options = Child("report");
  options.limits.cpu = seconds(100);
  options.limits.file_size = Bytes(12345);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  options.limits.address_space = Bytes(std::int64_t{1} << 30);
#endif
  const std::string report = ReportOf(options);
  EXPECT_THAT(report, HasSubstr("CPU=100\n"));
  EXPECT_THAT(report, HasSubstr("FSIZE=12345\n"));
  EXPECT_THAT(report, HasSubstr("CORE=0\n"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_THAT(report, HasSubstr("AS=1073741824\n"));
#endif
}

TEST(Process, FolderAndProcessGroupAreItsOwn) {
  ProcessOptions options = Child("report");
  options.folder = "/proc";
  const std::string report = ReportOf(options);
  EXPECT_THAT(report, HasSubstr("CWD=/proc\n"));
  EXPECT_THAT(report, HasSubstr("PGROUP_OWN=1\n"));
}

TEST(Process, OpenDescriptorsDoNotLeakIntoTheChild) {
  // One without close-on-exec, as libraries leave them.
  const FileDescriptor leak(::fcntl(0, F_DUPFD, 50));
  ASSERT_TRUE(leak);
  EXPECT_THAT(ReportOf(Child("report")), HasSubstr("OPEN=4\n"));
}

TEST(Process, AWorkerStartedByHandSaysSo) {
  ProcessOptions options = Child("echo");
  options.channel = false;
  auto child = Process::Start(options);
  ASSERT_TRUE(child) << child.error().message;
  const auto status = child->WaitFor(seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 2);
  EXPECT_THAT(child->ErrorText(), HasSubstr("not by hand"));
}

TEST(Process, ChildrenDoNotOutliveAKilledHead) {
  // A head that starts a busy worker and tells its id, in a process of its own to be killed.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t head = ::fork();
  if (head == 0) {
    auto child = Process::Start(Child("hang"));
    const int pid =
        child && ReadFrame(child->channel(), 100, After(seconds(30))) ? child->pid() : 0;
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  int worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ASSERT_GT(worker, 0);
  EXPECT_TRUE(Alive(worker));
  ::kill(head, SIGKILL);
  ::waitpid(head, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return !Alive(worker); }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Process, ManyThreadsStartChildrenAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        auto child = Process::Start(Child("echo"));
        if (!child || !WriteFrame(child->channel(), 1, "x", After(seconds(60)))) continue;
        if (ReadFrame(child->channel(), 100, After(seconds(60)))) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

}  // namespace
}  // namespace grove
