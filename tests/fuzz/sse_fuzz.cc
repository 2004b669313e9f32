// A stream of events is read alike however its bytes are cut into pieces, and never beyond the
// limits. The first byte chooses the cuts.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llm/sse.h"

namespace {

struct Read {
  std::string events;
  bool failed = false;
};

Read ReadAll(std::string_view bytes, std::size_t piece) {
  grove::llm::SseParser::Limits limits;
  limits.line = 4096;
  limits.event = 16384;
  grove::llm::SseParser parser(limits);
  Read read;
  const auto sink = [&](const grove::llm::SseEvent& event) {
    if (event.data.size() > limits.event) std::abort();
    read.events += event.type + '\x1e' + event.data + '\x1d';
    return true;
  };
  for (std::size_t at = 0; at < bytes.size() && !read.failed; at += piece) {
    read.failed = !parser.Feed(bytes.substr(at, piece), sink);
  }
  if (!read.failed) read.failed = !parser.Finish(sink);
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read whole = ReadAll(bytes, bytes.empty() ? 1 : bytes.size());
  const Read cut = ReadAll(bytes, 1U + data[0] % 7U);
  if (whole.failed != cut.failed || whole.events != cut.events) std::abort();
  return 0;
}
