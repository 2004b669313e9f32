#include "llm/protocol.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace grove::llm {
namespace {

using nlohmann::json;

// Length of the valid UTF-8 sequence at `at`; 0 when there is none (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF).
std::size_t SequenceAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// One line of printable text, cut to 300 bytes.
std::string OneLine(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  std::string line;
  bool blank = false;
  for (const char c : valid) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7F) {
      blank = !line.empty();
      continue;
    }
    if (blank) line += ' ';
    blank = false;
    line += c;
    if (line.size() > 300) break;
  }
  if (line.size() > 300) {
    std::size_t end = 297;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
    line.resize(end);
    line += "...";
  }
  return line;
}

std::string WithoutTags(std::string_view text) {
  std::string plain;
  bool inside = false;
  for (const char c : text) {
    if (c == '<') {
      inside = true;
      plain += ' ';
    } else if (c == '>') {
      inside = false;
    } else if (!inside) {
      plain += c;
    }
  }
  return plain;
}

void FillFrom(const json& error, const Secret& key, Refusal& refusal) {
  const auto clean = [&](std::string text) { return OneLine(key.Mask(std::move(text))); };
  if (error.is_string()) {
    refusal.message = clean(error.get<std::string>());
    return;
  }
  if (!error.is_object()) return;
  refusal.message = clean(ReadString(error, "message"));
  refusal.param = clean(ReadString(error, "param"));
  refusal.type = clean(ReadString(error, "type"));
  const auto code = error.find("code");
  if (code == error.end()) return;
  if (code->is_number_integer()) {
    if (refusal.status < 300) refusal.status = code->get<int>();
  } else if (code->is_string() && (refusal.type.empty() || *code == "insufficient_quota")) {
    refusal.type = clean(code->get<std::string>());
  }
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The status that an error without one means.
int StatusOf(const Refusal& refusal) {
  if (refusal.status >= 300) return refusal.status;
  const std::string_view type = refusal.type;
  if (Contains(type, "rate_limit")) return 429;
  if (Contains(type, "overloaded")) return 529;
  if (Contains(type, "timeout")) return 504;
  if (Contains(type, "authentication")) return 401;
  if (Contains(type, "permission")) return 403;
  if (Contains(type, "not_found")) return 404;
  if (Contains(type, "billing") || Contains(type, "insufficient_quota")) return 402;
  if (Contains(type, "invalid_request") || Contains(type, "too_large") ||
      Contains(type, "context_length")) {
    return 400;
  }
  return 500;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  std::size_t good = 0;  // start of the valid bytes not copied yet
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceAt(text, at);
    if (length != 0) {
      at += length;
      continue;
    }
    valid.append(text, good, at - good);
    valid += "\xEF\xBF\xBD";
    good = ++at;
  }
  valid.append(text, good);
  return valid;
}

Refusal ReadRefusal(int status, std::string_view body, const Secret& key) {
  Refusal refusal;
  refusal.status = status;
  const json parsed = json::parse(ValidUtf8(body), nullptr, false);
  if (parsed.is_object()) {
    if (const auto error = parsed.find("error"); error != parsed.end()) {
      FillFrom(*error, key, refusal);
    } else {
      FillFrom(parsed, key, refusal);
      if (refusal.message.empty()) {
        refusal.message = OneLine(key.Mask(ReadString(parsed, "detail")));
      }
    }
  }
  if (refusal.message.empty()) refusal.message = OneLine(WithoutTags(key.Mask(std::string(body))));
  return refusal;
}

AttemptFailure Classify(const Refusal& refusal, std::string_view key_name) {
  AttemptFailure failure;
  const int status = StatusOf(refusal);
  std::string text = refusal.message.empty() ? std::string("no reason given") : refusal.message;
  text = fmt::format("{}{}: {}", status, refusal.type.empty() ? "" : " " + refusal.type, text);
  ErrorCode code = ErrorCode::kUnavailable;
  if (status == 402 || Contains(refusal.type, "insufficient_quota") ||
      Contains(refusal.type, "billing")) {
    code = ErrorCode::kResource;
    text += "; the account has no credit: add some, then resume";
  } else if (status == 401 || status == 403) {
    code = ErrorCode::kInvalidInput;
    text += fmt::format("; check the key in {}", key_name);
  } else if (status == 404 || status == 405 || status == 410) {
    code = ErrorCode::kNotFound;
    text += "; check the model's name and the base URL";
  } else if (status >= 300 && status < 400) {
    code = ErrorCode::kInvalidInput;
    text += "; the base URL redirects elsewhere: name that address";
  } else if (status == 429 || status == 529) {
    failure.retry = failure.throttled = true;
    failure.endpoint = status == 529;
  } else if (status == 408 || status == 409 || status == 425) {
    failure.retry = true;
  } else if (status >= 500 && status != 501 && status != 505) {
    failure.retry = failure.endpoint = true;
    failure.throttled = status == 503;
  } else {
    code = ErrorCode::kInvalidInput;
  }
  failure.error = {code, std::move(text)};
  return failure;
}

