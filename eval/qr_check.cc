#include "eval/qr_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

namespace grove::eval {
namespace {

constexpr double kEps = 0x1p-23;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One matrix, with H by columns.
struct Factors {
  std::int64_t n = 0;
  const float* a = nullptr;
  std::vector<double> columns;  // column k of H at k * n
  const float* tau = nullptr;

  const double* column(std::int64_t k) const { return columns.data() + k * n; }

  void Reflect(std::vector<double>& x, std::int64_t k) const {
    const auto t = static_cast<double>(tau[k]);
    if (t == 0) return;
    const double* h = column(k);
    double s = x[static_cast<std::size_t>(k)];
    for (std::int64_t i = k + 1; i < n; ++i) s += h[i] * x[static_cast<std::size_t>(i)];
    s *= t;
    x[static_cast<std::size_t>(k)] -= s;
    for (std::int64_t i = k + 1; i < n; ++i) x[static_cast<std::size_t>(i)] -= s * h[i];
  }

  double A(std::int64_t i, std::int64_t j) const { return static_cast<double>(a[i * n + j]); }

  QrColumn Measure(std::int64_t j) const {
    QrColumn q;
    std::vector<double> x(static_cast<std::size_t>(n));
    const double* own = column(j);
    double square = 0;
    double vtv = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = A(i, j);
      x[static_cast<std::size_t>(i)] = v;
      q.a_norm1 += std::fabs(v);
      square += v * v;
      if (!std::isfinite(own[i])) q.non_finite += 1;
      if (i > j) vtv += own[i] * own[i];
    }
    q.a_norm2 = std::sqrt(square);
    if (!std::isfinite(tau[j])) q.non_finite += 1;
    const auto t = static_cast<double>(tau[j]);
    if (t != 0) q.defect = std::fabs(t * vtv - 2);

    for (std::int64_t k = 0; k < n; ++k) {
      if (k == j && t == 0) {
        double sum = 0;
        for (std::int64_t i = j + 1; i < n; ++i) {
          sum += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)];
        }
        q.tail = std::sqrt(sum);
      }
      Reflect(x, k);
    }
    const auto r = [&](std::int64_t i) { return i <= j ? own[i] : 0.0; };
    for (std::int64_t i = 0; i < n; ++i) {
      q.qta_norm1 += std::fabs(r(i) - x[static_cast<std::size_t>(i)]);
    }

    // Reflectors behind column j do not touch R's column, nor the unit vector.
    for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = r(i);
    for (std::int64_t k = j; k >= 0; --k) Reflect(x, k);
    square = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double d = A(i, j) - x[static_cast<std::size_t>(i)];
      square += d * d;
    }
    q.qr_norm2 = std::sqrt(square);

    for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = i == j ? 1 : 0;
    for (std::int64_t k = j; k >= 0; --k) Reflect(x, k);
    for (std::int64_t k = 0; k < n; ++k) Reflect(x, k);
    for (std::int64_t i = 0; i < n; ++i) {
      q.qtq_norm1 += std::fabs(x[static_cast<std::size_t>(i)] - (i == j ? 1 : 0));
    }
    return q;
  }
};

// value / scale, where nothing of nothing is fine and something of nothing is not.
double Relative(double value, double scale) {
  if (scale > 0) return value / scale;
  return value <= 1e-30 ? 0 : kInfinity;
}

// Keeps the worst; NaN is worse than anything.
void Worst(Gate& gate, double value, std::int64_t matrix, std::int64_t column) {
  if (std::isnan(value)) value = kInfinity;
  if (value <= gate.value && gate.matrix >= 0) return;
  gate.value = value;
  gate.matrix = matrix;
  gate.column = column;
}

Gate MakeGate(std::string name, double limit, bool decides = true) {
  Gate gate;
  gate.name = std::move(name);
  gate.limit = limit;
  gate.decides = decides;
  gate.matrix = -1;
  return gate;
}

}  // namespace

std::vector<QrColumn> QrColumns(std::span<const float> a, std::span<const float> h,
                                std::span<const float> tau, std::int64_t batch, std::int64_t n) {
  std::vector<QrColumn> result(static_cast<std::size_t>(batch * n));
  tbb::parallel_for(std::int64_t{0}, batch, [&](std::int64_t b) {
    Factors factors;
    factors.n = n;
    factors.a = a.data() + b * n * n;
    factors.tau = tau.data() + b * n;
    factors.columns.resize(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        factors.columns[static_cast<std::size_t>(j * n + i)] =
            static_cast<double>(h[static_cast<std::size_t>((b * n + i) * n + j)]);
      }
    }
    tbb::parallel_for(std::int64_t{0}, n, [&](std::int64_t j) {
      result[static_cast<std::size_t>(b * n + j)] = factors.Measure(j);
    });
  });
  return result;
}

