// The ledger: limits hold whatever happens, and its sums are the calls'.
#include "search/ledger.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/meter.h"
#include "search/model_calls.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using results::CallKey;
using results::LedgerKind;
using results::LedgerLimit;
using results::LedgerSpan;
using ::testing::HasSubstr;

results::RunStart Start() {
  SearchConfig config;
  config.task = "tiny";
  return MakeRunStart("run", testing::TinyTask(), config, "test");
}

llm::Request Ask(std::string text, std::int64_t most = 2000) {
  llm::Request request;
  request.role = llm::Role::kCode;
  request.model = "playbook";
  request.messages = {{llm::Message::Author::kUser, std::move(text)}};
  request.max_tokens = Tokens(most);
  return request;
}

llm::Reply Replied(std::int64_t prompt, std::int64_t completion) {
  llm::Reply reply;
  reply.text = "text";
  reply.usage.prompt = Tokens(prompt);
  reply.usage.completion = Tokens(completion);
  return reply;
}

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    results::StoreOptions fast;
    fast.survive_power_loss = false;
    const bool there = std::filesystem::exists(folder_.path() / "run" / "run.db");
    auto store = there ? results::Store::Open(folder_.path(), "run", clock_, fast)
                       : results::Store::Create(folder_.path(), Start(), clock_, fast);
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  Ledger Make(std::vector<LedgerLimit> limits, std::optional<llm::Price> price = std::nullopt) {
    return Ledger(*store_, std::move(limits), [price](std::string_view) { return price; });
  }
  double Spent(LedgerKind kind) { return store_->Total(kind)->settled; }
  double Promised(LedgerKind kind) { return store_->Total(kind)->reserved; }

  testing::FakeClock clock_;
  testing::ScratchFolder folder_;
  std::unique_ptr<results::Store> store_;
};

CallKey Key(int n, int round = 1, int idea = 1) { return {llm::Role::kCode, round, 1, idea, n, 0}; }

TEST_F(LedgerTest, ARequestIsReservedAtItsMostAndSettledAtItsUsage) {
  Ledger ledger = Make({{LedgerKind::kTokens, LedgerSpan::kRun, 10000}});
  llm::Request request = Ask(std::string(300, 'x'));
  auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_EQ(request.max_tokens.value, 2000) << "there was room for all of it";
  EXPECT_EQ(Promised(LedgerKind::kTokens), static_cast<double>(PromptBound(request).value + 2000));
  EXPECT_GE(PromptBound(request).value, 300) << "a byte is at most a token";
  ASSERT_TRUE(ledger.Answer(*begun, "m", Replied(90, 40)));
  EXPECT_EQ(Spent(LedgerKind::kTokens), 130);
  EXPECT_EQ(Spent(LedgerKind::kTokensIn), 90);
  EXPECT_EQ(Spent(LedgerKind::kTokensOut), 40);
  EXPECT_EQ(Promised(LedgerKind::kTokens), 0);
}

TEST_F(LedgerTest, WhatWeCountOurselvesIsBoundedInTheCallAsInTheLedger) {
  Ledger ledger = Make({});
  llm::Request request = Ask(std::string(300, 'x'));
  auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(begun) << begun.error().message;
  llm::Reply reply = Replied(90, 5000);  // a person wrote more than was asked for
  reply.usage.estimated = true;
  ASSERT_TRUE(ledger.Answer(*begun, "mailbox", reply));
  EXPECT_EQ(Spent(LedgerKind::kTokensOut), 2000);
  const auto data = store_->Load();
  ASSERT_TRUE(data) << data.error().message;
  ASSERT_EQ(data->calls.size(), 1U);
  EXPECT_EQ(data->calls[0].usage.completion.value, 2000);
  EXPECT_EQ(static_cast<double>(data->calls[0].usage.total().value), Spent(LedgerKind::kTokens));
}

TEST_F(LedgerTest, NearTheEndTheReplyIsShrunkAndThenNothingIsSent) {
  Ledger ledger = Make({{LedgerKind::kTokens, LedgerSpan::kRun, 1800}});
  llm::Request request = Ask(std::string(100, 'x'));
  auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_EQ(request.max_tokens.value, 1800 - PromptBound(request).value);
  ASSERT_TRUE(ledger.Answer(*begun, "m", Replied(50, 700)));
  EXPECT_FALSE(ledger.exhausted());
  llm::Request next = Ask(std::string(100, 'x'));
  const auto refused = ledger.Begin(Key(2), next, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBudget);
  EXPECT_THAT(refused.error().message, HasSubstr("the run's limit of 1800 tokens is reached: 750"));
  EXPECT_TRUE(ledger.exhausted());
  EXPECT_EQ(Promised(LedgerKind::kTokens), 0) << "a refused request leaves no trace";
  EXPECT_EQ(store_->Load()->calls.size(), 1U);
}

