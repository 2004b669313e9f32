#include "search/replay.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace grove::search {
namespace {

// The hash of a stored request without what the ledger may have changed, and without the seed that
// runs of earlier versions have in it: which of its samples is meant, the key says.
Hash QuestionOf(const std::string& request) {
  auto json = nlohmann::ordered_json::parse(request, nullptr, false);
  if (json.is_object()) {
    json.erase("max_tokens");
    json.erase("seed");
  }
  return HashText(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::Open(const std::filesystem::path& run,
                                                   bool keys_count) {
  auto reader = results::Reader::Open(run);
  if (!reader) return Fail(std::move(reader.error()), "the run to replay");
  auto data = (*reader)->Load();
  if (!data) return Fail(std::move(data.error()), "the run to replay");
  std::unique_ptr<Recording> recording(new Recording());
  recording->keys_count_ = keys_count;
  for (const results::CallRow& call : data->calls) {
    if (call.status != results::CallStatus::kAnswered) continue;
    auto request = (*reader)->Text(call.request);
    if (!request) return Fail(std::move(request.error()), "the run to replay");
    recording->asked_[QuestionOf(*request)].push_back(call.key);
  }
  recording->reader_ = std::move(*reader);
  return recording;
}

Result<std::optional<llm::Reply>> Recording::Find(const results::CallKey& key,
                                                  const llm::Request& request) {
  const auto found = asked_.find(QuestionOf(results::RequestJson(request)));
  if (found != asked_.end()) {
    const auto& keys = found->second;
    auto chosen = std::find(keys.begin(), keys.end(), key);
    // Of the same question, asked at another place, the same sample: its seed follows from its
    // branch and turn.
    if (chosen == keys.end()) {
      chosen = std::find_if(keys.begin(), keys.end(), [&](const results::CallKey& other) {
        return other.branch == key.branch && other.turn == key.turn;
      });
    }
    if (chosen != keys.end()) return reader_->FindReply(*chosen);
  }
  if (!keys_count_) return std::optional<llm::Reply>();
  return reader_->FindReply(key);
}

}  // namespace grove::search
