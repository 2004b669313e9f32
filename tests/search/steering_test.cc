#include "search/steering.h"

#include <atomic>
#include <future>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using results::ControlKind;
using results::ControlMessage;
using results::RunStatus;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kByHand{0};

class SteeringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.task = "tiny";
    config_.rounds = 3;
    config_.ideas = 1;
    config_.branches = 1;
    config_.frontier = 1;
    config_.reserve = 0;
    config_.repairs = 0;
    auto store =
        results::Store::Create(folder_.path(), MakeRunStart("run", task_, config_, "t"), clock_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator);
    evaluator_ = std::move(*evaluator);
  }
  void Post(ControlKind kind, const std::string& text = "") {
    ControlMessage message;
    message.kind = kind;
    message.text = text;
    clock_.Advance(std::chrono::milliseconds(1));
    const auto key = results::PostControl(folder_.path() / "run", message, clock_);
    ASSERT_TRUE(key) << key.error().message;
  }
  results::RunData Load() { return *store_->Load(); }
  static std::string Reply(const llm::Request& request, int n) {
    if (request.role == llm::Role::kIdea) {
      return fmt::format(
          R"({{"ideas": [{{"title": "idea {}", "category": "memory access", "rationale": "r"}}]}})",
          n);
    }
    return "```cuda\n" + testing::TinySource(fmt::format("// @time {}\n", 900 - n)) +
           "```\n```json\n" + testing::TinyPlan() + "\n```\n";
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  SearchConfig config_;
  std::unique_ptr<results::Store> store_;
  std::unique_ptr<eval::Evaluator> evaluator_;
};

TEST_F(SteeringTest, AHintIsStoredOnceAndItsFileIsGone) {
  Steering steering(*store_, observer_, {}, kByHand);
  Post(ControlKind::kHint, "use cp.async");
  steering.Poll();
  steering.Poll();
  ASSERT_EQ(Load().hints.size(), 1U);
  EXPECT_EQ(Load().hints[0].text, "use cp.async");
  EXPECT_FALSE(Load().hints[0].round);
  EXPECT_TRUE(results::ReadControl(folder_.path() / "run")->messages.empty());
}

TEST_F(SteeringTest, AHintForARunThatIsNotLiveIsTakenWhenItGoesOn) {
  Post(ControlKind::kHint, "waits");
  const Steering steering(*store_, observer_, {}, kByHand);
  ASSERT_EQ(Load().hints.size(), 1U);
}

