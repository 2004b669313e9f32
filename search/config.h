// What a search is told: stored with the run, so that `grove resume` needs nothing but its name.
// One table (config.cc) names every setting once: the file, the environment, the flags, the stored
// JSON and what `grove init` writes all follow it (cli/settings.h has their precedence).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/client.h"
#include "results/store.h"

namespace grove::search {

// A model that answers: one [[model]] of the configuration. No field holds a key.
struct ModelSpec {
  std::string name;                // "openai:NAME", "anthropic:NAME", "mailbox" or "playbook"
  std::vector<std::string> roles;  // "idea", "code", "repair", "adviser"; none = all of them
  double weight = 1;               // its share among the models of a role, above 0
  std::string endpoint;            // base URL; empty = the provider's own
  std::string key_variable;        // empty = OPENAI_API_KEY or ANTHROPIC_API_KEY
  std::string max_tokens_field;    // "max_tokens" or "max_completion_tokens"; empty = by endpoint
  std::string reasoning_effort;    // "low", "medium", ...; empty = not sent
  int max_tokens = 0;              // most tokens of a reply; 0 = as many as the prompt asks for
  // Dollars per million tokens; none = as the price table says (llm/pricing.h).
  std::optional<double> price_in;
  std::optional<double> price_cached;
  std::optional<double> price_out;
  std::string price_source;  // where they come from, with the date

  bool Takes(llm::Role role) const;
  // The part before the colon.
  std::string_view provider() const;
};

struct SearchConfig {
  std::string task;
  std::string model = "playbook";
  std::string policy = "beam";  // which kernels seed the next round: search/policy.h
  std::string device = "auto";
  std::string gpu = "H200";          // which GPU the emulator models
  std::string tasks;                 // folder of the tasks, absolute; empty = the program's own
  std::string suite;                 // whose cases; empty = the first that has all of `cases`
  std::vector<std::string> cases;    // scored or extra cases that count; empty = the scored ones
  std::string demanded;              // class of accuracy; empty = the task's
  std::string base_url;              // of `model`; empty = the provider's own
  std::string until;                 // "evaluate" = another machine does that; empty = to the end
  std::string replay;                // folder of the run whose calls answer again; empty = none
  std::vector<ModelSpec> models;     // who answers; empty = `model` for all roles
  std::string ensemble = "weights";  // which of several answers: by "weights", or "bandit"
  std::vector<results::LedgerLimit> limits;
  int rounds = 3;
  int ideas = 3;                   // per frontier kernel
  int branches = 2;                // candidates per idea
  std::vector<std::string> goals;  // search/goals.h; the run ends when all are met
  int frontier = 3;                // fastest kernels carried into the next round
  int reserve = 1;                 // places beside them for promising but slower ones
  int patience = 4;                // rounds without a gain before the search ends
  int repairs = 2;                 // repair turns per candidate
  int calls = 16;                  // model calls in flight at once
  int eager = 100;         // percent of a round that has to be in before the next is asked for
  int counters = 1;        // 1 = kernels of the frontier are profiled on a GPU (search/profiling.h)
  int screen = 0;          // 1 = every candidate passes the emulator before it reaches a GPU
  std::uint64_t seed = 1;  // of inputs and of the model's samples
};

// One JSON object; FromJson refuses unknown fields and values out of range (kInvalidInput), and
// fills what is absent with the defaults above.
std::string ToJson(const SearchConfig& config);
Result<SearchConfig> ConfigFromJson(std::string_view json);
// The range of every number: rounds 1 to 1000, ideas 1 to 64, ...; every model has a known provider
// and known roles, and every role has a model. kInvalidInput names the option.
Status Validate(const SearchConfig& config);

// One row of the table. `key` is "rounds" or "budget.round.tokens": a dotted TOML key; `value` is
// what `config` has, as Set would take it (empty = not set).
struct Setting {
  std::string key;
  std::string help;
  std::string value;
};
std::vector<Setting> Settings(const SearchConfig& config = {});
// Gives setting `key` the value that `text` says: numbers, words, lists with commas, amounts ("7M",
// "500k", "2h"). kInvalidInput for what is none, kNotFound for an unknown key, with the nearest.
Status Set(SearchConfig& config, std::string_view key, std::string_view text);

// The models that answer: `config.models`, else `config.model` with `config.base_url` for all
// roles.
std::vector<ModelSpec> ModelsOf(const SearchConfig& config);

// "7M" = 7,000,000; "500k"; "1.5G"; "90s", "30m", "2h" for seconds; "$12.50" for dollars.
// kInvalidInput for anything else, and for what is negative.
Result<double> ParseAmount(std::string_view text, results::LedgerKind kind);

}  // namespace grove::search
