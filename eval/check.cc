#include "eval/check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

namespace grove::eval {
namespace {

using seeds::PrecisionClass;

constexpr std::int64_t kMinRow = 16;      // elements; shorter rows are joined
constexpr std::int64_t kSegment = 65536;  // elements; longer rows are split for parallelism
constexpr std::int64_t kBlock = 1024;     // elements converted at once
constexpr std::int64_t kLanes = 8;        // independent sums, so that the loop vectorises
constexpr std::size_t kMedianRows = 65536;
constexpr double kMaxFactor = 16;  // scaled maximum over row error
constexpr double kMostScaled = 0.5;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Limits {
  double overflow;  // magnitudes from here on round to infinity
  double tiny;      // smallest normal number
};

Limits LimitsOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {kInfinity, std::numeric_limits<double>::min()};
    case DType::kF32:
      return {0x1.ffffffp127, 0x1p-126};
    case DType::kF16:
      return {65520, 0x1p-14};
    case DType::kBF16:
      return {0x1.ffp127, 0x1p-126};
    default:
      return {kInfinity, 1};  // integers: a zero row is measured in ones
  }
}

// A part of one row.
struct Segment {
  std::int64_t row;
  std::int64_t begin, end;
};

struct Sums {
  double error_squares = 0, reference_squares = 0;
  double max_error = 0, max_reference = 0;
  std::int64_t finite = 0;
  std::int64_t mismatches = 0;
  std::int64_t first_mismatch = std::numeric_limits<std::int64_t>::max();

  void Add(const Sums& other) {
    error_squares += other.error_squares;
    reference_squares += other.reference_squares;
    max_error = std::max(max_error, other.max_error);
    max_reference = std::max(max_reference, other.max_reference);
    finite += other.finite;
    mismatches += other.mismatches;
    first_mismatch = std::min(first_mismatch, other.first_mismatch);
  }
};

struct Row {
  std::int64_t index = 0;
  Sums sums;
  double scale = 0;  // RMS of the reference, at least `tiny`
  double error = 0;  // relative L2
};

struct Worst {
  double value = 0;
  std::int64_t element = -1;

  void Add(double other_value, std::int64_t other_element) {
    if (other_value > value ||
        (other_value == value && other_value > 0 && other_element < element)) {
      value = other_value;
      element = other_element;
    }
  }
};

class Comparison {
 public:
  Comparison(const seeds::Tensor& output, std::span<const std::byte> got,
             std::span<const double> reference)
      : dtype_(output.dtype), limits_(LimitsOf(output.dtype)), got_(got), reference_(reference) {}

