#include "eval/promotion.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace grove::eval {
namespace {

Nanoseconds Median(std::vector<Nanoseconds> samples) {
  if (samples.empty()) return Nanoseconds(0);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

// "3.1% faster (2.8% to 3.4%)".
std::string InWords(const Promotion& promotion) {
  const double gain = 100 * (1 - promotion.ratio);
  const std::string size =
      fmt::format("{:.2f}% {}", std::abs(gain), gain >= 0 ? "faster" : "slower");
  if (promotion.modelled) return size + ", modelled";
  return fmt::format("{} ({:+.2f}% to {:+.2f}% of the time, {} cases)", size,
                     100 * (promotion.low - 1), 100 * (promotion.high - 1), promotion.cases.size());
}

// Adds the rule for ties, and the words.
void Conclude(Promotion& promotion, const Contender& incumbent, const Contender& challenger) {
  switch (promotion.outcome) {
    case Contest::kFaster:
      promotion.promoted = true;
      promotion.why = InWords(promotion);
      return;
    case Contest::kSlower:
      promotion.why = InWords(promotion);
      return;
    case Contest::kFault:
      return;
    case Contest::kTie:
      break;
  }
  const std::size_t old_size = incumbent.program->size();
  const std::size_t new_size = challenger.program->size();
  promotion.promoted = new_size < old_size;
  promotion.why = promotion.promoted
                      ? fmt::format("tie: {}; {} is simpler, {} characters against {}",
                                    InWords(promotion), challenger.name, new_size, old_size)
                      : fmt::format("tie: {}; {} stays, {} characters against {}",
                                    InWords(promotion), incumbent.name, old_size, new_size);
}

}  // namespace

Promotion Decide(std::span<const CasePair> pairs) {
  Promotion promotion;
  if (pairs.empty()) {
    promotion.outcome = Contest::kFault;
    promotion.why = "no case was compared";
    return promotion;
  }
  double log_sum = 0;
  double variance = 0;
  for (const CasePair& pair : pairs) {
    const PairOutcome& outcome = pair.outcome;
    promotion.gpu_uuid = outcome.gpu_uuid;
    if (outcome.fault) {
      promotion.outcome = Contest::kFault;
      promotion.why = fmt::format("case {}: {} while the two were compared: {}", pair.case_name,
                                  Name(outcome.fault->kind), outcome.fault->message);
      return promotion;
    }
    if (outcome.base.empty() || !(1 + outcome.median_delta > 0)) {
      promotion.outcome = Contest::kFault;
      promotion.why = fmt::format("case {}: the comparison has no samples", pair.case_name);
      return promotion;
    }
    PromotionCase one;
    one.case_name = pair.case_name;
    one.incumbent = Median(outcome.base);
    one.challenger = Median(outcome.challenger);
    one.ratio = 1 + outcome.median_delta;
    one.low = one.ratio - 2 * outcome.delta_stderr;
    one.high = one.ratio + 2 * outcome.delta_stderr;
    one.incumbent_samples = outcome.base;
    one.challenger_samples = outcome.challenger;
    promotion.cases.push_back(std::move(one));
    log_sum += std::log1p(outcome.median_delta);
    const double relative = outcome.delta_stderr / (1 + outcome.median_delta);
    variance += relative * relative;
  }
  const auto count = static_cast<double>(pairs.size());
  const double mean = log_sum / count;
  const double stderr_of_mean = std::sqrt(variance) / count;
  promotion.ratio = std::exp(mean);
  promotion.low = std::exp(mean - 2 * stderr_of_mean);
  promotion.high = std::exp(mean + 2 * stderr_of_mean);
  const bool faster = promotion.ratio < 1 - kLeastGain && promotion.high < 1;
  const bool slower = promotion.ratio > 1 + kLeastGain && promotion.low > 1;
  using One = PairOutcome::Result;
  const bool tied_alone = pairs.size() == 1 && pairs[0].outcome.result == One::kTie;
  if (!tied_alone && faster) promotion.outcome = Contest::kFaster;
  if (!tied_alone && slower) promotion.outcome = Contest::kSlower;
  return promotion;
}

Result<Promotion> Promote(const Evaluator& evaluator, const Contender& incumbent,
                          const Contender& challenger) {
  return Promote([&](const codegen::KernelProgram& a,
                     const codegen::KernelProgram& b) { return evaluator.ComparePair(a, b); },
                 incumbent, challenger);
}

Result<Promotion> Promote(const ComparePrograms& compare, const Contender& incumbent,
                          const Contender& challenger) {
  if (incumbent.modelled != challenger.modelled) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} and {} cannot be compared: one time is modelled, one is measured",
                            incumbent.name, challenger.name));
  }
  Promotion promotion;
  if (incumbent.modelled) {
    promotion.modelled = true;
    promotion.ratio = promotion.low = promotion.high = challenger.score / incumbent.score;
    if (promotion.ratio < 1) promotion.outcome = Contest::kFaster;
    if (promotion.ratio > 1) promotion.outcome = Contest::kSlower;
  } else {
    auto pairs = compare(*incumbent.program, *challenger.program);
    if (!pairs) {
      return Fail(std::move(pairs.error()),
                  fmt::format("comparing {} with {}", challenger.name, incumbent.name));
    }
    promotion = Decide(*pairs);
  }
  Conclude(promotion, incumbent, challenger);
  return promotion;
}

}  // namespace grove::eval
