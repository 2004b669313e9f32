#include "cli/clients.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/share.h"
#include "llm/anthropic_client.h"
#include "llm/ensemble.h"
#include "llm/mailbox_client.h"
#include "llm/openai_client.h"
#include "llm/playbook_client.h"
#include "llm/replay_client.h"
#include "llm/transport.h"
#include "search/model_calls.h"

namespace grove::cli {
namespace {

std::string ModelName(const search::ModelSpec& model) {
  return model.name.substr(std::min(model.name.size(), model.provider().size() + 1));
}

Result<std::unique_ptr<llm::Client>> MakeServed(const search::ModelSpec& model,
                                                const std::shared_ptr<llm::Transport>& transport) {
  const std::string variable = KeyVariable(model);
  const char* value = std::getenv(variable.c_str());
  llm::Secret key(value == nullptr ? "" : value);
  // A server of one's own may want no key.
  if (key.empty() && model.endpoint.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} needs a key: set {} (keys come from the environment only)",
                            model.name, variable));
  }
  if (model.provider() == "anthropic") {
    llm::AnthropicOptions options;
    if (!model.endpoint.empty()) options.base_url = model.endpoint;
    options.key = std::move(key);
    options.key_name = variable;
    options.model = ModelName(model);
    return llm::MakeAnthropicClient(transport, std::move(options));
  }
  llm::OpenAiOptions options;
  if (!model.endpoint.empty()) options.base_url = model.endpoint;
  options.key = std::move(key);
  options.key_name = variable;
  options.model = ModelName(model);
  options.reasoning_effort = model.reasoning_effort;
  using Field = llm::OpenAiOptions::LimitField;
  if (model.max_tokens_field == "max_tokens") options.limit_field = Field::kMaxTokens;
  if (model.max_tokens_field == "max_completion_tokens") {
    options.limit_field = Field::kMaxCompletionTokens;
  }
  return llm::MakeOpenAiClient(transport, std::move(options));
}

}  // namespace

std::string KeyVariable(const search::ModelSpec& model) {
  const bool openai = model.provider() == "openai";
  if (!openai && model.provider() != "anthropic") return "";
  if (!model.key_variable.empty()) return model.key_variable;
  return openai ? "OPENAI_API_KEY" : "ANTHROPIC_API_KEY";
}

bool HasKey(const search::ModelSpec& model) {
  const std::string variable = KeyVariable(model);
  const char* value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

Result<std::unique_ptr<llm::Client>> MakeClients(const search::SearchConfig& config,
                                                 const std::filesystem::path& run,
                                                 const Clock& clock,
                                                 std::function<void(std::string_view)> log) {
  if (!config.replay.empty()) {
    // The recording answers before any client is asked (search/replay.h).
    return llm::MakeReplayClient(
        [](const llm::Request&) { return Result<std::optional<llm::Reply>>(std::nullopt); });
  }
  std::shared_ptr<llm::Transport> transport;
  std::vector<llm::LabelledClient> clients;
  const std::vector<search::ModelSpec> models = search::ModelsOf(config);
  const std::vector<std::string> labels = search::ModelLabels(models);
  for (std::size_t i = 0; i < models.size(); ++i) {
    Result<std::unique_ptr<llm::Client>> client = std::unique_ptr<llm::Client>();
    if (models[i].name == "playbook") {
      client = llm::MakePlaybookClient(ShareFolder("playbook"));
    } else if (models[i].name == "mailbox") {
      client = llm::MakeMailboxClient(run / "mailbox", clock, log);
    } else {
      if (transport == nullptr) {
        auto made =
            llm::Transport::Create(llm::TransportOptions::FromEnvironment(), clock, {}, log);
        if (!made) return Failure(std::move(made.error()));
        transport = std::move(*made);
      }
      client = MakeServed(models[i], transport);
    }
    if (!client) return Failure(std::move(client.error()));
    clients.push_back({labels[i], std::move(*client)});
  }
  return llm::MakeLabelledClients(std::move(clients));
}

}  // namespace grove::cli
