// Tensor core instructions and half precision against the host.
#include <cmath>

#include "base/dtype.h"
#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

float Value(std::size_t i) {
  return static_cast<float>(static_cast<int>(i * 37 % 23) - 11) * 0.125f;
}

std::vector<std::uint16_t> Halves(std::size_t n, bool bfloat = false) {
  std::vector<std::uint16_t> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = bfloat ? FloatToBFloat16(Value(i)) : FloatToHalf(Value(i));
  return v;
}

TEST(Tensor, WmmaF16RowTimesColumnWithElementwiseWork) {
  Machine m = Machine::File("tensor");
  auto a = Halves(256), b = Halves(256);
  std::vector<float> c(256);
  const Counters n = m.Good("wmma_f16", m.Map(a), m.Map(b), m.Map(c));
  EXPECT_EQ(n.tensor, 1);
  EXPECT_EQ(n.tensor_flops_f16, 2.0 * 16 * 16 * 16);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      float sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += Value(i * 16 + k) * Value(j * 16 + k);
      EXPECT_EQ(c[i * 16 + j], 2 * sum);
    }
  }
}

TEST(Tensor, WmmaThroughSharedMemoryWithF16Sums) {
  Machine m = Machine::File("tensor");
  auto a = Halves(256), b = Halves(256);
  std::vector<std::uint16_t> c(256);
  m.Good("wmma_f16_shared", m.Map(a), m.Map(b), m.Map(c));
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += Value(k * 16 + i) * Value(k * 16 + j);
      EXPECT_EQ(HalfToFloat(c[i * 16 + j]), HalfToFloat(FloatToHalf(sum)));
    }
  }
}

TEST(Tensor, WmmaBf16AndTf32) {
  Machine m = Machine::File("tensor");
  auto a = Halves(256, true), b = Halves(256, true);
  std::vector<float> c(256), fa(128), fb(128);
  m.Good("wmma_bf16", m.Map(a), m.Map(b), m.Map(c));
  for (std::size_t i = 0; i < 256; ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < 16; ++k) sum += Value(i / 16 * 16 + k) * Value(k * 16 + i % 16);
    EXPECT_EQ(c[i], sum);
  }
  for (std::size_t i = 0; i < 128; ++i) fa[i] = fb[i] = Value(i);
  const Counters n = m.Good("wmma_tf32", m.Map(fa), m.Map(fb), m.Map(c));
  EXPECT_EQ(n.tensor_flops_tf32, 2.0 * 16 * 16 * 8);
  for (std::size_t i = 0; i < 256; ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum += Value(i / 16 * 8 + k) * Value(k * 16 + i % 16);
    EXPECT_EQ(c[i], sum);
  }
}

TEST(Tensor, MmaWithFragmentsFromLdmatrix) {
  Machine m = Machine::File("tensor");
  auto a = Halves(256), b = Halves(128);
  std::vector<float> d(128);
  m.Good("mma_ldmatrix", m.Map(a), m.Map(b), m.Map(d));
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += Value(i * 16 + k) * Value(k * 8 + j);
      EXPECT_EQ(d[i * 8 + j], sum);
    }
  }
}

TEST(Half, PairsAndConversions) {
  Machine m = Machine::File("tensor");
  auto x = Halves(80);
  std::vector<std::uint16_t> y(64), z(32), q(32);
  std::vector<float> f(32), g(32);
  for (std::size_t i = 0; i < 32; ++i) f[i] = static_cast<float>(i) * 0.3337f - 5.0f;
  m.Good("halves", m.Map(x), m.Map(y), m.Map(f), m.Map(z), m.Map(q), m.Map(g));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y[i], FloatToHalf(Value(i) * Value(i + 2) + Value(i + 4)));
  }
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(z[i], FloatToHalf(f[i]));
    EXPECT_EQ(q[i], FloatToBFloat16(f[i]));
    const float sum = HalfToFloat(FloatToHalf(HalfToFloat(z[i]) + Value(2 * i)));
    const float square =
        BFloat16ToFloat(FloatToBFloat16(BFloat16ToFloat(q[i]) * BFloat16ToFloat(q[i])));
    EXPECT_EQ(g[i], sum + square);
  }
}

TEST(AsyncCopy, LandsWhenWaitedForAndNotBefore) {
  Machine m = Machine::File("tensor");
  std::vector<float> in(256), out(256);
  for (std::size_t i = 0; i < 256; ++i) in[i] = static_cast<float>(i);
  m.config.block = {64, 1, 1};
  m.options.detect_uninitialised = true;
  const auto a = m.Map(in), b = m.Map(out);
  m.Good("copy_async", a, b, 1);
  EXPECT_EQ(out[0], 252);
  m.Bad(Fault::Kind::kUninitialised, "copy_async", a, b, 0);
}

}  // namespace
}  // namespace grove::emulator
