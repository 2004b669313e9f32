// What the transport's tests share: a reader that keeps the body, and requests to a server.
#pragma once

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "tests/llm/client_fixture.h"

namespace grove::llm {

// A variable of the environment for as long as the object lives; null = not set. Then it is as it
// was.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    Set(value);
  }
  Variable(const char* name, const std::string& value) : Variable(name, value.c_str()) {}
  ~Variable() { Set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void Set(const char* value) const {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

// Keeps the body; good when it is whole.
class BodyReader final : public ResponseReader {
 public:
  void Begin(const ResponseHead&) override {
    body.clear();
    ++begun;
  }
  bool Read(std::string_view bytes) override {
    body += bytes;
    return body.find("ENOUGH") == std::string::npos;
  }
  std::optional<AttemptFailure> End() override { return std::nullopt; }
  AttemptFailure Refused(const ResponseHead& head, std::string_view text) override {
    AttemptFailure failure;
    failure.error = {ErrorCode::kUnavailable,
                     std::to_string(head.status) + " " + std::string(text)};
    failure.retry = head.status != 400;
    failure.throttled = head.status == 429;
    failure.endpoint = head.status >= 500;
    return failure;
  }
  std::string body;
  std::atomic<int> begun{0};
};

class TransportTest : public ClientTest {
 protected:
  HttpRequest Http() const {
    HttpRequest request;
    request.url = (server_ ? server_->url() : "http://127.0.0.1:1") + "/path";
    request.body = "{}";
    return request;
  }
};

}  // namespace grove::llm
