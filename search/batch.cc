#include "search/batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "results/format.h"
#include "results/store.h"
#include "search/selection.h"

namespace grove::search {
namespace {

// A round that nobody has tried is expected to gain so much (a factor of 1.65): the first rounds of
// a search do, and every task should be looked at.
constexpr double kPriorGain = 0.5;
// What the prior counts for beside rounds that were run, and how fast old rounds are forgotten.
constexpr double kPriorWeight = 0.2;
constexpr double kMemory = 0.5;
constexpr double kTypicalCost = 50000;  // tokens, before anything is known

Error At(std::string_view file, const toml::source_position& where, const std::string& what) {
  return {ErrorCode::kInvalidInput,
          fmt::format("{}:{}:{}: {}", file, where.line, where.column, what)};
}

Status CheckKeys(const toml::table& table, std::string_view file,
                 const std::vector<std::string>& known) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Failure(At(file, key.source().begin, UnknownName("key", name, known)));
    }
  }
  return {};
}

Status ReadTask(const toml::table& table, std::string_view file, BatchTask& task) {
  if (auto keys = CheckKeys(table, file, {"name", "weight", "suite", "cases"}); !keys) return keys;
  const auto wrong = [&](const toml::node& node, const char* what) {
    return Failure(At(file, node.source().begin, fmt::format("expected {}", what)));
  };
  const toml::node* name = table.get("name");
  if (name == nullptr) {
    return Failure(At(file, table.source().begin, "a task needs a name"));
  }
  const auto text = name->value_exact<std::string>();
  if (!text || text->empty()) return wrong(*name, "the name of a task");
  task.name = *text;
  if (const toml::node* weight = table.get("weight")) {
    const auto value = weight->value<double>();
    if (!value || !(*value > 0) || !std::isfinite(*value))
      return wrong(*weight, "a weight above 0");
    task.weight = *value;
  }
  if (const toml::node* suite = table.get("suite")) {
    const auto value = suite->value_exact<std::string>();
    if (!value) return wrong(*suite, "the name of a suite");
    task.suite = *value;
  }
  if (const toml::node* cases = table.get("cases")) {
    if (!cases->is_array()) return wrong(*cases, "a list of cases");
    for (const toml::node& node : *cases->as_array()) {
      const auto value = node.value_exact<std::string>();
      if (!value) return wrong(node, "the name of a case");
      task.cases.push_back(*value);
    }
  }
  return {};
}

template <typename T>
Status ReadCount(const toml::table& table, const char* key, std::string_view file, T& value) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return {};
  const auto number = node->value_exact<std::int64_t>();
  if (!number || *number < 1 || *number > std::int64_t{1} << 40) {
    return Failure(At(file, node->source().begin, "expected a whole number above 0"));
  }
  value = static_cast<T>(std::min<std::int64_t>(*number, std::numeric_limits<T>::max()));
  return {};
}

}  // namespace

Status Validate(const BatchSpec& spec) {
  if (spec.tasks.empty()) return Fail(ErrorCode::kInvalidInput, "the batch has no task");
  std::set<std::string> names;
  for (const BatchTask& task : spec.tasks) {
    if (!names.insert(task.name).second) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("task {} is in the batch twice", results::Visible(task.name)));
    }
    if (!(task.weight > 0) || !std::isfinite(task.weight)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("the weight of task {} is not above 0", results::Visible(task.name)));
    }
    if (auto valid = results::CheckRunName(task.name); !valid) {
      return Fail(std::move(valid.error()), "task " + results::Visible(task.name));
    }
  }
  return Validate(spec.config);
}

Result<BatchSpec> ParseBatch(std::string_view text, std::string_view file) {
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return Failure(
        At(file, parsed.error().source().begin, std::string(parsed.error().description())));
  }
  const toml::table& table = parsed.table();
  BatchSpec spec;
  if (auto keys = CheckKeys(table, file, {"tokens", "rounds", "task"}); !keys) {
    return Failure(std::move(keys.error()));
  }
  if (auto read = ReadCount(table, "tokens", file, spec.tokens); !read) {
    return Failure(std::move(read.error()));
  }
  if (auto read = ReadCount(table, "rounds", file, spec.rounds); !read) {
    return Failure(std::move(read.error()));
  }
  if (const toml::node* tasks = table.get("task")) {
    if (!tasks->is_array()) {
      return Failure(At(file, tasks->source().begin, "tasks are written as [[task]]"));
    }
    for (const toml::node& node : *tasks->as_array()) {
      if (!node.is_table()) {
        return Failure(At(file, node.source().begin, "tasks are written as [[task]]"));
      }
      BatchTask task;
      if (auto read = ReadTask(*node.as_table(), file, task); !read) {
        return Failure(std::move(read.error()));
      }
      spec.tasks.push_back(std::move(task));
    }
  }
  if (auto valid = Validate(spec); !valid) return Fail(std::move(valid.error()), file);
  return spec;
}

