// Kernels of every kind of arithmetic, imitated on the host on the tasks' own inputs, must land in
// their class: the constants of eval/check.h stand on these.
#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "eval/check.h"
#include "eval/inputs.h"
#include "seeds/task.h"

namespace grove::eval {
namespace {

using seeds::PrecisionClass;

seeds::Tensor Make(seeds::TensorRole role, std::vector<std::int64_t> shape,
                   seeds::Distribution distribution = {}) {
  seeds::Tensor tensor;
  tensor.name = "t";
  tensor.role = role;
  tensor.shape = std::move(shape);
  tensor.distribution = distribution;
  return tensor;
}

std::vector<float> Fill(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t index) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  FillInput(tensor, seed, index, std::as_writable_bytes(std::span(values)));
  return values;
}

// --- matmul -----------------------------------------------------------------------------------

float ToTf32(float value) {  // round to nearest, ties away, as cvt.rna.tf32
  const auto bits = std::bit_cast<std::uint32_t>(value) + 0x1000U;
  return std::bit_cast<float>(bits & 0xffffe000U);
}
float CutToTf32(float value) {  // what a tensor core does to operands nobody rounded
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffffe000U);
}
float ToHalf(float value) { return HalfToFloat(FloatToHalf(value)); }
float ToBFloat16(float value) { return BFloat16ToFloat(FloatToBFloat16(value)); }

using Row = std::function<float(const float* a, const float* b, int k)>;