double Gate::margin() const { return value > 0 ? limit / value : kInfinity; }

std::vector<Gate> JudgeQr(std::span<const QrColumn> columns, std::int64_t n,
                          seeds::CheckerProfile profile) {
  const bool strict = profile == seeds::CheckerProfile::kStrict;
  const auto size = static_cast<double>(n);
  Gate finite = MakeGate("finite", 0);
  Gate qta = MakeGate("QtA=R", 20 * size * kEps);
  Gate qtq = MakeGate("QtQ=I", 100 * size * kEps);
  Gate qr = MakeGate("A=QR", 20 * size * kEps, strict);
  Gate tau = MakeGate("tau", 4 * std::max(size, 8.0) * kEps, strict);
  Gate zero = MakeGate("tau=0", 4 * kEps, strict);
  const auto batch = static_cast<std::int64_t>(columns.size()) / n;
  double non_finite = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    double a1 = 0;
    double r1 = 0;
    std::int64_t worst = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const QrColumn& q = columns[static_cast<std::size_t>(b * n + j)];
      if (q.non_finite > 0) {
        non_finite += q.non_finite;
        if (finite.matrix < 0) Worst(finite, non_finite, b, j);
      }
      a1 = std::max(a1, q.a_norm1);
      if (!(q.qta_norm1 <= r1)) {  // also of NaN
        r1 = q.qta_norm1;
        worst = j;
      }
      Worst(qtq, q.qtq_norm1, b, j);
      Worst(qr, Relative(q.qr_norm2, q.a_norm2), b, j);
      Worst(tau, q.defect, b, j);
      Worst(zero, Relative(q.tail, q.a_norm2), b, j);
    }
    Worst(qta, Relative(r1, a1), b, worst);
  }
  finite.value = non_finite;
  finite.matrix = std::max<std::int64_t>(finite.matrix, 0);
  if (non_finite > 0) return {finite};
  return {finite, qta, qtq, qr, tau, zero};
}

std::string Describe(const Gate& gate) {
  if (gate.name == "finite") {
    return fmt::format(
        "{:.0f} elements of H and tau are not finite, the first in matrix {}, "
        "column {}",
        gate.value, gate.matrix, gate.column);
  }
  std::string what = fmt::format("{} is {:.3g}, allowed {:.3g}", gate.name, gate.value, gate.limit);
  if (gate.name == "tau=0") {
    what = fmt::format(
        "tau is 0 where {:.3g} of the column is left below the diagonal, allowed "
        "{:.3g}",
        gate.value, gate.limit);
  } else if (gate.name == "tau") {
    what = fmt::format("|tau v^T v - 2| is {:.3g}, allowed {:.3g}: H is no reflection", gate.value,
                       gate.limit);
  }
  return fmt::format("{}, in matrix {}, column {}", what, gate.matrix, gate.column);
}

std::string DescribeMargins(std::span<const Gate> gates) {
  std::string text;
  for (const Gate& gate : gates) {
    if (gate.name == "finite") continue;
    const double margin = gate.margin();
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", gate.name,
                        std::isinf(margin) ? "exact" : fmt::format("{:.3g}x", margin),
                        gate.decides ? "" : " (shown only)");
  }
  return text;
}

std::string LeastMargins(const std::vector<GateRecord>& gates) {
  std::vector<const GateRecord*> least;
  for (const GateRecord& record : gates) {
    if (record.gate.name == "finite") continue;
    const auto same = std::find_if(least.begin(), least.end(), [&](const GateRecord* other) {
      return other->gate.name == record.gate.name;
    });
    if (same == least.end()) {
      least.push_back(&record);
    } else if (record.gate.margin() < (*same)->gate.margin()) {
      *same = &record;
    }
  }
  std::string text;
  for (const GateRecord* record : least) {
    text += fmt::format("{}{} ({})", text.empty() ? "least margins to the gates: " : ", ",
                        DescribeMargins({&record->gate, 1}), record->case_name);
  }
  return text;
}

}  // namespace grove::eval
