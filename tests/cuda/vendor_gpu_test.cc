// Vendor baselines, hardware counters and a group of GPUs on a real GPU. No absolute time is
// judged.
#include <algorithm>
#include <set>

#include "eval/cuda/baselines.h"
#include "eval/cuda/sass.h"
#include "eval/device_group.h"
#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

using seeds::Case;
using seeds::Task;
using seeds::Tensor;
using seeds::TensorRole;

Tensor Make(const char* name, TensorRole role, std::vector<std::int64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.role = role;
  tensor.shape = std::move(shape);
  return tensor;
}

class VendorGpu : public GpuTest {
 protected:
  BaselineReport Measure(const char* name, const char* family, Case c) {
    Task task;
    task.name = name;
    task.family = family;
    task.cases.push_back(std::move(c));
    auto report = MeasureBaselines(0, *farm_, task, 0);
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(BaselineReport{});
  }
  // Every entry is whole; what is missing must be explained by a problem.
  void ExpectNames(const BaselineReport& report, std::set<std::string> names) {
    for (const Baseline& b : report.baselines) {
      EXPECT_EQ(names.erase(b.name), 1U) << b.name;
      EXPECT_GT(b.median.count(), 0) << b.name;
      EXPECT_LE(b.min, b.median) << b.name;
      EXPECT_LE(b.median, b.q3) << b.name;
      EXPECT_GE(b.samples.size(), 2U) << b.name;
      EXPECT_EQ(b.uuid, device_->facts().uuid) << b.name;
      EXPECT_FALSE(b.version.empty()) << b.name;
    }
    EXPECT_EQ(names.empty(), report.problems.empty()) << *names.begin();
    for (const std::string& problem : report.problems) std::printf("  %s\n", problem.c_str());
  }
};

TEST_F(VendorGpu, AProductIsMeasuredInEveryPrecisionByBothLibraries) {
  Case c;
  c.tensors = {Make("a", TensorRole::kInput, {512, 256}), Make("b", TensorRole::kInput, {256, 384}),
               Make("c", TensorRole::kOutput, {512, 384})};
  ExpectNames(Measure("matmul", "gemm", c),
              {"cublas_fp32", "cublas_tf32", "cublas_fp16", "cublas_bf16", "cublaslt_fp32",
               "cublaslt_tf32", "cublaslt_fp16", "cublaslt_bf16"});
}

TEST_F(VendorGpu, ABatchOfMatricesIsFactoredBySolverAndBatchedBlas) {
  Case c;
  c.tensors = {Make("a", TensorRole::kInput, {20, 32, 32}),
               Make("h", TensorRole::kOutput, {20, 32, 32}),
               Make("tau", TensorRole::kOutput, {20, 32})};
  ExpectNames(Measure("qr", "qr", c), {"cusolver_geqrf", "cublas_geqrf_batched"});
}

TEST_F(VendorGpu, AConvolutionIsMeasuredByCudnnWhereItIs) {
  Case c;
  c.dims = {{"S", 4}, {"P", 2}};
  c.tensors = {
      Make("x", TensorRole::kInput, {4, 3, 64, 64}), Make("w", TensorRole::kInput, {16, 3, 11, 11}),
      Make("bias", TensorRole::kInput, {16}), Make("y", TensorRole::kOutput, {4, 16, 15, 15})};
  const BaselineReport report = Measure("conv2d", "conv", c);
  if (report.baselines.empty() && report.problems.size() == 1 &&
      report.problems[0].find("no cuDNN") != std::string::npos) {
    GTEST_SKIP() << report.problems[0];
  }
  ExpectNames(report, {"cudnn_fp32", "cudnn_tf32"});
}

TEST_F(VendorGpu, CountersOfAKernelNameItOrSayWhyThereAreNone) {
  auto mini = Doubling(1 << 22);
  const auto kernel = PrepareKernel(*mini, "if (i < dim::N) y[i] = 2.0f * x[i];");
  eval::TimeRequest request;
  request.context = &mini->context;
  request.candidate = &kernel;
  request.seed = 1;
  const auto rows = device_->Profile(request);
  if (!rows) {
    EXPECT_EQ(rows.error().message.find('\n'), std::string::npos);
    GTEST_SKIP() << rows.error().message;
  }
  EXPECT_EQ(rows->front().kernel, kernel.plan.launches.at(0).kernel);
  const auto dram = std::find_if(rows->begin(), rows->end(), [](const CounterRow& row) {
    return row.metric == "DRAM Throughput" && row.unit == "%";
  });
  ASSERT_NE(dram, rows->end());
  EXPECT_GT(dram->value, 0);
  EXPECT_LE(dram->value, 100);
  // The GPU is as usable as before.
  EXPECT_FALSE(Time(*mini, kernel).fault);
}

TEST_F(VendorGpu, TheMachineCodeOfAKernelIsCountedWhereADisassemblerIs) {
  auto mini = Doubling(1 << 10);
  const auto kernel = PrepareKernel(*mini, "if (i < dim::N) y[i] = 2.0f * x[i];");
  const auto mixes = DisassembleCubin(kernel.compiled->cubin);
  if (!mixes) GTEST_SKIP() << mixes.error().message;
  ASSERT_EQ(mixes->size(), 1U);
  EXPECT_GE((*mixes)[0].kinds.at("global load"), 1);
  EXPECT_GE((*mixes)[0].kinds.at("global store"), 1);
}

TEST_F(VendorGpu, EveryGpuOfTheMachineTimesInAGroup) {
  const auto gpus = ListGpus();
  ASSERT_TRUE(gpus);
  std::vector<std::unique_ptr<eval::Device>> members;
  for (const DeviceFacts& gpu : *gpus) {
    CudaOptions options;
    options.ordinal = gpu.ordinal;
    options.compiler = farm_.get();
    options.workers = 1;
    auto member = MakeCudaDevice(options);
    ASSERT_TRUE(member) << member.error().message;
    members.push_back(std::move(*member));
  }
  auto group = eval::MakeDeviceGroup(std::move(members));
  ASSERT_TRUE(group) << group.error().message;
  auto mini = Doubling(1 << 20);
  const auto kernel = PrepareKernel(*mini, "if (i < dim::N) y[i] = 2.0f * x[i];");
  std::set<std::string> used;
  for (std::size_t i = 0; i < gpus->size(); ++i) {
    eval::TimeRequest request;
    request.context = &mini->context;
    request.candidate = &kernel;
    request.seed = i;
    const auto outcome = (*group)->Time(request);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->fault);
    used.insert(outcome->gpu_uuid);
  }
  EXPECT_EQ(used.size(), gpus->size());
}

}  // namespace
}  // namespace grove::cuda
