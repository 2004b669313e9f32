// The emulator's library product against the definition in fp64.
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "eval/host_gemm.h"

namespace grove::eval {
namespace {

using codegen::GemmCompute;
using codegen::ResolvedGemm;

struct Product {
  ResolvedGemm gemm;
  std::vector<float> a, b, c, before;

  std::byte* bytes(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }
  // Executes, and returns the largest error over the sum of the terms' magnitudes.
  double Run() {
    before = c;
    RunGemm(gemm, bytes(a), bytes(b), bytes(c));
    double worst = 0;
    const auto at = [](const codegen::ResolvedMatrix& m, std::int64_t e, std::int64_t r,
                       std::int64_t k) {
      return static_cast<std::size_t>(m.offset + e * m.stride +
                                      (m.transpose ? k * m.ld + r : r * m.ld + k));
    };
    for (std::int64_t e = 0; e < gemm.batch; ++e) {
      for (std::int64_t i = 0; i < gemm.m; ++i) {
        for (std::int64_t j = 0; j < gemm.n; ++j) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < gemm.k; ++k) {
            const double term = static_cast<double>(a[at(gemm.a, e, i, k)]) *
                                static_cast<double>(b[at(gemm.b, e, k, j)]);
            sum += term;
            size += std::fabs(term);
          }
          const std::size_t here = at(gemm.c, e, i, j);
          double expected = gemm.alpha * sum;
          if (gemm.beta != 0) {
            expected += gemm.beta * static_cast<double>(before[here]);
            size += std::fabs(static_cast<double>(before[here]));
          }
          worst = std::max(worst, std::fabs(static_cast<double>(c[here]) - expected) / size);
        }
      }
    }
    return worst;
  }
};

Product Make(bool transpose_a, bool transpose_b, GemmCompute compute) {
  Product p;
  ResolvedGemm& g = p.gemm;
  g.m = 5, g.n = 7, g.k = 33, g.batch = 3;
  g.alpha = -0.5, g.beta = 2;
  g.compute = compute;
  g.a.transpose = transpose_a;
  g.b.transpose = transpose_b;
  g.a.offset = 3, g.a.ld = 40, g.a.stride = 1400;
  g.b.offset = 1, g.b.ld = 41, g.b.stride = 1500;
  g.c.offset = 2, g.c.ld = 9, g.c.stride = 50;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto* v : {&p.a, &p.b, &p.c}) {
    v->resize(5000);
    for (float& x : *v) x = normal(random);
  }
  return p;
}

TEST(HostGemm, EveryTransposeOffsetAndStrideIsTheDefinition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      EXPECT_LT(Make(ta, tb, GemmCompute::kFp32).Run(), 3e-7) << ta << tb;
    }
  }
}

TEST(HostGemm, OnlyTheElementsOfCAreWritten) {
  Product p = Make(false, false, GemmCompute::kFp32);
  p.Run();
  std::size_t changed = 0;
  for (std::size_t i = 0; i < p.c.size(); ++i) changed += p.c[i] != p.before[i];
  EXPECT_EQ(changed, 5U * 7U * 3U);
  EXPECT_EQ(p.c[2 + 7], p.before[2 + 7]) << "behind the first row";
}

TEST(HostGemm, WithBetaZeroCIsNotRead) {
  Product p = Make(false, false, GemmCompute::kFp32);
  p.gemm.beta = 0;
  std::fill(p.c.begin(), p.c.end(), std::nanf(""));
  EXPECT_LT(p.Run(), 3e-7);
}

TEST(HostGemm, ComputeTypesHaveTheirAccuracy) {
  const double tf32 = Make(false, false, GemmCompute::kTf32).Run();
  EXPECT_GT(tf32, 1e-5);
  EXPECT_LT(tf32, 0x1p-10);
  const double bf16 = Make(false, false, GemmCompute::kBf16).Run();
  EXPECT_GT(bf16, tf32);
  EXPECT_LT(bf16, 0x1p-7);
  EXPECT_LT(Make(false, false, GemmCompute::kBf16x9).Run(), 2e-7);
}

}  // namespace
}  // namespace grove::eval
