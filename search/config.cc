#include "search/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "search/goals.h"

namespace grove::search {
namespace {

using results::LedgerKind;
using results::LedgerLimit;
using results::LedgerSpan;

struct IntField {
  const char* name;
  int SearchConfig::*member;
  int low;
  int high;
  const char* help = "";
};

// One field per line.
constexpr IntField kInts[] = {
    {"rounds", &SearchConfig::rounds, 1, 1000, "rounds"},
    {"ideas", &SearchConfig::ideas, 1, 64, "ideas per frontier kernel"},
    {"branches", &SearchConfig::branches, 1, 64, "implementations per idea"},
    {"frontier", &SearchConfig::frontier, 1, 64, "kernels carried into the next round"},
    {"patience", &SearchConfig::patience, 1, 1000, "rounds without a gain before it ends"},
    {"repairs", &SearchConfig::repairs, 0, 16, "repair turns per candidate"},
    {"calls", &SearchConfig::calls, 1, 1024, "requests to models in flight at a time"},
    {"eager", &SearchConfig::eager, 1, 100,
     "percent of a round after which the next round's ideas are asked for"},
    {"reserve", &SearchConfig::reserve, 0, 16,
     "places for promising but slower kernels, beside the frontier"},
    {"counters", &SearchConfig::counters, 0, 1,
     "1: profile the kernels of the frontier on a GPU, for the prompts"},
    {"screen", &SearchConfig::screen, 0, 1,
     "1: run every candidate in the emulator before it reaches a GPU"},
};

struct TextField {
  const char* name;
  std::string SearchConfig::*member;
  const char* help = "";
};

// One field per line.
constexpr TextField kTexts[] = {
    {"task", &SearchConfig::task, "what to make fast (grove tasks)"},
    {"model", &SearchConfig::model,
     "who writes: playbook, mailbox, openai:NAME or anthropic:NAME (docs/models.md)"},
    {"policy", &SearchConfig::policy,
     "which kernels seed the next round: beam, greedy, islands or puct"},
    {"ensemble", &SearchConfig::ensemble,
     "which of several models is asked: by their weights, or bandit (what each gained for its "
     "tokens)"},
    {"device", &SearchConfig::device, "auto, emulator, cuda, cuda:N, cuda:0,1 or all"},
    {"gpu", &SearchConfig::gpu, "the GPU whose time is modelled (grove devices)"},
    {"tasks", &SearchConfig::tasks, "folder of the tasks"},
    {"suite", &SearchConfig::suite,
     "whose cases count (default: the first that has all of the cases)"},
    {"class", &SearchConfig::demanded,
     "of accuracy that is demanded: fp64, fp32, tf32, fp16, bf16 or fp8 (default: the task's)"},
    {"base_url", &SearchConfig::base_url, "where --model is served (default: the provider's own)"},
    {"until", &SearchConfig::until,
     "evaluate: stop there and pack the programs for a machine with a GPU (docs/search.md)"},
    {"replay", &SearchConfig::replay, "answer from this run's stored calls, offline"},
};

constexpr const char* kCasesHelp =
    "scored or extra cases that count (default: the suite's scored ones)";
constexpr const char* kGoalsHelp =
    "ends the run when all are met: 'case n512 < 5000us', '2x over seed', '90% of floor'";
constexpr const char* kSeedHelp = "of inputs and samples";

struct KindHelp {
  LedgerKind kind;
  const char* help;
};
constexpr KindHelp kKinds[] = {
    {LedgerKind::kTokens, "tokens, in and out: 7M, 500k"},
    {LedgerKind::kTokensIn, "tokens of prompts"},
    {LedgerKind::kTokensOut, "tokens of replies"},
    {LedgerKind::kDollars, "dollars, by the price table"},
    {LedgerKind::kSeconds, "wall time: 90s, 30m, 2h"},
    {LedgerKind::kGpuSeconds, "seconds of evaluations on a GPU"},
    {LedgerKind::kEvaluations, "evaluations"},
};
constexpr LedgerSpan kSpans[] = {LedgerSpan::kRun, LedgerSpan::kTask, LedgerSpan::kRound,
                                 LedgerSpan::kIdea};

// "budget.tokens" for the run, "budget.round.tokens" below it.
std::string KeyOf(LedgerSpan span, LedgerKind kind) {
  if (span == LedgerSpan::kRun) return fmt::format("budget.{}", results::Name(kind));
  return fmt::format("budget.{}.{}", results::Name(span), results::Name(kind));
}

constexpr std::array<std::string_view, 4> kRoles = {"idea", "code", "repair", "adviser"};

Failure Bad(const std::string& what) { return Fail(ErrorCode::kInvalidInput, what); }

void SetLimit(SearchConfig& config, LedgerSpan span, LedgerKind kind, double most) {
  std::erase_if(config.limits,
                [&](const LedgerLimit& limit) { return limit.span == span && limit.kind == kind; });
  config.limits.push_back({kind, span, most});
}

std::string Plain(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> Keys() {
  std::vector<std::string> keys;
  for (const Setting& setting : Settings()) keys.push_back(setting.key);
  return keys;
}

nlohmann::ordered_json ModelJson(const ModelSpec& model) {
  nlohmann::ordered_json json;
  json["name"] = model.name;
  json["roles"] = model.roles;
  json["weight"] = model.weight;
  json["endpoint"] = model.endpoint;
  json["key_variable"] = model.key_variable;
  json["max_tokens_field"] = model.max_tokens_field;
  json["reasoning_effort"] = model.reasoning_effort;
  json["max_tokens"] = model.max_tokens;
  if (model.price_in) json["price_in"] = *model.price_in;
  if (model.price_cached) json["price_cached"] = *model.price_cached;
  if (model.price_out) json["price_out"] = *model.price_out;
  json["price_source"] = model.price_source;
  return json;
}

// What is stored was written by ModelJson: anything else is a damaged or newer run.
Result<ModelSpec> ModelFrom(const nlohmann::json& json) {
  ModelSpec model;
  if (!json.is_object()) return Bad("models must be a list of objects");
  try {
    model.name = json.at("name").get<std::string>();
    model.roles = json.at("roles").get<std::vector<std::string>>();
    model.weight = json.at("weight").get<double>();
    model.endpoint = json.at("endpoint").get<std::string>();
    model.key_variable = json.at("key_variable").get<std::string>();
    model.max_tokens_field = json.at("max_tokens_field").get<std::string>();
    model.reasoning_effort = json.at("reasoning_effort").get<std::string>();
    model.max_tokens = json.at("max_tokens").get<int>();
    if (json.contains("price_in")) model.price_in = json.at("price_in").get<double>();
    if (json.contains("price_cached")) model.price_cached = json.at("price_cached").get<double>();
    if (json.contains("price_out")) model.price_out = json.at("price_out").get<double>();
    model.price_source = json.at("price_source").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    return Bad(fmt::format("a model of the configuration cannot be read: {}", error.what()));
  }
  return model;
}

Status CheckModels(const SearchConfig& config) {
  static const std::vector<std::string> kProviders = {"playbook", "mailbox", "openai:NAME",
                                                      "anthropic:NAME"};
  const std::vector<ModelSpec> models = ModelsOf(config);
  for (const ModelSpec& model : models) {
    const std::string_view provider = model.provider();
    const bool served = provider == "openai" || provider == "anthropic";
    const bool named = model.name.size() > provider.size() + 1;
    if (!(served && named) && model.name != "playbook" && model.name != "mailbox") {
      if (served) {
        return Bad(fmt::format("model '{0}' names no model; write {0}:NAME", provider));
      }
      return Fail(ErrorCode::kNotFound, UnknownName("model", model.name, kProviders));
    }
    if (!std::isfinite(model.weight) || model.weight <= 0) {
      return Bad(fmt::format("the weight of {} must be above 0", model.name));
    }
    if (model.max_tokens < 0 || model.max_tokens > 1'000'000) {
      return Bad(fmt::format("max_tokens of {} must be from 0 to 1000000", model.name));
    }
    if (!model.max_tokens_field.empty() && model.max_tokens_field != "max_tokens" &&
        model.max_tokens_field != "max_completion_tokens") {
      return Bad(fmt::format("max_tokens_field of {} must be max_tokens or max_completion_tokens",
                             model.name));
    }
    for (const auto& price : {model.price_in, model.price_cached, model.price_out}) {
      if (price && !(*price >= 0)) return Bad(fmt::format("a price of {} is negative", model.name));
    }
    for (const std::string& role : model.roles) {
      if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
        return Bad(
            UnknownName("role", role, std::vector<std::string>(kRoles.begin(), kRoles.end())));
      }
    }
  }
  for (const llm::Role role : {llm::Role::kIdea, llm::Role::kCode, llm::Role::kRepair}) {
    if (std::none_of(models.begin(), models.end(),
                     [&](const ModelSpec& model) { return model.Takes(role); })) {
      return Bad(
          fmt::format("no [[model]] takes the role '{}'; give one of them that role, or no "
                      "role for all",
                      llm::Name(role)));
    }
  }
  return {};
}

}  // namespace

std::string ToJson(const SearchConfig& config) {
  nlohmann::ordered_json json;
  for (const TextField& field : kTexts) json[field.name] = config.*field.member;
  json["cases"] = config.cases;
  json["goals"] = config.goals;
  for (const IntField& field : kInts) json[field.name] = config.*field.member;
  json["seed"] = config.seed;
  json["models"] = nlohmann::ordered_json::array();
  for (const ModelSpec& model : config.models) json["models"].push_back(ModelJson(model));
  json["limits"] = nlohmann::ordered_json::object();
  // By name, whatever order they were given in: equal configurations have equal texts.
  std::map<std::string, double> limits;
  for (const LedgerLimit& limit : config.limits) {
    limits[KeyOf(limit.span, limit.kind)] = limit.most;
  }
  for (const auto& [key, most] : limits) json["limits"][key] = most;
  return json.dump();
}

Status Validate(const SearchConfig& config) {
  for (const IntField& field : kInts) {
    const int value = config.*field.member;
    if (value < field.low || value > field.high) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("{} is {}; it must be from {} to {}",
                                                        field.name, value, field.low, field.high));
    }
  }
  for (const std::string& text : config.goals) {
    if (auto goal = ParseGoal(text); !goal) return Failure(std::move(goal.error()));
  }
  if (!config.until.empty() && config.until != "evaluate") {
    return Bad(fmt::format("until is '{}'; it can be 'evaluate' or empty", config.until));
  }
  if (!config.until.empty() && config.device != "auto" && config.device != "emulator") {
    return Bad(
        "until evaluate leaves the device to another machine: leave --device out, and name "
        "its GPU with --gpu");
  }
  if (config.ensemble != "weights" && config.ensemble != "bandit") {
    const std::vector<std::string> known = {"weights", "bandit"};
    return Bad(UnknownName("ensemble", config.ensemble, known));
  }
  return CheckModels(config);
}

