// What the user set, from three places by one table (search::Settings) and one precedence:
//
//   flag  >  environment  >  file  >  default
//   --base-url URL   GROVE_BASE_URL=URL   base_url = "URL"
//   --budget-round-tokens 500k   GROVE_BUDGET_ROUND_TOKENS=500k   [budget.round] tokens = "500k"
//
// The file is TOML: the one that --config names, else grove.toml in the current folder where there
// is one. Only a file has [[model]] entries; --model or GROVE_MODEL takes their place. Keys of
// endpoints stand in none of them: they come from the variables that a model names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "search/config.h"

namespace grove::cli {

struct SettingSources {
  std::filesystem::path file;                // empty = grove.toml here, if there is one
  std::map<std::string, std::string> flags;  // by key of the table
};

// "--base-url" for "base_url"; "--budget" for "budget.tokens".
std::string FlagOf(std::string_view key);
// "GROVE_BASE_URL" for "base_url".
std::string VariableOf(std::string_view key);

// Changes `config` as file, environment and flags say. kInvalidInput and kNotFound name the file
// and line, the variable or the flag, and for an unknown key the nearest known one.
Status ApplySettings(const SettingSources& sources, search::SearchConfig& config);
// The flags alone: for what a stored configuration is to change in.
Status ApplyFlags(const std::map<std::string, std::string>& flags, search::SearchConfig& config);

// A configuration file with every setting of the table, its meaning and its default, commented out.
std::string ConfigTemplate();

}  // namespace grove::cli
