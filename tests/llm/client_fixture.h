// What the clients' tests share: a transport that retries at once, a clock that can jump.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "llm/client.h"
#include "llm/transport.h"
#include "tests/support/scripted_server.h"

namespace grove::llm {

// The machine's time plus what a test adds to it. Thread-safe.
class JumpingClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::now() + Jumped();
  }
  std::chrono::system_clock::time_point WallTime() const override {
    return std::chrono::system_clock::now() + Jumped();
  }
  void Jump(std::chrono::milliseconds by) { jumped_ += by.count(); }

 private:
  std::chrono::milliseconds Jumped() const { return std::chrono::milliseconds(jumped_.load()); }
  std::atomic<std::int64_t> jumped_{0};
};

class ClientTest : public ::testing::Test {
 protected:
  static TransportOptions Fast() {
    TransportOptions options;
    options.retry.attempts = 3;
    options.retry.base = std::chrono::milliseconds(1);
    options.retry.cap = std::chrono::milliseconds(4);
    options.breaker.failures = 1000;
    return options;
  }

  // A server with `script` and a transport with `options`. Once per test.
  void Serve(testing::ScriptedServer::Script script, const TransportOptions& options = Fast(),
             int threads = 8) {
    server_ = std::make_unique<testing::ScriptedServer>(std::move(script), threads);
    Connect(options);
  }
  void Connect(const TransportOptions& options = Fast()) {
    auto made = Transport::Create(
        options, clock_, [] { return 0.5; },
        [this](std::string_view line) {
          const std::lock_guard lock(mutex_);
          log_.emplace_back(line);
          logged_.notify_all();
        });
    ASSERT_TRUE(made) << made.error().message;
    transport_ = std::move(*made);
  }

  // The transport's log once it has `count` lines.
  std::vector<std::string> LogOf(std::size_t count) {
    std::unique_lock lock(mutex_);
    logged_.wait_for(lock, std::chrono::seconds(30), [&] { return log_.size() >= count; });
    return log_;
  }

  static Request Ask(std::string text = "Say something.") {
    Request request;
    request.model = "some-model";
    request.messages.push_back({Message::Author::kUser, std::move(text)});
    request.max_tokens = Tokens(100);
    return request;
  }

  JumpingClock clock_;
  std::mutex mutex_;
  std::condition_variable logged_;
  std::vector<std::string> log_;
  std::unique_ptr<testing::ScriptedServer> server_;
  std::shared_ptr<Transport> transport_;  // goes before the server
};

}  // namespace grove::llm