std::string ToJson(const BatchSpec& spec) {
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["tokens"] = spec.tokens;
  json["rounds"] = spec.rounds;
  json["config"] = nlohmann::ordered_json::parse(ToJson(spec.config));
  json["tasks"] = nlohmann::ordered_json::array();
  for (const BatchTask& task : spec.tasks) {
    json["tasks"].push_back({{"name", task.name},
                             {"weight", task.weight},
                             {"suite", task.suite},
                             {"cases", task.cases}});
  }
  return json.dump(2) + "\n";
}

Result<BatchSpec> BatchFromJson(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Fail(ErrorCode::kInvalidInput, "batch.json is not a JSON object");
  try {
    if (json.at("version").get<int>() != 1) {
      return Fail(ErrorCode::kInvalidInput, "batch.json is of another version of grove");
    }
    BatchSpec spec;
    spec.tokens = json.at("tokens").get<std::int64_t>();
    spec.rounds = json.at("rounds").get<int>();
    auto config = ConfigFromJson(json.at("config").dump());
    if (!config) return Failure(std::move(config.error()));
    spec.config = std::move(*config);
    for (const auto& entry : json.at("tasks")) {
      spec.tasks.push_back({entry.at("name").get<std::string>(), entry.at("weight").get<double>(),
                            entry.at("suite").get<std::string>(),
                            entry.at("cases").get<std::vector<std::string>>()});
    }
    if (auto valid = Validate(spec); !valid) return Failure(std::move(valid.error()));
    return spec;
  } catch (const nlohmann::json::exception& error) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("batch.json: {}", error.what()));
  }
}

Result<BatchSpec> ReadBatch(const std::filesystem::path& runs, const std::string& name) {
  const auto path = runs / name / "batch.json";
  auto text = ReadFile(path, 1 << 20);
  if (!text) return Failure(std::move(text.error()));
  auto spec = BatchFromJson(*text);
  if (!spec) return Fail(std::move(spec.error()), path.string());
  return spec;
}

Status WriteBatch(const std::filesystem::path& runs, const std::string& name,
                  const BatchSpec& spec) {
  std::error_code error;
  std::filesystem::create_directories(runs / name, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make {}: {}", (runs / name).string(), error.message()));
  }
  return WriteFileAtomic(runs / name / "batch.json", ToJson(spec));
}

SearchConfig ConfigOf(const BatchSpec& spec, const BatchTask& task) {
  SearchConfig config = spec.config;
  config.task = task.name;
  config.suite = task.suite;
  config.cases = task.cases;
  return config;
}

std::string RunOf(const std::string& batch, const BatchTask& task) {
  return fmt::format("{}.{}", batch, task.name);
}

TaskStanding StandingOf(const BatchTask& task, const results::RunData* data, int max_rounds) {
  TaskStanding standing;
  standing.task = task.name;
  standing.weight = task.weight;
  if (data == nullptr) return standing;
  const results::CandidateRow* seed = data->Seed();
  const auto start = seed != nullptr ? results::ScoreOf(*seed) : std::nullopt;
  double best = start ? start->count() : 0;
  for (const results::CallRow& call : data->calls) {
    standing.spent += static_cast<double>(call.usage.total().value);
  }
  for (const results::LedgerRow& row : data->ledger) {
    // Wall time has rows of rounds and ideas beside that of the run.
    if (row.kind == results::LedgerKind::kSeconds && row.round != 0) continue;
    standing.paid[row.kind] += row.settled.value_or(row.reserved);
  }
  // With what was billed for no reply.
  if (const auto paid = standing.paid.find(results::LedgerKind::kTokens);
      paid != standing.paid.end()) {
    standing.spent = paid->second;
  }
  for (const results::RoundRow& round : data->rounds) {
    if (round.status != results::RoundStatus::kFinished) continue;
    ++standing.rounds;
    double after = best;
    for (const results::CandidateRow& candidate : CandidatesOf(*data, round.index)) {
      if (seed == nullptr) break;
      if (!results::SpeedUp(*seed, candidate)) continue;
      after = std::min(after, results::ScoreOf(candidate)->count());
    }
    standing.gains.push_back(best > 0 && after > 0 ? std::log(best / after) : 0);
    best = after;
    double cost = 0;
    for (const results::CallRow& call : data->calls) {
      if (call.key.round == round.index) cost += static_cast<double>(call.usage.total().value);
    }
    standing.costs.push_back(cost);
  }
  if (start && best > 0) standing.share = best / start->count();
  standing.ended = standing.rounds >= max_rounds ||
                   data->run.effective_status() == results::RunStatus::kFinished;
  return standing;
}

