#include "cli/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/suggest.h"
#include "base/toml.h"

namespace grove::cli {
namespace {

constexpr const char* kFileName = "grove.toml";

// Settings of the program that no search has. One per line.
struct ProgramRow {
  const char* key;
  const char* value;  // shown by the template
  const char* help;
};
constexpr ProgramRow kProgram[] = {
    {"runs", "runs", "folder of the runs"},
    {"cache", "", "folder of the compile cache (default: ~/.cache/grove)"},
    {"jobs", "0", "parallel compilations; 0: as many as there are cores"},
    {"quiet", "0", "1: no progress"},
    {"python", "", "the interpreter that has PyTorch, for `grove baseline --torch`"},
};
bool IsOfTheProgram(std::string_view key) {
  return std::any_of(std::begin(kProgram), std::end(kProgram),
                     [&](const ProgramRow& row) { return key == row.key; });
}

struct Place {
  std::string file;
  Failure Bad(const toml::node& node, std::string_view what,
              ErrorCode code = ErrorCode::kInvalidInput) const {
    return Fail(code, fmt::format("{}:{}: {}", file, node.source().begin.line, what));
  }
};

// A value as Set takes it; nothing for what is no single value.
std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "1" : "0");
  if (const auto* list = node.as_array()) {
    std::string joined;
    for (const toml::node& entry : *list) {
      if (!entry.is_string()) return std::nullopt;
      joined += (joined.empty() ? "" : ",") + entry.as_string()->get();
    }
    return joined;
  }
  return std::nullopt;
}

Status ReadTable(const Place& place, const toml::table& table, const std::string& prefix,
                 search::SearchConfig& config) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (IsOfTheProgram(key)) continue;  // ReadProgramSettings
    if (const toml::table* inner = node.as_table()) {
      if (auto read = ReadTable(place, *inner, key + ".", config); !read) return read;
      continue;
    }
    const auto text = TextOf(node);
    if (!text) return place.Bad(node, key + " must be text, a number or a list of texts");
    if (auto set = search::Set(config, key, *text); !set) {
      return place.Bad(node, set.error().message, set.error().code);
    }
  }
  return {};
}

struct ModelText {
  const char* key;
  std::string search::ModelSpec::*member;
};
constexpr ModelText kModelTexts[] = {
    {"name", &search::ModelSpec::name},
    {"endpoint", &search::ModelSpec::endpoint},
    {"key_variable", &search::ModelSpec::key_variable},
    {"max_tokens_field", &search::ModelSpec::max_tokens_field},
    {"reasoning_effort", &search::ModelSpec::reasoning_effort},
};
struct ModelNumber {
  const char* key;
  std::optional<double> search::ModelSpec::*member;
};
constexpr ModelNumber kModelPrices[] = {
    {"price_in", &search::ModelSpec::price_in},
    {"price_cached", &search::ModelSpec::price_cached},
    {"price_out", &search::ModelSpec::price_out},
};

Result<search::ModelSpec> ReadModel(const Place& place, const toml::table& table) {
  std::vector<std::string> known = {"role", "weight", "max_tokens"};
  for (const ModelText& row : kModelTexts) known.emplace_back(row.key);
  for (const ModelNumber& row : kModelPrices) known.emplace_back(row.key);
  search::ModelSpec model;
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return place.Bad(node, UnknownName("key of a [[model]]", key, known), ErrorCode::kNotFound);
    }
    for (const ModelText& row : kModelTexts) {
      if (key != row.key) continue;
      if (!node.is_string()) return place.Bad(node, key + " must be text");
      model.*row.member = node.as_string()->get();
    }
    for (const ModelNumber& row : kModelPrices) {
      if (key != row.key) continue;
      model.*row.member = node.value<double>();
      if (!node.is_number()) return place.Bad(node, key + " must be a number");
    }
    if (key == "weight") {
      if (!node.is_number()) return place.Bad(node, "weight must be a number");
      model.weight = node.value<double>().value_or(0);
    } else if (key == "max_tokens") {
      if (!node.is_integer()) return place.Bad(node, "max_tokens must be a whole number");
      model.max_tokens = node.value<int>().value_or(-1);
    } else if (key == "role") {
      if (node.is_string()) {
        model.roles = {node.as_string()->get()};
      } else if (const toml::array* list = node.as_array()) {
        for (const toml::node& role : *list) {
          if (!role.is_string()) return place.Bad(node, "role must be a word or a list of words");
          model.roles.push_back(role.as_string()->get());
        }
      } else {
        return place.Bad(node, "role must be a word or a list of words");
      }
    }
  }
  return model;
}

Result<toml::table> ParseFile(const std::filesystem::path& path) {
  auto text = ReadFile(path);
  if (!text) return Fail(std::move(text.error()), "the configuration file");
  toml::parse_result parsed = toml::parse(*text, path.string());
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("{}:{}: {}", path.string(), error.source().begin.line, error.description()));
  }
  return std::move(parsed.table());
}

Status ReadConfigFile(const std::filesystem::path& path, search::SearchConfig& config) {
  auto parsed = ParseFile(path);
  if (!parsed) return Failure(std::move(parsed.error()));
  const Place place{path.string()};
  toml::table& table = *parsed;
  if (const toml::array* models = table["model"].as_array()) {
    for (const toml::node& entry : *models) {
      const toml::table* fields = entry.as_table();
      if (fields == nullptr) return place.Bad(entry, "write model = \"...\" or [[model]]");
      auto model = ReadModel(place, *fields);
      if (!model) return Failure(std::move(model.error()));
      config.models.push_back(std::move(*model));
    }
    table.erase("model");
  }
  return ReadTable(place, table, "", config);
}