TEST_F(LedgerTest, AFailureThatMayHaveBeenBilledCostsAllARefusalNothing) {
  Ledger ledger = Make({});
  llm::Request request = Ask("question", 1000);
  auto first = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(ledger.Fail(*first, "cut off", true));
  const double whole = static_cast<double>(PromptBound(request).value + 1000);
  EXPECT_EQ(Spent(LedgerKind::kTokens), whole);
  auto second = ledger.Begin(Key(2), request, {});
  ASSERT_TRUE(ledger.Fail(*second, "429", false));
  EXPECT_EQ(Spent(LedgerKind::kTokens), whole);
}

TEST_F(LedgerTest, WhatAKilledProcessHadReservedCountsAsSpent) {
  llm::Request request = Ask("question", 1000);
  {
    Ledger ledger = Make({});
    ASSERT_TRUE(ledger.Begin(Key(1), request, {}));
  }
  Open();
  Ledger ledger = Make({});
  EXPECT_EQ(Promised(LedgerKind::kTokens), 0);
  EXPECT_EQ(Spent(LedgerKind::kTokens), static_cast<double>(PromptBound(request).value + 1000));
}

TEST_F(LedgerTest, AWaitThatNobodyBillsCostsNothingWhenTheProcessIsKilled) {
  llm::Request request = Ask("question", 1000);
  {
    Ledger ledger = Make({});
    ASSERT_TRUE(ledger.Begin(Key(1), request, {}));
    request.model = "mailbox";
    ASSERT_TRUE(ledger.Begin(Key(2), request, {}));
  }
  Open();
  const Ledger ledger(*store_, {}, {}, [](std::string_view label) { return label == "mailbox"; });
  EXPECT_EQ(Promised(LedgerKind::kTokens), 0);
  EXPECT_EQ(Spent(LedgerKind::kTokens), static_cast<double>(PromptBound(request).value + 1000))
      << "the other one's";
}

TEST_F(LedgerTest, LimitsOfARoundAndAnIdeaEndThatAloneAndNotTheRun) {
  Ledger ledger = Make({{LedgerKind::kTokensOut, LedgerSpan::kIdea, 1500},
                        {LedgerKind::kTokensOut, LedgerSpan::kRound, 3000}});
  const auto spend = [&](CallKey key) {
    llm::Request request = Ask("q", 1400);
    auto begun = ledger.Begin(key, request, {});
    if (!begun) return begun.error().message;
    EXPECT_TRUE(ledger.Answer(*begun, "m", Replied(1, request.max_tokens.value)));
    return std::string();
  };
  EXPECT_EQ(spend(Key(1, 1, 1)), "");
  EXPECT_THAT(spend(Key(2, 1, 1)), HasSubstr("the idea's limit of 1500 tokens_out"));
  EXPECT_EQ(spend(Key(1, 1, 2)), "");
  EXPECT_THAT(spend(Key(1, 1, 3)), HasSubstr("the round's limit of 3000 tokens_out"));
  EXPECT_EQ(spend(Key(1, 2, 1)), "") << "another round has its own";
  EXPECT_FALSE(ledger.exhausted());
}

TEST_F(LedgerTest, DollarsAreBookedByThePriceAndBoundTheRequest) {
  llm::Price price;
  price.in = price.write = 2;
  price.cached = 1;
  price.out = 10;
  Ledger ledger = Make({{LedgerKind::kDollars, LedgerSpan::kRun, 0.015}}, price);
  llm::Request request = Ask("q");
  auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_LT(request.max_tokens.value, 1500);
  EXPECT_LE(Promised(LedgerKind::kDollars), 0.015);
  llm::Reply reply = Replied(60, 100);
  reply.usage.cached = Tokens(20);
  ASSERT_TRUE(ledger.Answer(*begun, "m", reply));
  EXPECT_DOUBLE_EQ(Spent(LedgerKind::kDollars), (40 * 2 + 20 * 1 + 100 * 10) / 1e6);
  EXPECT_DOUBLE_EQ(*store_->Load()->calls[0].dollars, Spent(LedgerKind::kDollars));
}

TEST_F(LedgerTest, AnUnknownPriceLeavesDollarsUnknown) {
  Ledger ledger = Make({});
  llm::Request request = Ask("q");
  auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(ledger.Answer(*begun, "m", Replied(60, 100)));
  EXPECT_FALSE(store_->Load()->calls[0].dollars);
}

