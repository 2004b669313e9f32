#include "search/estimate.h"

#include <algorithm>
#include <cmath>

#include "llm/client.h"

namespace grove::search {
namespace {

// Of a prompt beside the task's contract and the parent's program, bytes.
constexpr std::int64_t kFixedIdea = 6000;
constexpr std::int64_t kFixedCode = 6500;
// Usual tokens of a reply.
constexpr std::int64_t kIdeaReply = 900;
constexpr std::int64_t kCodeReply = 2200;
constexpr std::int64_t kBytesPerToken = 3;
// A reply without a usable idea is asked for once more.
constexpr int kIdeaTurns = 2;

struct Question {
  llm::Role role;
  double expected = 0;  // how many
  std::int64_t most = 0;
  std::int64_t prompt = 0;       // usual tokens
  std::int64_t prompt_most = 0;  // tokens
  std::int64_t reply = 0;        // usual tokens
};

// The longest reply that a model of `role` may give, and the mean and highest price of those
// models.
struct RoleCost {
  std::int64_t reply = 0;
  bool priced = true;
  double in_mean = 0, out_mean = 0, in_most = 0, out_most = 0;  // dollars per token
};

RoleCost CostOf(const std::vector<ModelSpec>& models, llm::Role role) {
  RoleCost cost;
  double weights = 0;
  for (const ModelSpec& model : models) {
    if (!model.Takes(role)) continue;
    const std::int64_t asked = llm::Request().max_tokens.value;
    cost.reply =
        std::max(cost.reply,
                 model.max_tokens == 0 ? asked : std::min<std::int64_t>(asked, model.max_tokens));
    if (!model.price_in || !model.price_out) {
      cost.priced = false;
      continue;
    }
    weights += model.weight;
    cost.in_mean += model.weight * *model.price_in / 1e6;
    cost.out_mean += model.weight * *model.price_out / 1e6;
    cost.in_most = std::max(cost.in_most, *model.price_in / 1e6);
    cost.out_most = std::max(cost.out_most, *model.price_out / 1e6);
  }
  if (weights > 0) {
    cost.in_mean /= weights;
    cost.out_mean /= weights;
  }
  return cost;
}

std::int64_t Rounded(double value) { return static_cast<std::int64_t>(std::llround(value)); }

// `value` cut to the limits of the whole run on `kind`.
double Cut(double value, const SearchConfig& config, results::LedgerKind kind) {
  for (const results::LedgerLimit& limit : config.limits) {
    const bool whole =
        limit.span == results::LedgerSpan::kRun || limit.span == results::LedgerSpan::kTask;
    double most = limit.most;
    if (limit.span == results::LedgerSpan::kRound) most *= config.rounds;
    if ((whole || limit.span == results::LedgerSpan::kRound) && limit.kind == kind) {
      value = std::min(value, most);
    }
  }
  return value;
}

}  // namespace

Estimate EstimateSpend(const seeds::Task& task, const SearchConfig& config) {
  const std::int64_t parents = 1 + static_cast<std::int64_t>(config.rounds - 1) * config.frontier;
  const std::int64_t candidates = parents * config.ideas * config.branches;
  const std::vector<ModelSpec> models = ModelsOf(config);
  const auto text = static_cast<std::int64_t>(task.contract.size());
  const auto seed = static_cast<std::int64_t>(task.seed.source.size() + task.seed.plan.size());
  const std::int64_t idea_prompt = (kFixedIdea + text + 2 * seed) / kBytesPerToken;
  const std::int64_t code_prompt = (kFixedCode + text + 2 * seed) / kBytesPerToken;
  const std::int64_t program =
      std::max(CostOf(models, llm::Role::kCode).reply, CostOf(models, llm::Role::kRepair).reply);
  const Question questions[] = {
      {llm::Role::kIdea, static_cast<double>(parents), parents * kIdeaTurns, idea_prompt,
       2 * kFixedIdea + text + seed + program, kIdeaReply},
      {llm::Role::kCode, static_cast<double>(candidates), candidates, code_prompt,
       2 * kFixedCode + text + seed + program, kCodeReply},
      {llm::Role::kRepair, 0.5 * static_cast<double>(candidates * config.repairs),
       candidates * config.repairs, code_prompt + kCodeReply,
       2 * kFixedCode + text + seed + 2 * program, kCodeReply},
  };
  Estimate estimate;
  double dollars = 0;
  double dollars_most = 0;
  bool priced = true;
  for (const Question& question : questions) {
    const RoleCost cost = CostOf(models, question.role);
    const double in = question.expected * static_cast<double>(question.prompt);
    const double out =
        question.expected * static_cast<double>(std::min(question.reply, cost.reply));
    estimate.expected.calls += Rounded(question.expected);
    estimate.expected.tokens_in += Rounded(in);
    estimate.expected.tokens_out += Rounded(out);
    estimate.largest.calls += question.most;
    estimate.largest.tokens_in += question.most * question.prompt_most;
    estimate.largest.tokens_out += question.most * cost.reply;
    dollars += in * cost.in_mean + out * cost.out_mean;
    dollars_most += static_cast<double>(question.most) *
                    (static_cast<double>(question.prompt_most) * cost.in_most +
                     static_cast<double>(cost.reply) * cost.out_most);
    priced = priced && (cost.priced || question.most == 0);
  }
  estimate.expected.evaluations =
      candidates + Rounded(0.5 * static_cast<double>(candidates * config.repairs));
  estimate.largest.evaluations = candidates * (1 + config.repairs);
  if (priced) {
    estimate.expected.dollars = dollars;
    estimate.largest.dollars = dollars_most;
  }
  for (Spend* spend : {&estimate.expected, &estimate.largest}) {
    using Kind = results::LedgerKind;
    const auto cut = [&](std::int64_t value, Kind kind) {
      return Rounded(Cut(static_cast<double>(value), config, kind));
    };
    spend->tokens_in = cut(cut(spend->tokens_in, Kind::kTokensIn), Kind::kTokens);
    spend->tokens_out = cut(cut(spend->tokens_out, Kind::kTokensOut), Kind::kTokens);
    const std::int64_t total = cut(spend->tokens_in + spend->tokens_out, Kind::kTokens);
    if (total < spend->tokens_in + spend->tokens_out) {
      // In the same proportion.
      const double share =
          static_cast<double>(total) / static_cast<double>(spend->tokens_in + spend->tokens_out);
      spend->tokens_in = Rounded(static_cast<double>(spend->tokens_in) * share);
      spend->tokens_out = total - spend->tokens_in;
    }
    spend->evaluations = cut(spend->evaluations, Kind::kEvaluations);
    if (spend->dollars) spend->dollars = Cut(*spend->dollars, config, Kind::kDollars);
  }
  return estimate;
}

}  // namespace grove::search
