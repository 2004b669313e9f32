#include "llm/anthropic_client.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "llm/protocol.h"

namespace grove::llm {
namespace {

using nlohmann::json;

FinishReason FinishOf(std::string_view reason) {
  if (reason == "end_turn" || reason == "stop_sequence") return FinishReason::kStop;
  if (reason == "max_tokens" || reason == "model_context_window_exceeded") {
    return FinishReason::kLength;
  }
  if (reason == "refusal") return FinishReason::kFiltered;
  return FinishReason::kOther;
}

class MessagesReader final : public ProtocolReader {
 public:
  MessagesReader(std::string key_name, Secret key)
      : ProtocolReader("messages", std::move(key_name), std::move(key)) {}

 private:
  void OnBegin() override {
    input_.reset();
    read_ = written_ = 0;
  }

  void OnEvent(const SseEvent&, const json& event) override {
    const std::string type = ReadString(event, "type");
    if (type == "message_start") {
      if (const auto message = event.find("message"); message != event.end()) TakeHead(*message);
    } else if (type == "content_block_start") {
      if (const auto block = event.find("content_block"); block != event.end()) TakeBlock(*block);
    } else if (type == "content_block_delta") {
      if (const auto delta = event.find("delta"); delta != event.end()) TakeBlock(*delta);
    } else if (type == "message_delta") {
      if (const auto delta = event.find("delta"); delta != event.end()) TakeFinish(*delta);
      if (const auto usage = event.find("usage"); usage != event.end()) TakeUsage(*usage);
    } else if (type == "message_stop") {
      answer_.ended = true;
    }
  }

  void OnDocument(const json& document) override {
    TakeHead(document);
    const auto content = document.find("content");
    if (content != document.end() && content->is_array()) {
      for (const auto& block : *content) TakeBlock(block);
      answer_.empty_choices = content->empty();
    }
    TakeFinish(document);
  }

  void TakeHead(const json& message) {
    answer_.model = ReadString(message, "model");
    if (!message.is_object()) return;
    if (const auto usage = message.find("usage"); usage != message.end()) TakeUsage(*usage);
  }

  void TakeBlock(const json& block) {
    answer_.text += ReadString(block, "text");
    answer_.hidden += ReadString(block, "thinking").size();
  }

  void TakeFinish(const json& object) {
    const std::string reason = ReadString(object, "stop_reason");
    if (!reason.empty()) answer_.finish = FinishOf(reason);
  }

  // Later reports replace what they name; the prompt's parts come first, the reply's count last.
  void TakeUsage(const json& usage) {
    UsageReport& report = answer_.usage;
    if (const auto count = ReadCount(usage, "input_tokens", report)) input_ = *count;
    if (const auto count = ReadCount(usage, "cache_read_input_tokens", report)) read_ = *count;
    if (const auto count = ReadCount(usage, "cache_creation_input_tokens", report)) {
      written_ = *count;
    }
    if (const auto count = ReadCount(usage, "output_tokens", report)) report.completion = *count;
    if (input_) {
      report.prompt = *input_ + read_ + written_;
      report.cached = read_;
    }
  }

  std::optional<std::int64_t> input_;
  std::int64_t read_ = 0;
  std::int64_t written_ = 0;
};

class AnthropicClient final : public Client {
 public:
  AnthropicClient(std::shared_ptr<Transport> transport, AnthropicOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {}

  std::string_view name() const override { return "anthropic"; }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    const std::string& model = options_.model.empty() ? request.model : options_.model;
    if (auto good = CheckRequest(request, model); !good) return Fail(std::move(good.error()));
    const auto start = transport_->clock().Now();
    HttpRequest http;
    http.url = options_.base_url + "/v1/messages";
    http.headers = {"anthropic-version: 2023-06-01",
                    options_.stream ? "Accept: text/event-stream, application/json"
                                    : "Accept: application/json"};
    http.key_header = "x-api-key: ";
    http.key = options_.key;
    http.limits = options_.limits;
    http.meter = request.meter;
    if (!options_.stream) http.limits.first_byte = http.limits.total;
    http.body = Body(request, model);
    MessagesReader reader(options_.key_name, options_.key);
    reader.TellText(request.on_text);
    auto outcome = transport_->Post(std::move(http), reader, std::move(stop));
    if (!outcome) return Failure(std::move(outcome.error()));
    return MakeReply(reader.answer(), request, *outcome, options_.key,
                     transport_->clock().Now() - start);
  }

 private:
  std::string Body(const Request& request, const std::string& model) const {
    const json mark = {{"type", "ephemeral"}};
    const bool marks = options_.cache != AnthropicOptions::Cache::kOff;
    const auto block_of = [](std::string_view text) {
      return json{{"type", "text"}, {"text", ValidUtf8(text)}};
    };
    json system = json::array();
    json messages = json::array();
    for (const Message& message : request.messages) {
      if (message.text.empty()) continue;  // refused by the server
      if (message.author == Message::Author::kSystem) {
        system.push_back(block_of(message.text));
        continue;
      }
      const char* role = message.author == Message::Author::kUser ? "user" : "assistant";
      // A mark stands after a block, so what is shared is one of its own.
      std::string_view rest = message.text;
      json content = json::array();
      if (marks && &message == &request.messages.back() && message.shared > 0 &&
          message.shared < rest.size()) {
        content.push_back(block_of(rest.substr(0, message.shared)));
        content.back()["cache_control"] = mark;
        rest.remove_prefix(message.shared);
      }
      content.push_back(block_of(rest));
      messages.push_back({{"role", role}, {"content", std::move(content)}});
    }
    const auto set_mark = [&](json& message) { message["content"].back()["cache_control"] = mark; };
    if (marks) {
      if (!system.empty()) system.back()["cache_control"] = mark;
      if (messages.size() > 1) set_mark(messages[messages.size() - 2]);
    }
    if (options_.cache == AnthropicOptions::Cache::kWhole) set_mark(messages.back());
    json body;
    body["model"] = model;
    body["max_tokens"] = request.max_tokens.value;
    if (!system.empty()) body["system"] = std::move(system);
    body["messages"] = std::move(messages);
    if (request.temperature) body["temperature"] = std::clamp(*request.temperature, 0.0, 1.0);
    json stops = json::array();
    for (const std::string& text : request.stop) {
      // The server refuses those of blanks alone.
      if (text.find_first_not_of(" \t\r\n") != std::string::npos) stops.push_back(text);
    }
    if (!stops.empty()) body["stop_sequences"] = std::move(stops);
    body["stream"] = options_.stream;
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  const std::shared_ptr<Transport> transport_;
  const AnthropicOptions options_;
};

}  // namespace

Result<std::unique_ptr<Client>> MakeAnthropicClient(std::shared_ptr<Transport> transport,
                                                    AnthropicOptions options) {
  auto base = CheckEndpoint(options.base_url, options.key, options.key_name);
  if (!base) return Fail(std::move(base.error()));
  // "https://api.anthropic.com/v1" is what other tools call the base.
  if (base->ends_with("/v1")) base->resize(base->size() - 3);
  options.base_url = std::move(*base);
  return std::make_unique<AnthropicClient>(std::move(transport), std::move(options));
}

}  // namespace grove::llm
