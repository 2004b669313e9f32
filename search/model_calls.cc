#include "search/model_calls.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

namespace grove::search {

ModelCalls::ModelCalls(results::Store& store, llm::Client& client)
    : store_(store), client_(client) {}

Result<ModelCalls::Answer> ModelCalls::Ask(const results::CallKey& key, const llm::Request& request,
                                           std::stop_token stop) {
  std::int64_t reserve = request.max_tokens.value;
  for (const llm::Message& message : request.messages) {
    reserve += llm::EstimateTokens(message.text).value;
  }
  const results::Amount amount{results::LedgerKind::kTokens, static_cast<double>(reserve)};
  auto call = store_.BeginCall(key, request, {&amount, 1});
  if (!call) return Failure(std::move(call.error()));
  auto stored = store_.FindReply(key);
  if (!stored) return Failure(std::move(stored.error()));
  if (*stored) return Answer{std::move(**stored), call->id};

  auto reply = client_.Complete(request, std::move(stop));
  if (!reply) {
    if (auto failed = store_.FailCall(call->id, reply.error().message); !failed) {
      return Failure(std::move(failed.error()));
    }
    return Fail(std::move(reply.error()), fmt::format("model {}", client_.name()));
  }
  const results::Amount cost{results::LedgerKind::kTokens,
                             static_cast<double>(reply->usage.total().value)};
  if (auto done = store_.AnswerCall(call->id, *reply, {&cost, 1}); !done) {
    return Failure(std::move(done.error()));
  }
  return Answer{std::move(*reply), call->id};
}

}  // namespace grove::search