float Sequential(const float* a, const float* b, int k) {
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[i] * b[i];
  return sum;
}
float Fused(const float* a, const float* b, int k) {
  float sum = 0;
  for (int i = 0; i < k; ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}
float Pairwise(const float* a, const float* b, int k) {
  if (k == 1) return a[0] * b[0];
  return Pairwise(a, b, k / 2) + Pairwise(a + k / 2, b + k / 2, k - k / 2);
}
float Rounded(const float* a, const float* b, int k, float (*round)(float)) {
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += round(a[i]) * round(b[i]);
  return sum;
}
// Operands split into a high part and a low part of the same type, three products.
float Split(const float* a, const float* b, int k, float (*round)(float)) {
  float high = 0, low = 0;
  for (int i = 0; i < k; ++i) {
    const float ah = round(a[i]), bh = round(b[i]);
    const float al = round(a[i] - ah), bl = round(b[i] - bh);
    high += ah * bh;
    low += ah * bl;
    low += al * bh;
  }
  return high + low;
}

class MatmulClass : public ::testing::Test {
 protected:
  static constexpr int kM = 16;
  static constexpr int kN = 48;

  static double Error(int k, const Row& row, seeds::Distribution distribution = {}) {
    double worst = 0;
    for (const std::uint64_t seed : {1U, 2U}) {
      const auto a = Fill(Make(seeds::TensorRole::kInput, {kM, k}, distribution), seed, 0);
      const auto bt = Fill(Make(seeds::TensorRole::kInput, {kN, k}, distribution), seed, 1);
      std::vector<double> reference;
      std::vector<float> got;
      for (int i = 0; i < kM; ++i) {
        for (int j = 0; j < kN; ++j) {
          const float* x = a.data() + i * k;
          const float* y = bt.data() + j * k;
          double sum = 0;
          for (int p = 0; p < k; ++p) sum += static_cast<double>(x[p]) * static_cast<double>(y[p]);
          reference.push_back(sum);
          got.push_back(row(x, y, k));
        }
      }
      const auto report = Compare(Make(seeds::TensorRole::kOutput, {kM, kN}),
                                  std::as_bytes(std::span(got)), reference);
      worst = std::max(worst, report.worst_row_l2);
    }
    return worst;
  }
};

TEST_F(MatmulClass, HonestFp32IsFp32InAnyOrder) {
  for (const int k : {1, 2, 16, 128, 1000, 4096, 16384}) {
    EXPECT_LE(ClassifyError(Error(k, Sequential), k), PrecisionClass::kFp32) << k;
    EXPECT_LE(ClassifyError(Error(k, Fused), k), PrecisionClass::kFp32) << k;
    EXPECT_LE(ClassifyError(Error(k, Pairwise), k), PrecisionClass::kFp32) << k;
  }
}

TEST_F(MatmulClass, HonestFp32KeepsAMarginOfTwo) {
  for (const int k : {16, 128, 1000, 4096, 16384}) {
    EXPECT_LT(Error(k, Sequential), ClassThreshold(PrecisionClass::kFp32, k) / 2) << k;
  }
}

TEST_F(MatmulClass, HonestFp32IsFp32ForLargeMeansAndMixedScales) {
  for (const int k : {128, 4096}) {
    EXPECT_EQ(ClassifyError(Error(k, Sequential, {seeds::Distribution::Kind::kNormal, 100, 1}), k),
              PrecisionClass::kFp32);
    EXPECT_EQ(
        ClassifyError(Error(k, Sequential, {seeds::Distribution::Kind::kMixed, 1e5, 1e-5}), k),
        PrecisionClass::kFp32);
  }
}

TEST_F(MatmulClass, ThreeTf32ProductsAreFp32) {
  for (const int k : {32, 1000, 4096}) {
    const Row split = [](const float* a, const float* b, int n) { return Split(a, b, n, ToTf32); };
    EXPECT_EQ(ClassifyError(Error(k, split), k), PrecisionClass::kFp32) << k;
  }
}

TEST_F(MatmulClass, OneTf32ProductIsTf32RoundedOrCut) {
  for (const int k : {32, 1000, 4096}) {
    const Row nearest = [](const float* a, const float* b, int n) {
      return Rounded(a, b, n, ToTf32);
    };
    const Row cut = [](const float* a, const float* b, int n) {
      return Rounded(a, b, n, CutToTf32);
    };
    EXPECT_EQ(ClassifyError(Error(k, nearest), k), PrecisionClass::kTf32) << k;
    EXPECT_EQ(ClassifyError(Error(k, cut), k), PrecisionClass::kTf32) << k;
  }
}

TEST_F(MatmulClass, Fp16OperandsAreNotFp32) {
  const Row half = [](const float* a, const float* b, int n) { return Rounded(a, b, n, ToHalf); };
  for (const int k : {32, 1000, 4096}) {
    EXPECT_EQ(ClassifyError(Error(k, half), k), PrecisionClass::kTf32) << k;
  }
}

// What tells fp16 operands from tf32: their range.
TEST_F(MatmulClass, Fp16OperandsFailOnMixedScalesWhereTf32DoesNot) {
  const seeds::Distribution mixed{seeds::Distribution::Kind::kMixed, 1e5, 1e-5};
  const Row half = [](const float* a, const float* b, int n) { return Rounded(a, b, n, ToHalf); };
  const Row tf32 = [](const float* a, const float* b, int n) { return Rounded(a, b, n, ToTf32); };
  EXPECT_EQ(ClassifyError(Error(160, half, mixed), 160), std::nullopt);
  EXPECT_EQ(ClassifyError(Error(160, tf32, mixed), 160), PrecisionClass::kTf32);
}

TEST_F(MatmulClass, BFloat16OperandsAreBf16) {
  const Row row = [](const float* a, const float* b, int n) {
    return Rounded(a, b, n, ToBFloat16);
  };
  for (const int k : {32, 4096}) {
    EXPECT_EQ(ClassifyError(Error(k, row), k), PrecisionClass::kBf16) << k;
  }
}

TEST_F(MatmulClass, TwoBFloat16PartsAreNotFp32) {
  const Row row = [](const float* a, const float* b, int n) { return Split(a, b, n, ToBFloat16); };
  EXPECT_EQ(ClassifyError(Error(1000, row), 1000), PrecisionClass::kTf32);
}

// Two fp16 halves hold 22 bits of an ordinary operand; what excludes them is their range.
TEST_F(MatmulClass, TwoFp16HalvesOverflowOnMixedScales) {
  const Row row = [](const float* a, const float* b, int n) { return Split(a, b, n, ToHalf); };
  EXPECT_EQ(ClassifyError(Error(160, row), 160), PrecisionClass::kFp32);
  EXPECT_EQ(ClassifyError(Error(160, row, {seeds::Distribution::Kind::kMixed, 1e5, 1e-5}), 160),
            std::nullopt);
}

TEST_F(MatmulClass, Fp16AccumulationIsWorseThanFp16) {
  const Row row = [](const float* a, const float* b, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum = ToHalf(sum + ToHalf(a[i]) * ToHalf(b[i]));
    return sum;
  };
  EXPECT_GT(Error(1000, row), ClassThreshold(PrecisionClass::kFp16, 1000));
}

// --- softmax ----------------------------------------------------------------------------------

using Exp = float (*)(float);
float FastExp(float x) { return std::exp2(x * 1.44269504F); }  // ex2.approx of a rounded product
float HalfExp(float x) { return ToHalf(std::exp(ToHalf(x))); }

double SoftmaxError(std::int64_t n, Exp exp, seeds::Distribution distribution = {}) {
  const auto x = Fill(Make(seeds::TensorRole::kInput, {8, n}, distribution), 3, 0);
  std::vector<float> got(x.size());
  std::vector<double> reference(x.size());
  for (std::int64_t r = 0; r < 8; ++r) {
    const auto begin = static_cast<std::size_t>(r * n);
    const auto end = begin + static_cast<std::size_t>(n);
    float largest = x[begin];
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, x[i]);
    float sum = 0;
    double exact = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += exp(x[i] - largest);
      exact += std::exp(static_cast<double>(x[i]) - static_cast<double>(largest));
    }
    for (std::size_t i = begin; i < end; ++i) {
      got[i] = exp(x[i] - largest) / sum;
      reference[i] = std::exp(static_cast<double>(x[i]) - static_cast<double>(largest)) / exact;
    }
  }
  return Compare(Make(seeds::TensorRole::kOutput, {8, n}), std::as_bytes(std::span(got)), reference)
      .worst_row_l2;
}

