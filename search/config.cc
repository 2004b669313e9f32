#include "search/config.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "search/goals.h"

namespace grove::search {
namespace {

struct IntField {
  const char* name;
  int SearchConfig::*member;
  int low;
  int high;
};

constexpr IntField kInts[] = {
    {"rounds", &SearchConfig::rounds, 1, 1000},     {"ideas", &SearchConfig::ideas, 1, 64},
    {"branches", &SearchConfig::branches, 1, 64},   {"frontier", &SearchConfig::frontier, 1, 64},
    {"patience", &SearchConfig::patience, 1, 1000}, {"repairs", &SearchConfig::repairs, 0, 16},
    {"reserve", &SearchConfig::reserve, 0, 16},
    {"calls", &SearchConfig::calls, 1, 1024},
    {"eager", &SearchConfig::eager, 1, 100},
    {"screen", &SearchConfig::screen, 0, 1},
};

struct TextField {
  const char* name;
  std::string SearchConfig::*member;
};

constexpr TextField kTexts[] = {
    {"task", &SearchConfig::task},     {"model", &SearchConfig::model},
    {"policy", &SearchConfig::policy}, {"device", &SearchConfig::device},
    {"gpu", &SearchConfig::gpu},       {"tasks", &SearchConfig::tasks},
    {"suite", &SearchConfig::suite},
};

}  // namespace

std::string ToJson(const SearchConfig& config) {
  nlohmann::ordered_json json;
  for (const TextField& field : kTexts) json[field.name] = config.*field.member;
  json["cases"] = config.cases;
  json["goals"] = config.goals;
  for (const IntField& field : kInts) json[field.name] = config.*field.member;
  json["seed"] = config.seed;
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
  return {};
}

Result<SearchConfig> ConfigFromJson(std::string_view text) {
  const auto bad = [](const std::string& what) {
    return Fail(ErrorCode::kInvalidInput, "configuration: " + what);
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("expected a JSON object");
  SearchConfig config;
  std::vector<std::string> names = {"cases", "goals", "seed"};
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
    } else {
      return bad(UnknownName("field", key, names));
    }
  }
  if (auto valid = Validate(config); !valid) return Failure(std::move(valid.error()));
  return config;
}

}  // namespace grove::search
