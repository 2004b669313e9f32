// Kernels that NVRTC's compiler made, against the same computation on the host.
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

std::vector<float> Ramp(std::size_t n, float step) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<float>(static_cast<int>(i * 7919 % 1000) - 500) * step;
  return v;
}

TEST(Core, VectorAddWithATailThatIsNoWholeWarp) {
  Machine m = Machine::File("basic");
  auto a = Ramp(1000, 0.5f), b = Ramp(1000, 0.25f);
  std::vector<float> c(1000, -1);
  m.config.grid = {4, 1, 1};
  m.config.block = {256, 1, 1};
  const Counters n = m.Good("vector_add", m.Map(a), m.Map(b), m.Map(c), 1000);
  for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  EXPECT_EQ(n.blocks, 4);
  EXPECT_EQ(n.global_loads, 64);  // 32 warps, all but the last 0 enter; 2 loads each
  EXPECT_EQ(n.fp32, 32);
}

TEST(Core, SharedMemoryReduction) {
  Machine m = Machine::File("basic");
  auto in = Ramp(1024, 1.0f);
  std::vector<float> out(4);
  m.config.grid = {4, 1, 1};
  m.config.block = {256, 1, 1};
  m.Good("block_sum", m.Map(in), m.Map(out));
  for (std::size_t b = 0; b < 4; ++b) {
    EXPECT_EQ(out[b], std::accumulate(in.begin() + static_cast<int>(b) * 256,
                                      in.begin() + static_cast<int>(b + 1) * 256, 0.0f));
  }
}

int Diverge(int v) {
  int steps = 0;
  if (v == 13) return -13;
  for (int k = 0; k < 1000; ++k) {
    if (v % 7 == 3) {
      v = v * 2 + 1;
      steps += 100;
      continue;
    }
    if (v <= 1) break;
    if ((v & 1) != 0) {
      int w = v;
      while (w > 10) {
        w /= 3;
        steps++;
      }
      v = (3 * v + 1) % 100003;
    } else {
      v /= 2;
    }
    steps++;
  }
  return steps * 1000 + v % 1000;
}

TEST(Core, DivergentLoopsWithBreakContinueAndEarlyReturn) {
  Machine m = Machine::File("basic");
  std::vector<int> in(500), out(500);
  std::iota(in.begin(), in.end(), 0);
  m.config.grid = {2, 1, 1};
  m.config.block = {256, 1, 1};
  m.Good("diverge", m.Map(in), m.Map(out), 500);
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], Diverge(in[i])) << i;
}

TEST(Core, ShufflesOfAllModes) {
  Machine m = Machine::File("basic");
  auto in = Ramp(32, 1.0f);
  std::vector<float> out(128);
  m.Good("warp_sum", m.Map(in), m.Map(out));
  const float sum = std::accumulate(in.begin(), in.end(), 0.0f);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[4 * i], sum);
    EXPECT_EQ(out[4 * i + 2], in[i / 8 * 8 + 5]);
    EXPECT_EQ(out[4 * i + 3], i % 16 >= 3 ? in[i - 3] : in[i]);
  }
  EXPECT_EQ(out[1], sum);
}

TEST(Core, AtomicsOfManyBlocksAndModuleVariables) {
  Machine m = Machine::File("basic");
  std::vector<int> ints(8);
  std::vector<float> floats(2);
  std::vector<double> doubles(1);
  m.config.grid = {8, 1, 1};
  m.config.block = {128, 1, 1};
  m.Good("atomics", m.Map(ints), m.Map(floats), m.Map(doubles));
  EXPECT_EQ(ints[0], 1023 * 1024 / 2);
  EXPECT_EQ(ints[1], 1023);
  EXPECT_EQ(ints[2], -1023);
  EXPECT_EQ(ints[3], -1);
  EXPECT_EQ(ints[4], 1024 % 10);
  EXPECT_EQ(ints[5], 2048);
  EXPECT_EQ(ints[6], 77);
  EXPECT_EQ(ints[7], 11);
  EXPECT_EQ(floats[0], 512.0f);
  EXPECT_EQ(floats[1], 3.5f);
  EXPECT_EQ(doubles[0], 256.0);
  // __device__ variables keep their value in this address space.
  std::vector<int> out(1);
  m.config.grid = {1, 1, 1};
  m.config.block = {1, 1, 1};
  m.Good("read_counter", m.Map(out));
  EXPECT_EQ(out[0], 1024);
  // ... and start anew in another.
  m.space = AddressSpace();
  m.Good("read_counter", m.Map(out));
  EXPECT_EQ(out[0], 0);
}

