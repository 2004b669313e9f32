// What tokens cost: a table in a file that carries its version, and for every row the date and the
// source of its numbers, since prices change and ours will be old. Plain values.
//
//   version = 1
//   [[price]]
//   model = "openai:gpt-4.1*"     # a star at the end: every model that begins so
//   in = 2.00                     # dollars per million tokens
//   cached = 0.50                 # of the prompt, read from the provider's cache; absent = as in
//   write = 2.00                  # of the prompt, when writing it to a cache costs more; absent =
//   in out = 8.00 date = "2025-10" source = "https://..."
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/client.h"

namespace grove::llm {

// Dollars per million tokens.
struct Price {
  double in = 0;
  double cached = 0;
  double write = 0;
  double out = 0;
  std::string date;
  std::string source;

  // What a reply cost: cached tokens at their price, the rest of the prompt at the dearer of `in`
  // and `write` (usage does not tell them apart), the completion at `out`.
  double Cost(const Usage& usage) const;
  // The most that `prompt` and `completion` tokens can cost.
  double Most(Tokens prompt, Tokens completion) const;
};

class PriceTable {
 public:
  // Rows of `path` come before those that are there. kNotFound, kInvalidInput with file and line: a
  // version that is not 1, unknown keys (with the nearest), a price that is no number.
  Status Add(const std::filesystem::path& path);
  // The price of "openai:gpt-4o": an exact row, else the longest prefix; none = unknown.
  std::optional<Price> Find(std::string_view model) const;

 private:
  struct Row {
    std::string pattern;
    Price price;
  };
  std::vector<Row> rows_;
};

// Ours (ShareFolder("prices")/prices.toml), and before it the user's: $GROVE_PRICES, else
// ~/.config/grove/prices.toml where that exists.
Result<PriceTable> LoadPrices();

}  // namespace grove::llm
