// What the user set, from three places by one table (search::Settings) and one precedence:
//
//   flag  >  environment  >  file  >  default
//   --base-url URL   GROVE_BASE_URL=URL   base_url = "URL"
//   --budget-round-tokens 500k   GROVE_BUDGET_ROUND_TOKENS=500k   [budget.round] tokens = "500k"
//
// Beside what a search is told (search::Settings) the table has what the program itself is told:
// where runs, tasks and the compile cache lie, parallel compilations, quiet, the device of the
// commands that take one.
//
// The file is TOML: the one that --config names, else grove.toml in the current folder where there
// is one. Only a file has [[model]] entries; --model or GROVE_MODEL takes their place. Keys of
// endpoints stand in none of them: they come from the variables that a model names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "search/config.h"

namespace grove::cli {

struct SettingSources {
  std::filesystem::path file;                // empty = grove.toml here, if there is one
  std::map<std::string, std::string> flags;  // by key of the table
};

// What the file says of the program itself; unset where it says nothing. These have no field of a
// search's configuration, except for tasks, device and gpu, which the other commands take as well.
struct ProgramSettings {
  std::optional<std::string> runs, tasks, cache, python, device, gpu;
  std::optional<int> jobs;    // 0 (cores) to 256
  std::optional<bool> quiet;  // a flag's 0 or 1, or TOML's false or true
};
// Of `file` (empty = grove.toml here, if there is one). Settings of searches are not looked at.
// kNotFound for a file that was named and is not there, kInvalidInput with file and line.
Result<ProgramSettings> ReadProgramSettings(const std::filesystem::path& file);

// "--base-url" for "base_url"; "--budget" for "budget.tokens"; "--goal" for "goals".
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
