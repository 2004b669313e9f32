// The input generator: known answers, statistics, independence, and the same value by every way.
#include "eval/inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

namespace grove::eval {
namespace {

using seeds::Distribution;
using seeds::Tensor;
using ::testing::ElementsAre;
using Kind = Distribution::Kind;

Tensor Make(Kind kind, double a, double b, std::vector<std::int64_t> shape,
            DType dtype = DType::kF32) {
  Tensor tensor;
  tensor.name = "x";
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.distribution = {kind, a, b};
  return tensor;
}

std::vector<std::byte> Bulk(const Tensor& tensor, std::uint64_t seed, std::uint64_t index = 0) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().value));
  FillInput(tensor, seed, index, bytes);
  return bytes;
}

std::vector<double> Values(const Tensor& tensor, std::uint64_t seed, std::uint64_t index = 0) {
  const auto bytes = Bulk(tensor, seed, index);
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    values.push_back(LoadElement(tensor.dtype, bytes.data(), i));
  }
  return values;
}

struct Moments {
  double mean = 0, deviation = 0, skew = 0, kurtosis = 0;
};
Moments MomentsOf(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  double second = 0, third = 0, fourth = 0;
  for (const double v : values) {
    const double d = v - m.mean;
    second += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  m.deviation = std::sqrt(second);
  m.skew = third / std::pow(second, 1.5);
  m.kurtosis = fourth / (second * second);
  return m;
}

double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const Moments ma = MomentsOf(a);
  const Moments mb = MomentsOf(b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - ma.mean) * (b[i] - mb.mean);
  return sum / static_cast<double>(a.size()) / ma.deviation / mb.deviation;
}

// The known answers published with the generator (Random123's kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const std::uint32_t f = 0xffffffff;
  EXPECT_THAT(Philox({f, f, f, f}, {f, f}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// The probability below n must be the word's: Phi(n) = (word + 0.5) / 2^32.
TEST(StandardNormal, InvertsTheNormalDistributionFunction) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const auto word = static_cast<std::uint32_t>(i * 42949);
    const double p = (static_cast<double>(word) + 0.5) / 4294967296.0;
    const double n = static_cast<double>(StandardNormal(word));
    const double below = 0.5 * std::erfc(-n / std::sqrt(2.0));
    EXPECT_NEAR(below, p, 2e-6 * std::min(p, 1 - p) + 5e-8) << word;
  }
}

TEST(StandardNormal, TheTailsFollowTheDistributionToTheLastWord) {
  for (const std::uint32_t word : {0U, 1U, 7U, 100U, 12345U, 1000000U}) {
    const double p = (static_cast<double>(word) + 0.5) / 4294967296.0;
    const double n = static_cast<double>(StandardNormal(word));
    EXPECT_NEAR(0.5 * std::erfc(-n / std::sqrt(2.0)) / p, 1, word < 100 ? 2e-2 : 2e-4) << word;
    EXPECT_EQ(StandardNormal(~word), -StandardNormal(word)) << word;
  }
  EXPECT_LT(std::fabs(StandardNormal(0)), 6.34F);
}

TEST(StandardNormal, RisesWithTheWordAndIsOdd) {
  float last = StandardNormal(0);
  for (std::uint64_t word = 0; word <= 0xffffffff; word += 65537) {
    const float n = StandardNormal(static_cast<std::uint32_t>(word));
    EXPECT_GE(n, last - 2e-7F) << word;
    EXPECT_EQ(StandardNormal(~static_cast<std::uint32_t>(word)), -n);
    last = n;
  }
}

// Any change of the generator changes every recorded input: these bits hold on every device. They
// come from an independent implementation (Python, each operation in double and rounded to fp32).
TEST(StandardNormal, KnownAnswers) {
  const auto bits = [](std::uint32_t word) {
    return std::bit_cast<std::uint32_t>(StandardNormal(word));
  };
  EXPECT_EQ(bits(0x00000000), 0xc0cabcb0U);
  EXPECT_EQ(bits(0x00000001), 0xc0c54b25U);
  EXPECT_EQ(bits(0x40000000), 0xbf2cab5cU);
  EXPECT_EQ(bits(0x6627e8d5), 0xbe82fa50U);
  EXPECT_EQ(bits(0x7fffffff), 0xafa06c98U);
  EXPECT_EQ(bits(0xe169c58d), 0x3f96bb50U);
  EXPECT_EQ(bits(0xffffffff), 0x40cabcb0U);
}