TEST_F(SteeringTest, AStopLetsNothingNewBegin) {
  Steering steering(*store_, observer_, {}, kByHand);
  EXPECT_TRUE(steering.MayBegin());
  Post(ControlKind::kStop);
  steering.Poll();
  EXPECT_EQ(steering.MayBegin().error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(steering.stop_now().stop_requested());
  Post(ControlKind::kStop);
  steering.Poll();
  EXPECT_TRUE(steering.stop_now().stop_requested());
}

TEST_F(SteeringTest, APauseHoldsUntilContinue) {
  Steering steering(*store_, observer_, {}, kByHand);
  Post(ControlKind::kPause);
  steering.Poll();
  ASSERT_TRUE(steering.paused());
  std::atomic<bool> begun{false};
  auto waiter = std::async(std::launch::async, [&] {
    const bool may = steering.MayBegin().has_value();
    begun = true;
    return may;
  });
  EXPECT_FALSE(begun);
  Post(ControlKind::kContinue);
  steering.Poll();
  EXPECT_TRUE(waiter.get());
}

TEST_F(SteeringTest, AStopEndsAPause) {
  Steering steering(*store_, observer_, {}, kByHand);
  Post(ControlKind::kPause);
  steering.Poll();
  auto waiter = std::async(std::launch::async, [&] { return steering.MayBegin().has_value(); });
  Post(ControlKind::kStop);
  steering.Poll();
  EXPECT_FALSE(waiter.get());
}

TEST_F(SteeringTest, ASignalEndsAPauseToo) {
  std::stop_source outer;
  Steering steering(*store_, observer_, outer.get_token(), kByHand);
  Post(ControlKind::kPause);
  steering.Poll();
  auto waiter = std::async(std::launch::async, [&] { return steering.MayBegin().has_value(); });
  outer.request_stop();
  EXPECT_FALSE(waiter.get());
  EXPECT_TRUE(steering.stop_now().stop_requested());
}

TEST_F(SteeringTest, AStopRequestedBeforeTheBeginningIsHeard) {
  std::stop_source outer;
  outer.request_stop();
  const Steering steering(*store_, observer_, outer.get_token(), kByHand);
  EXPECT_FALSE(steering.MayBegin());
}

TEST_F(SteeringTest, AStopForTheProcessThatDiedDoesNotStopTheNext) {
  Post(ControlKind::kStop);
  clock_.Advance(std::chrono::milliseconds(1));
  ASSERT_TRUE(store_->SetStatus(RunStatus::kRunning, "resumed"));
  const Steering steering(*store_, observer_, {}, kByHand);
  EXPECT_TRUE(steering.MayBegin());
  EXPECT_TRUE(results::ReadControl(folder_.path() / "run")->messages.empty());
  EXPECT_THAT(observer_.lines(), Contains(HasSubstr("passed over")));
}

TEST_F(SteeringTest, GarbageInTheFolderIsNotedOnce) {
  std::filesystem::create_directories(folder_.path() / "run" / "control");
  ASSERT_TRUE(WriteFileAtomic(folder_.path() / "run" / "control" / "1.json", "boo"));
  Steering steering(*store_, observer_, {}, kByHand);
  steering.Poll();
  ASSERT_EQ(Load().events.size(), 1U);
  EXPECT_THAT(Load().events[0].text, HasSubstr("1.json is no message"));
}

TEST_F(SteeringTest, TheListenerHearsByItself) {
  Steering steering(*store_, observer_, {}, std::chrono::milliseconds(1));
  Post(ControlKind::kPause);
  Post(ControlKind::kStop);
  // Waits as long as it takes.
  while (steering.MayBegin()) std::this_thread::yield();
  EXPECT_TRUE(steering.stopping());
}

// In one search: a hint is taken by the next round, and a stop during a question lets the answer
// be stored, ends the run as stopped and loses nothing.
TEST_F(SteeringTest, AStoppedSearchKeepsTheAnswerInFlightAndGoesOn) {
  std::atomic<int> asked{0};
  bool stop = true;
  testing::ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    const int n = ++asked;
    if (n == 2 && stop) {
      Post(ControlKind::kHint, "a hint");
      Post(ControlKind::kStop);
      // The answer comes after the stop was heard.
      while (!results::ReadControl(folder_.path() / "run")->messages.empty()) {
        std::this_thread::yield();
      }
    }
    return Reply(request, n);
  });
  const SearchParts parts{task_, *evaluator_, device_, client, *store_, observer_};
  const auto stopped = RunSteered(parts, config_, {});
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(stopped->status, RunStatus::kStopped);
  EXPECT_EQ(asked, 2);  // nothing begins after a stop whose message is gone
  for (const results::CallRow& call : Load().calls) {
    EXPECT_EQ(call.status, results::CallStatus::kAnswered) << results::ToString(call.key);
  }
  EXPECT_EQ(Load().run.status, RunStatus::kStopped);

  stop = false;
  clock_.Advance(std::chrono::milliseconds(1));
  ASSERT_TRUE(store_->SetStatus(RunStatus::kRunning, "resumed"));
  const auto finished = RunSteered(parts, config_, {});
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_EQ(finished->status, RunStatus::kFinished);
  EXPECT_EQ(asked, 6);  // an idea and a program in each of three rounds
  const results::RunData data = Load();
  ASSERT_EQ(data.hints.size(), 1U);
  EXPECT_EQ(data.Find(data.hints[0].round)->index, 2);
}

TEST_F(SteeringTest, TheRunEndsWhenEveryGoalIsMet) {
  config_.rounds = 50;
  config_.goals = {"< 899.5ns", "1.1x over seed"};
  std::atomic<int> asked{0};
  testing::ScriptedClient client(
      [&](const llm::Request& request) -> Result<std::string> { return Reply(request, ++asked); });
  const SearchParts parts{task_, *evaluator_, device_, client, *store_, observer_};
  const auto summary = RunSteered(parts, config_, {});
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->status, RunStatus::kFinished);
  EXPECT_EQ(summary->rounds, 1);
  EXPECT_THAT(summary->reason, HasSubstr("goal"));
}

}  // namespace
}  // namespace grove::search
