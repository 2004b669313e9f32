// Library steps and the QR checker on a real GPU: cuBLAS does what the emulator's plain arithmetic
// does, also captured into a graph; the checker's kernel measures what the host measures; right and
// wrong factorisations get the verdicts that they get in the emulator.
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "eval/inputs.h"
#include "eval/qr_check.h"
#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

class QrGpu : public GpuTest {
 protected:
  // y = a b for square matrices in a task that permits the library; the reference is a kernel.
  std::unique_ptr<MiniTask> Product(std::int64_t batch, std::int64_t n) {
    auto mini = std::make_unique<MiniTask>();
    seeds::Task& task = mini->task;
    task.name = "product";
    seeds::Case c;
    c.name = "case";
    c.dims = {{"batch", batch}, {"n", n}};
    c.library = {"gemm"};
    seeds::Tensor a;
    a.name = "a";
    a.shape = {batch, n, n};
    seeds::Tensor b = a;
    b.name = "b";
    seeds::Tensor y = a;
    y.name = "y";
    y.role = seeds::TensorRole::kOutput;
    c.tensors = {a, b, y};
    task.cases = {c};
    task.reduction = {n};
    task.reference_elements_per_block = {0};
    mini->context.task = &task;
    MiniTask promoted;
    promoted.task.cases = {c};
    promoted.task.cases[0].tensors[2].dtype = DType::kF64;
    promoted.context.task = &promoted.task;
    mini->context.reference = Prepare(
        promoted,
        "extern \"C\" __global__ void reference(const float* a, const float* b, double* y) {\n"
        "  const int i = blockIdx.x, j = threadIdx.x, n = dim::n;\n"
        "  const size_t base = (size_t)blockIdx.y * n * n;\n"
        "  double s = 0;\n"
        "  for (int k = 0; k < n; ++k) s += (double)a[base + i * n + k] * b[base + k * n + j];\n"
        "  y[base + i * n + j] = s;\n}\n",
        R"json({"launches": [{"kernel": "reference", "grid": ["n", "batch"], "block": ["n"],
               "args": ["a", "b", "y"]}]})json");
    return mini;
  }

  std::string ProductPlan(const std::string& compute) {
    // A kernel copies a into a workspace first, so that the two kinds of steps are seen in order.
    return fmt::format(
        R"json({{"workspace": [{{"name": "w", "dtype": "f32", "shape": ["batch", "n", "n"]}}],
        "launches": [
          {{"kernel": "copy", "grid": ["ceil_div(batch * n * n, 256)"], "block": [256],
            "args": ["a", "w"]}},
          {{"library": "gemm", "m": "n", "n": "n", "k": "n", "batch": "batch", "compute": "{}",
            "a": {{"buffer": "w", "ld": "n", "stride": "n * n"}},
            "b": {{"buffer": "b", "ld": "n", "stride": "n * n"}},
            "c": {{"buffer": "y", "ld": "n", "stride": "n * n"}}}}]}})json",
        compute);
  }
  static constexpr const char* kCopy =
      "extern \"C\" __global__ void copy(const float* a, float* w) {\n"
      "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
      "  if (i < dim::batch * dim::n * dim::n) w[i] = a[i];\n}\n";
};

TEST_F(QrGpu, ALibraryStepMultipliesInItsComputeType) {
  auto mini = Product(5, 96);
  const auto check = [&](const char* compute) {
    const auto outcome = Check(*mini, Prepare(*mini, kCopy, ProductPlan(compute)), 3);
    EXPECT_FALSE(outcome.fault) << outcome.fault->message;
    EXPECT_TRUE(outcome.deterministic);
    return outcome.errors.size() == 1 ? outcome.errors[0].worst_row_l2 : 1.0;
  };
  EXPECT_LT(check("fp32"), 2e-6);
  const double tf32 = check("tf32");
  EXPECT_GT(tf32, 1e-5);
  EXPECT_LT(tf32, 2e-3);
  EXPECT_LT(check("bf16"), 2e-2);
}