TEST(Core, LocalArraysIndexedAtRunTime) {
  Machine m = Machine::File("basic");
  std::vector<int> in{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, out(32);
  m.Good("local_array", m.Map(in), m.Map(out), 10);
  for (int t = 0; t < 32; ++t) {
    int hist[16] = {};
    for (const int v : in) hist[(v + t) & 15]++;
    int best = 0;
    for (int i = 0; i < 16; ++i) best = best * 3 + hist[(i * in[0]) & 15];
    EXPECT_EQ(out[static_cast<std::size_t>(t)], best);
  }
}

int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }

TEST(Core, RecursiveCallsWithADifferentDepthInEveryLane) {
  Machine m = Machine::File("basic");
  std::vector<int> in(32), out(32);
  std::vector<float> f(32);
  for (std::size_t i = 0; i < 32; ++i) in[i] = static_cast<int>(i % 11);
  m.Good("calls", m.Map(in), m.Map(out), m.Map(f));
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], Fib(in[i]));
    const float t = static_cast<float>(i);
    EXPECT_EQ(f[i], i % 3 == 0 ? t * 2.5f + t : -t * 0.5f + 7);
  }
}

TEST(Core, EndlessRecursionOverflowsTheStack) {
  Machine m = Machine::File("basic");
  std::vector<int> out{0};
  m.config.block = {1, 1, 1};
  m.Bad(Fault::Kind::kStackOverflow, "recursion", m.Map(out));
}

TEST(Core, DynamicBehindStaticSharedMemory) {
  Machine m = Machine::File("basic");
  auto in = Ramp(64, 1.0f);
  std::vector<float> out(64);
  m.config.block = {64, 1, 1};
  m.config.shared_bytes = 64 * 4;
  m.Good("dynamic_shared", m.Map(in), m.Map(out));
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], in[63 - i] + static_cast<float>(i % 8 * 100));
}

TEST(Core, TiledGemmWithRaggedEdges) {
  Machine m = Machine::File("basic");
  const int M = 50, N = 37, K = 45;
  auto a = Ramp(static_cast<std::size_t>(M * K), 0.01f),
       b = Ramp(static_cast<std::size_t>(K * N), 0.02f);
  std::vector<float> c(static_cast<std::size_t>(M * N));
  m.config.grid = {3, 4, 1};
  m.config.block = {16, 16, 1};
  m.Good("tiled_gemm", m.Map(a), m.Map(b), m.Map(c), M, N, K);
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < 48; ++k) {
        const bool in = k < K;
        sum = std::fma(in ? a[static_cast<std::size_t>(i * K + k)] : 0.0f,
                       in ? b[static_cast<std::size_t>(k * N + j)] : 0.0f, sum);
      }
      ASSERT_EQ(c[static_cast<std::size_t>(i * N + j)], sum) << i << ' ' << j;
    }
  }
}

TEST(Core, VectorAndSignedNarrowLoads) {
  Machine m = Machine::File("basic");
  auto in = Ramp(128, 1.0f);
  std::vector<float> out(128);
  std::vector<short> s(32);
  for (std::size_t i = 0; i < 32; ++i) s[i] = static_cast<short>(static_cast<int>(i) * 100 - 1600);
  std::vector<int> t(32);
  m.Good("vectors", m.Map(in), m.Map(out), m.Map(s), m.Map(t));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], in[i / 4 * 4 + 3 - i % 4]);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(t[i], s[i] * 2);
}

TEST(Core, SwitchesAndBitFunctions) {
  Machine m = Machine::File("basic");
  std::vector<int> in(32), out(128, 4);
  for (std::size_t i = 0; i < 32; ++i) in[i] = static_cast<int>(i % 10);
  m.Good("switches", m.Map(in), m.Map(out));
  for (std::size_t i = 0; i < 32; ++i) {
    const int v = in[i];
    int r = -1;
    switch (v) {
      case 0:
        r = 1;
        break;
      case 1:
        r = v ^ 0x55;
        break;
      case 2:
        r = 20;
        break;
      case 3:
        r = -3;
        break;
      case 4:
        r = std::popcount(4u * 77);
        break;
      case 5:
        r = 1001;
        break;
      case 6:
        r = 29;
        break;
      case 7:
        r = static_cast<int>(0xe0000000u);
        break;
      default:
        break;
    }
    EXPECT_EQ(out[i], r) << v;
  }
}