TEST(SoftmaxClass, SequentialSumsAndFastExponentialsAreFp32) {
  using Kind = seeds::Distribution::Kind;
  for (const std::int64_t n : {1, 31, 128, 1000, 8192, 65536}) {
    for (const seeds::Distribution& d :
         {seeds::Distribution{}, seeds::Distribution{Kind::kNormal, 1000, 0.1},
          seeds::Distribution{Kind::kNormal, 0, 1e4}, seeds::Distribution{Kind::kTail, 10, 1},
          seeds::Distribution{Kind::kUniform, -1e38, 1e38}}) {
      for (const Exp exp : {Exp{std::exp}, Exp{FastExp}}) {
        EXPECT_LE(ClassifyError(SoftmaxError(n, exp, d), n), PrecisionClass::kFp32)
            << n << " " << Name(d.kind) << " " << d.a;
      }
    }
  }
}

TEST(SoftmaxClass, ExponentialsInHalfAreNotFp32) {
  for (const std::int64_t n : {31, 1000, 8192}) {
    EXPECT_GT(ClassifyError(SoftmaxError(n, HalfExp), n), PrecisionClass::kFp32) << n;
  }
}

// --- layer normalisation ----------------------------------------------------------------------

struct Statistics {
  float mean = 0, variance = 0;
};
using Method = Statistics (*)(std::span<const float> row);

constexpr std::size_t kThreads = 256;

float BlockSum(std::vector<float> partial) {
  for (std::size_t width = kThreads / 2; width > 0; width /= 2) {
    for (std::size_t t = 0; t < width; ++t) partial[t] += partial[t + width];
  }
  return partial[0];
}

Statistics TwoPasses(std::span<const float> row) {
  const auto n = static_cast<float>(row.size());
  std::vector<float> sums(kThreads), squares(kThreads);
  for (std::size_t i = 0; i < row.size(); ++i) sums[i % kThreads] += row[i];
  const float mean = BlockSum(sums) / n;
  for (std::size_t i = 0; i < row.size(); ++i) {
    squares[i % kThreads] += (row[i] - mean) * (row[i] - mean);
  }
  return {mean, BlockSum(squares) / n};
}

Statistics SequentialTwoPasses(std::span<const float> row) {
  float sum = 0, squares = 0;
  for (const float x : row) sum += x;
  const float mean = sum / static_cast<float>(row.size());
  for (const float x : row) squares += (x - mean) * (x - mean);
  return {mean, squares / static_cast<float>(row.size())};
}

Statistics Welford(std::span<const float> row) {
  struct Part {
    float count = 0, mean = 0, m2 = 0;
  };
  std::vector<Part> parts(kThreads);
  for (std::size_t i = 0; i < row.size(); ++i) {
    Part& p = parts[i % kThreads];
    p.count += 1;
    const float delta = row[i] - p.mean;
    p.mean += delta / p.count;
    p.m2 += delta * (row[i] - p.mean);
  }
  for (std::size_t width = kThreads / 2; width > 0; width /= 2) {
    for (std::size_t t = 0; t < width; ++t) {
      Part& a = parts[t];
      const Part& b = parts[t + width];
      if (b.count == 0) continue;
      const float count = a.count + b.count;
      const float delta = b.mean - a.mean;
      a.mean += delta * (b.count / count);
      a.m2 += b.m2 + delta * delta * (a.count * b.count / count);
      a.count = count;
    }
  }
  return {parts[0].mean, parts[0].m2 / parts[0].count};
}