Expectation Expect(const TaskStanding& standing, double typical_cost) {
  double gain = kPriorWeight * kPriorGain, cost = kPriorWeight * std::max(1.0, typical_cost);
  double weight = kPriorWeight, rate = 1;
  for (std::size_t i = standing.gains.size(); i-- > 0;) {
    gain += rate * standing.gains[i];
    cost += rate * std::max(1.0, standing.costs[i]);
    weight += rate;
    rate *= kMemory;
  }
  // A round without gain makes the next one less likely to gain, however good the first were: what
  // is believed of untried rounds shrinks with every round that was tried.
  const double tried = static_cast<double>(standing.gains.size());
  gain -= kPriorWeight * kPriorGain * (tried / (tried + 2));
  Expectation expectation;
  expectation.saving = 1 - std::exp(-std::max(0.0, gain) / weight);
  expectation.cost = cost / weight;
  expectation.value = standing.weight * standing.share * expectation.saving / expectation.cost;
  return expectation;
}

namespace {

// What all tasks may spend together.
std::vector<results::LedgerLimit> SharedLimits(const BatchSpec& spec) {
  std::vector<results::LedgerLimit> shared;
  for (const results::LedgerLimit& limit : spec.config.limits) {
    if (limit.span == results::LedgerSpan::kRun) shared.push_back(limit);
  }
  if (spec.tokens > 0) {
    shared.push_back({results::LedgerKind::kTokens, results::LedgerSpan::kRun,
                      static_cast<double>(spec.tokens)});
  }
  return shared;
}

double Paid(const TaskStanding& standing, results::LedgerKind kind) {
  const auto found = standing.paid.find(kind);
  return found == standing.paid.end() ? 0 : found->second;
}

double PaidByAll(std::span<const TaskStanding> standings, results::LedgerKind kind) {
  double sum = 0;
  for (const TaskStanding& standing : standings) sum += Paid(standing, kind);
  return sum;
}

}  // namespace

std::vector<results::LedgerLimit> LimitsOf(std::span<const TaskStanding> standings,
                                           const BatchSpec& spec, std::size_t next) {
  std::vector<results::LedgerLimit> limits;
  for (const results::LedgerLimit& limit : spec.config.limits) {
    if (limit.span != results::LedgerSpan::kRun) limits.push_back(limit);
  }
  for (results::LedgerLimit limit : SharedLimits(spec)) {
    const double left = std::max(0.0, limit.most - PaidByAll(standings, limit.kind));
    limit.span = results::LedgerSpan::kTask;
    limit.most = Paid(standings[next], limit.kind) + left;
    limits.push_back(limit);
  }
  return limits;
}

std::vector<SharedBudget> BudgetsOf(std::span<const TaskStanding> standings,
                                    const BatchSpec& spec) {
  std::vector<SharedBudget> budgets;
  for (const results::LedgerLimit& limit : SharedLimits(spec)) {
    budgets.push_back({limit, PaidByAll(standings, limit.kind)});
  }
  return budgets;
}

std::optional<std::size_t> NextTask(std::span<const TaskStanding> standings,
                                    const BatchSpec& spec) {
  double costs = 0;
  int rounds = 0, counted = 0;
  for (const TaskStanding& standing : standings) {
    rounds += standing.rounds;
    for (const double cost : standing.costs) {
      costs += cost;
      ++counted;
    }
  }
  for (const results::LedgerLimit& limit : SharedLimits(spec)) {
    if (PaidByAll(standings, limit.kind) >= limit.most) return std::nullopt;
  }
  if (spec.rounds > 0 && rounds >= spec.rounds) return std::nullopt;
  const double typical = counted > 0 ? costs / counted : kTypicalCost;
  std::optional<std::size_t> next;
  double most = -1;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    if (standings[i].ended) continue;
    const double value = Expect(standings[i], typical).value;
    if (value > most) {
      most = value;
      next = i;
    }
  }
  return next;
}

}  // namespace grove::search