TEST_F(LedgerTest, EvaluationsAndGpuSecondsAreReservedAndSettled) {
  Ledger ledger = Make({{LedgerKind::kEvaluations, LedgerSpan::kRun, 2},
                        {LedgerKind::kGpuSeconds, LedgerSpan::kRun, 100}});
  {
    auto hold = ledger.ReserveEvaluation("r1.i1.b1", {1, 1, CallId()}, true, {});
    ASSERT_TRUE(hold) << hold.error().message;
    EXPECT_EQ(Promised(LedgerKind::kGpuSeconds), 30);
    ASSERT_TRUE(hold->Settle(Seconds(4)));
  }
  EXPECT_EQ(Spent(LedgerKind::kGpuSeconds), 4);
  {
    auto hold = ledger.ReserveEvaluation("r1.i1.b1", {1, 1, CallId()}, true, {});
    ASSERT_TRUE(hold) << "the same candidate again: a repair";
  }
  EXPECT_EQ(Spent(LedgerKind::kEvaluations), 2);
  EXPECT_EQ(Spent(LedgerKind::kGpuSeconds), 34) << "unsettled, it counts in full";
  const auto third = ledger.ReserveEvaluation("r1.i1.b2", {1, 1, CallId()}, true, {});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kBudget);
  EXPECT_TRUE(ledger.exhausted());
}

TEST_F(LedgerTest, WhatNoLimitBoundsIsBookedWhenItEnds) {
  Ledger ledger = Make({{LedgerKind::kTokens, LedgerSpan::kRun, 1e6}});
  const results::LedgerScope scope{1, 1, CallId()};
  auto hold = ledger.ReserveEvaluation("r1.i1.b1", scope, true, {});
  ASSERT_TRUE(hold);
  EXPECT_EQ(Promised(LedgerKind::kGpuSeconds), 0);
  ASSERT_TRUE(hold->Settle(Seconds(4)));
  EXPECT_EQ(Spent(LedgerKind::kGpuSeconds), 4);
  EXPECT_EQ(Spent(LedgerKind::kEvaluations), 1);
  {
    auto second = ledger.ReserveEvaluation("r1.i1.b1", scope, true, {});
    ASSERT_TRUE(second) << "a repair";
    const auto cost = second->SettleReserved(Seconds(2));
    ASSERT_TRUE(cost);
    EXPECT_EQ(Spent(LedgerKind::kGpuSeconds), 4) << "the caller's to book";
    ASSERT_TRUE(ledger.BookEvaluation("r1.i1.b1", scope, *cost));
  }
  EXPECT_EQ(Spent(LedgerKind::kGpuSeconds), 6);
  { ASSERT_TRUE(ledger.ReserveEvaluation("r1.i1.b2", scope, true, {})); }
  EXPECT_EQ(Spent(LedgerKind::kEvaluations), 3) << "unsettled, it counts in full";
}

TEST_F(LedgerTest, ACallThatIsAnsweredIsNotBegunAgain) {
  Ledger ledger = Make({{LedgerKind::kTokens, LedgerSpan::kRun, 1e6}});
  llm::Request request = Ask("q");
  const auto begun = ledger.Begin(Key(1), request, {});
  ASSERT_TRUE(begun);
  EXPECT_FALSE(begun->answered());
  llm::Reply reply;
  reply.text = "a";
  reply.usage.completion = Tokens(1);
  ASSERT_TRUE(ledger.Answer(*begun, "m", reply));
  llm::Request same = Ask("q");
  const Tokens asked = same.max_tokens;
  const auto again = ledger.Begin(Key(1), same, {});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->answered());
  EXPECT_TRUE(again->reserved.empty());
  EXPECT_EQ(same.max_tokens, asked);
  EXPECT_EQ(Promised(LedgerKind::kTokens), 0);
}

