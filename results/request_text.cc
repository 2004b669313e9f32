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
                      return x.author == y.author && x.text == y.text;
                    });
}

Hash HashMessages(const llm::Request& request) {
  std::vector<std::string_view> texts;
  for (const llm::Message& message : request.messages) texts.push_back(message.text);
  return HashTexts(texts);
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
    json["messages"].push_back({{"author", author}, {"text", message.text}});
  }
  json["max_tokens"] = request.max_tokens.value;
  if (request.temperature) json["temperature"] = *request.temperature;
  json["stop"] = request.stop;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Hash RequestTexts::Put(Connection& c, const llm::Request& request) {
  const Hash said = HashMessages(request);
  for (const auto& known : last_) {
    if (!known || known->said != said || !SaySame(known->request, request)) continue;
    // The transition that stored it may have been taken back.
    if (Query(c, "SELECT 1 FROM texts WHERE hash = ?", known->text).Step()) return known->text;
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
