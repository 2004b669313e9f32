#include "cli/spending.h"

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace grove::cli {
namespace {

using nlohmann::ordered_json;
using results::LedgerKind;
using results::LedgerSpan;

constexpr LedgerKind kKinds[] = {
    LedgerKind::kTokens,  LedgerKind::kTokensIn,   LedgerKind::kTokensOut,  LedgerKind::kDollars,
    LedgerKind::kSeconds, LedgerKind::kGpuSeconds, LedgerKind::kEvaluations};

struct Sum {
  double settled = 0;
  double reserved = 0;
};

// Of the whole run. Wall time has an entry per scope; the sessions' own have none.
Sum SumOf(const results::RunData& data, LedgerKind kind) {
  Sum sum;
  for (const results::LedgerRow& row : data.ledger) {
    if (row.kind != kind || (kind == LedgerKind::kSeconds && row.round != 0)) continue;
    if (row.settled) {
      sum.settled += *row.settled;
    } else {
      sum.reserved += row.reserved;
    }
  }
  return sum;
}

// The most that one round or idea has.
Sum LargestOf(const results::RunData& data, const results::LedgerLimit& limit) {
  std::map<std::pair<int, int>, Sum> sums;
  for (const results::LedgerRow& row : data.ledger) {
    const bool idea = limit.span == LedgerSpan::kIdea;
    if (row.kind != limit.kind || row.round == 0 || (idea && row.idea == 0)) continue;
    if (row.kind == LedgerKind::kSeconds && !idea && row.idea != 0) continue;
    Sum& sum = sums[{row.round, idea ? row.idea : 0}];
    (row.settled ? sum.settled : sum.reserved) += row.settled.value_or(row.reserved);
  }
  Sum largest;
  for (const auto& [scope, sum] : sums) {
    if (sum.settled + sum.reserved > largest.settled + largest.reserved) largest = sum;
  }
  return largest;
}

struct ModelSum {
  int calls = 0;
  int failed = 0;
  int attempts = 0;
  int retries = 0;
  double in = 0;
  double out = 0;
  double dollars = 0;
  bool priced = true;
  bool estimated = false;
};

std::map<std::pair<std::string, std::string>, ModelSum> ByModel(const results::RunData& data) {
  std::map<std::pair<std::string, std::string>, ModelSum> sums;
  std::map<CallId, ModelSum*> of_call;
  for (const results::CallRow& call : data.calls) {
    ModelSum& sum = sums[{std::string(llm::Name(call.key.role)), call.model}];
    of_call[call.id] = &sum;
    ++sum.calls;
    sum.failed += call.status == results::CallStatus::kFailed ? 1 : 0;
    sum.attempts += call.attempts;
    sum.retries += call.retries;
    sum.estimated = sum.estimated || call.usage.estimated;
    if (call.status == results::CallStatus::kPending) continue;
    sum.dollars += call.dollars.value_or(0);
    sum.priced = sum.priced && call.dollars.has_value();
  }
  for (const results::LedgerRow& row : data.ledger) {
    const auto found = of_call.find(row.call);
    if (!row.call || found == of_call.end() || !row.settled) continue;
    if (row.kind == LedgerKind::kTokensIn) found->second->in += *row.settled;
    if (row.kind == LedgerKind::kTokensOut) found->second->out += *row.settled;
  }
  return sums;
}

std::string Amount(double value) {
  if (value != std::floor(value)) return fmt::format("{:.4f}", value);
  std::string text = std::to_string(static_cast<std::int64_t>(value));
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string Dollars(const std::optional<double>& dollars) {
  return dollars ? fmt::format("${:.2f}", *dollars) : std::string("unknown");
}

ordered_json SpendJson(const search::Spend& spend) {
  ordered_json json;
  json["calls"] = spend.calls;
  json["tokens_in"] = spend.tokens_in;
  json["tokens_out"] = spend.tokens_out;
  json["tokens"] = spend.tokens;
  json["dollars"] = spend.dollars ? ordered_json(*spend.dollars) : ordered_json("unknown");
  json["evaluations"] = spend.evaluations;
  return json;
}

}  // namespace

std::string LedgerText(const results::RunData& data, const search::SearchConfig& config) {
  std::string text = fmt::format("random seed {}\n\n", data.run.seed);
  text += fmt::format("{:<26} {:>16} {:>16} {:>16}\n", "", "limit", "spent", "reserved");
  for (const LedgerKind kind : kKinds) {
    const Sum sum = SumOf(data, kind);
    std::string most = "-";
    for (const auto& limit : config.limits) {
      if (limit.kind == kind && limit.span == LedgerSpan::kRun) most = Amount(limit.most);
    }
    text += fmt::format("{:<26} {:>16} {:>16} {:>16}\n", results::Name(kind), most,
                        Amount(sum.settled), Amount(sum.reserved));
  }
  for (const auto& limit : config.limits) {
    if (limit.span == LedgerSpan::kRun) continue;
    const bool part = limit.span != LedgerSpan::kTask;
    const Sum sum = part ? LargestOf(data, limit) : SumOf(data, limit.kind);
    text += fmt::format("{:<26} {:>16} {:>16} {:>16}\n",
                        fmt::format("{} of {}", results::Name(limit.kind),
                                    part ? fmt::format("any {}", results::Name(limit.span))
                                         : std::string("the task")),
                        Amount(limit.most), Amount(sum.settled), Amount(sum.reserved));
  }
  text += fmt::format("\n{:<8} {:<30} {:>6} {:>7} {:>7} {:>12} {:>12} {:>10}\n", "role", "model",
                      "calls", "failed", "retries", "tokens in", "tokens out", "dollars");
  for (const auto& [name, sum] : ByModel(data)) {
    text += fmt::format("{:<8} {:<30} {:>6} {:>7} {:>7} {:>12} {:>12} {:>10}{}\n", name.first,
                        name.second, sum.calls, sum.failed, sum.retries + sum.attempts - sum.calls,
                        Amount(sum.in), Amount(sum.out),
                        sum.priced ? fmt::format("{:.4f}", sum.dollars) : "unknown",
                        sum.estimated ? "  (usage estimated)" : "");
  }
  return text;
}

ordered_json LedgerJson(const results::RunData& data, const search::SearchConfig& config) {
  ordered_json json;
  json["random_seed"] = data.run.seed;
  for (const LedgerKind kind : kKinds) {
    const Sum sum = SumOf(data, kind);
    json["spent"][std::string(results::Name(kind))] = sum.settled;
    json["reserved"][std::string(results::Name(kind))] = sum.reserved;
  }
  json["limits"] = ordered_json::array();
  for (const auto& limit : config.limits) {
    const bool part = limit.span == LedgerSpan::kRound || limit.span == LedgerSpan::kIdea;
    const Sum sum = part ? LargestOf(data, limit) : SumOf(data, limit.kind);
    json["limits"].push_back({{"of", results::Name(limit.span)},
                              {"kind", results::Name(limit.kind)},
                              {"most", limit.most},
                              {"spent", sum.settled},
                              {"reserved", sum.reserved}});
  }
  json["models"] = ordered_json::array();
  for (const auto& [name, sum] : ByModel(data)) {
    ordered_json row;
    row["role"] = name.first;
    row["model"] = name.second;
    row["calls"] = sum.calls;
    row["failed"] = sum.failed;
    row["attempts"] = sum.attempts;
    row["retries"] = sum.retries;
    row["tokens_in"] = sum.in;
    row["tokens_out"] = sum.out;
    row["dollars"] = sum.priced ? ordered_json(sum.dollars) : ordered_json("unknown");
    row["usage_estimated"] = sum.estimated;
    json["models"].push_back(std::move(row));
  }
  return json;
}

std::string EstimateText(const search::Estimate& estimate) {
  std::string text =
      fmt::format("{:<12} {:>16} {:>16} {:>16}\n", "", "expected", "no failures", "at most");
  const auto row = [&](std::string_view name, auto amount) {
    text += fmt::format("{:<12} {:>16} {:>16} {:>16}\n", name, amount(estimate.expected),
                        amount(estimate.calm), amount(estimate.largest));
  };
  using search::Spend;
  const auto count = [](std::int64_t Spend::*field) {
    return [field](const Spend& spend) { return Amount(static_cast<double>(spend.*field)); };
  };
  row("calls", count(&Spend::calls));
  row("tokens in", count(&Spend::tokens_in));
  row("tokens out", count(&Spend::tokens_out));
  row("tokens", count(&Spend::tokens));
  row("evaluations", count(&Spend::evaluations));
  row("dollars", [](const Spend& spend) { return Dollars(spend.dollars); });
  text +=
      "\nat most: every reply as long as allowed, every attempt but the last failing and billed; "
      "a limit\n(--budget 7M, --budget-dollars 20) is never passed\n";
  return text;
}

ordered_json EstimateJson(const search::Estimate& estimate) {
  ordered_json json;
  json["expected"] = SpendJson(estimate.expected);
  json["without_failures"] = SpendJson(estimate.calm);
  json["largest"] = SpendJson(estimate.largest);
  return json;
}

}  // namespace grove::cli
