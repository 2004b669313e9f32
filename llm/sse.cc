#include "llm/sse.h"

#include <fmt/format.h>

namespace grove::llm {

Status SseParser::Feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty() && !closed_) {
    if (skip_lf_) {
      skip_lf_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > limits_.line) {
      closed_ = true;
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("a line of the event stream exceeds {} bytes", limits_.line));
    }
    if (end == std::string_view::npos) {
      line_ += part;
      return {};
    }
    skip_lf_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    Status read;
    if (line_.empty()) {
      read = Line(part, sink);
    } else {
      line_ += part;
      read = Line(line_, sink);
      line_.clear();
    }
    if (!read) return read;
  }
  return {};
}

Status SseParser::Finish(const Sink& sink) {
  if (closed_) return {};
  if (!line_.empty()) {
    if (auto read = Line(line_, sink); !read) return read;
    line_.clear();
  }
  if (!closed_) Dispatch(sink);
  closed_ = true;
  return {};
}

Status SseParser::Line(std::string_view line, const Sink& sink) {
  if (first_) {
    first_ = false;
    if (line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
  }
  if (line.empty()) {
    Dispatch(sink);
    return {};
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) return {};  // a comment
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (field == "event") {
    event_.type = value;
  } else if (field == "data") {
    if (event_.data.size() + value.size() + 1 > limits_.event) {
      closed_ = true;
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("an event of the stream exceeds {} bytes", limits_.event));
    }
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
  return {};
}

void SseParser::Dispatch(const Sink& sink) {
  if (has_data_ && !sink(event_)) closed_ = true;
  event_.type.clear();
  event_.data.clear();
  has_data_ = false;
}

}  // namespace grove::llm
