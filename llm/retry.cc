#include "llm/retry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include <curl/curl.h>

namespace grove::llm {
namespace {

using std::chrono::milliseconds;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// A non-negative decimal number at the front of `text`, which moves behind it.
std::optional<double> TakeNumber(std::string_view& text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Saturates: a hostile wait must not overflow.
milliseconds FromSeconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(std::min(seconds, 1e9) * 1000));
}

milliseconds Until(std::time_t then, WallTime now) {
  const auto wait = std::chrono::system_clock::from_time_t(then) - now;
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(wait));
}

// "2026-11-29T12:00:00Z", fractions and offsets ignored but for Z.
std::optional<std::time_t> ParseRfc3339(std::string_view text) {
  std::tm tm{};
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                  &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6) {
    return std::nullopt;
  }
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  const std::time_t time = timegm(&tm);
  if (time < 0) return std::nullopt;
  return time;
}

}  // namespace

std::string_view FindHeader(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

milliseconds Backoff(const RetryPolicy& policy, int failures, double jitter) {
  const double doubled =
      static_cast<double>(policy.base.count()) * std::pow(2.0, std::clamp(failures - 1, 0, 30));
  const double whole = std::min(doubled, static_cast<double>(policy.cap.count()));
  return milliseconds(
      static_cast<std::int64_t>(whole * (0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0))));
}

std::optional<milliseconds> ParseRetryAfter(std::string_view value, WallTime now) {
  value = Trimmed(value);
  if (value.empty() || value.size() > 64) return std::nullopt;
  if (std::isdigit(static_cast<unsigned char>(value.front()))) {
    std::string_view rest = value;
    const auto seconds = TakeNumber(rest);
    if (!seconds || !rest.empty()) return std::nullopt;
    return FromSeconds(*seconds);
  }
  const std::time_t then = curl_getdate(std::string(value).c_str(), nullptr);
  if (then < 0) return std::nullopt;
  return Until(then, now);
}

std::optional<milliseconds> ParseResetDuration(std::string_view value) {
  value = Trimmed(value);
  if (value.empty()) return std::nullopt;
  double seconds = 0;
  while (!value.empty()) {
    const auto number = TakeNumber(value);
    if (!number) return std::nullopt;
    double unit = 1;
    if (value.substr(0, 2) == "ms") {
      unit = 1e-3;
      value.remove_prefix(2);
    } else if (!value.empty()) {
      switch (value.front()) {
        case 's':
          unit = 1;
          break;
        case 'm':
          unit = 60;
          break;
        case 'h':
          unit = 3600;
          break;
        case 'd':
          unit = 86400;
          break;
        default:
          return std::nullopt;
      }
      value.remove_prefix(1);
    }
    seconds += *number * unit;
  }
  return FromSeconds(seconds);
}

std::optional<milliseconds> AskedWait(const Headers& headers, WallTime now) {
  if (std::string_view text = Trimmed(FindHeader(headers, "retry-after-ms")); !text.empty()) {
    if (const auto ms = TakeNumber(text); ms && text.empty()) return FromSeconds(*ms / 1000);
  }
  if (const auto wait = ParseRetryAfter(FindHeader(headers, "retry-after"), now)) return wait;
  std::optional<milliseconds> longest;
  const auto consider = [&](std::string_view remaining, std::optional<milliseconds> reset) {
    remaining = Trimmed(remaining);
    const bool exhausted = !remaining.empty() && (remaining == "0" || remaining.front() == '-');
    if (exhausted && reset) longest = std::max(longest.value_or(milliseconds(0)), *reset);
  };
  for (const char* what : {"requests", "tokens"}) {
    const std::string name(what);
    consider(FindHeader(headers, "x-ratelimit-remaining-" + name),
             ParseResetDuration(FindHeader(headers, "x-ratelimit-reset-" + name)));
  }
  for (const char* what : {"requests", "tokens", "input-tokens", "output-tokens"}) {
    const std::string name = std::string("anthropic-ratelimit-") + what;
    std::optional<milliseconds> reset;
    if (const auto time = ParseRfc3339(FindHeader(headers, name + "-reset"))) {
      reset = Until(*time, now);
    }
    consider(FindHeader(headers, name + "-remaining"), reset);
  }
  return longest;
}

void ConcurrencyLimit::Succeeded() {
  // Only a limit that held something back has shown that it can be higher.
  if (in_flight_ + 1 >= static_cast<int>(limit_)) {
    limit_ = std::min(static_cast<double>(options_.most), limit_ + 1.0 / limit_);
  }
}

void ConcurrencyLimit::Throttled(SteadyTime now) {
  if (decreased_ && now - *decreased_ < options_.settle) return;
  decreased_ = now;
  limit_ = std::max(1.0, limit_ / 2);
}

CircuitBreaker::Gate CircuitBreaker::Ask(SteadyTime now) {
  if (!opened_) return Gate::kGo;
  if (probing_) return Gate::kWait;
  if (now < until_) return Gate::kDown;
  probing_ = true;
  return Gate::kGo;
}

void CircuitBreaker::Succeeded() {
  failures_ = 0;
  opened_ = false;
  probing_ = false;
}

void CircuitBreaker::Failed(SteadyTime now, std::string why) {
  ++failures_;
  why_ = std::move(why);
  if (probing_ || failures_ >= options_.failures) {
    opened_ = true;
    probing_ = false;
    until_ = now + options_.pause;
  }
}

void CircuitBreaker::Abandoned() { probing_ = false; }

}  // namespace grove::llm
