// What the clients of HTTP protocols share: telling an event stream from a JSON document, errors
// in all the places where servers put them, usage that may be missing or wrong, text that may not
// be UTF-8. Internal to llm/. Thread-safety: one reader per request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "llm/client.h"
#include "llm/sse.h"
#include "llm/transport.h"

namespace grove::llm {

// `text` with U+FFFD for every byte that is no part of valid UTF-8.
std::string ValidUtf8(std::string_view text);

// What an endpoint says about a request that it does not answer.
struct Refusal {
  int status = 0;       // HTTP status, or the one that the error names; 0 unknown
  std::string type;     // "overloaded_error", "insufficient_quota"
  std::string param;    // which parameter is at fault
  std::string message;  // one line of printable text, at most 300 bytes
};
// Of a refusal's body: JSON with an error object, else the text without its HTML tags. The key is
// masked before anything is cut, so that no part of it stays.
Refusal ReadRefusal(int status, std::string_view body, const Secret& key);
// The caller's action by status and type. `key_name`: the variable that the key came from.
AttemptFailure Classify(const Refusal& refusal, std::string_view key_name);

// Counts as reported; absent ones unset. `wrong`: a count that cannot be (negative, not a number).
struct UsageReport {
  std::optional<std::int64_t> prompt, cached, completion, reasoning;
  bool wrong = false;
};
// A count at `object[name]`; marks `report.wrong` for one that cannot be.
std::optional<std::int64_t> ReadCount(const nlohmann::json& object, const char* name,
                                      UsageReport& report);
// `object[name]` when it is a string, else empty.
std::string ReadString(const nlohmann::json& object, const char* name);

// What a reply has said so far.
struct Answer {
  std::string text;
  std::size_t hidden = 0;  // bytes of reasoning that was shown to us: counted, not kept
  std::optional<FinishReason> finish;
  std::string model;
  UsageReport usage;
  bool empty_choices = false;  // a well-formed reply with nothing in it
  bool ended = false;          // the protocol's end mark came
};

// Reads a reply of either form into an Answer.
class ProtocolReader : public ResponseReader {
 public:
  // `protocol` names it in errors: "chat completions".
  ProtocolReader(std::string protocol, std::string key_name, Secret key)
      : protocol_(std::move(protocol)), key_name_(std::move(key_name)), key_(std::move(key)) {}

  void Begin(const ResponseHead& head) final;
  bool Read(std::string_view bytes) final;
  std::optional<AttemptFailure> End() final;
  AttemptFailure Refused(const ResponseHead& head, std::string_view body) final;

  const Answer& answer() const { return answer_; }
  // Told the text so far after every event that brought more of it (Request::on_text).
  void TellText(std::function<void(std::string_view)> on_text) { on_text_ = std::move(on_text); }
  // Of the last attempt that was refused by status.
  const std::optional<Refusal>& refusal() const { return refusal_; }

 protected:
  // Another attempt begins; answer_ is empty already.
  virtual void OnBegin() {}
  // One event of the stream, parsed. The end marks set answer().ended.
  virtual void OnEvent(const SseEvent& event, const nlohmann::json& json) = 0;
  // The whole reply as one document.
  virtual void OnDocument(const nlohmann::json& json) = 0;
  // Reports an error that came inside a reply with status 200.
  void FailWith(const nlohmann::json& error);

  Answer answer_;

 private:
  void OnSse(const SseEvent& event);
  void NotTheProtocol(std::string_view what);

  enum class Form { kUnknown, kStream, kDocument };
  const std::string protocol_;
  const std::string key_name_;
  const Secret key_;
  Form form_ = Form::kUnknown;
  std::string document_;
  std::optional<SseParser> parser_;
  std::optional<AttemptFailure> failure_;
  std::optional<Refusal> refusal_;
  std::function<void(std::string_view)> on_text_;
};

// The reply, its usage estimated (and labelled) where the report is missing or cannot be. The key
// is masked in all its texts.
Reply MakeReply(const Answer& answer, const Request& request, const HttpOutcome& outcome,
                const Secret& key, Milliseconds latency);

// What both clients refuse before anything is sent: no model, no message, no room for a reply.
Status CheckRequest(const Request& request, std::string_view model);
// `base` without trailing slashes; kInvalidInput as EndpointOf, or for a key that fits no header.
Result<std::string> CheckEndpoint(std::string base, const Secret& key, std::string_view key_name);

}  // namespace grove::llm
