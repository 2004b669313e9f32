// Server-sent events, read as they arrive
// (https://html.spec.whatwg.org/multipage/server-sent-events section 9.2.6). Bytes may be split
// anywhere; the cost is linear in them. Differences from the standard, both because servers of
// models need them: an event that the stream's end cut off before its blank line is delivered by
// Finish, and sizes are limited. Thread-compatible.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace grove::llm {

struct SseEvent {
  std::string type;  // the `event:` field; empty when there was none
  std::string data;  // the `data:` lines, joined by newlines
  // The end mark of the chat completions protocol.
  bool done() const { return data == "[DONE]"; }
};

class SseParser {
 public:
  struct Limits {
    std::size_t line = std::size_t{4} << 20;   // bytes
    std::size_t event = std::size_t{8} << 20;  // bytes of data
  };
  // Returning false ends the reading: the rest of the bytes is dropped.
  using Sink = std::function<bool(const SseEvent&)>;

  SseParser() : SseParser(Limits()) {}
  explicit SseParser(Limits limits) : limits_(limits) {}

  // Delivers every event that `bytes` completes. kInvalidInput when a line or event exceeds its
  // limit; the parser is then done and ignores what follows.
  Status Feed(std::string_view bytes, const Sink& sink);
  // The stream ended: delivers an event that lacks its blank line.
  Status Finish(const Sink& sink);

 private:
  Status Line(std::string_view line, const Sink& sink);
  void Dispatch(const Sink& sink);

  const Limits limits_;
  std::string line_;  // the line so far, when its end has not arrived
  SseEvent event_;    // the event so far
  bool has_data_ = false;
  bool skip_lf_ = false;  // the last byte was a CR: an LF belongs to it
  bool first_ = true;     // no line yet: a byte order mark may come
  bool closed_ = false;
};

}  // namespace grove::llm
