// Waits, concurrency and the circuit breaker, with the time passed in.
#include "llm/retry.h"

#include <gtest/gtest.h>

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Sun, 29 Nov 2026 12:00:00 GMT
const WallTime kNow = std::chrono::system_clock::from_time_t(1795953600);

TEST(Backoff, DoublesUpToTheCapAndJitterTakesAtMostHalf) {
  const RetryPolicy policy{.base = 100ms, .cap = 1000ms};
  EXPECT_EQ(Backoff(policy, 1, 1.0), 100ms);
  EXPECT_EQ(Backoff(policy, 2, 1.0), 200ms);
  EXPECT_EQ(Backoff(policy, 3, 0.0), 200ms);
  EXPECT_EQ(Backoff(policy, 4, 1.0), 800ms);
  EXPECT_EQ(Backoff(policy, 5, 1.0), 1000ms);
  EXPECT_EQ(Backoff(policy, 1000000, 0.0), 500ms);
}

TEST(RetryAfter, SecondsAndDatesAreRead) {
  EXPECT_EQ(ParseRetryAfter("3", kNow), milliseconds(3000));
  EXPECT_EQ(ParseRetryAfter(" 0.25 ", kNow), milliseconds(250));
  EXPECT_EQ(ParseRetryAfter("Sun, 29 Nov 2026 12:00:20 GMT", kNow), milliseconds(20000));
  EXPECT_EQ(ParseRetryAfter("Sunday, 29-Nov-26 12:01:00 GMT", kNow), milliseconds(60000));
  EXPECT_EQ(ParseRetryAfter("Sun, 29 Nov 2026 11:00:00 GMT", kNow), milliseconds(0));
}

TEST(RetryAfter, WhatIsNeitherIsNothing) {
  for (const char* text : {"", "soon", "-5", "3 apples", "1e", "nan", "inf"}) {
    EXPECT_EQ(ParseRetryAfter(text, kNow), std::nullopt) << text;
  }
}

TEST(RetryAfter, AnAbsurdNumberDoesNotOverflow) {
  const auto wait = ParseRetryAfter("99999999999999999999", kNow);
  ASSERT_TRUE(wait);
  EXPECT_GT(*wait, 24h);
}

TEST(ResetDuration, UnitsAddUp) {
  EXPECT_EQ(ParseResetDuration("20ms"), milliseconds(20));
  EXPECT_EQ(ParseResetDuration("1s"), milliseconds(1000));
  EXPECT_EQ(ParseResetDuration("6m0s"), milliseconds(360000));
  EXPECT_EQ(ParseResetDuration("1h2m3.5s"), milliseconds(3723500));
  EXPECT_EQ(ParseResetDuration("7"), milliseconds(7000));
  EXPECT_EQ(ParseResetDuration("5 parsecs"), std::nullopt);
}

TEST(AskedWait, RetryAfterComesFirst) {
  const Headers headers = {{"x-ratelimit-remaining-requests", "0"},
                           {"x-ratelimit-reset-requests", "9s"},
                           {"retry-after", "2"}};
  EXPECT_EQ(AskedWait(headers, kNow), milliseconds(2000));
  EXPECT_EQ(AskedWait({{"retry-after-ms", "150"}, {"retry-after", "2"}}, kNow), milliseconds(150));
}

TEST(AskedWait, OnlyAnExhaustedLimitHoldsBack) {
  EXPECT_EQ(
      AskedWait({{"x-ratelimit-remaining-requests", "3"}, {"x-ratelimit-reset-requests", "9s"}},
                kNow),
      std::nullopt);
  EXPECT_EQ(AskedWait({{"x-ratelimit-remaining-requests", "0"},
                       {"x-ratelimit-reset-requests", "9s"},
                       {"x-ratelimit-remaining-tokens", "0"},
                       {"x-ratelimit-reset-tokens", "11s"}},
                      kNow),
            milliseconds(11000));
}