// Sums of x - x[0] and its square, one pass.
Statistics Shifted(std::span<const float> row) {
  const auto n = static_cast<float>(row.size());
  std::vector<float> sums(kThreads), squares(kThreads);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float d = row[i] - row[0];
    sums[i % kThreads] += d;
    squares[i % kThreads] += d * d;
  }
  const float d = BlockSum(sums) / n;
  return {row[0] + d, BlockSum(squares) / n - d * d};
}

Statistics SumOfSquares(std::span<const float> row) {
  const auto n = static_cast<float>(row.size());
  std::vector<float> sums(kThreads), squares(kThreads);
  for (std::size_t i = 0; i < row.size(); ++i) {
    sums[i % kThreads] += row[i];
    squares[i % kThreads] += row[i] * row[i];
  }
  const float mean = BlockSum(sums) / n;
  return {mean, BlockSum(squares) / n - mean * mean};
}

seeds::Task LoadLayernorm() {
  auto task = seeds::LoadTask(std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks", "layernorm");
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  return task ? seeds::SelectCases(*task, "crfm", {}).value() : seeds::Task{};  // fp32 alone
}

ErrorReport LayernormReport(const seeds::Case& c, Method method, std::uint64_t seed) {
  const auto x = Fill(*c.tensor("x"), seed, 0);
  const auto gamma = Fill(*c.tensor("gamma"), seed, 1);
  const auto beta = Fill(*c.tensor("beta"), seed, 2);
  const std::size_t n = gamma.size();
  const auto eps = static_cast<float>(c.scalars[0].value);
  std::vector<float> got(x.size());
  std::vector<double> reference(x.size());
  for (std::size_t b = 0; b < x.size() / n; ++b) {
    const std::span row(x.data() + b * n, n);
    const Statistics s = method(row);
    const float scale = 1.0F / std::sqrt(s.variance + eps);
    double mean = 0, variance = 0;
    for (const float v : row) mean += static_cast<double>(v) / static_cast<double>(n);
    for (const float v : row) {
      const double d = static_cast<double>(v) - mean;
      variance += d * d / static_cast<double>(n);
    }
    const double exact = 1 / std::sqrt(variance + static_cast<double>(eps));
    for (std::size_t i = 0; i < n; ++i) {
      got[b * n + i] = (row[i] - s.mean) * scale * gamma[i] + beta[i];
      reference[b * n + i] =
          (static_cast<double>(row[i]) - mean) * exact * static_cast<double>(gamma[i]) +
          static_cast<double>(beta[i]);
    }
  }
  return Compare(*c.tensor("y"), std::as_bytes(std::span(got)), reference, c.row_elements);
}

class LayernormClass : public ::testing::Test {
 protected:
  static void ExpectAll(Method method) {
    const auto task = LoadLayernorm();
    for (std::size_t i = 0; i < task.cases.size(); ++i) {
      const seeds::Case& c = task.cases[i];
      if (c.role == seeds::CaseRole::kScored) continue;
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const auto report = LayernormReport(c, method, seed);
        EXPECT_TRUE(Within(report, ToleranceFor(task, i, *c.tensor("y"))))
            << c.name << " seed " << seed << " row error " << report.worst_row_l2 << " max "
            << report.scaled_max;
      }
    }
  }
};

TEST_F(LayernormClass, TwoPassesPassEveryCase) { ExpectAll(TwoPasses); }
TEST_F(LayernormClass, TwoSequentialPassesPassEveryCase) { ExpectAll(SequentialTwoPasses); }
TEST_F(LayernormClass, WelfordPassesEveryCase) { ExpectAll(Welford); }
TEST_F(LayernormClass, ShiftedSumsPassEveryCase) { ExpectAll(Shifted); }

// Exploit 21: right on ordinary inputs, wrong on a large mean.
TEST_F(LayernormClass, SumOfSquaresFailsOnLargeMeansOnly) {
  const auto task = LoadLayernorm();
  for (std::size_t i = 0; i < task.cases.size(); ++i) {
    const seeds::Case& c = task.cases[i];
    if (c.role == seeds::CaseRole::kScored) continue;
    const bool hard = c.name == "large_mean" || c.name == "large_mean_odd";
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const auto report = LayernormReport(c, SumOfSquares, seed);
      const bool within = Within(report, ToleranceFor(task, i, *c.tensor("y")));
      if (hard) {
        EXPECT_FALSE(within) << c.name << " " << report.worst_row_l2;
      } else if (c.role != seeds::CaseRole::kStability) {
        EXPECT_TRUE(within) << c.name << " " << report.worst_row_l2;
      }
    }
  }
}

}  // namespace
}  // namespace grove::eval
