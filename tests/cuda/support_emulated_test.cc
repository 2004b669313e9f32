// Our own device code for QR, executed by the emulator: inputs are bit for bit those of the host,
// and the checker's kernel measures what the host measures. The same on a GPU: support_gpu_test.cc.
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/compile_farm.h"
#include "eval/cuda/support.h"
#include "eval/emulator/emulator.h"
#include "eval/inputs.h"
#include "eval/qr_check.h"

namespace grove::cuda {
namespace {

using eval::QrColumn;
using seeds::Distribution;

class SupportEmulated : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto farm = codegen::MakeCompileFarm({});
    ASSERT_TRUE(farm) << farm.error().message;
    DeviceFacts facts;
    facts.compute_major = 9;
    facts.compute_minor = 0;
    const auto compiled = (*farm)->Compile(SupportRequest(facts));
    ASSERT_TRUE(compiled) << compiled.error().message;
    ASSERT_TRUE((*compiled)->ok()) << (*compiled)->log;
    auto module = emulator::LoadModule((*compiled)->ptx);
    ASSERT_TRUE(module) << module.error().message;
    module_ = std::move(*module);
  }
  static void TearDownTestSuite() { module_.reset(); }

  template <typename T>
  static std::vector<std::byte> Param(const T& value) {
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }

  template <typename T>
  std::uint64_t Map(const char* name, std::vector<T>& values) {
    emulator::AddressSpace::Buffer buffer;
    buffer.name = name;
    buffer.host = reinterpret_cast<std::byte*>(values.data());
    buffer.bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    return space_.Map(buffer);
  }

  void Run(const char* kernel, std::int64_t grid, std::int64_t block, std::int64_t shared,
           std::vector<std::vector<std::byte>> params) {
    emulator::LaunchConfig config;
    config.kernel = kernel;
    config.grid = {grid, 1, 1};
    config.block = {block, 1, 1};
    config.shared_bytes = shared;
    config.params = std::move(params);
    emulator::LaunchOptions options;
    options.detect_races = true;
    const auto outcome = emulator::Run(*module_, config, space_, options);
    ASSERT_FALSE(outcome.fault) << outcome.fault->message;
  }

  static std::shared_ptr<const emulator::Module> module_;
  emulator::AddressSpace space_;
};
std::shared_ptr<const emulator::Module> SupportEmulated::module_;

// Mirrors `Recipe` of kernels/inputs.cu.
struct Recipe {
  int kind = 5, dtype = static_cast<int>(DType::kF32), integer = 0, plain = 0;
  double a = 0, b = 0, limit = 3.4028234663852886e38, low = 0, count = 1;
  std::int64_t inner = 0, tail = 1, elements = 0, rows = 0, structure = 0;
};

TEST_F(SupportEmulated, MatricesAreBitForBitThoseOfTheHost) {
  for (int s = 0; s < seeds::kStructureCount; ++s) {
    seeds::Tensor tensor;
    tensor.shape = {6, 19, 19};
    tensor.distribution.kind = Distribution::Kind::kMatrix;
    tensor.distribution.structure = static_cast<Distribution::Structure>(s);
    tensor.distribution.a = 2;
    std::vector<float> expected(static_cast<std::size_t>(tensor.elements()));
    eval::FillInput(tensor, 0x123456789abcdefULL, 3, std::as_writable_bytes(std::span(expected)));
    std::vector<float> got(expected.size());
    Recipe recipe;
    recipe.a = 2;
    recipe.inner = 19, recipe.rows = 19, recipe.elements = tensor.elements(), recipe.structure = s;
    const std::uint64_t data = Map("data", got);
    Run("grove_generate", 4, 256, 0,
        {Param(data), Param(recipe), Param(std::uint64_t{0x123456789abcdefULL}),
         Param(std::uint64_t{3})});
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
        << Name(tensor.distribution.structure);
  }
}

TEST_F(SupportEmulated, TheCheckersKernelMeasuresWhatTheHostMeasures) {
  constexpr std::int64_t kBatch = 2, kN = 37;
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  // Any H will do: what is measured is defined for all; some tau are zero, one value is infinite.
  std::vector<float> a(kBatch * kN * kN), h(a.size()), tau(kBatch * kN), transposed(a.size());
  for (float& v : a) v = normal(random);
  for (float& v : h) v = 0.1F * normal(random);
  for (float& v : tau) v = 1 + 0.1F * normal(random);
  tau[5] = tau[kN + 36] = 0;
  const auto expected = eval::QrColumns(a, h, tau, kBatch, kN);
  std::vector<QrColumn> got(kBatch * kN);
  const auto pa = Map("a", a), ph = Map("h", h), pt = Map("tau", tau),
             px = Map("transposed", transposed), pq = Map("columns", got);
  Run("grove_transpose", kBatch * 4, 256, 0,
      {Param(ph), Param(px), Param(std::int64_t{kN}), Param(std::int64_t{2})});
  Run("grove_qr_columns", (kBatch * kN + 3) / 4, 128, 4 * kN * 8,
      {Param(pa), Param(px), Param(pt), Param(int{kN}), Param(std::int64_t{kBatch * kN}),
       Param(pq)});
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto same = [&](double x, double y) { return std::abs(x - y) <= 1e-9 * std::abs(y); };
    const QrColumn& q = got[i];
    const QrColumn& e = expected[i];
    EXPECT_TRUE(same(q.a_norm1, e.a_norm1) && same(q.a_norm2, e.a_norm2)) << i;
    EXPECT_TRUE(same(q.qta_norm1, e.qta_norm1)) << i << " " << q.qta_norm1 << " " << e.qta_norm1;
    EXPECT_TRUE(same(q.qr_norm2, e.qr_norm2)) << i << " " << q.qr_norm2 << " " << e.qr_norm2;
    EXPECT_TRUE(same(q.qtq_norm1, e.qtq_norm1)) << i << " " << q.qtq_norm1 << " " << e.qtq_norm1;
    EXPECT_TRUE(same(q.defect, e.defect) && same(q.tail, e.tail)) << i;
    EXPECT_EQ(q.non_finite, e.non_finite) << i;
  }
}

}  // namespace
}  // namespace grove::cuda