  ErrorReport Run(std::int64_t row_elements, std::span<const ElementRange> ranges) {
    Split(row_elements, ranges);
    std::vector<Sums> sums(segments_.size());
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, segments_.size()), [&](const auto& part) {
      for (std::size_t i = part.begin(); i < part.end(); ++i) sums[i] = Sum(segments_[i]);
    });
    MakeRows(sums);
    return Report(sums);
  }

 private:
  void Split(std::int64_t row_elements, std::span<const ElementRange> ranges) {
    std::vector<ElementRange> sorted(ranges.begin(), ranges.end());
    const auto all = static_cast<std::int64_t>(reference_.size());
    if (sorted.empty()) sorted.push_back({0, all});
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::int64_t next = 0;  // overlapping ranges count once
    for (const ElementRange& range : sorted) {
      std::int64_t begin = std::max(range.begin, next);
      const std::int64_t end = std::min(range.end, all);
      while (begin < end) {
        const std::int64_t row = begin / row_elements;
        const std::int64_t stop = std::min({end, (row + 1) * row_elements, begin + kSegment});
        segments_.push_back({row, begin, stop});
        begin = stop;
      }
      next = std::max(next, end);
    }
  }

  const double* Convert(std::int64_t begin, std::int64_t count, double* buffer) const {
    if (dtype_ == DType::kF32) {
      float values[kBlock];
      std::memcpy(values, got_.data() + begin * 4, static_cast<std::size_t>(count) * 4);
      for (std::int64_t j = 0; j < count; ++j) buffer[j] = static_cast<double>(values[j]);
    } else {
      for (std::int64_t j = 0; j < count; ++j) {
        buffer[j] = LoadElement(dtype_, got_.data(), begin + j);
      }
    }
    return buffer;
  }

  // Whether a non-finite value on either side is what the reference demands.
  bool Matches(double got, double reference) const {
    if (std::isnan(reference)) return std::isnan(got);
    if (std::fabs(reference) >= limits_.overflow || std::isinf(reference)) {
      return std::isinf(got) && std::signbit(got) == std::signbit(reference);
    }
    return std::isfinite(got);
  }

  Sums Sum(const Segment& segment) const {
    Sums total;
    alignas(64) double buffer[kBlock];
    const double overflow = limits_.overflow;
    constexpr double kMax = std::numeric_limits<double>::max();
    std::array<double, kLanes> errors{}, references{}, max_error{}, max_reference{}, finite{};
    for (std::int64_t begin = segment.begin; begin < segment.end; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, segment.end - begin);
      const double* got = Convert(begin, count, buffer);
      const double* reference = reference_.data() + begin;
      const double before = Total(finite);
      const auto step = [&](std::size_t lane, std::int64_t j) {
        const double g = got[j];
        const double r = reference[j];
        const bool ok = (std::fabs(r) < overflow) & (std::fabs(r) <= kMax) & (std::fabs(g) <= kMax);
        const double e = ok ? std::fabs(g - r) : 0.0;
        const double m = ok ? std::fabs(r) : 0.0;
        errors[lane] += e * e;
        references[lane] += m * m;
        max_error[lane] = max_error[lane] < e ? e : max_error[lane];
        max_reference[lane] = max_reference[lane] < m ? m : max_reference[lane];
        finite[lane] += ok ? 1.0 : 0.0;
      };
      std::int64_t j = 0;
      for (; j + kLanes <= count; j += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          step(static_cast<std::size_t>(lane), j + lane);
        }
      }
      for (; j < count; ++j) step(0, j);
      if (Total(finite) - before == static_cast<double>(count)) continue;
      for (std::int64_t k = 0; k < count; ++k) {
        if (Matches(got[k], reference[k])) continue;
        ++total.mismatches;
        total.first_mismatch = std::min(total.first_mismatch, begin + k);
      }
    }
    total.error_squares = Total(errors);
    total.reference_squares = Total(references);
    total.max_error = *std::max_element(max_error.begin(), max_error.end());
    total.max_reference = *std::max_element(max_reference.begin(), max_reference.end());
    total.finite = static_cast<std::int64_t>(Total(finite));
    return total;
  }

  static double Total(const std::array<double, kLanes>& lanes) {
    double total = 0;
    for (const double lane : lanes) total += lane;
    return total;
  }

  void MakeRows(const std::vector<Sums>& sums) {
    row_of_segment_.resize(segments_.size());
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (rows_.empty() || rows_.back().index != segments_[i].row) {
        rows_.emplace_back();
        rows_.back().index = segments_[i].row;
      }
      row_of_segment_[i] = rows_.size() - 1;
      rows_.back().sums.Add(sums[i]);
    }
    std::vector<std::size_t> extreme;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Sums& s = rows_[r].sums;
      const auto unsafe = [](double value) {
        return value != 0 && (value < 1e-140 || value > 1e140);
      };
      if (unsafe(s.max_error) || unsafe(s.max_reference)) {
        extreme.push_back(r);
      } else {
        Finish(rows_[r], std::sqrt(s.error_squares), std::sqrt(s.reference_squares));
      }
    }
    for (const std::size_t r : extreme) Rescale(r);
  }

  void Finish(Row& row, double error_norm, double reference_norm) const {
    const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(row.sums.finite, 1)));
    row.scale = std::max(reference_norm / root, limits_.tiny);
    row.error = error_norm / root / row.scale;
  }

  // Norms of a row whose squares leave the range of a double.
  void Rescale(std::size_t r) {
    Row& row = rows_[r];
    double error_squares = 0;
    double reference_squares = 0;
    const auto begin = std::lower_bound(row_of_segment_.begin(), row_of_segment_.end(), r);
    for (auto i = begin; i != row_of_segment_.end() && *i == r; ++i) {
      const Segment& s = segments_[static_cast<std::size_t>(i - row_of_segment_.begin())];
      for (std::int64_t j = s.begin; j < s.end; ++j) {
        const double got = LoadElement(dtype_, got_.data(), j);
        const double reference = reference_[static_cast<std::size_t>(j)];
        if (!std::isfinite(got) || !std::isfinite(reference) ||
            std::fabs(reference) >= limits_.overflow) {
          continue;
        }
        // Half of each: a difference of two finite doubles may overflow.
        if (row.sums.max_error > 0) {
          const double e = (got / 2 - reference / 2) / (row.sums.max_error / 2);
          error_squares += e * e;
        }
        if (row.sums.max_reference > 0) {
          const double m = reference / row.sums.max_reference;
          reference_squares += m * m;
        }
      }
    }
    Finish(row, std::sqrt(error_squares) * row.sums.max_error,
           std::sqrt(reference_squares) * row.sums.max_reference);
    if (std::isnan(row.error)) row.error = kInfinity;
  }

  Worst FindWorst(const std::vector<Sums>& sums) const {
    return tbb::parallel_reduce(
        tbb::blocked_range<std::size_t>(0, segments_.size()), Worst{},
        [&](const auto& part, Worst worst) {
          alignas(64) double buffer[kBlock];
          for (std::size_t i = part.begin(); i < part.end(); ++i) {
            const double scale = rows_[row_of_segment_[i]].scale;
            // No element of the segment can be worse than its largest error over the scale.
            if (sums[i].max_error == 0 || sums[i].max_error / scale < worst.value) continue;
            for (std::int64_t b = segments_[i].begin; b < segments_[i].end; b += kBlock) {
              const std::int64_t count = std::min(kBlock, segments_[i].end - b);
              const double* got = Convert(b, count, buffer);
              for (std::int64_t j = 0; j < count; ++j) {
                const double reference = reference_[static_cast<std::size_t>(b + j)];
                if (!std::isfinite(got[j]) || !std::isfinite(reference) ||
                    std::fabs(reference) >= limits_.overflow) {
                  continue;
                }
                worst.Add(std::fabs(got[j] - reference) / std::max(scale, std::fabs(reference)),
                          b + j);
              }
            }
          }
          return worst;
        },
        [](Worst a, const Worst& b) {
          a.Add(b.value, b.element);
          return a;
        });
  }

  ErrorReport Report(const std::vector<Sums>& sums) const {
    ErrorReport report;
    report.rows = static_cast<std::int64_t>(rows_.size());
    for (const Segment& segment : segments_) report.elements += segment.end - segment.begin;
    std::int64_t first_mismatch = std::numeric_limits<std::int64_t>::max();
    for (const Row& row : rows_) {
      report.non_finite_mismatches += row.sums.mismatches;
      first_mismatch = std::min(first_mismatch, row.sums.first_mismatch);
      if (report.worst_row < 0 || row.error > report.worst_row_l2) {
        report.worst_row_l2 = row.error;
        report.worst_row = row.index;
      }
    }
    report.median_row_l2 = Median();
    const Worst worst = FindWorst(sums);
    report.scaled_max = worst.value;
    report.worst_element = worst.element;
    if (report.non_finite_mismatches > 0) {
      report.worst_element = first_mismatch;
      report.scaled_max = kInfinity;
      report.worst_row_l2 = kInfinity;
      for (const Row& row : rows_) {
        if (row.sums.mismatches == 0) continue;
        report.worst_row = row.index;
        break;
      }
    }
    if (report.worst_element >= 0) {
      report.expected = reference_[static_cast<std::size_t>(report.worst_element)];
      report.got = LoadElement(dtype_, got_.data(), report.worst_element);
    }
    return report;
  }

  double Median() const {
    if (rows_.empty()) return 0;
    const std::size_t stride = (rows_.size() + kMedianRows - 1) / kMedianRows;
    std::vector<double> errors;
    for (std::size_t r = 0; r < rows_.size(); r += stride) errors.push_back(rows_[r].error);
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    return *middle;
  }

  DType dtype_;
  Limits limits_;
  std::span<const std::byte> got_;
  std::span<const double> reference_;
  std::vector<Segment> segments_;  // by element index
  std::vector<std::size_t> row_of_segment_;
  std::vector<Row> rows_;
};

}  // namespace