TEST(FillInput, KnownTensor) {
  std::vector<float> values(20000);
  FillInput(Make(Kind::kNormal, 0, 1, {20000}), 0x123456789abcdef0, 2,
            std::as_writable_bytes(std::span(values)));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += std::bit_cast<std::uint32_t>(values[i]) * (i + 1);
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[0]), 0x3dd6d67eU);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[4]), 0xbf585fc9U);
  EXPECT_EQ(sum, 0x5e3df23ff131432U);
}

TEST(FillInput, RandomAccessEqualsBulkForEveryKindAndType) {
  const Distribution kinds[] = {{Kind::kNormal, 3, 2},
                                {Kind::kUniform, -4, 9},
                                {Kind::kConstant, 1.25, 0},
                                {Kind::kMixed, 1e3, 1e-3},
                                {Kind::kTail, 10, 1}};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                            DType::kI32, DType::kI8, DType::kU8, DType::kBool}) {
    for (const Distribution& d : kinds) {
      const Tensor tensor = Make(d.kind, d.a, d.b, {7, 911}, dtype);
      const auto values = Values(tensor, 99, 3);
      for (std::int64_t i = 0; i < tensor.elements(); i += 13) {
        ASSERT_EQ(InputElement(tensor, 99, 3, i), values[static_cast<std::size_t>(i)])
            << Name(dtype) << " " << Name(d.kind) << " " << i;
      }
    }
  }
}

TEST(FillInput, PartsEqualTheWhole) {
  const Tensor tensor = Make(Kind::kNormal, 0, 1, {3, 5001});
  const auto whole = Bulk(tensor, 5);
  for (const std::int64_t first : {1, 2, 3, 4, 2047, 2048, 9999}) {
    std::vector<std::byte> part(4 * 4000);
    FillInput(tensor, 5, 0, part, first);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + 4 * first, part.size()), 0) << first;
  }
}

TEST(FillInput, DoesNotDependOnTheNumberOfThreads) {
  const Tensor tensor = Make(Kind::kMixed, 1, 10, {300, 1001});
  const auto many = Bulk(tensor, 8);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(Bulk(tensor, 8), many);
}

TEST(FillInput, NormalHasItsMomentsForSeveralSeeds) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 42ULL, ~0ULL}) {
    SCOPED_TRACE(seed);
    const Moments m = MomentsOf(Values(Make(Kind::kNormal, 2, 3, {1000000}), seed));
    EXPECT_NEAR(m.mean, 2, 0.015);
    EXPECT_NEAR(m.deviation, 3, 0.012);
    EXPECT_NEAR(m.skew, 0, 0.015);
    EXPECT_NEAR(m.kurtosis, 3, 0.03);
  }
}

TEST(FillInput, TensorsSeedsAndNeighboursAreIndependent) {
  const Tensor tensor = Make(Kind::kNormal, 0, 1, {200000});
  const auto base = Values(tensor, 7, 0);
  const double limit = 5 / std::sqrt(200000.0);
  EXPECT_LT(std::fabs(Correlation(base, Values(tensor, 7, 1))), limit);
  EXPECT_LT(std::fabs(Correlation(base, Values(tensor, 8, 0))), limit);
  EXPECT_LT(std::fabs(Correlation(base, Values(tensor, 7 + (1ULL << 32), 0))), limit);
  EXPECT_LT(std::fabs(Correlation(base, Values(tensor, 7, 1ULL << 32))), limit);
  for (const std::ptrdiff_t shift : {1, 2, 4, 256}) {
    const std::vector<double> a(base.begin(), base.end() - shift);
    const std::vector<double> b(base.begin() + shift, base.end());
    EXPECT_LT(std::fabs(Correlation(a, b)), limit) << shift;
  }
}

TEST(FillInput, UniformIsFlatAndInsideItsInterval) {
  const auto values = Values(Make(Kind::kUniform, -1, 3, {1000000}), 11);
  std::vector<int> bins(16);
  for (const double v : values) {
    ASSERT_GE(v, -1);
    ASSERT_LT(v, 3);
    ++bins[static_cast<std::size_t>((v + 1) * 4)];
  }
  for (const int count : bins) EXPECT_NEAR(count, 62500, 1500);
}

TEST(FillInput, UniformNeverReachesItsUpperEndInAnyType) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    for (const double v : Values(Make(Kind::kUniform, 0, 1, {200000}, dtype), 1)) ASSERT_LT(v, 1);
  }
}

