#include "search/estimate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ideas/context.h"
#include "llm/client.h"
#include "search/ledger.h"
#include "search/model_calls.h"
#include "search/round.h"

namespace grove::search {
namespace {

// Bytes of a usual prompt beside the task's contract and the parent's program.
constexpr std::int64_t kFixedIdea = 6000;
constexpr std::int64_t kFixedCode = 6500;
// Usual tokens of a reply.
constexpr std::int64_t kIdeaReply = 900;
constexpr std::int64_t kCodeReply = 2200;
constexpr std::int64_t kBytesPerToken = 3;

// The most bytes that parts of a prompt can be. tests/search/estimate_test.cc holds every prompt of
// whole searches against them.
constexpr std::int64_t kTemplate = 6000;   // of the longest template, rules included
constexpr std::int64_t kDevice = 600;      // the device's lines
constexpr std::int64_t kKernel = 8000;     // a kernel's numbers, counters included
constexpr std::int64_t kCaseLines = 1200;  // what is said about one case's time
constexpr std::int64_t kTried = 900;       // one line about an idea that was tried
constexpr std::int64_t kElsewhere = 24;    // such lines about other kernels' ideas
constexpr std::int64_t kTitle = 220;       // of an idea
constexpr std::int64_t kRationale = 4100;  // of an idea
constexpr std::int64_t kRefusal = 700;     // why an idea was not taken
constexpr std::int64_t kSpareIdeas = 8;    // that may be refused beside the wanted ones
constexpr std::int64_t kGoal = 400;        // one goal and how it stands
constexpr std::int64_t kFailure = 7000;    // of a program: the compiler's log, cut
constexpr std::int64_t kProgramBytes = 8;  // of a program, per token of the reply it came in
constexpr std::int64_t kFence = 200;       // around a program

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
  // A role that nobody takes falls to all (llm/ensemble.h).
  const bool taken = std::any_of(models.begin(), models.end(),
                                 [&](const ModelSpec& model) { return model.Takes(role); });
  for (const ModelSpec& model : models) {
    if (taken && !model.Takes(role)) continue;
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
    cost.in_most =
        std::max({cost.in_most, *model.price_in / 1e6, model.price_cached.value_or(0) / 1e6});
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

// `in_most`, `out_most`: the highest prices of a token.
void CutToLimits(Spend& spend, const SearchConfig& config, double in_most, double out_most) {
  using Kind = results::LedgerKind;
  const auto cut = [&](std::int64_t& value, Kind kind) {
    value = Rounded(Cut(static_cast<double>(value), config, kind));
  };
  cut(spend.tokens_in, Kind::kTokensIn);
  cut(spend.tokens_out, Kind::kTokensOut);
  spend.tokens = spend.tokens_in + spend.tokens_out;
  cut(spend.tokens, Kind::kTokens);
  spend.tokens_in = std::min(spend.tokens_in, spend.tokens);
  spend.tokens_out = std::min(spend.tokens_out, spend.tokens);
  cut(spend.evaluations, Kind::kEvaluations);
  if (!spend.dollars) return;
  // So many tokens cost at most this, the dearer replies first.
  const double dearest =
      static_cast<double>(spend.tokens_out) * out_most +
      static_cast<double>(std::min(spend.tokens_in, spend.tokens - spend.tokens_out)) * in_most;
  spend.dollars = Cut(std::min(*spend.dollars, dearest), config, Kind::kDollars);
}

// The longest excerpt that a prompt of this search shows.
std::int64_t ExcerptOf(const seeds::Task& task, const SearchConfig& config,
                       const ideas::Library& library) {
  std::int64_t longest = 0;
  // The excerpt goes round in circles.
  for (int round = 1; round <= std::min(config.rounds, 100); ++round) {
    std::int64_t size = 0;
    for (const std::string& line : library.Excerpt(task.family, "", round)) {
      size += static_cast<std::int64_t>(line.size()) + 8;
    }
    longest = std::max(longest, size);
  }
  return longest;
}

// The most tokens of the prompts, by one token per byte as the ledger counts.
struct PromptSizes {
  std::int64_t idea = 0;
  std::int64_t code = 0;
  std::int64_t repair = 0;
};
PromptSizes LongestPrompts(const seeds::Task& task, const SearchConfig& config,
                           const ideas::Library& library, std::int64_t seed, std::int64_t reply) {
  const auto scored = static_cast<std::int64_t>(
      std::count_if(task.cases.begin(), task.cases.end(),
                    [](const seeds::Case& c) { return c.role == seeds::CaseRole::kScored; }));
  const std::int64_t program = std::max(seed, kProgramBytes * reply) + kFence;
  // A parent may be put together from the best program of each case.
  const ideas::PromptBudget room;
  const std::int64_t parent =
      std::min(program * std::max<std::int64_t>(1, scored),
               static_cast<std::int64_t>(room.source + room.plan) + 2 * kFence);
  const auto lines =
      static_cast<std::int64_t>(ideas::DescribeTaskLines(ideas::DescribeTask(task)).size());
  const std::int64_t all = PromptBound(llm::Request()).value + 64 + kTemplate + lines + kDevice +
                           kKernel + kCaseLines * scored + parent;
  const std::int64_t rounds = config.rounds;
  const std::int64_t ideas = config.ideas;
  PromptSizes sizes;
  sizes.idea = all + ExcerptOf(task, config, library) +
               kTried * (rounds + (rounds - 1) * ideas + kElsewhere) + kTitle * ideas +
               kRefusal * (ideas + kSpareIdeas) +
               kGoal * static_cast<std::int64_t>(config.goals.size());
  sizes.code = all + kTitle + kRationale;
  sizes.repair = sizes.code + program + kFailure + 40 * config.repairs;
  return sizes;
}

constexpr Spend Estimate::*kParts[] = {&Estimate::expected, &Estimate::calm, &Estimate::largest};
constexpr std::int64_t Spend::*kCounts[] = {&Spend::calls, &Spend::tokens_in, &Spend::tokens_out,
                                            &Spend::tokens, &Spend::evaluations};

}  // namespace

Estimate EstimateSpend(const seeds::Task& task, const SearchConfig& config,
                       const ideas::Library& library) {
  const std::int64_t later = config.rounds - 1;
  const std::int64_t parents = 1 + later * config.frontier;
  // A round that asks the adviser has a second parent at least.
  const std::int64_t most_parents = 1 + later * std::max(2, config.frontier + config.reserve);
  // Ideas for kernels that seem to be chosen may be asked for early, and in vain (search/early.h).
  const std::int64_t in_vain = config.eager < 100 ? later * (config.frontier + config.reserve) : 0;
  const std::int64_t candidates = parents * config.ideas * config.branches;
  const std::int64_t most_candidates = most_parents * config.ideas * config.branches;
  const std::vector<ModelSpec> models = ModelsOf(config);
  const auto text = static_cast<std::int64_t>(task.contract.size());
  const auto seed = static_cast<std::int64_t>(task.seed.source.size() + task.seed.plan.size());
  const std::int64_t idea_prompt = (kFixedIdea + text + 2 * seed) / kBytesPerToken;
  const std::int64_t code_prompt = (kFixedCode + text + 2 * seed) / kBytesPerToken;
  const std::int64_t reply =
      std::max(CostOf(models, llm::Role::kCode).reply, CostOf(models, llm::Role::kRepair).reply);
  const PromptSizes longest = LongestPrompts(task, config, library, seed, reply);
  const Question questions[] = {
      {llm::Role::kIdea, static_cast<double>(parents), most_parents * kIdeaTurns + in_vain,
       idea_prompt, longest.idea, kIdeaReply},
      {llm::Role::kCode, static_cast<double>(candidates), most_candidates, code_prompt,
       longest.code, kCodeReply},
      {llm::Role::kRepair, 0.5 * static_cast<double>(candidates * config.repairs),
       most_candidates * config.repairs, code_prompt + kCodeReply, longest.repair, kCodeReply},
  };
  Estimate estimate;
  double dollars = 0;
  double dollars_calm = 0;
  double in_most = 0;
  double out_most = 0;
  bool priced = true;
  for (const Question& question : questions) {
    const RoleCost cost = CostOf(models, question.role);
    RoleCost most = cost;
    if (question.role == llm::Role::kIdea) {
      // Any of these may be asked of the adviser instead.
      const RoleCost adviser = CostOf(models, llm::Role::kAdviser);
      most.reply = std::max(cost.reply, adviser.reply);
      most.in_most = std::max(cost.in_most, adviser.in_most);
      most.out_most = std::max(cost.out_most, adviser.out_most);
      most.priced = cost.priced && adviser.priced;
    }
    const double in = question.expected * static_cast<double>(question.prompt);
    const double out =
        question.expected * static_cast<double>(std::min(question.reply, cost.reply));
    estimate.expected.calls += Rounded(question.expected);
    estimate.expected.tokens_in += Rounded(in);
    estimate.expected.tokens_out += Rounded(out);
    estimate.calm.calls += question.most;
    estimate.calm.tokens_in += question.most * question.prompt_most;
    estimate.calm.tokens_out += question.most * most.reply;
    dollars += in * cost.in_mean + out * cost.out_mean;
    dollars_calm += static_cast<double>(question.most) *
                    (static_cast<double>(question.prompt_most) * most.in_most +
                     static_cast<double>(most.reply) * most.out_most);
    in_most = std::max(in_most, most.in_most);
    out_most = std::max(out_most, most.out_most);
    priced = priced && (most.priced || question.most == 0);
  }
  estimate.expected.evaluations =
      candidates + Rounded(0.5 * static_cast<double>(candidates * config.repairs));
  // Each round may put its best kernels together and evaluate the combination.
  estimate.calm.evaluations = most_candidates * (1 + config.repairs) + config.rounds;
  if (priced) {
    estimate.expected.dollars = dollars;
    estimate.calm.dollars = dollars_calm;
  }
  estimate.largest = estimate.calm;
  estimate.largest.tokens_in *= kMostPaid;
  estimate.largest.tokens_out *= kMostPaid;
  if (estimate.largest.dollars) *estimate.largest.dollars *= kMostPaid;
  for (Spend Estimate::*part : kParts) {
    CutToLimits(estimate.*part, config, in_most, out_most);
  }
  return estimate;
}

Estimate EstimateLastRound(const seeds::Task& task, SearchConfig config,
                           const ideas::Library& library) {
  config.limits.clear();
  Estimate last = EstimateSpend(task, config, library);
  if (config.rounds == 1) return last;
  --config.rounds;
  const Estimate before = EstimateSpend(task, config, library);
  for (Spend Estimate::*part : kParts) {
    Spend& spend = last.*part;
    for (std::int64_t Spend::*count : kCounts) spend.*count -= (before.*part).*count;
    if (spend.dollars) *spend.dollars -= *(before.*part).dollars;
  }
  return last;
}

Estimate EstimateTogether(std::span<const TaskEstimate> tasks, int rounds,
                          const SearchConfig& config, std::int64_t tokens) {
  using Kind = results::LedgerKind;
  Estimate together;
  for (Spend Estimate::*part : kParts) {
    Spend& sum = together.*part;
    Spend round;  // of the dearest task; expected: of all
    sum.dollars = round.dollars = 0;
    const bool expected = part == &Estimate::expected;
    for (const TaskEstimate& task : tasks) {
      const Spend& one = task.alone.*part;
      const Spend& last = task.last_round.*part;
      for (std::int64_t Spend::*count : kCounts) {
        sum.*count += one.*count;
        round.*count = expected ? round.*count + last.*count : std::max(round.*count, last.*count);
      }
      if (!one.dollars || !last.dollars) sum.dollars.reset();
      if (!sum.dollars) continue;
      *sum.dollars += *one.dollars;
      round.dollars =
          expected ? *round.dollars + *last.dollars : std::max(*round.dollars, *last.dollars);
    }
    if (rounds > 0 && !tasks.empty()) {
      const double times =
          expected ? static_cast<double>(rounds) / static_cast<double>(tasks.size()) : rounds;
      for (std::int64_t Spend::*count : kCounts) {
        sum.*count = std::min(sum.*count, Rounded(times * static_cast<double>(round.*count)));
      }
      if (sum.dollars) *sum.dollars = std::min(*sum.dollars, times * *round.dollars);
    }
    const auto cut = [&](std::int64_t& value, Kind kind) {
      value = Rounded(Cut(static_cast<double>(value), config, kind));
    };
    cut(sum.tokens_in, Kind::kTokensIn);
    cut(sum.tokens_out, Kind::kTokensOut);
    sum.tokens = std::min(sum.tokens, sum.tokens_in + sum.tokens_out);
    cut(sum.tokens, Kind::kTokens);
    if (tokens > 0) sum.tokens = std::min(sum.tokens, tokens);
    sum.tokens_in = std::min(sum.tokens_in, sum.tokens);
    sum.tokens_out = std::min(sum.tokens_out, sum.tokens);
    cut(sum.evaluations, Kind::kEvaluations);
    if (sum.dollars) sum.dollars = Cut(*sum.dollars, config, Kind::kDollars);
  }
  return together;
}

}  // namespace grove::search
