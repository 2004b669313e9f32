#include "llm/openai_client.h"

#include <array>
#include <atomic>

#include <nlohmann/json.hpp>

#include "llm/protocol.h"

namespace grove::llm {
namespace {

using nlohmann::json;

FinishReason FinishOf(std::string_view reason) {
  if (reason == "stop") return FinishReason::kStop;
  if (reason == "length") return FinishReason::kLength;
  if (reason == "content_filter") return FinishReason::kFiltered;
  return FinishReason::kOther;
}

std::string_view NameOf(Message::Author author) {
  switch (author) {
    case Message::Author::kSystem:
      return "system";
    case Message::Author::kUser:
      return "user";
    case Message::Author::kAssistant:
      return "assistant";
  }
  return "user";
}

class ChatReader final : public ProtocolReader {
 public:
  ChatReader(std::string key_name, Secret key)
      : ProtocolReader("chat completions", std::move(key_name), std::move(key)) {}

 private:
  void OnEvent(const SseEvent&, const json& event) override { Take(event, "delta"); }
  void OnDocument(const json& document) override {
    Take(document, "message");
    // Only a stream ends early; a whole document without a reason has still ended.
    if (!answer_.finish && !answer_.text.empty()) answer_.finish = FinishReason::kOther;
  }

  void Take(const json& object, const char* part) {
    if (answer_.model.empty()) answer_.model = ReadString(object, "model");
    if (const auto usage = object.find("usage"); usage != object.end() && usage->is_object()) {
      TakeUsage(*usage);
    }
    const auto choices = object.find("choices");
    if (choices == object.end() || !choices->is_array()) return;
    if (choices->empty()) {  // normal in the event that carries the usage
      answer_.empty_choices = true;
      return;
    }
    const auto& choice = choices->front();
    if (!choice.is_object()) return;
    if (const auto message = choice.find(part); message != choice.end()) TakeText(*message);
    if (const std::string reason = ReadString(choice, "finish_reason"); !reason.empty()) {
      if (answer_.finish != FinishReason::kFiltered) answer_.finish = FinishOf(reason);
    }
  }

  void TakeText(const json& message) {
    if (!message.is_object()) return;
    if (const auto content = message.find("content"); content != message.end()) {
      if (content->is_string()) {
        answer_.text += content->get_ref<const std::string&>();
      } else if (content->is_array()) {
        for (const auto& piece : *content) answer_.text += ReadString(piece, "text");
      }
    }
    for (const char* name : {"reasoning_content", "reasoning"}) {
      answer_.hidden += ReadString(message, name).size();
    }
    if (const std::string refusal = ReadString(message, "refusal"); !refusal.empty()) {
      answer_.text += refusal;
      answer_.finish = FinishReason::kFiltered;
    }
  }

  // The last report counts: some servers send running totals.
  void TakeUsage(const json& usage) {
    UsageReport report;
    report.prompt = ReadCount(usage, "prompt_tokens", report);
    report.completion = ReadCount(usage, "completion_tokens", report);
    if (const auto details = usage.find("prompt_tokens_details"); details != usage.end()) {
      report.cached = ReadCount(*details, "cached_tokens", report);
    }
    if (const auto details = usage.find("completion_tokens_details"); details != usage.end()) {
      report.reasoning = ReadCount(*details, "reasoning_tokens", report);
    }
    answer_.usage = report;
  }
};

class OpenAiClient final : public Client {
 public:
  OpenAiClient(std::shared_ptr<Transport> transport, OpenAiOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {
    const std::string& base = options_.base_url;
    const bool modern = base.find("://api.openai.com") != std::string::npos ||
                        base.find(".openai.azure.com") != std::string::npos;
    completion_field_ = options_.limit_field == OpenAiOptions::LimitField::kMaxCompletionTokens ||
                        (options_.limit_field == OpenAiOptions::LimitField::kAuto && modern);
  }

  std::string_view name() const override { return "openai"; }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    const std::string& model = options_.model.empty() ? request.model : options_.model;
    if (auto good = CheckRequest(request, model); !good) return Fail(std::move(good.error()));
    const auto start = transport_->clock().Now();
    while (true) {
      const unsigned dropped = dropped_;
      const bool completion_field = completion_field_;
      HttpRequest http;
      http.url = options_.base_url + "/chat/completions";
      http.key_header = "Authorization: Bearer ";
      http.key = options_.key;
      http.limits = options_.limits;
      http.meter = request.meter;
      // Without a stream nothing comes before the whole reply.
      if (!options_.stream) http.limits.first_byte = http.limits.total;
      http.headers = {options_.stream ? "Accept: text/event-stream, application/json"
                                      : "Accept: application/json"};
      http.body = Body(request, model, dropped, completion_field);
      ChatReader reader(options_.key_name, options_.key);
      reader.TellText(request.on_text);
      auto outcome = transport_->Post(std::move(http), reader, stop);
      if (outcome) {
        return MakeReply(reader.answer(), request, *outcome, options_.key,
                         transport_->clock().Now() - start);
      }
      if (outcome.error().code != ErrorCode::kInvalidInput || !reader.refusal() ||
          !Adapt(*reader.refusal(), dropped, completion_field)) {
        return Failure(std::move(outcome.error()));
      }
    }
  }

