// Code that the toolkit's headers expand to, with every check switched on: it must compute the
// right values and must not be blamed for anything.
#include <cmath>

#include "base/dtype.h"
#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

class Library : public ::testing::Test {
 protected:
  Library() : m(Machine::File("library")) {
    m.options.detect_races = true;
    m.options.detect_uninitialised = true;
    m.options.count_memory = true;
    x.resize(512);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 31 % 97);
  }
  Machine m;
  std::vector<float> x;
};

TEST_F(Library, CooperativeGroupsReduceTilesAndCoalescedThreads) {
  std::vector<float> y(192);
  m.config.block = {128, 1, 1};
  m.Good("group_reduce", m.Map(x), m.Map(y));
  for (std::size_t w = 0; w < 4; ++w) {
    float sum = 0;
    for (std::size_t i = 0; i < 32; ++i) sum += x[w * 32 + i];
    EXPECT_EQ(y[w], sum);
  }
  for (std::size_t g = 0; g < 16; ++g) {
    float most = 0;
    for (std::size_t i = 0; i < 8; ++i) most = std::max(most, x[g * 8 + i]);
    EXPECT_EQ(y[8 + g], most);
  }
  EXPECT_EQ(y[64 + 33], 1100);  // lanes 1, 4, ... 31 of warp 1: eleven
  EXPECT_EQ(y[64 + 36], 1101);
}

TEST_F(Library, CubReduceAndScan) {
  std::vector<float> sum(1);
  std::vector<int> scan(128);
  m.config.block = {128, 1, 1};
  m.Good("block_scan", m.Map(x), m.Map(sum), m.Map(scan));
  float expected = 0;
  for (std::size_t i = 0; i < 128; ++i) expected += x[i];
  EXPECT_EQ(sum[0], expected);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(scan[static_cast<std::size_t>(i)], i * (i - 1) / 2);
}

TEST_F(Library, BarrierObjectsAndAsynchronousCopies) {
  std::vector<float> y(384);
  m.config.block = {128, 1, 1};
  m.Good("barrier_copy", m.Map(x), m.Map(y));
  for (std::size_t i = 0; i < 384; ++i) EXPECT_EQ(y[i], x[i / 128 * 128 + 127 - i % 128]);
}

TEST_F(Library, PipelinesOfTwoStages) {
  std::vector<float> y(512);
  m.config.block = {64, 1, 1};
  m.Good("pipelined", m.Map(x), m.Map(y));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(y[4 * i], x[4 * (i / 64 * 64 + 63 - i % 64)]);
}

TEST_F(Library, FunctionPointersThatDifferByLane) {
  std::vector<int> which(32);
  for (std::size_t i = 0; i < 32; ++i) which[i] = static_cast<int>(i % 3);
  std::vector<float> y(x.begin(), x.begin() + 32);
  m.Good("pointers", m.Map(y), m.Map(which));
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], (i % 3 == 0 ? x[i] * 2 : i % 3 == 1 ? x[i] + 3 : -x[i]) + 1);
  }
  which[5] = 900;
  EXPECT_TRUE(m.Launch("pointers", m.Map(y), m.Map(which)).fault.has_value());
}

TEST_F(Library, HalfExponentialsAndRoots) {
  std::vector<std::uint16_t> in(64), out(128);
  for (std::size_t i = 0; i < 64; ++i) in[i] = FloatToHalf((static_cast<float>(i) - 32.0f) / 8.0f);
  m.Good("half_functions", m.Map(in), m.Map(out));
  for (std::size_t i = 0; i < 64; ++i) {
    const float v = HalfToFloat(in[i]);
    EXPECT_NEAR(HalfToFloat(out[i]), std::exp(v), std::exp(v) * 0.001f);
    EXPECT_NEAR(HalfToFloat(out[64 + i]), std::sqrt(std::fabs(v)), 0.001f);
  }
}

}  // namespace
}  // namespace grove::emulator
