#include "results/request_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "results/store.h"

namespace grove::results {
namespace {

bool SaySame(const llm::Request& a, const llm::Request& b) {
  return a.role == b.role && a.model == b.model && a.max_tokens == b.max_tokens &&
         a.temperature == b.temperature && a.stop == b.stop &&
         std::equal(a.messages.begin(), a.messages.end(), b.messages.begin(), b.messages.end(),
                    [](const llm::Message& x, const llm::Message& y) {
                      return x.author == y.author && x.text == y.text && x.shared == y.shared;
                    });
}

Hash HashMessages(const llm::Request& request) {
  std::vector<std::string_view> texts;
  for (const llm::Message& message : request.messages) texts.push_back(message.text);
  return HashTexts(texts);
}

std::string_view SharedOf(const llm::Message& message) {
  return std::string_view(message.text).substr(0, message.shared);
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string RequestJson(const llm::Request& request) {
  nlohmann::ordered_json json;
  json["role"] = llm::Name(request.role);
  json["model"] = request.model;
  json["messages"] = nlohmann::ordered_json::array();
  for (const llm::Message& message : request.messages) {
    const char* author = message.author == llm::Message::Author::kSystem ? "system"
                         : message.author == llm::Message::Author::kUser ? "user"
                                                                         : "assistant";
    nlohmann::ordered_json said;
    said["author"] = author;
    const std::string_view shared = SharedOf(message);
    if (!shared.empty()) said["shared"] = HashText(shared).Hex();
    said["text"] = std::string_view(message.text).substr(shared.size());
    json["messages"].push_back(std::move(said));
  }
  json["max_tokens"] = request.max_tokens.value;
  if (request.temperature) json["temperature"] = *request.temperature;
  json["stop"] = request.stop;
  return Dump(json);
}

std::string WholeRequest(Connection& c, const Hash& hash) {
  std::string text = GetText(c, hash);
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) return text;
  bool changed = false;
  for (nlohmann::ordered_json& message : json["messages"]) {
    if (!message.is_object()) continue;
    const auto shared = message.find("shared");
    const auto rest = message.find("text");
    if (shared == message.end() || rest == message.end()) continue;
    if (!shared->is_string() || !rest->is_string()) continue;
    *rest = GetText(c, ParseHash(shared->get<std::string>())) + rest->get<std::string>();
    message.erase("shared");
    changed = true;
  }
  return changed ? Dump(json) : text;
}

Hash RequestTexts::Put(Connection& c, const llm::Request& request) {
  const Hash said = HashMessages(request);
  for (const auto& known : last_) {
    if (!known || known->said != said || !SaySame(known->request, request)) continue;
    // The transition that stored it may have been taken back.
    if (Query(c, "SELECT 1 FROM texts WHERE hash = ?", known->text).Step()) return known->text;
  }
  for (const llm::Message& message : request.messages) {
    if (message.shared > 0) PutText(c, SharedOf(message));
  }
  const Hash text = PutText(c, RequestJson(request));
  Known kept;
  kept.request.role = request.role;
  kept.request.model = request.model;
  kept.request.messages = request.messages;
  kept.request.max_tokens = request.max_tokens;
  kept.request.temperature = request.temperature;
  kept.request.stop = request.stop;
  kept.said = said;
  kept.text = text;
  last_[next_++ % last_.size()].emplace(std::move(kept));
  return text;
}

}  // namespace grove::results