TEST_F(QrGpu, ALibraryStepIsTimedAndReplayedFromAGraph) {
  auto mini = Product(64, 128);
  const auto outcome = Time(*mini, Prepare(*mini, kCopy, ProductPlan("fp32")));
  ASSERT_FALSE(outcome.fault) << outcome.fault->message;
  EXPECT_GT(outcome.time.count(), 1000);
  ASSERT_EQ(outcome.launches.size(), 2U);
  EXPECT_EQ(outcome.launches[1].kernel, codegen::kGemmStep);
  bool graph = false;
  for (const eval::ModeTime& mode : outcome.modes) {
    if (mode.mode != "graph") continue;
    graph = true;
    EXPECT_EQ(mode.note, "");
    EXPECT_FALSE(mode.samples.empty());
  }
  EXPECT_TRUE(graph);
}

class QrTask : public GpuTest {
 protected:
  std::unique_ptr<MiniTask> Case(const std::string& name) {
    auto mini = std::make_unique<MiniTask>();
    auto task = seeds::LoadTask(std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks", "qr");
    EXPECT_TRUE(task) << task.error().message;
    mini->task = std::move(*task);
    const seeds::Case* wanted = mini->task.FindCase(name);
    EXPECT_NE(wanted, nullptr) << name;
    mini->task.cases = {*wanted};
    mini->task.reduction = {*wanted->dim("n")};
    mini->task.reference_elements_per_block = {0};
    mini->context.task = &mini->task;
    return mini;
  }
};

TEST_F(QrTask, TheSeedPassesOnSmallAndOnRankedCases) {
  for (const char* name : {"smoke", "n97", "n33_mixed", "n32", "n176", "test_16x512_mixed2",
                           "test_4x1024_nearrank", "test_2x2048_rankdef"}) {
    auto mini = Case(name);
    const auto outcome =
        Check(*mini, Prepare(*mini, mini->task.seed.source, mini->task.seed.plan), 2);
    ASSERT_FALSE(outcome.fault) << name << ": " << outcome.fault->message;
    EXPECT_TRUE(outcome.deterministic) << name;
    ASSERT_EQ(outcome.gates.size(), 6U) << name;
    for (const eval::Gate& gate : outcome.gates) {
      EXPECT_TRUE(gate.passed()) << name << ": " << eval::Describe(gate);
    }
  }
}

TEST_F(QrTask, WrongFactorsAreRefused) {
  auto mini = Case("test_16x512_mixed2");
  std::string source = mini->task.seed.source;
  const std::string written = "if (threadIdx.x == 0) tau[(size_t)blockIdx.x * n + k] = t;";
  const std::size_t at = source.find(written);
  ASSERT_NE(at, std::string::npos);
  // One reflector of one matrix of the batch is a little off.
  source.replace(at, written.size(),
                 "if (threadIdx.x == 0) tau[(size_t)blockIdx.x * n + k] = "
                 "blockIdx.x == 7 && k == 100 ? t * 1.01f : t;");
  const auto outcome = Check(*mini, Prepare(*mini, source, mini->task.seed.plan), 1);
  ASSERT_FALSE(outcome.fault) << outcome.fault->message;
  bool refused = false;
  for (const eval::Gate& gate : outcome.gates) {
    if (gate.passed()) continue;
    refused = true;
    EXPECT_EQ(gate.matrix, 7) << gate.name;
  }
  EXPECT_TRUE(refused);
}

// The measurement on the device against the host's, on the very same numbers.
class QrLane : public LaneTest {};

TEST_F(QrLane, TheCheckersKernelMeasuresWhatTheHostMeasures) {
  for (const auto& [batch, n] : {std::pair<std::int64_t, std::int64_t>{3, 61}, {2, 512}, {1, 2}}) {
    seeds::Tensor tensor;
    tensor.shape = {batch, n, n};
    std::vector<float> a(static_cast<std::size_t>(tensor.elements())), h(a.size());
    eval::FillInput(tensor, 3, 0, std::as_writable_bytes(std::span(a)));
    eval::FillInput(tensor, 4, 0, std::as_writable_bytes(std::span(h)));
    std::vector<float> tau(static_cast<std::size_t>(batch * n));
    for (std::size_t i = 0; i < h.size(); ++i) h[i] *= 0.05F;
    for (std::size_t i = 0; i < tau.size(); ++i) tau[i] = i % 7 == 3 ? 0.0F : 1.1F;
    const auto expected = eval::QrColumns(a, h, tau, batch, n);
    std::vector<eval::QrColumn> got(expected.size());
    const auto bytes = [](const auto& v) {
      return static_cast<std::int64_t>(v.size() * sizeof(v[0]));
    };
    auto da = parts_->pool.Acquire(bytes(a)), dh = parts_->pool.Acquire(bytes(h)),
         dt = parts_->pool.Acquire(bytes(tau)), dx = parts_->pool.Acquire(bytes(h)),
         dq = parts_->pool.Acquire(bytes(got));
    ASSERT_TRUE(da && dh && dt && dx && dq);
    const Driver& driver = lane_->driver();
    ASSERT_EQ(driver.MemcpyHtoDAsync(da->data(), a.data(), a.size() * 4, lane_->stream()),
              kCuSuccess);
    ASSERT_EQ(driver.MemcpyHtoDAsync(dh->data(), h.data(), h.size() * 4, lane_->stream()),
              kCuSuccess);
    ASSERT_EQ(driver.MemcpyHtoDAsync(dt->data(), tau.data(), tau.size() * 4, lane_->stream()),
              kCuSuccess);
    ASSERT_TRUE(parts_->support.QrColumns(lane_->stream(), da->data(), dh->data(), dt->data(),
                                          batch, n, dx->data(), dq->data()));
    ASSERT_EQ(driver.MemcpyDtoHAsync(got.data(), dq->data(), got.size() * sizeof(eval::QrColumn),
                                     lane_->stream()),
              kCuSuccess);
    ASSERT_TRUE(lane_->Wait(std::chrono::milliseconds(20000)));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto same = [&](double x, double y) { return std::abs(x - y) <= 1e-8 * std::abs(y); };
      EXPECT_TRUE(same(got[i].qta_norm1, expected[i].qta_norm1)) << n << " " << i;
      EXPECT_TRUE(same(got[i].qr_norm2, expected[i].qr_norm2)) << n << " " << i;
      EXPECT_TRUE(same(got[i].qtq_norm1, expected[i].qtq_norm1)) << n << " " << i;
      EXPECT_TRUE(same(got[i].defect, expected[i].defect)) << n << " " << i;
      EXPECT_TRUE(same(got[i].tail, expected[i].tail)) << n << " " << i;
    }
  }
}