std::optional<std::int64_t> ReadCount(const json& object, const char* name, UsageReport& report) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  double value = -1;
  if (found->is_number()) value = found->get<double>();
  if (!(value >= 0) || value > 1e9 || value != std::floor(value)) {
    report.wrong = true;
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

std::string ReadString(const json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

void ProtocolReader::Begin(const ResponseHead&) {
  answer_ = {};
  form_ = Form::kUnknown;
  document_.clear();
  parser_.emplace();
  failure_.reset();
  refusal_.reset();
  OnBegin();
}

bool ProtocolReader::Read(std::string_view bytes) {
  if (form_ == Form::kUnknown) {
    // The content type lies often enough; the first character does not.
    const std::size_t start = bytes.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) return true;
    form_ = bytes[start] == '{' || bytes[start] == '<' || bytes[start] == '[' ? Form::kDocument
                                                                              : Form::kStream;
    if (bytes[start] == '<') NotTheProtocol("the endpoint answers with a web page");
  }
  if (form_ == Form::kDocument) {
    document_ += bytes;
  } else if (auto fed = parser_->Feed(bytes,
                                      [this](const SseEvent& event) {
                                        OnSse(event);
                                        return !failure_ && !answer_.ended;
                                      });
             !fed) {
    NotTheProtocol(fed.error().message);
  }
  return !failure_ && !answer_.ended;
}

std::optional<AttemptFailure> ProtocolReader::End() {
  if (failure_) return failure_;
  if (form_ == Form::kStream && !answer_.ended) {
    const auto finished = parser_->Finish([this](const SseEvent& event) {
      OnSse(event);
      return !failure_;
    });
    if (!finished) NotTheProtocol(finished.error().message);
  } else if (form_ == Form::kDocument) {
    const json parsed = json::parse(ValidUtf8(document_), nullptr, false);
    if (!parsed.is_object()) {
      NotTheProtocol("the reply is no JSON object");
    } else if (const auto error = parsed.find("error");
               error != parsed.end() && !error->is_null()) {
      FailWith(*error);
    } else {
      OnDocument(parsed);
    }
  }
  if (failure_) return failure_;
  if (answer_.finish || (answer_.ended && !answer_.text.empty())) return std::nullopt;
  AttemptFailure failure;
  failure.retry = failure.endpoint = true;
  failure.error = {
      ErrorCode::kUnavailable,
      answer_.text.empty() && (answer_.ended || answer_.empty_choices)
          ? "the reply is empty: no choice in it"
          : fmt::format("the reply was cut off after {} bytes of text", answer_.text.size())};
  return failure;
}

AttemptFailure ProtocolReader::Refused(const ResponseHead& head, std::string_view body) {
  refusal_ = ReadRefusal(head.status, body, key_);
  return Classify(*refusal_, key_name_);
}

void ProtocolReader::FailWith(const json& error) {
  Refusal refusal;
  FillFrom(error, key_, refusal);
  failure_ = Classify(refusal, key_name_);
}

void ProtocolReader::OnSse(const SseEvent& event) {
  if (event.done()) {
    answer_.ended = true;
    return;
  }
  const json parsed = json::parse(ValidUtf8(event.data), nullptr, false);
  if (!parsed.is_object()) {
    NotTheProtocol("an event of the stream is no JSON object");
    return;
  }
  if (const auto error = parsed.find("error"); error != parsed.end() && !error->is_null()) {
    FailWith(*error);
    return;
  }
  const std::size_t before = answer_.text.size();
  OnEvent(event, parsed);
  if (on_text_ && answer_.text.size() > before) on_text_(answer_.text);
}

void ProtocolReader::NotTheProtocol(std::string_view what) {
  AttemptFailure failure;
  failure.error = {
      ErrorCode::kInvalidInput,
      fmt::format("{}; this is not the {} protocol: check the base URL", what, protocol_)};
  failure_ = std::move(failure);
}

Reply MakeReply(const Answer& answer, const Request& request, const HttpOutcome& outcome,
                const Secret& key, Milliseconds latency) {
  Reply reply;
  reply.text = key.Mask(answer.text);
  reply.finish = answer.finish.value_or(FinishReason::kOther);
  reply.model = key.Mask(answer.model);
  reply.latency = latency;
  reply.retries = outcome.attempts - 1;
  const UsageReport& usage = answer.usage;
  const std::int64_t cached = usage.cached.value_or(0);
  const std::int64_t reasoning = usage.reasoning.value_or(0);
  const bool plausible = !usage.wrong && usage.prompt && usage.completion && *usage.prompt > 0 &&
                         (*usage.completion > 0 || answer.text.empty()) &&
                         cached <= *usage.prompt && reasoning <= *usage.completion;
  if (plausible) {
    reply.usage.prompt = Tokens(*usage.prompt);
    reply.usage.completion = Tokens(*usage.completion);
    reply.usage.cached = Tokens(cached);
    reply.usage.reasoning = Tokens(reasoning);
    return reply;
  }
  reply.usage.estimated = true;
  for (const Message& message : request.messages) {
    reply.usage.prompt = reply.usage.prompt + EstimateTokens(message.text);
  }
  reply.usage.reasoning = Tokens(static_cast<std::int64_t>((answer.hidden + 2) / 3));
  reply.usage.completion = EstimateTokens(answer.text) + reply.usage.reasoning;
  return reply;
}

Status CheckRequest(const Request& request, std::string_view model) {
  if (model.empty()) return Fail(ErrorCode::kInvalidInput, "the request names no model");
  const bool asks = std::any_of(
      request.messages.begin(), request.messages.end(),
      [](const auto& m) { return m.author == Message::Author::kUser && !m.text.empty(); });
  if (!asks) return Fail(ErrorCode::kInvalidInput, "the request has no user message");
  if (request.max_tokens.value <= 0) {
    return Fail(ErrorCode::kInvalidInput, "the request leaves no tokens for the reply");
  }
  return {};
}

Result<std::string> CheckEndpoint(std::string base, const Secret& key, std::string_view key_name) {
  if (!key.FitsHeader()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the key in {} has blanks or control characters in it", key_name));
  }
  if (auto endpoint = EndpointOf(base); !endpoint) return Fail(std::move(endpoint.error()));
  while (base.ends_with('/')) base.pop_back();
  return base;
}

}  // namespace grove::llm
