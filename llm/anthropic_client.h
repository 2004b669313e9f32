// The messages protocol of Anthropic (docs/models.md).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "llm/client.h"
#include "llm/secret.h"
#include "llm/transport.h"

namespace grove::llm {

struct AnthropicOptions {
  std::string base_url = "https://api.anthropic.com";  // "/v1/messages" is added
  Secret key;                                          // sent as x-api-key
  std::string key_name = "ANTHROPIC_API_KEY";          // where the key came from; shown in errors
  std::string model;                                   // empty: the request's
  // Where prompt-cache marks go. kPrefix: after the system text, after the shared part of the last
  // message and after the message before it, which a conversation's next request repeats. kWhole:
  // after the last message too, for requests that are sent again with another sample. A mark on a
  // text that is never repeated costs a quarter more than none.
  enum class Cache { kOff, kPrefix, kWhole };
  Cache cache = Cache::kPrefix;
  bool stream = true;
  TimeLimits limits;
};

// Thread-safe. Complete: errors as in client.h. The protocol has no seed: siblings differ by the
// temperature alone, which is capped at 1. Usage counts cache reads and writes as part of the
// prompt, reads as cached. kInvalidInput as in MakeOpenAiClient.
Result<std::unique_ptr<Client>> MakeAnthropicClient(std::shared_ptr<Transport> transport,
                                                    AnthropicOptions options);

}  // namespace grove::llm