TEST_F(QrLane, MatricesAreBitForBitThoseOfTheHost) {
  for (int s = 0; s < seeds::kStructureCount; ++s) {
    seeds::Tensor tensor;
    tensor.shape = {9, 65, 65};
    tensor.distribution.kind = seeds::Distribution::Kind::kMatrix;
    tensor.distribution.structure = static_cast<seeds::Distribution::Structure>(s);
    tensor.distribution.a = 2;
    std::vector<float> expected(static_cast<std::size_t>(tensor.elements())), got(expected.size());
    eval::FillInput(tensor, 99, 0, std::as_writable_bytes(std::span(expected)));
    auto buffer = parts_->pool.Acquire(tensor.bytes().value);
    ASSERT_TRUE(buffer);
    ASSERT_TRUE(parts_->support.Generate(lane_->stream(), tensor, 0, 99, buffer->data()));
    ASSERT_EQ(lane_->driver().MemcpyDtoHAsync(got.data(), buffer->data(), got.size() * 4,
                                              lane_->stream()),
              kCuSuccess);
    ASSERT_TRUE(lane_->Wait(std::chrono::milliseconds(20000)));
    EXPECT_EQ(got, expected) << Name(tensor.distribution.structure);
  }
}

}  // namespace
}  // namespace grove::cuda
