// Timing statistics, stopping rules and the comparison of two kernels, apart from any GPU.
// Plain values and pure functions; a StoppingRule belongs to one measurement.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace grove::cuda {

// What a set of samples says. Quartiles by linear interpolation between order statistics.
struct Summary {
  std::size_t count = 0;
  Nanoseconds min{0};
  Nanoseconds q1{0};
  Nanoseconds median{0};
  Nanoseconds q3{0};
  Nanoseconds max{0};
  Nanoseconds mean{0};
  double relative_stdev = 0;   // sample standard deviation / mean
  double relative_stderr = 0;  // relative_stdev / sqrt(count)
};
Summary Summarise(std::span<const Nanoseconds> samples);

// When a measurement has seen enough. `Add` takes every kept sample with the wall time the
// measurement has run for; `Done` then tells whether to stop and `Reason` why.
class StoppingRule {
 public:
  virtual ~StoppingRule() = default;
  virtual void Add(Nanoseconds sample, Seconds wall) = 0;
  virtual bool Done() const = 0;
  virtual std::string_view Reason() const = 0;
};

struct StoppingLimits {
  int min_samples = 10;
  int max_samples = 2000;
  Nanoseconds min_total{2e6};      // of GPU time: one sample of a long kernel is not enough, but
                                   // ten of a short one are soon over
  double relative_stderr = 0.001;  // enough when the mean is known to 0.1%
  // Noise is stable when the last `noise_window` values of the relative standard deviation differ
  // from each other by less than this share (as relative standard deviation): more samples would
  // not make the median better known.
  int noise_window = 32;
  double noise_stability = 0.05;
  Seconds wall_limit{2.0};
};
// Stops when at least min_samples and min_total are there and the noise rule or the stderr rule
// holds, or at the wall or sample limit. Reasons: "precise", "noise stable", "wall limit",
// "sample limit", "running".
std::unique_ptr<StoppingRule> MakeNoiseRule(const StoppingLimits& limits);
// Exactly `count` samples, or the wall limit.
std::unique_ptr<StoppingRule> MakeCountRule(int count, Seconds wall_limit);

// Interleaved comparison of a challenger with its base, sample i of both taken side by side.
enum class Comparison { kFaster, kSlower, kTie };
std::string_view Name(Comparison comparison);
struct PairResult {
  Summary base;
  Summary challenger;
  double ratio = 1;         // challenger median / base median
  double median_delta = 0;  // median of (challenger - base) / base over the pairs
  double delta_stderr = 0;  // its standard error, from the median absolute deviation
  Comparison comparison = Comparison::kTie;
};
// Medians, so that one sample that the machine spoilt (8 times the others has been seen) decides
// nothing. Not a tie only if |median delta| exceeds both 0.5% and two standard errors, and the
// intervals [min, q3] of the two do not overlap or the median ratio agrees in direction beyond
// 0.5%. Pairs beyond the shorter of the two are ignored.
PairResult ComparePairs(std::span<const Nanoseconds> base, std::span<const Nanoseconds> challenger);

}  // namespace grove::cuda