 private:
  struct Optional {
    unsigned bit;
    const char* field;
  };
  static constexpr std::array<Optional, 5> kOptional = {{{1, "seed"},
                                                         {2, "temperature"},
                                                         {4, "stream_options"},
                                                         {8, "reasoning_effort"},
                                                         {16, "stop"}}};
  static constexpr unsigned kSwapped = 32;  // the limit field was exchanged once

  std::string Body(const Request& request, const std::string& model, unsigned dropped,
                   bool completion_field) const {
    json body;
    body["model"] = model;
    json messages = json::array();
    for (const Message& message : request.messages) {
      messages.push_back({{"role", NameOf(message.author)}, {"content", ValidUtf8(message.text)}});
    }
    body["messages"] = std::move(messages);
    body[completion_field ? "max_completion_tokens" : "max_tokens"] = request.max_tokens.value;
    if (request.temperature) body["temperature"] = *request.temperature;
    if (!request.stop.empty()) body["stop"] = request.stop;
    if (options_.send_seed) body["seed"] = (request.seed ^ (request.seed >> 31U)) & 0x7FFFFFFFU;
    if (!options_.reasoning_effort.empty()) body["reasoning_effort"] = options_.reasoning_effort;
    body["stream"] = options_.stream;
    if (options_.stream) body["stream_options"] = {{"include_usage", true}};
    for (const Optional& optional : kOptional) {
      if ((dropped & optional.bit) != 0) body.erase(optional.field);
    }
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // Whether the refusal was about a parameter that can be left out or exchanged. `sent_without` and
  // `completion_field`: how the refused request was written; another thread may have learnt since.
  bool Adapt(const Refusal& refusal, unsigned sent_without, bool completion_field) {
    if (refusal.status != 400 && refusal.status != 422) return false;
    const auto names = [&](std::string_view field) {
      if (!refusal.param.empty()) return refusal.param == field;
      // A message that quotes the parameter, or calls something unknown and then names it.
      const std::string& text = refusal.message;
      for (const char quote : {'\'', '"', '`'}) {
        if (text.find(quote + std::string(field) + quote) != std::string::npos) return true;
      }
      return (text.find("nsupported") != std::string::npos ||
              text.find("nknown") != std::string::npos ||
              text.find("nrecognized") != std::string::npos) &&
             text.find(field) != std::string::npos;
    };
    const std::string_view field = completion_field ? "max_completion_tokens" : "max_tokens";
    if ((sent_without & kSwapped) == 0 && names(field) &&
        refusal.message.find("too large") == std::string::npos) {
      completion_field_ = !completion_field;
      dropped_ |= kSwapped;
      return true;
    }
    for (const Optional& optional : kOptional) {
      if ((sent_without & optional.bit) == 0 && names(optional.field)) {
        dropped_ |= optional.bit;
        return true;
      }
    }
    return false;
  }

  const std::shared_ptr<Transport> transport_;
  const OpenAiOptions options_;
  std::atomic<bool> completion_field_;
  std::atomic<unsigned> dropped_{0};  // bits of kOptional
};

}  // namespace

Result<std::unique_ptr<Client>> MakeOpenAiClient(std::shared_ptr<Transport> transport,
                                                 OpenAiOptions options) {
  auto base = CheckEndpoint(options.base_url, options.key, options.key_name);
  if (!base) return Fail(std::move(base.error()));
  options.base_url = std::move(*base);
  return std::make_unique<OpenAiClient>(std::move(transport), std::move(options));
}

}  // namespace grove::llm