TEST(Core, VotesMatchesAndCounts) {
  Machine m = Machine::File("basic");
  std::vector<int> in(32);
  for (std::size_t i = 0; i < 32; ++i) in[i] = static_cast<int>(i * i % 11);
  std::vector<unsigned> out(160);
  m.Good("votes", m.Map(in), m.Map(out));
  unsigned odd = 0, sum = 0, above = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    odd |= static_cast<unsigned>(in[i] & 1) << i;
    sum += static_cast<unsigned>(in[i]);
    above += in[i] > 4 ? 1 : 0;
  }
  for (std::size_t i = 0; i < 32; ++i) {
    unsigned same = 0;
    for (std::size_t j = 0; j < 32; ++j)
      same |= static_cast<unsigned>((in[i] & 3) == (in[j] & 3)) << j;
    EXPECT_EQ(out[i], odd);
    EXPECT_EQ(out[32 + i], same);
    EXPECT_EQ(out[64 + i], sum);
    EXPECT_EQ(out[96 + i], above);
    EXPECT_EQ(out[128 + i], 3u);
  }
}

TEST(Core, PrintfIsIgnored) {
  Machine m = Machine::File("basic");
  std::vector<int> p{1, 0};
  m.Good("prints", m.Map(p));
  EXPECT_EQ(p[1], 5);
}

TEST(Core, WarpWaitsForAFlagOfALaterWarp) {
  Machine m = Machine::File("basic");
  std::vector<int> out(32);
  m.config.block = {64, 1, 1};
  m.Good("flag_wait", m.Map(out));
  EXPECT_EQ(out, std::vector<int>(32, 42));
}

TEST(Core, LanesOfAWarpTakeALockInTurn) {
  for (const char* kernel : {"lock", "lock_spin"}) {
    Machine m = Machine::File("basic");
    std::vector<int> state(2);
    m.Good(kernel, m.Map(state));
    EXPECT_EQ(state[1], 96) << kernel;
  }
}

TEST(Core, GridWideBarrierOfACooperativeLaunch) {
  Machine m = Machine::File("grid");
  std::vector<int> data(8 * 64), out(8 * 64);
  m.config.grid = {8, 1, 1};
  m.config.block = {64, 1, 1};
  m.config.cooperative = true;
  m.Good("grid_sum", m.Map(data), m.Map(out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], static_cast<int>((i + 64) % 512 * 3 + 512)) << i;
  }
}

TEST(Core, OnlyTheListedBlocksRun) {
  Machine m = Machine::File("basic");
  auto a = Ramp(1024, 0.5f), b = Ramp(1024, 0.25f);
  std::vector<float> c(1024, -1);
  m.config.grid = {4, 1, 1};
  m.config.block = {256, 1, 1};
  m.config.blocks = {1, 3};
  EXPECT_EQ(m.Good("vector_add", m.Map(a), m.Map(b), m.Map(c), 1024).blocks, 2);
  EXPECT_EQ(c[0], -1);
  EXPECT_EQ(c[256], a[256] + b[256]);
  EXPECT_EQ(c[512], -1);
}

void Near(double got, double expected, double tolerance, const char* what, double x) {
  EXPECT_LE(std::fabs(got - expected), tolerance * std::max(1e-3, std::fabs(expected)))
      << what << '(' << x << ") = " << got << ", expected " << expected;
}

