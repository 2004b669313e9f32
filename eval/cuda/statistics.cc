#include "eval/cuda/statistics.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace grove::cuda {
namespace {

template <typename T>
T Quantile(std::span<const T> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(low);
  return sorted[low] + (sorted[high] - sorted[low]) * share;
}

// Mean and variance without keeping the samples (Welford).
class Running {
 public:
  void Add(double value) {
    ++count_;
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(count_);
    squares_ += delta * (value - mean_);
  }
  std::size_t count() const { return count_; }
  double mean() const { return mean_; }
  double stdev() const {
    return count_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
  }
  double relative() const { return mean_ > 0 ? stdev() / mean_ : 0; }

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

class NoiseRule final : public StoppingRule {
 public:
  explicit NoiseRule(const StoppingLimits& limits) : limits_(limits) {}

  void Add(Nanoseconds sample, Seconds wall) override {
    running_.Add(sample.count());
    total_ += sample;
    const auto count = static_cast<int>(running_.count());
    if (count >= 5) {
      noise_.push_back(running_.relative());
      if (static_cast<int>(noise_.size()) > limits_.noise_window) noise_.pop_front();
    }
    if (count >= limits_.min_samples && total_ >= limits_.min_total) {
      if (running_.relative() / std::sqrt(static_cast<double>(count)) < limits_.relative_stderr) {
        reason_ = "precise";
      } else if (NoiseStable()) {
        reason_ = "noise stable";
      }
    }
    if (reason_ == kRunning && count >= limits_.max_samples) reason_ = "sample limit";
    if (reason_ == kRunning && wall >= limits_.wall_limit) reason_ = "wall limit";
  }
  bool Done() const override { return reason_ != kRunning; }
  std::string_view Reason() const override { return reason_; }

 private:
  bool NoiseStable() const {
    if (static_cast<int>(noise_.size()) < limits_.noise_window) return false;
    Running spread;
    for (double value : noise_) spread.Add(value);
    return spread.relative() < limits_.noise_stability;
  }

  static constexpr std::string_view kRunning = "running";
  const StoppingLimits limits_;
  Running running_;
  Nanoseconds total_{0};
  std::deque<double> noise_;
  std::string_view reason_ = kRunning;
};

class CountRule final : public StoppingRule {
 public:
  CountRule(int count, Seconds wall_limit) : wanted_(count), wall_limit_(wall_limit) {}
  void Add(Nanoseconds, Seconds wall) override {
    ++seen_;
    late_ = wall >= wall_limit_;
  }
  bool Done() const override { return seen_ >= wanted_ || late_; }
  std::string_view Reason() const override {
    if (seen_ >= wanted_) return "sample limit";
    return late_ ? "wall limit" : "running";
  }

 private:
  const int wanted_;
  const Seconds wall_limit_;
  int seen_ = 0;
  bool late_ = false;
};

}  // namespace

Summary Summarise(std::span<const Nanoseconds> samples) {
  Summary summary;
  summary.count = samples.size();
  if (samples.empty()) return summary;
  std::vector<Nanoseconds> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.q1 = Quantile<Nanoseconds>(sorted, 0.25);
  summary.median = Quantile<Nanoseconds>(sorted, 0.5);
  summary.q3 = Quantile<Nanoseconds>(sorted, 0.75);
  Running running;
  for (Nanoseconds sample : samples) running.Add(sample.count());
  summary.mean = Nanoseconds(running.mean());
  summary.relative_stdev = running.relative();
  summary.relative_stderr = running.relative() / std::sqrt(static_cast<double>(samples.size()));
  return summary;
}

std::unique_ptr<StoppingRule> MakeNoiseRule(const StoppingLimits& limits) {
  return std::make_unique<NoiseRule>(limits);
}

std::unique_ptr<StoppingRule> MakeCountRule(int count, Seconds wall_limit) {
  return std::make_unique<CountRule>(count, wall_limit);
}

std::string_view Name(Comparison comparison) {
  switch (comparison) {
    case Comparison::kFaster:
      return "faster";
    case Comparison::kSlower:
      return "slower";
    case Comparison::kTie:
      return "tie";
  }
  return "tie";
}

namespace {

// Of normal errors: the standard deviation over the median absolute deviation, and the standard
// error of a median over that of the mean, sqrt(pi / 2).
constexpr double kDeviationOfMad = 1.4826;
constexpr double kMedianError = 1.2533;

// REQUIRES: not empty.
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return Quantile<double>(values, 0.5);
}

}  // namespace

PairResult ComparePairs(std::span<const Nanoseconds> base,
                        std::span<const Nanoseconds> challenger) {
  constexpr double kLeast = 0.005;
  PairResult result;
  const std::size_t count = std::min(base.size(), challenger.size());
  result.base = Summarise(base.first(count));
  result.challenger = Summarise(challenger.first(count));
  if (count < 2 || result.base.median <= Nanoseconds(0)) return result;
  std::vector<double> deltas;
  for (std::size_t i = 0; i < count; ++i) {
    if (base[i] > Nanoseconds(0)) deltas.push_back((challenger[i] - base[i]) / base[i]);
  }
  if (deltas.size() < 2) return result;
  result.ratio = result.challenger.median / result.base.median;
  result.median_delta = Median(deltas);
  std::vector<double> distances;
  for (const double delta : deltas) distances.push_back(std::abs(delta - result.median_delta));
  result.delta_stderr = kMedianError * kDeviationOfMad * Median(std::move(distances)) /
                        std::sqrt(static_cast<double>(deltas.size()));
  const bool faster = result.median_delta < 0;
  const bool significant = std::abs(result.median_delta) > kLeast &&
                           std::abs(result.median_delta) > 2 * result.delta_stderr;
  const bool apart =
      faster ? result.challenger.q3 < result.base.min : result.base.q3 < result.challenger.min;
  const bool agrees = faster ? result.ratio < 1 - kLeast : result.ratio > 1 + kLeast;
  if (significant && (apart || agrees)) {
    result.comparison = faster ? Comparison::kFaster : Comparison::kSlower;
  }
  return result;
}

}  // namespace grove::cuda