// What names the model in place of the file's list.
void TakeOver(std::string_view key, search::SearchConfig& config) {
  if (key == "model") config.models.clear();
}

}  // namespace

Result<ProgramSettings> ReadProgramSettings(const std::filesystem::path& file) {
  ProgramSettings settings;
  const std::filesystem::path path = file.empty() ? kFileName : file;
  std::error_code error;
  if (file.empty() && !std::filesystem::exists(path, error)) return settings;
  auto table = ParseFile(path);
  if (!table) return Failure(std::move(table.error()));
  const Place place{path.string()};
  const struct {
    const char* key;
    std::optional<std::string> ProgramSettings::*member;
  } texts[] = {{"runs", &ProgramSettings::runs},     {"tasks", &ProgramSettings::tasks},
               {"cache", &ProgramSettings::cache},   {"python", &ProgramSettings::python},
               {"device", &ProgramSettings::device}, {"gpu", &ProgramSettings::gpu}};
  for (const auto& [name, node] : *table) {
    const std::string_view key = name.str();
    for (const auto& row : texts) {
      if (key != row.key) continue;
      if (!node.is_string()) return place.Bad(node, std::string(key) + " must be text");
      settings.*row.member = node.as_string()->get();
    }
    const std::string text = TextOf(node).value_or("");
    if (key == "jobs") {
      const int jobs = node.value<int>().value_or(-1);
      if (!node.is_integer() || jobs < 0 || jobs > 256) {
        return place.Bad(node, "jobs must be a whole number from 0 to 256");
      }
      settings.jobs = jobs;
    } else if (key == "quiet") {
      if (text != "0" && text != "1") return place.Bad(node, "quiet must be true or false");
      settings.quiet = text == "1";
    }
  }
  return settings;
}

std::string FlagOf(std::string_view key) {
  if (key == "goals") return "--goal";
  if (key == "budget.tokens") return "--budget";
  std::string flag = "--" + std::string(key);
  std::replace_if(
      flag.begin(), flag.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return flag;
}

std::string VariableOf(std::string_view key) {
  std::string name = key == "budget.tokens" ? "GROVE_budget" : "GROVE_" + std::string(key);
  for (char& c : name) {
    c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

Status ApplyFlags(const std::map<std::string, std::string>& flags, search::SearchConfig& config) {
  for (const auto& [key, text] : flags) {
    TakeOver(key, config);
    if (auto set = search::Set(config, key, text); !set) {
      return Fail(std::move(set.error()), FlagOf(key));
    }
  }
  return {};
}

Status ApplySettings(const SettingSources& sources, search::SearchConfig& config) {
  std::error_code error;
  if (!sources.file.empty()) {
    if (auto read = ReadConfigFile(sources.file, config); !read) return read;
  } else if (std::filesystem::exists(kFileName, error)) {
    if (auto read = ReadConfigFile(kFileName, config); !read) return read;
  }
  for (const search::Setting& setting : search::Settings()) {
    const std::string variable = VariableOf(setting.key);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    TakeOver(setting.key, config);
    if (auto set = search::Set(config, setting.key, value); !set) {
      return Fail(std::move(set.error()), variable);
    }
  }
  return ApplyFlags(sources.flags, config);
}

std::string ConfigTemplate() {
  std::string text =
      "# Configuration of grove. What is commented out has the value that is shown. A flag comes\n"
      "# before the environment, the environment before this file. Keys of endpoints never stand\n"
      "# here: they are read from the environment.\n\n";
  std::string section;
  for (const ProgramRow& row : kProgram) {
    text += fmt::format("# {}: {} {}\n", row.help, FlagOf(row.key), VariableOf(row.key));
    const bool number = std::string_view(row.value) == "0";
    text += number ? fmt::format("#{} = {}\n", row.key, row.value)
                   : fmt::format("#{} = \"{}\"\n", row.key, row.value);
  }
  for (const search::Setting& setting : search::Settings()) {
    if (setting.key == "task" || setting.key == "replay") continue;
    const std::size_t dot = setting.key.rfind('.');
    const std::string table = dot == std::string::npos ? "" : setting.key.substr(0, dot);
    if (table != section) {
      text += fmt::format("\n[{}]\n", table);
      section = table;
    }
    const std::string name = dot == std::string::npos ? setting.key : setting.key.substr(dot + 1);
    const bool number = !setting.value.empty() &&
                        setting.value.find_first_not_of("0123456789.") == std::string::npos;
    text +=
        fmt::format("# {}: {} {}\n", setting.help, FlagOf(setting.key), VariableOf(setting.key));
    text += number ? fmt::format("#{} = {}\n", name, setting.value)
                   : fmt::format("#{} = \"{}\"\n", name, setting.value);
  }
  text += R"(
# Several models: each entry takes part in its roles by its weight. In place of `model` above.
#[[model]]
#name = "openai:gpt-4.1-mini"       # openai:NAME, anthropic:NAME, mailbox or playbook
#role = ["code", "repair"]          # idea, code, repair, adviser; absent = all
#weight = 1
#endpoint = "http://localhost:8000/v1"  # absent = the provider's own
#key_variable = "OPENAI_API_KEY"    # the variable that holds the key
#max_tokens = 8192                  # most tokens of a reply; 0 = as many as the prompt asks for
#max_tokens_field = "max_tokens"    # or "max_completion_tokens"; absent = by endpoint
#reasoning_effort = "medium"        # absent = not sent
#price_in = 0.40                    # dollars per million tokens; absent = the price table's
#price_cached = 0.10
#price_out = 1.60
)";
  return text;
}

}  // namespace grove::cli
