// The chat completions protocol: OpenAI, vLLM, llama.cpp, Ollama, OpenRouter, Gemini's compatible
// endpoint and whatever else speaks it (docs/models.md).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "llm/client.h"
#include "llm/secret.h"
#include "llm/transport.h"

namespace grove::llm {

struct OpenAiOptions {
  std::string base_url = "https://api.openai.com/v1";  // "/chat/completions" is added
  Secret key;                                          // empty: no Authorization header
  std::string key_name = "OPENAI_API_KEY";             // where the key came from; shown in errors
  std::string model;                                   // empty: the request's
  // Which field carries the reply's limit. kAuto: max_completion_tokens for OpenAI's own hosts and
  // Azure's, else max_tokens, which every other server knows.
  enum class LimitField { kAuto, kMaxTokens, kMaxCompletionTokens };
  LimitField limit_field = LimitField::kAuto;
  std::string reasoning_effort;  // "low", "medium", ...; empty: not sent
  bool stream = true;            // a server that answers with one document all the same is read too
  bool send_seed = true;         // folded to 31 bits, which every server takes
  TimeLimits limits;
};

// Thread-safe. Complete: errors as in client.h. A parameter that the server says it does not know
// (seed, temperature, stop, stream_options, reasoning_effort, or the one limit field for the other)
// is left out from then on, and the request sent again. A server that reports no usage, or one that
// cannot be, gets an estimate, labelled.
// kInvalidInput for a base URL that is none or carries a user or query, or a key that fits no
// header.
Result<std::unique_ptr<Client>> MakeOpenAiClient(std::shared_ptr<Transport> transport,
                                                 OpenAiOptions options);

}  // namespace grove::llm
