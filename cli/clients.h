// The model clients that a configuration names, put together with keys from the environment.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "llm/client.h"
#include "search/config.h"

namespace grove::cli {

// The variable that holds the key of `model`; empty for one that needs none.
std::string KeyVariable(const search::ModelSpec& model);
// Whether that variable is set.
bool HasKey(const search::ModelSpec& model);

// One client that takes requests by search::ModelLabels. A mailbox lies in `run`/mailbox. `clock`
// must outlive it; `log` gets a line per failed attempt, on another thread, keys masked.
// kInvalidInput when a key is missing (a model at an endpoint of its own may have none) or an
// endpoint is no URL.
Result<std::unique_ptr<llm::Client>> MakeClients(const search::SearchConfig& config,
                                                 const std::filesystem::path& run,
                                                 const Clock& clock,
                                                 std::function<void(std::string_view)> log = {});

}  // namespace grove::cli
