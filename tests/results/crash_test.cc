// A run that is killed with SIGKILL at random instants and resumed ends as if nothing had happened.
#include <chrono>
#include <random>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results/lock.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using CrashTest = RunsFolder;

constexpr SearchSize kSize{.rounds = 4, .ideas = 2, .branches = 2};

// The child's whole life: starts or resumes the run, tells each finished transition by the pipe.
[[noreturn]] void Live(const std::filesystem::path& runs, const std::string& name, int pipe) {
  TestClock clock;
  const StoreOptions options{.survive_power_loss = false};
  const bool exists = std::filesystem::exists(runs / name / "run.db");
  auto store = exists ? Store::Open(runs, name, clock, options)
                      : Store::Create(runs, SampleStart(name), clock, options);
  // Killed between making the file and its first row: starts again.
  if (!store && store.error().code == ErrorCode::kNotFound) {
    store = Store::Create(runs, SampleStart(name), clock, options);
  }
  if (!store) {
    std::fprintf(stderr, "child: %s\n", store.error().message.c_str());
    ::_exit(2);
  }
  const Status status = RunSampleSearch(**store, kSize, [pipe](const std::string& what) {
    const std::string line = what + "\n";
    if (::write(pipe, line.data(), line.size()) < 0) ::_exit(3);
  });
  if (!status) std::fprintf(stderr, "child: %s\n", status.error().message.c_str());
  store->reset();
  ::_exit(status ? 0 : 4);
}

std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(n));
  }
  return all;
}

// What a line told by the child says must be in the store.
void ExpectStored(const RunData& data, const std::string& told) {
  std::size_t at = 0;
  while (at < told.size()) {
    const std::size_t end = told.find('\n', at);
    const std::string what = told.substr(at, end - at);
    at = end + 1;
    if (what.rfind("call ", 0) == 0) {
      const auto it = std::find_if(data.calls.begin(), data.calls.end(), [&](const CallRow& c) {
        return "call " + ToString(c.key) == what;
      });
      ASSERT_NE(it, data.calls.end()) << what;
      EXPECT_EQ(it->status, CallStatus::kAnswered) << what;
    } else if (what.rfind("round ", 0) == 0) {
      const auto index = static_cast<std::size_t>(std::stoi(what.substr(6)));
      ASSERT_LT(index, data.rounds.size());
      EXPECT_EQ(data.rounds[index].status, RoundStatus::kFinished) << what;
    } else {
      const CandidateRow* candidate = data.FindCandidate(what);
      ASSERT_NE(candidate, nullptr) << what;
      EXPECT_TRUE(candidate->evaluation) << what;
    }
  }
}

TEST_F(CrashTest, ThirtyKillsLoseNothingAndDoubleNothing) {
  const auto began = std::chrono::steady_clock::now();
  auto reference_store = Create("reference");
  ASSERT_TRUE(RunSampleSearch(*reference_store, kSize));
  const std::string reference = Essence(reference_store->Load().value());
  reference_store.reset();
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - began);

  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int kills = 0;
  int finished = 0;
  int in_the_middle = 0;  // kills that left a run begun and not finished
  std::string told;
  // A kill that comes before the first transition of a new run counts too, so progress is not
  // promised to any one life; the bound only ends a test that has gone wrong.
  for (int life = 0; kills < 30 || finished == 0; ++life) {
    ASSERT_LT(life, 2000);
    const std::string name = fmt::format("run{}", finished);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      Live(runs_, name, ends[1]);
    }
    ::close(ends[1]);
    if (kills < 30) {
      std::uniform_int_distribution<long> delay(0, std::max<long>(whole.count() * 2 / 3, 2000));
      ::usleep(static_cast<useconds_t>(delay(random)));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    told += ReadAll(ends[0]);
    ::close(ends[0]);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (killed) {
      ++kills;
    } else {
      ASSERT_TRUE(WIFEXITED(status));
      ASSERT_EQ(WEXITSTATUS(status), 0);
    }
    EXPECT_FALSE(IsLocked(runs_ / name / "lock"));
    if (!std::filesystem::exists(runs_ / name / "run.db")) continue;
    auto reader = Reader::Open(runs_ / name);
    ASSERT_TRUE(reader) << reader.error().message;
    const auto data = (*reader)->Load();
    if (!data) {  // killed before the run row: nothing may have been told
      ASSERT_EQ(data.error().code, ErrorCode::kNotFound) << data.error().message;
      EXPECT_EQ(told, "");
      continue;
    }
    const Status whole_store = CheckStore(runs_ / name);
    ASSERT_TRUE(whole_store) << whole_store.error().message;
    ExpectStored(*data, told);
    if (data->run.status == RunStatus::kFinished) {
      EXPECT_EQ(Essence(*data), reference);
      // What was answered was never asked again.
      std::size_t lines = 0;
      for (const CallRow& call : data->calls) {
        const std::string line = "call " + ToString(call.key) + "\n";
        const std::size_t first = told.find(line);
        if (first == std::string::npos) continue;  // killed between storing and telling
        EXPECT_EQ(told.find(line, first + 1), std::string::npos) << line;
        ++lines;
      }
      EXPECT_GT(lines, 0u);
      ++finished;
      told.clear();
    } else if (killed && data->candidates.size() > 1) {
      ++in_the_middle;
    }
  }
  EXPECT_GE(kills, 30);
  EXPECT_GE(finished, 1);
  EXPECT_GT(in_the_middle, 0);
}

TEST_F(CrashTest, TheLockOfAKilledProcessIsFree) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    TestClock clock;
    auto store = Store::Create(runs_, SampleStart("a"), clock);
    const char ready = store ? 'y' : 'n';
    if (::write(ends[1], &ready, 1) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  ASSERT_EQ(ready, 'y');
  const auto refused = Store::Open(runs_, "a", clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find(fmt::format("process {} ", child)), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(Load("a").run.live);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(Load("a").run.live);
  EXPECT_TRUE(Store::Open(runs_, "a", clock_));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(CrashTest, OneProcessCannotOpenARunTwiceEither) {
  auto first = Create("a");
  EXPECT_EQ(Store::Open(runs_, "a", clock_).error().code, ErrorCode::kUnavailable);
  first.reset();
  EXPECT_TRUE(Store::Open(runs_, "a", clock_));
}

}  // namespace
}  // namespace grove::results