TEST(FillInput, UniformIntegersAreWholeAndCoverTheInterval) {
  std::set<double> seen;
  for (const double v : Values(Make(Kind::kUniform, -2, 3, {10000}, DType::kI32), 4))
    seen.insert(v);
  EXPECT_THAT(seen, ElementsAre(-2, -1, 0, 1, 2));
  std::set<double> bools;
  for (const double v : Values(Make(Kind::kUniform, 0, 2, {1000}, DType::kBool), 4))
    bools.insert(v);
  EXPECT_THAT(bools, ElementsAre(0, 1));
}

TEST(FillInput, MixedHasBothScales) {
  int large = 0;
  for (const double v : Values(Make(Kind::kMixed, 1e3, 1e-3, {100000}), 6)) {
    large += std::fabs(v) > 0.1 ? 1 : 0;
  }
  EXPECT_NEAR(large, 50000, 1000);
}

TEST(FillInput, TailIsZeroButForTheLastHundredth) {
  const auto values = Values(Make(Kind::kTail, 10, 1, {3, 250}), 6);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 250 < 248) {
      ASSERT_EQ(values[i], 0) << i;
    } else {
      ASSERT_GT(values[i], 2) << i;
    }
  }
  const auto narrow = Values(Make(Kind::kTail, 10, 1, {2, 3}), 6);
  EXPECT_EQ(narrow[1], 0);
  EXPECT_GT(narrow[2], 2);
}

TEST(FillInput, InputsStayFiniteWhereTheTypeIsNarrow) {
  for (const double v : Values(Make(Kind::kNormal, 0, 1e6, {1000}, DType::kF16), 1)) {
    ASSERT_LE(std::fabs(v), 65504);
  }
  for (const double v : Values(Make(Kind::kNormal, 0, 1e38, {10000}), 1)) {
    ASSERT_TRUE(std::isfinite(v));
  }
}

class PoisonTest : public ::testing::TestWithParam<DType> {};

TEST_P(PoisonTest, AnElementLeftAloneIsFound) {
  const DType dtype = GetParam();
  const std::size_t size = SizeOf(dtype);
  std::vector<std::byte> run0(100 * size), run1(100 * size);
  FillPoison(run0, dtype, 0);
  FillPoison(run1, dtype, 1);
  EXPECT_EQ(FirstPoison(run0, run1, dtype), 0);
  for (std::int64_t i = 0; i < 100; ++i) {
    if (i == 73) continue;
    StoreElement(dtype, run0.data(), i, 1);
    StoreElement(dtype, run1.data(), i, 1);
  }
  EXPECT_EQ(FirstPoison(run0, run1, dtype), 73);
  EXPECT_EQ(FirstPoison(run0, run1, dtype, 1000), 1073);
  StoreElement(dtype, run0.data(), 73, 1);
  StoreElement(dtype, run1.data(), 73, 1);
  EXPECT_EQ(FirstPoison(run0, run1, dtype), -1);
}

TEST_P(PoisonTest, AKernelThatWritesAPoisonByChanceIsNotBlamed) {
  const DType dtype = GetParam();
  for (const int written : {0, 1}) {
    std::vector<std::byte> run0(SizeOf(dtype)), run1(SizeOf(dtype));
    FillPoison(run0, dtype, written);
    FillPoison(run1, dtype, written);
    EXPECT_EQ(FirstPoison(run0, run1, dtype), -1);
  }
}

TEST(Poison, OfFloatsIsNaNAndAnOddFiniteNumber) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    std::byte bytes[8];
    FillPoison(std::span(bytes, SizeOf(dtype)), dtype, 0);
    EXPECT_TRUE(std::isnan(LoadElement(dtype, bytes, 0))) << Name(dtype);
    FillPoison(std::span(bytes, SizeOf(dtype)), dtype, 1);
    const double finite = LoadElement(dtype, bytes, 0);
    EXPECT_TRUE(std::isfinite(finite)) << Name(dtype);
    EXPECT_GT(std::fabs(finite), 1000) << Name(dtype) << ": far from any ordinary output";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PoisonTest,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                           DType::kI64, DType::kI32, DType::kI8, DType::kU8,
                                           DType::kBool),
                         [](const auto& type) { return std::string(Name(type.param)); });

// --- matrices -----------------------------------------------------------------------------------

using Structure = Distribution::Structure;

Tensor Matrices(Structure structure, double cond, std::int64_t batch, std::int64_t n) {
  Tensor tensor = Make(Kind::kMatrix, cond, 0, {batch, n, n});
  tensor.distribution.structure = structure;
  return tensor;
}

