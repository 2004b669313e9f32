// Answers from what was recorded. The store lies above llm/, so it is given as a function.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "llm/client.h"

namespace grove::llm {

// The recorded reply to a request; nothing when there is none. Must be thread-safe. Errors (the
// store cannot be read) pass through.
using Lookup = std::function<Result<std::optional<Reply>>(const Request&)>;

// Thread-safe. Complete never waits. A request without a record is kNotFound, "not recorded": with
// another policy a replayed search may ask what was never asked, and that branch ends there.
std::unique_ptr<Client> MakeReplayClient(Lookup lookup);

}  // namespace grove::llm