ErrorReport Compare(const seeds::Tensor& output, std::span<const std::byte> got,
                    std::span<const double> reference, std::int64_t row_elements,
                    std::span<const ElementRange> ranges) {
  std::int64_t row = row_elements;
  if (row <= 0) row = output.shape.empty() ? 1 : output.shape.back();
  if (row < kMinRow) row *= (kMinRow + row - 1) / row;
  return Comparison(output, got, reference).Run(row, ranges);
}

double ClassThreshold(PrecisionClass c, std::int64_t reduction) {
  const double growth =
      std::min(std::sqrt(static_cast<double>(std::max<std::int64_t>(reduction, 1))), 256.0);
  switch (c) {
    case PrecisionClass::kFp64:
      return 0x1p-53 * (16 + growth);
    case PrecisionClass::kFp32:
      return 0x1p-24 * (16 + growth);
    case PrecisionClass::kTf32:
      return 0x1.8p-10;
    case PrecisionClass::kFp16:
      return 0x1p-9;
    case PrecisionClass::kBf16:
      return 0x1p-6;
    case PrecisionClass::kFp8:
      return 0x1p-3;
  }
  return 0;
}

std::optional<PrecisionClass> ClassifyError(double relative_l2, std::int64_t reduction) {
  for (const PrecisionClass c :
       {PrecisionClass::kFp64, PrecisionClass::kFp32, PrecisionClass::kTf32, PrecisionClass::kFp16,
        PrecisionClass::kBf16, PrecisionClass::kFp8}) {
    if (relative_l2 <= ClassThreshold(c, reduction)) return c;
  }
  return std::nullopt;
}

Tolerance ToleranceOf(double row_l2) {
  return {row_l2, std::max(row_l2, std::min(kMaxFactor * row_l2, kMostScaled))};
}

Tolerance ToleranceFor(const seeds::Task& task, std::size_t case_index,
                       const seeds::Tensor& output) {
  if (!IsFloat(output.dtype)) return {0, 0};
  const seeds::Case& task_case = task.cases[case_index];
  const PrecisionClass c =
      std::max(task_case.demanded.value_or(task.demanded), seeds::ClassOf(output.dtype));
  const double row = task_case.tolerance.value_or(ClassThreshold(c, task.reduction[case_index]));
  return ToleranceOf(row);
}

bool Within(const ErrorReport& report, const Tolerance& tolerance) {
  return !report.non_finite_mismatch() && report.worst_row_l2 <= tolerance.row_l2 &&
         report.scaled_max <= tolerance.scaled_max;
}

}  // namespace grove::eval
