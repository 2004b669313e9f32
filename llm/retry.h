// When to ask an endpoint again and how many requests it may have at once: three small state
// machines over time points that are passed in, so that tests move the time. Thread-compatible: the
// transport's I/O thread owns them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grove::llm {

using SteadyTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case

// The first value of header `name` (lower case); empty when absent.
std::string_view FindHeader(const Headers& headers, std::string_view name);

struct RetryPolicy {
  int attempts = 5;  // the first one included
  std::chrono::milliseconds base{1000};
  std::chrono::milliseconds cap{30000};
  // An endpoint that asks for a longer wait is an error at once, with the wait in it.
  std::chrono::milliseconds longest_wait{120000};
};

// The wait after the n-th failure (from 1): min(cap, base * 2^(n-1)), of which `jitter` in [0, 1)
// chooses between a half and the whole.
std::chrono::milliseconds Backoff(const RetryPolicy& policy, int failures, double jitter);

// The value of Retry-After: seconds ("3", "0.5") or an HTTP date; a date in the past is 0.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view value, WallTime now);
// A duration as rate-limit headers write it: "20ms", "1s", "6m0s", "1h2m3.5s".
std::optional<std::chrono::milliseconds> ParseResetDuration(std::string_view value);

// How long the headers ask to wait before the next request: retry-after-ms, Retry-After, else the
// longest reset among the exhausted limits of x-ratelimit-{remaining,reset}-{requests,tokens} and
// anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{remaining,reset} (RFC 3339).
std::optional<std::chrono::milliseconds> AskedWait(const Headers& headers, WallTime now);

// Additive increase, multiplicative decrease of the requests in flight to one endpoint.
struct ConcurrencyOptions {
  int initial = 16;
  int most = 256;
  // Refusals within this time of the last decrease belong to it.
  std::chrono::milliseconds settle{1000};
};
class ConcurrencyLimit {
 public:
  explicit ConcurrencyLimit(ConcurrencyOptions options)
      : options_(options), limit_(options.initial) {}
  bool Admits() const { return in_flight_ < static_cast<int>(limit_); }
  void Begin() { ++in_flight_; }
  void End() { --in_flight_; }
  // A request ended well: one more per `limit` of them, when the limit was in use.
  void Succeeded();
  // A 429 or its like: halves the limit, never below 1.
  void Throttled(SteadyTime now);
  int limit() const { return static_cast<int>(limit_); }
  int in_flight() const { return in_flight_; }

 private:
  const ConcurrencyOptions options_;
  double limit_;
  int in_flight_ = 0;
  std::optional<SteadyTime> decreased_;
};

// Opens after failures in a row, so that a run ends with one clear line instead of burning its
// rounds; after the pause one request probes.
struct BreakerOptions {
  int failures = 8;
  std::chrono::milliseconds pause{30000};
};
class CircuitBreaker {
 public:
  enum class Gate {
    kGo,
    kWait,  // a probe is under way
    kDown,
  };
  explicit CircuitBreaker(BreakerOptions options) : options_(options) {}
  // Whether a request may start now; kGo of an open breaker makes it the probe.
  Gate Ask(SteadyTime now);
  void Succeeded();
  void Failed(SteadyTime now, std::string why);
  // Whether the probe is under way: after kGo, whether that request is it.
  bool probing() const { return probing_; }
  // The probe ended without telling anything (cancelled).
  void Abandoned();
  bool open(SteadyTime now) const { return opened_ && !probing_ && now < until_; }
  int failures() const { return failures_; }
  const std::string& why() const { return why_; }  // the last failure
  SteadyTime until() const { return until_; }

 private:
  const BreakerOptions options_;
  int failures_ = 0;
  bool opened_ = false;
  bool probing_ = false;
  SteadyTime until_;
  std::string why_;
};

}  // namespace grove::llm