TEST_F(LedgerTest, WallTimeCountsOverSessionsButNotBetweenThem) {
  const LedgerLimit limit{LedgerKind::kSeconds, LedgerSpan::kRun, 100};
  llm::Request request = Ask("q");
  {
    Ledger ledger = Make({limit});
    ASSERT_TRUE(ledger.Begin(Key(1), request, {}));
    clock_.Advance(std::chrono::seconds(60));
    auto second = ledger.Begin(Key(2), request, {});
    ASSERT_TRUE(second);
    EXPECT_EQ(Spent(LedgerKind::kSeconds), 60);
  }
  clock_.Advance(std::chrono::hours(10));
  Open();
  Ledger ledger = Make({limit});
  ASSERT_TRUE(ledger.Begin(Key(3), request, {}));
  clock_.Advance(std::chrono::seconds(39));
  EXPECT_DOUBLE_EQ((*ledger.TimeLeft({}))->count(), 1);
  clock_.Advance(std::chrono::seconds(2));
  const auto late = ledger.Begin(Key(4), request, {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kBudget);
}

TEST_F(LedgerTest, ARequestWaitsForReservationsThatWillBeGivenBack) {
  Ledger ledger = Make({{LedgerKind::kTokensOut, LedgerSpan::kRun, 3000}});
  llm::Request first = Ask("q");
  auto begun = ledger.Begin(Key(1), first, {});
  ASSERT_TRUE(begun);
  std::atomic<bool> through{false};
  std::jthread second([&] {
    llm::Request request = Ask("q");
    auto other = ledger.Begin(Key(2), request, {});
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ(request.max_tokens.value, 2000) << "it was not shrunk, it waited";
    through = true;
    EXPECT_TRUE(ledger.Answer(*other, "m", Replied(1, 10)));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(through);
  ASSERT_TRUE(ledger.Answer(*begun, "m", Replied(1, 10)));
}

TEST_F(LedgerTest, WhenWallTimeIsOverARequestInFlightIsCancelledAndBookedInFull) {
  // Never answers; ends when it is stopped.
  class Endless final : public llm::Client {
   public:
    std::string_view name() const override { return "endless"; }
    Result<llm::Reply> Complete(const llm::Request& request, std::stop_token stop) override {
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      request.meter->Ended(true);
      return Fail(ErrorCode::kCancelled, "cancelled");
    }
  };
  const SystemClock clock;
  results::StoreOptions fast;
  fast.survive_power_loss = false;
  auto store = results::Store::Create(
      folder_.path(),
      [] {
        auto start = Start();
        start.name = "timed";
        return start;
      }(),
      clock, fast);
  ASSERT_TRUE(store) << store.error().message;
  SearchConfig config;
  config.limits = {{LedgerKind::kSeconds, LedgerSpan::kRun, 0.2}};
  Endless client;
  ModelCalls calls(**store, client, config);
  const llm::Request request = Ask("question", 1000);
  const auto answer = calls.Ask(Key(1), request, {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBudget) << answer.error().message;
  EXPECT_EQ((*store)->Total(LedgerKind::kTokens)->settled,
            static_cast<double>(PromptBound(request).value + 1000));
}

// A provider that fails in all ways, and bills as such providers do.
class RandomProvider final : public llm::Client {
 public:
  explicit RandomProvider(std::uint64_t seed) : engine_(seed) {}
  std::string_view name() const override { return "random"; }
  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
    const auto draw = [&](std::int64_t low, std::int64_t high) {
      const std::lock_guard lock(mutex_);
      return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
    };
    const std::int64_t prompt = draw(1, PromptBound(request).value);
    int retries = 0;
    while (true) {
      if (draw(0, 3) == 0) std::this_thread::yield();
      const auto fate = draw(0, 9);
      if (fate < 6) {
        llm::Reply reply = Replied(prompt, draw(1, request.max_tokens.value));
        reply.retries = retries;
        billed_ += reply.usage.total().value;
        return reply;
      }
      // What an attempt that is cut off costs is known to the provider alone.
      const bool billed = fate >= 8;
      if (billed) billed_ += draw(0, PromptBound(request).value + request.max_tokens.value);
      if (fate % 2 == 0 || retries == 2) {
        request.meter->Ended(billed);
        return Fail(ErrorCode::kUnavailable, "failed");
      }
      ++retries;
      if (!request.meter->Again(billed)) return Fail(ErrorCode::kUnavailable, "no attempt left");
    }
  }
  std::int64_t billed() const { return billed_; }

 private:
  std::mutex mutex_;
  std::mt19937_64 engine_;
  std::atomic<std::int64_t> billed_{0};
};

// One schedule: some threads with some requests under random limits. Checks after each of them.
void RunSchedule(std::uint64_t seed, const Clock& clock, const std::filesystem::path& folder) {
  std::mt19937_64 engine(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  results::StoreOptions fast;
  fast.survive_power_loss = false;
  auto store = results::Store::Create(folder, Start(), clock, fast);
  ASSERT_TRUE(store) << store.error().message;
  SearchConfig config;
  config.limits = {
      {LedgerKind::kTokens, LedgerSpan::kRun, static_cast<double>(draw(500, 12000))},
      {LedgerKind::kTokensOut, LedgerSpan::kRound, static_cast<double>(draw(1000, 5000))},
      {LedgerKind::kTokensIn, LedgerSpan::kIdea, static_cast<double>(draw(300, 1500))},
      {LedgerKind::kDollars, LedgerSpan::kRun, draw(5, 60) / 1000.0}};
  ModelSpec model;
  model.name = "playbook";
  model.price_in = 1;
  model.price_out = 4;
  config.models = {model};
  RandomProvider provider(seed);
  ModelCalls calls(**store, provider, config);
  const int threads = draw(2, 6);
  const int each = draw(1, 4);
  const int text = draw(1, 400);
  {
    std::vector<std::jthread> askers;
    for (int t = 0; t < threads; ++t) {
      askers.emplace_back([&, t] {
        for (int n = 0; n < each; ++n) {
          const auto answer = calls.Ask(
              Key(t * each + n, 1 + n % 2, 1 + t % 3),
              Ask(std::string(static_cast<std::size_t>(text), 'x'), 200 + 300 * ((t + n) % 4)), {});
          if (answer) continue;
          const ErrorCode code = answer.error().code;
          EXPECT_TRUE(code == ErrorCode::kBudget || code == ErrorCode::kUnavailable)
              << answer.error().message;
        }
      });
    }
  }
  const auto data = (*store)->Load();
  ASSERT_TRUE(data);
  std::map<LedgerKind, double> sums;
  std::map<int, double> out_of_round;
  std::map<std::pair<int, int>, double> in_of_idea;
  std::map<CallId, double> of_call;
  for (const results::LedgerRow& row : data->ledger) {
    ASSERT_TRUE(row.settled) << row.key;
    sums[row.kind] += *row.settled;
    if (row.kind == LedgerKind::kTokensOut) out_of_round[row.round] += *row.settled;
    if (row.kind == LedgerKind::kTokensIn) in_of_idea[{row.round, row.idea}] += *row.settled;
    if (row.kind == LedgerKind::kTokens) of_call[row.call] += *row.settled;
  }
  EXPECT_LE(sums[LedgerKind::kTokens], config.limits[0].most);
  for (const auto& [round, sum] : out_of_round) EXPECT_LE(sum, config.limits[1].most);
  for (const auto& [idea, sum] : in_of_idea) EXPECT_LE(sum, config.limits[2].most);
  EXPECT_LE(sums[LedgerKind::kDollars], config.limits[3].most + 1e-12);
  EXPECT_EQ(sums[LedgerKind::kTokens], sums[LedgerKind::kTokensIn] + sums[LedgerKind::kTokensOut]);
  // What was really billed is never more than what the ledger says, and so within the limit.
  EXPECT_LE(static_cast<double>(provider.billed()), sums[LedgerKind::kTokens]);
  // Every entry belongs to a call, and an answered one has paid at least for its reply.
  double all = 0;
  double dollars = 0;
  for (const results::CallRow& call : data->calls) {
    EXPECT_NE(call.status, results::CallStatus::kPending);
    all += of_call[call.id];
    dollars += call.dollars.value_or(0);
    if (call.status == results::CallStatus::kAnswered && call.attempts == 1) {
      EXPECT_EQ(of_call[call.id], static_cast<double>(call.usage.total().value));
    }
  }
  EXPECT_EQ(all, sums[LedgerKind::kTokens]);
  EXPECT_NEAR(dollars, sums[LedgerKind::kDollars], 1e-9);
}

// GROVE_SCHEDULES=10000 for the long proof (docs/models.md has its figure).
TEST(LedgerProperty, NoScheduleOfConcurrentRequestsAndFailuresExceedsALimit) {
  const char* wanted = std::getenv("GROVE_SCHEDULES");
  const int schedules = wanted == nullptr ? 150 : std::atoi(wanted);
  const char* fixed = std::getenv("GROVE_SEED");
  const std::uint64_t base =
      fixed == nullptr ? std::random_device{}() : std::strtoull(fixed, nullptr, 10);
  const SystemClock clock;
  const bool memory = std::filesystem::is_directory("/dev/shm");
  const std::filesystem::path folder =
      (memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
      fmt::format("grove-ledger-{}-{}", base,
                  std::chrono::steady_clock::now().time_since_epoch().count());
  for (int i = 0; i < schedules; ++i) {
    const std::uint64_t seed = base + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("GROVE_SCHEDULES=1 GROVE_SEED={}", seed));
    RunSchedule(seed, clock, folder);
    std::filesystem::remove_all(folder);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace grove::search