// The norms of the columns of one matrix.
std::vector<double> ColumnNorms(const std::vector<double>& values, std::int64_t b, std::int64_t n) {
  std::vector<double> norms(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n * n; ++i) {
    const double v = values[static_cast<std::size_t>(b * n * n + i)];
    norms[static_cast<std::size_t>(i % n)] += v * v;
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

TEST(Matrices, RandomAccessEqualsBulk) {
  for (int s = 0; s < seeds::kStructureCount; ++s) {
    const Tensor tensor = Matrices(static_cast<Structure>(s), 2, 5, 33);
    const auto values = Values(tensor, 99, 3);
    for (std::int64_t i = 0; i < tensor.elements(); i += 13) {
      ASSERT_EQ(InputElement(tensor, 99, 3, i), values[static_cast<std::size_t>(i)])
          << Name(tensor.distribution.structure) << " " << i;
    }
  }
}

TEST(Matrices, ColumnsFallByTheDecimalOrdersAsked) {
  const auto norms = ColumnNorms(Values(Matrices(Structure::kDense, 3, 1, 64), 5), 0, 64);
  EXPECT_NEAR(norms[0], 8, 2.5);
  EXPECT_NEAR(norms[63], 8e-3, 2.5e-3);
}

TEST(Matrices, StructuresAreWhatTheyAreCalled) {
  constexpr std::int64_t kN = 64;
  const auto norms = [&](Structure structure) {
    return ColumnNorms(Values(Matrices(structure, 0, 2, kN), 6), 1, kN);
  };
  const auto deficient = norms(Structure::kRankDeficient);
  EXPECT_GT(deficient[47], 1);
  for (std::size_t j = 48; j < 64; ++j) EXPECT_EQ(deficient[j], 0);
  const auto clustered = norms(Structure::kClustered);
  EXPECT_GT(clustered[29], 1);
  EXPECT_NEAR(clustered[31] / clustered[0], 3.45e-4, 2e-4);
  EXPECT_NEAR(clustered[40] / clustered[0], 4.8e-7, 3e-7);

  const auto values = Values(Matrices(Structure::kNearRank, 0, 1, kN), 6);
  double worst = 0;
  for (std::int64_t r = 0; r < kN; ++r) {
    for (std::int64_t c = 48; c < kN; ++c) {
      const auto at = [&](std::int64_t j) { return values[static_cast<std::size_t>(r * kN + j)]; };
      worst = std::max(worst, std::abs(at(c) - at(c - 48)));
    }
  }
  EXPECT_GT(worst, 1e-5);
  EXPECT_LT(worst, 1e-4);

  const auto upper = Values(Matrices(Structure::kUpper, 1, 1, kN), 6);
  const auto band = Values(Matrices(Structure::kBand, 1, 1, kN), 6);
  const auto diagonal = Values(Matrices(Structure::kDiagonal, 1, 1, kN), 6);
  for (std::int64_t i = 0; i < kN * kN; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t below = i / kN - i % kN;
    EXPECT_EQ(upper[at] == 0, below > 0) << i;
    EXPECT_EQ(band[at] == 0, std::abs(below) > 2) << i;
    EXPECT_EQ(diagonal[at] == 0, below != 0) << i;
  }
}

TEST(Matrices, AMixedBatchHasDenseOnesAndOthersAtPlacesThatTheSeedChooses) {
  constexpr std::int64_t kN = 32;
  std::set<std::vector<bool>> patterns;
  for (const std::int64_t batch : {2, 3, 40}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const auto mixed = Values(Matrices(Structure::kMixed, 0, batch, kN), seed);
      const auto dense = Values(Matrices(Structure::kDense, 0, batch, kN), seed);
      std::vector<bool> same;
      for (std::int64_t b = 0; b < batch; ++b) {
        const auto from = static_cast<std::ptrdiff_t>(b * kN * kN);
        same.push_back(
            std::equal(mixed.begin() + from, mixed.begin() + from + kN * kN, dense.begin() + from));
      }
      EXPECT_TRUE(std::find(same.begin(), same.end(), true) != same.end()) << batch << " " << seed;
      EXPECT_TRUE(std::find(same.begin(), same.end(), false) != same.end()) << batch << " " << seed;
      if (batch == 40) {
        EXPECT_NEAR(std::count(same.begin(), same.end(), true), 20, 14) << seed;
        patterns.insert(same);
      }
    }
  }
  EXPECT_GT(patterns.size(), 10U);
}

}  // namespace
}  // namespace grove::eval
