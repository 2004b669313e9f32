#include "llm/pricing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "base/files.h"
#include "base/share.h"
#include "base/suggest.h"
#include "base/toml.h"

namespace grove::llm {
namespace {

constexpr double kMillion = 1e6;

Failure Bad(const std::filesystem::path& path, const toml::node& node, const std::string& what) {
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{}:{}: {}", path.string(), node.source().begin.line, what));
}

}  // namespace

double Price::Cost(const Usage& usage) const {
  const auto fresh = static_cast<double>(usage.prompt.value - usage.cached.value);
  return (fresh * std::max(in, write) + static_cast<double>(usage.cached.value) * cached +
          static_cast<double>(usage.completion.value) * out) /
         kMillion;
}

double Price::Most(Tokens prompt, Tokens completion) const {
  return (static_cast<double>(prompt.value) * std::max({in, write, cached}) +
          static_cast<double>(completion.value) * out) /
         kMillion;
}

Status PriceTable::Add(const std::filesystem::path& path) {
  auto text = ReadFile(path);
  if (!text) return Failure(std::move(text.error()));
  const toml::parse_result parsed = toml::parse(*text, path.string());
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("{}:{}: {}", path.string(), error.source().begin.line, error.description()));
  }
  const toml::table& table = parsed.table();
  if (table["version"].value<std::int64_t>() != 1) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("{}: 'version = 1' is missing; this program knows no other", path.string()));
  }
  static const std::vector<std::string> kKeys = {"model", "in",   "cached", "write",
                                                 "out",   "date", "source"};
  std::vector<Row> rows;
  for (const auto& [key, node] : table) {
    if (key == "version") continue;
    if (key != "price" || !node.is_array()) {
      return Bad(
          path, node,
          UnknownName("key", std::string(key.str()), std::vector<std::string>{"version", "price"}));
    }
    for (const toml::node& entry : *node.as_array()) {
      const toml::table* fields = entry.as_table();
      if (fields == nullptr) return Bad(path, entry, "write [[price]]");
      Row row;
      std::optional<double> in;
      std::optional<double> cached;
      std::optional<double> write;
      std::optional<double> out;
      for (const auto& [name, value] : *fields) {
        const std::string word(name.str());
        if (std::find(kKeys.begin(), kKeys.end(), word) == kKeys.end()) {
          return Bad(path, value, UnknownName("key", word, kKeys));
        }
        if (word == "model" || word == "date" || word == "source") {
          if (!value.is_string()) return Bad(path, value, word + " must be text");
          const auto said = value.value<std::string>().value_or("");
          (word == "model"  ? row.pattern
           : word == "date" ? row.price.date
                            : row.price.source) = said;
          continue;
        }
        const double number = value.value<double>().value_or(-1);
        if (!value.is_number() || !std::isfinite(number) || number < 0) {
          return Bad(path, value, word + " must be dollars per million tokens, 0 or more");
        }
        (word == "in" ? in : word == "cached" ? cached : word == "write" ? write : out) = number;
      }
      if (row.pattern.empty() || !in || !out) {
        return Bad(path, entry, "a [[price]] needs model, in and out");
      }
      row.price.in = *in;
      row.price.out = *out;
      row.price.cached = cached.value_or(*in);
      row.price.write = write.value_or(*in);
      rows.push_back(std::move(row));
    }
  }
  rows_.insert(rows_.begin(), rows.begin(), rows.end());
  return {};
}

std::optional<Price> PriceTable::Find(std::string_view model) const {
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    if (row.pattern == model) return row.price;
    if (!row.pattern.ends_with('*')) continue;
    const std::string_view prefix = std::string_view(row.pattern).substr(0, row.pattern.size() - 1);
    if (!model.starts_with(prefix)) continue;
    if (best == nullptr || row.pattern.size() > best->pattern.size()) best = &row;
  }
  return best == nullptr ? std::nullopt : std::optional(best->price);
}

Result<PriceTable> LoadPrices() {
  PriceTable table;
  const auto ours = ShareFolder("prices") / "prices.toml";
  if (auto added = table.Add(ours); !added) return Failure(std::move(added.error()));
  if (const char* named = std::getenv("GROVE_PRICES"); named != nullptr && *named != '\0') {
    if (auto added = table.Add(named); !added) {
      return Fail(std::move(added.error()), "GROVE_PRICES");
    }
    return table;
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    const auto path = std::filesystem::path(home) / ".config" / "grove" / "prices.toml";
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      if (auto added = table.Add(path); !added) return Failure(std::move(added.error()));
    }
  }
  return table;
}

}  // namespace grove::llm
