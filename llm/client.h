// The one interface to models. Implementations differ in where the words come from; what they share
// is a request with limits, a reply with usage, and errors that name the caller's action.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::llm {

// What a request is for; models can be chosen per role.
enum class Role { kIdea, kCode, kRepair, kAdviser };
std::string_view Name(Role role);

struct Message {
  enum class Author { kSystem, kUser, kAssistant };
  Author author = Author::kUser;
  std::string text;
  // Bytes at the start of the text with which other requests begin as well, asked within minutes;
  // whole characters. Providers may keep them for less money, a store keeps them once.
  std::size_t shared = 0;
};

class Meter;

struct Request {
  Role role = Role::kIdea;
  std::string model;
  std::vector<Message> messages;
  Tokens max_tokens{16384};  // of the reply: a Hopper kernel with its plan may take 13,000
  std::optional<double> temperature;
  // Distinguishes siblings: the same prompt with another seed is another sample.
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  // Told of failed attempts (llm/meter.h), by clients of HTTP endpoints; borrowed for the call. No
  // part of the question: it is neither sent nor stored.
  Meter* meter = nullptr;
  // Called with all of the reply's text so far whenever more of it has come, by clients that get
  // it in pieces; on a thread of the client, before Complete returns. After an attempt that broke
  // off, the text starts again. No part of the request: neither sent nor stored.
  std::function<void(std::string_view)> on_text;
};

struct Usage {
  Tokens prompt;
  Tokens cached;      // part of prompt
  Tokens completion;  // reasoning included
  Tokens reasoning;
  bool estimated = false;  // counted by us, not reported by the provider
  Tokens total() const { return prompt + completion; }
};

enum class FinishReason { kStop, kLength, kFiltered, kOther };
std::string_view Name(FinishReason reason);

struct Reply {
  std::string text;
  Usage usage;
  FinishReason finish = FinishReason::kStop;
  std::string model;  // as reported
  Milliseconds latency{0};
  int retries = 0;  // attempts that failed before the one that gave this
};

// Thread-safe: many Complete calls may be in flight.
class Client {
 public:
  virtual ~Client() = default;
  // Blocks until the reply ends. kUnavailable: retry later; kInvalidInput: the request itself is
  // refused; kNotFound: no such model or address, or (replay) the request was not recorded;
  // kResource: the account has no credit, add some and resume; kCancelled: `stop` was requested.
  virtual Result<Reply> Complete(const Request& request, std::stop_token stop) = 0;
  virtual std::string_view name() const = 0;
};

// Our own estimate, meant to be high: about one token per 3 bytes, at least one per word.
Tokens EstimateTokens(std::string_view text);

}  // namespace grove::llm
