// The head's side of worker management against a scripted fake worker: no GPU needed.
#include "eval/cuda/worker_pool.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/framing.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr auto kType = static_cast<std::uint16_t>(MessageType::kCheck);

Status ExpectReady(int channel) {
  auto frame = ReadFrame(channel, 1 << 20, After(std::chrono::seconds(20)));
  if (!frame) return Fail(ErrorCode::kUnavailable, frame.error().message);
  if (frame->type == static_cast<std::uint16_t>(MessageType::kFailed)) {
    return Fail(ErrorCode::kUnavailable, frame->payload);
  }
  return {};
}

PoolOptions Options(std::vector<std::string> arguments = {}) {
  PoolOptions options;
  options.process.program = std::filesystem::path(GROVE_BINARY_DIR) / "grove-fake-gpu-worker";
  options.process.arguments = std::move(arguments);
  options.workers = 2;
  options.in_flight = 4;
  options.handshake = ExpectReady;
  options.grace = milliseconds(300);
  return options;
}

std::unique_ptr<WorkerPool> StartPool(PoolOptions options = Options()) {
  auto pool = WorkerPool::Start(std::move(options));
  EXPECT_TRUE(pool) << (pool ? "" : pool.error().message);
  return pool ? std::move(*pool) : nullptr;
}

constexpr milliseconds kLong{20000};

TEST(WorkerPool, ARequestIsAnswered) {
  auto pool = StartPool();
  const auto answer = pool->Execute(kType, "echo hello", kLong, WorkerPool::Where::kShared);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_FALSE(answer->died);
  EXPECT_EQ(answer->payload, "hello");
  EXPECT_EQ(pool->counters().rerun, 0);
}

TEST(WorkerPool, ASoloRequestIsAnswered) {
  auto pool = StartPool();
  EXPECT_EQ(pool->Execute(kType, "echo solo", kLong, WorkerPool::Where::kSolo)->payload, "solo");
}

TEST(WorkerPool, ManyRequestsAtOnceEachGetTheirOwnAnswer) {
  auto pool = StartPool();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 24; ++i) {
    threads.emplace_back([&, i] {
      const std::string text = "answer " + std::to_string(i);
      const auto answer = pool->Execute(kType, "echo " + text, kLong, WorkerPool::Where::kShared);
      if (answer && answer->payload == text) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 24);
  EXPECT_EQ(pool->counters().died, 0);
}

TEST(WorkerPool, ACrashIsBlamedOnTheRequestThatCrashesAlone) {
  auto pool = StartPool();
  const auto answer = pool->Execute(kType, "crash", kLong, WorkerPool::Where::kShared);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->died);
  EXPECT_FALSE(answer->reported);
  EXPECT_THAT(answer->death, HasSubstr("SIGSEGV"));
  EXPECT_EQ(pool->counters().blamed, 1);
  EXPECT_EQ(pool->Execute(kType, "echo after", kLong, WorkerPool::Where::kShared)->payload,
            "after");
}

// The heart of it: hostile requests among honest ones, in flight together.
TEST(WorkerPool, NoHonestRequestIsLostOrBlamedForItsNeighbours) {
  auto pool = StartPool();
  std::atomic<int> honest{0};
  std::atomic<int> blamed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&, i] {
      const bool hostile = i % 8 == 3;
      const std::string text = std::to_string(i);
      const auto answer = pool->Execute(kType, hostile ? "crash" : "echo " + text, kLong,
                                        WorkerPool::Where::kShared);
      if (!answer) return;
      if (hostile && answer->died) ++blamed;
      if (!hostile && !answer->died && answer->payload == text) ++honest;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(blamed, 5);
  EXPECT_EQ(honest, 35);
  EXPECT_EQ(pool->counters().blamed, 5);
  EXPECT_GE(pool->counters().rerun, 5);
}

TEST(WorkerPool, AHangIsKilledAtTheDeadlineAndSaysSo) {
  auto pool = StartPool();
  const auto answer = pool->Execute(kType, "hang", milliseconds(200), WorkerPool::Where::kShared);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->died);
  EXPECT_TRUE(answer->hung);
  EXPECT_THAT(answer->death, HasSubstr("200 ms"));
}

TEST(WorkerPool, ANeighbourOfAHangGetsItsAnswerAllTheSame) {
  PoolOptions options = Options();
  options.workers = 1;
  auto pool = StartPool(std::move(options));
  std::thread hanging([&] {
    EXPECT_TRUE(pool->Execute(kType, "hang", milliseconds(100), WorkerPool::Where::kShared)->hung);
  });
  std::vector<std::thread> honest;
  std::atomic<int> right{0};
  for (int i = 0; i < 12; ++i) {
    honest.emplace_back([&] {
      const auto answer = pool->Execute(kType, "echo x", kLong, WorkerPool::Where::kShared);
      if (answer && answer->payload == "x") ++right;
    });
  }
  hanging.join();
  for (std::thread& thread : honest) thread.join();
  EXPECT_EQ(right, 12);
}

TEST(WorkerPool, AWorkersOwnReportReachesTheCaller) {
  auto pool = StartPool();
  const auto answer =
      pool->Execute(kType, "fatal illegal address", kLong, WorkerPool::Where::kShared);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->died);
  EXPECT_TRUE(answer->reported);
  EXPECT_EQ(answer->payload, "illegal address");
}

TEST(WorkerPool, GarbageOnTheChannelEndsTheWorkerAndNothingElse) {
  auto pool = StartPool();
  EXPECT_TRUE(pool->Execute(kType, "garbage", kLong, WorkerPool::Where::kShared)->died);
  EXPECT_TRUE(pool->Execute(kType, "unasked", kLong, WorkerPool::Where::kShared)->died);
  EXPECT_EQ(pool->Execute(kType, "echo fine", kLong, WorkerPool::Where::kShared)->payload, "fine");
}

TEST(WorkerPool, AWorkerThatNeverStartsIsReportedInItsOwnWords) {
  const auto pool = WorkerPool::Start(Options({"refuse"}));
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(pool.error().message, HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST(WorkerPool, AWorkerThatDiesBeforeItsFirstWordLeavesItsErrorText) {
  const auto pool = WorkerPool::Start(Options({"exit"}));
  ASSERT_FALSE(pool);
  EXPECT_THAT(pool.error().message, HasSubstr("library not found"));
}

TEST(WorkerPool, OneFailedStartIsTriedAgain) {
  const std::filesystem::path mark =
      std::filesystem::temp_directory_path() / ("grove-flaky-" + std::to_string(::getpid()));
  std::filesystem::remove(mark);
  auto pool = StartPool(Options({"flaky", mark.string()}));
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->Execute(kType, "echo up", kLong, WorkerPool::Where::kShared)->payload, "up");
  EXPECT_EQ(pool->counters().started, 2);
  std::filesystem::remove(mark);
}

TEST(WorkerPool, AMissingProgramIsOneClearError) {
  PoolOptions options = Options();
  options.process.program = "/nonexistent/grove-gpu-worker";
  const auto pool = WorkerPool::Start(std::move(options));
  ASSERT_FALSE(pool);
  EXPECT_THAT(pool.error().message, HasSubstr("grove-gpu-worker"));
}

TEST(WorkerPool, ABroadcastDisturbsNobody) {
  auto pool = StartPool();
  pool->Broadcast(static_cast<std::uint16_t>(MessageType::kTrim), {});
  EXPECT_EQ(pool->Execute(kType, "echo on", kLong, WorkerPool::Where::kShared)->payload, "on");
}

}  // namespace
}  // namespace grove::cuda