Result<SearchConfig> ConfigFromJson(std::string_view text) {
  const auto bad = [](const std::string& what) {
    return Fail(ErrorCode::kInvalidInput, "configuration: " + what);
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("expected a JSON object");
  SearchConfig config;
  std::vector<std::string> names = {"cases", "goals", "seed", "models", "limits"};
  for (const IntField& field : kInts) names.emplace_back(field.name);
  for (const TextField& field : kTexts) names.emplace_back(field.name);
  for (const auto& [key, value] : json.items()) {
    const auto integer = std::find_if(std::begin(kInts), std::end(kInts),
                                      [&](const IntField& f) { return key == f.name; });
    const auto string = std::find_if(std::begin(kTexts), std::end(kTexts),
                                     [&](const TextField& f) { return key == f.name; });
    if (integer != std::end(kInts)) {
      if (!value.is_number_integer()) return bad(key + " must be a whole number");
      const auto number = value.get<std::int64_t>();
      if (number < integer->low || number > integer->high) {
        return bad(fmt::format("{} must be from {} to {}", key, integer->low, integer->high));
      }
      config.*integer->member = static_cast<int>(number);
    } else if (string != std::end(kTexts)) {
      if (!value.is_string()) return bad(key + " must be text");
      config.*string->member = value.get<std::string>();
    } else if (key == "seed") {
      if (!value.is_number_integer()) return bad("seed must be a whole number");
      config.seed = value.get<std::uint64_t>();
    } else if (key == "cases" || key == "goals") {
      auto& list = key == "cases" ? config.cases : config.goals;
      if (!value.is_array()) return bad(key + " must be a list of texts");
      for (const auto& name : value) {
        if (!name.is_string()) return bad(key + " must be a list of texts");
        list.push_back(name.get<std::string>());
      }
    } else if (key == "models") {
      if (!value.is_array()) return bad("models must be a list");
      for (const auto& entry : value) {
        auto model = ModelFrom(entry);
        if (!model) return Failure(std::move(model.error()));
        config.models.push_back(std::move(*model));
      }
    } else if (key == "limits") {
      if (!value.is_object()) return bad("limits must be an object");
      for (const auto& [name, most] : value.items()) {
        if (!most.is_number() || !(most.get<double>() >= 0)) return bad(name + " must be a number");
        bool known = false;
        for (const LedgerSpan span : kSpans) {
          for (const KindHelp& row : kKinds) {
            if (KeyOf(span, row.kind) != name) continue;
            SetLimit(config, span, row.kind, most.get<double>());
            known = true;
          }
        }
        if (!known) return bad(UnknownName("limit", name, Keys()));
      }
    } else {
      return bad(UnknownName("field", key, names));
    }
  }
  if (auto valid = Validate(config); !valid) return Failure(std::move(valid.error()));
  return config;
}

bool ModelSpec::Takes(llm::Role role) const {
  return roles.empty() || std::find(roles.begin(), roles.end(), llm::Name(role)) != roles.end();
}

std::string_view ModelSpec::provider() const {
  return std::string_view(name).substr(0, std::min(name.find(':'), name.size()));
}

std::vector<ModelSpec> ModelsOf(const SearchConfig& config) {
  if (!config.models.empty()) return config.models;
  ModelSpec model;
  model.name = config.model;
  model.endpoint = config.base_url;
  return {model};
}

Result<double> ParseAmount(std::string_view text, LedgerKind kind) {
  std::string_view rest = text;
  if (kind == LedgerKind::kDollars && rest.starts_with('$')) rest.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  const bool time = kind == LedgerKind::kSeconds || kind == LedgerKind::kGpuSeconds;
  double factor = 0;
  if (rest.empty()) {
    factor = 1;
  } else if (time && (rest == "s" || rest == "m" || rest == "h")) {
    factor = rest == "s" ? 1 : rest == "m" ? 60 : 3600;
  } else if (!time && kind != LedgerKind::kDollars && rest.size() == 1) {
    switch (rest[0]) {
      case 'k':
      case 'K':
        factor = 1e3;
        break;
      case 'm':
      case 'M':
        factor = 1e6;
        break;
      case 'g':
      case 'G':
        factor = 1e9;
        break;
      default:
        break;
    }
  }
  value *= factor;
  const bool whole = !time && kind != LedgerKind::kDollars;
  if (error != std::errc() || factor == 0 || !(value >= 0) || value > 1e15 ||
      (whole && value != std::floor(value))) {
    return Bad(fmt::format("'{}' is no amount of {}; write {}", text, results::Name(kind),
                           time    ? "90s, 30m or 2h"
                           : whole ? "500000, 500k or 7M"
                                   : "12.50"));
  }
  return value;
}

std::vector<Setting> Settings(const SearchConfig& config) {
  std::vector<Setting> settings;
  for (const TextField& field : kTexts) {
    settings.push_back({field.name, field.help, config.*field.member});
  }
  settings.push_back({"cases", kCasesHelp, fmt::format("{}", fmt::join(config.cases, ","))});
  settings.push_back({"goals", kGoalsHelp, fmt::format("{}", fmt::join(config.goals, ","))});
  for (const IntField& field : kInts) {
    settings.push_back({field.name, field.help, std::to_string(config.*field.member)});
  }
  settings.push_back({"seed", kSeedHelp, std::to_string(config.seed)});
  for (const LedgerSpan span : kSpans) {
    for (const KindHelp& row : kKinds) {
      Setting setting;
      setting.key = KeyOf(span, row.kind);
      setting.help = fmt::format("most of a {}: {}", results::Name(span), row.help);
      for (const LedgerLimit& limit : config.limits) {
        if (limit.span == span && limit.kind == row.kind) setting.value = Plain(limit.most);
      }
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

Status Set(SearchConfig& config, std::string_view key, std::string_view text) {
  for (const TextField& field : kTexts) {
    if (key != field.name) continue;
    config.*field.member = std::string(text);
    return {};
  }
  for (const IntField& field : kInts) {
    if (key != field.name) continue;
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < field.low ||
        value > field.high) {
      return Bad(fmt::format("{} is '{}'; it must be a whole number from {} to {}", key, text,
                             field.low, field.high));
    }
    config.*field.member = value;
    return {};
  }
  if (key == "cases" || key == "goals") {
    (key == "cases" ? config.cases : config.goals) = SplitList(text);
    return {};
  }
  if (key == "seed") {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), config.seed);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Bad(fmt::format("seed is '{}'; it must be a whole number", text));
    }
    return {};
  }
  for (const LedgerSpan span : kSpans) {
    for (const KindHelp& row : kKinds) {
      if (KeyOf(span, row.kind) != key) continue;
      auto most = ParseAmount(text, row.kind);
      if (!most) return Fail(std::move(most.error()), key);
      SetLimit(config, span, row.kind, *most);
      return {};
    }
  }
  return Fail(ErrorCode::kNotFound, UnknownName("setting", key, Keys()));
}

}  // namespace grove::search