TEST(AskedWait, AnthropicNamesTheInstant) {
  EXPECT_EQ(AskedWait({{"anthropic-ratelimit-output-tokens-remaining", "0"},
                       {"anthropic-ratelimit-output-tokens-reset", "2026-11-29T12:00:05Z"}},
                      kNow),
            milliseconds(5000));
  EXPECT_EQ(AskedWait({{"anthropic-ratelimit-tokens-remaining", "0"},
                       {"anthropic-ratelimit-tokens-reset", "tomorrow"}},
                      kNow),
            std::nullopt);
}

TEST(ConcurrencyLimit, HalvesOncePerBurstAndNeverBelowOne) {
  const SteadyTime now{};
  ConcurrencyLimit limit({.initial = 16, .most = 32, .settle = 1000ms});
  for (int i = 0; i < 10; ++i) limit.Throttled(now + milliseconds(i));
  EXPECT_EQ(limit.limit(), 8);
  for (int i = 2; i < 20; ++i) limit.Throttled(now + std::chrono::seconds(i));
  EXPECT_EQ(limit.limit(), 1);
  EXPECT_TRUE(limit.Admits());
  limit.Begin();
  EXPECT_FALSE(limit.Admits());
}

TEST(ConcurrencyLimit, GrowsByOnePerRoundOnlyWhileItIsUsed) {
  ConcurrencyLimit limit({.initial = 4, .most = 6, .settle = 1000ms});
  for (int i = 0; i < 100; ++i) limit.Succeeded();
  EXPECT_EQ(limit.limit(), 4) << "nothing was held back";
  for (int i = 0; i < 4; ++i) limit.Begin();
  for (int i = 0; i < 5; ++i) limit.Succeeded();
  EXPECT_EQ(limit.limit(), 5);
  for (int i = 0; i < 3; ++i) limit.Begin();
  for (int i = 0; i < 100; ++i) limit.Succeeded();
  EXPECT_EQ(limit.limit(), 6);
}

TEST(CircuitBreaker, OpensAfterFailuresInARowAndProbesAfterThePause) {
  const SteadyTime now{};
  CircuitBreaker breaker({.failures = 3, .pause = 1000ms});
  breaker.Failed(now, "a");
  breaker.Failed(now, "b");
  EXPECT_EQ(breaker.Ask(now), CircuitBreaker::Gate::kGo);
  breaker.Failed(now, "c");
  EXPECT_EQ(breaker.Ask(now), CircuitBreaker::Gate::kDown);
  EXPECT_EQ(breaker.why(), "c");
  EXPECT_EQ(breaker.Ask(now + 1001ms), CircuitBreaker::Gate::kGo);
  EXPECT_TRUE(breaker.probing());
  EXPECT_EQ(breaker.Ask(now + 1001ms), CircuitBreaker::Gate::kWait);
  breaker.Failed(now + 1500ms, "d");
  EXPECT_EQ(breaker.Ask(now + 2000ms), CircuitBreaker::Gate::kDown);
  EXPECT_EQ(breaker.Ask(now + 2600ms), CircuitBreaker::Gate::kGo);
  breaker.Succeeded();
  EXPECT_EQ(breaker.Ask(now + 2600ms), CircuitBreaker::Gate::kGo);
  EXPECT_FALSE(breaker.probing());
}

TEST(CircuitBreaker, ASuccessBetweenFailuresStartsTheCountAgain) {
  const SteadyTime now{};
  CircuitBreaker breaker({.failures = 2, .pause = 1000ms});
  for (int i = 0; i < 10; ++i) {
    breaker.Failed(now, "x");
    breaker.Succeeded();
  }
  EXPECT_EQ(breaker.Ask(now), CircuitBreaker::Gate::kGo);
}

TEST(CircuitBreaker, AnAbandonedProbeLetsTheNextOneGo) {
  const SteadyTime now{};
  CircuitBreaker breaker({.failures = 1, .pause = 1000ms});
  breaker.Failed(now, "x");
  ASSERT_EQ(breaker.Ask(now + 2s), CircuitBreaker::Gate::kGo);
  breaker.Abandoned();
  EXPECT_EQ(breaker.Ask(now + 2s), CircuitBreaker::Gate::kGo);
}

}  // namespace
}  // namespace grove::llm