TEST(Math, SinglePrecisionLibraryFunctions) {
  Machine m = Machine::File("math");
  const std::size_t n = 256;
  std::vector<float> in(n), out(11 * n);
  for (std::size_t i = 0; i < n; ++i) in[i] = (static_cast<float>(i) - 128.0f) / 11.0f;
  m.config.block = {256, 1, 1};
  m.Good("functions", m.Map(in), m.Map(out), static_cast<int>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double x = in[i];
    const auto at = [&](std::size_t k) { return static_cast<double>(out[k * n + i]); };
    Near(at(0), std::exp(x), 3e-7, "exp", x);
    Near(at(1), std::log(static_cast<double>(std::fabs(in[i]) + 0.1f)), 3e-7, "log", x);
    Near(at(2), std::sin(x), 3e-7, "sin", x);
    Near(at(3), std::pow(std::fabs(x), static_cast<double>(1.7f)), 1e-6, "pow", x);
    Near(at(4), std::tanh(x), 5e-7, "tanh", x);
    Near(at(5), std::erf(x), 5e-7, "erf", x);
    EXPECT_EQ(out[6 * n + i], std::sqrt(std::fabs(in[i])));
    EXPECT_EQ(out[7 * n + i], in[i] / 3.0f);
    EXPECT_EQ(out[8 * n + i], std::floor(in[i]) + std::nearbyint(in[i]) + std::trunc(in[i]));
    Near(at(9), std::exp(x), 4e-6, "__expf", x);
    Near(at(10), std::sin(static_cast<double>(in[i] * 1e6f)), 3e-7, "sin of a large number", x);
  }
}

TEST(Math, DoublePrecisionLibraryFunctions) {
  Machine m = Machine::File("math");
  const std::size_t n = 128;
  std::vector<double> in(n), out(6 * n);
  for (std::size_t i = 0; i < n; ++i) in[i] = (static_cast<double>(i) - 64.0) / 7.0;
  m.config.block = {128, 1, 1};
  m.Good("doubles", m.Map(in), m.Map(out), static_cast<int>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double x = in[i];
    Near(out[i], std::exp(x), 1e-15, "exp", x);
    Near(out[n + i], std::log(std::fabs(x) + 0.1), 1e-15, "log", x);
    Near(out[2 * n + i], std::sin(x), 1e-15, "sin", x);
    EXPECT_EQ(out[3 * n + i], x / 3.0);
    EXPECT_EQ(out[4 * n + i], std::sqrt(std::fabs(x)));
    EXPECT_EQ(out[5 * n + i], std::fma(x, x, 1.0));
  }
}

TEST(Math, SoftmaxOfRows) {
  Machine m = Machine::File("math");
  auto x = Ramp(4 * 300, 0.01f);
  std::vector<float> y(x.size());
  m.config.grid = {4, 1, 1};
  m.config.block = {128, 1, 1};
  m.Good("softmax", m.Map(x), m.Map(y), 300);
  for (std::size_t r = 0; r < 4; ++r) {
    double most = -1e30, sum = 0;
    for (std::size_t i = 0; i < 300; ++i)
      most = std::max(most, static_cast<double>(x[r * 300 + i]));
    for (std::size_t i = 0; i < 300; ++i)
      sum += std::exp(static_cast<double>(x[r * 300 + i]) - most);
    for (std::size_t i = 0; i < 300; ++i)
      Near(static_cast<double>(y[r * 300 + i]),
           std::exp(static_cast<double>(x[r * 300 + i]) - most) / sum, 2e-6, "softmax", 0);
  }
}

TEST(Math, RegisterTiledGemm) {
  Machine m = Machine::File("math");
  const std::size_t n = 128;
  auto a = Ramp(n * n, 0.01f), b = Ramp(n * n, 0.02f);
  std::vector<float> c(n * n);
  m.config.grid = {2, 2, 1};
  m.config.block = {256, 1, 1};
  m.Good("gemm64", m.Map(a), m.Map(b), m.Map(c), static_cast<int>(n));
  for (std::size_t i = 0; i < n; i += 5) {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum = std::fma(a[i * n + k], b[k * n + j], sum);
      ASSERT_EQ(c[i * n + j], sum);
    }
  }
}

TEST(Determinism, TheFaultOfTheLowestBlockIsReported) {
  for (const bool parallel : {false, true}) {
    Machine m = Machine::File("basic");
    std::vector<float> a(1000), b(1000), c(300);
    m.options.parallel = parallel;
    m.config.grid = {4, 1, 1};
    m.config.block = {256, 1, 1};
    const Fault f =
        m.Bad(Fault::Kind::kOutOfBounds, "vector_add", m.Map(a), m.Map(b), m.Map(c, "c"), 1000);
    EXPECT_EQ(f.block[0], 1);
    EXPECT_EQ(f.thread[0], 44);
    EXPECT_EQ(f.offset, 1200);
  }
}

}  // namespace
}  // namespace grove::emulator
