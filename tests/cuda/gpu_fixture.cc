#include "gpu_fixture.h"

#include <fmt/format.h>

namespace grove::cuda {

std::unique_ptr<codegen::CompileFarm> GpuTest::farm_;
std::unique_ptr<CudaDevice> GpuTest::device_;
std::string GpuTest::why_not_;
std::unique_ptr<WorkerParts> LaneTest::parts_;
std::unique_ptr<Lane> LaneTest::lane_;

void GpuTest::SetUpTestSuite() {
  if (device_ != nullptr || !why_not_.empty()) return;
  auto gpus = ListGpus();
  if (!gpus || gpus->empty()) {
    why_not_ = gpus ? "the driver shows no GPU" : gpus.error().message;
    return;
  }
  auto farm = codegen::MakeCompileFarm({});
  if (!farm) {
    why_not_ = farm.error().message;
    return;
  }
  farm_ = std::move(*farm);
  CudaOptions options;
  options.compiler = farm_.get();
  options.first_deadline = std::chrono::milliseconds(5000);
  options.least_deadline = std::chrono::milliseconds(1500);
  auto device = MakeCudaDevice(options);
  if (!device) {
    ADD_FAILURE() << "a GPU is there, but: " << device.error().message;
    why_not_ = device.error().message;
    return;
  }
  device_ = std::move(*device);
}

void GpuTest::TearDownTestSuite() {}

void GpuTest::SetUp() {
  if (device_ == nullptr) GTEST_SKIP() << why_not_;
}

std::unique_ptr<MiniTask> GpuTest::Doubling(std::int64_t elements, std::string case_name) {
  auto mini = std::make_unique<MiniTask>();
  seeds::Task& task = mini->task;
  task.name = "doubling";
  seeds::Case c;
  c.name = std::move(case_name);
  c.dims = {{"N", elements}};
  seeds::Tensor x;
  x.name = "x";
  x.dtype = DType::kF32;
  x.shape = {elements};
  seeds::Tensor y = x;
  y.name = "y";
  y.role = seeds::TensorRole::kOutput;
  c.tensors = {x, y};
  c.flops = static_cast<double>(elements);
  c.min_bytes = Bytes(8 * elements);
  task.cases = {c};
  task.reduction = {1};
  task.reference_elements_per_block = {0};
  mini->context.task = &task;

  MiniTask promoted;
  promoted.task.cases = {c};
  promoted.task.cases[0].tensors[1].dtype = DType::kF64;
  promoted.context.task = &promoted.task;
  mini->context.reference = Prepare(
      promoted,
      "extern \"C\" __global__ void reference(const tensor::x* x, tensor::y* y) {\n"
      "  const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
      "  if (i < dim::N) y[i] = 2.0 * static_cast<double>(x[i]);\n"
      "}\n",
      R"json({"version": 1, "launches": [{"kernel": "reference", "grid": ["ceil_div(N, 256)"],
          "block": [256], "args": ["x", "y"]}]})json");
  return mini;
}

eval::Prepared GpuTest::Prepare(const MiniTask& mini, const std::string& source,
                                const std::string& plan) {
  eval::Prepared prepared;
  const seeds::Case& c = mini.context.task->cases[0];
  auto program = codegen::MakeProgram(source, plan);
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return prepared;
  }
  auto resolved = codegen::ResolvePlan(program->plan, c, device_->limits());
  if (!resolved) {
    ADD_FAILURE() << resolved.error().message;
    return prepared;
  }
  codegen::CompileRequest request;
  request.source = codegen::Prelude(c) + program->source;
  request.arch = device_->facts().arch();
  auto compiled = farm_->Compile(request);
  if (!compiled || !(*compiled)->ok()) {
    ADD_FAILURE() << (compiled ? (*compiled)->log : compiled.error().message);
    return prepared;
  }
  prepared.compiled = *compiled;
  prepared.plan = std::move(*resolved);
  return prepared;
}

eval::Prepared GpuTest::PrepareKernel(const MiniTask& mini, const std::string& body) {
  return Prepare(mini,
                 "extern \"C\" __global__ void k(const float* x, float* y) {\n"
                 "  const long long i = blockIdx.x * 256LL + threadIdx.x;\n" +
                     body + "\n}\n",
                 R"json({"version": 1, "launches": [{"kernel": "k", "grid": ["ceil_div(N, 256)"],
                     "block": [256], "args": ["x", "y"]}]})json");
}

eval::CheckOutcome GpuTest::Check(const MiniTask& mini, const eval::Prepared& candidate, int runs) {
  if (candidate.compiled == nullptr) return {};
  eval::CheckRequest request;
  request.context = &mini.context;
  request.candidate = &candidate;
  request.seed = 7;
  request.runs = runs;
  auto outcome = device_->Check(request);
  if (!outcome) {
    ADD_FAILURE() << outcome.error().message;
    return {};
  }
  return std::move(*outcome);
}

eval::TimeOutcome GpuTest::Time(const MiniTask& mini, const eval::Prepared& candidate) {
  if (candidate.compiled == nullptr) return {};
  eval::TimeRequest request;
  request.context = &mini.context;
  request.candidate = &candidate;
  request.seed = 11;
  auto outcome = device_->Time(request);
  if (!outcome) {
    ADD_FAILURE() << outcome.error().message;
    return {};
  }
  return std::move(*outcome);
}

eval::VerdictKind GpuTest::FaultOfBody(const std::string& body) {
  auto mini = Doubling(4096);
  const auto outcome = Check(*mini, PrepareKernel(*mini, body));
  if (!outcome.fault) return eval::VerdictKind::kPass;
  return outcome.fault->kind;
}

void LaneTest::SetUp() {
  GpuTest::SetUp();
  if (device_ == nullptr || lane_ != nullptr) return;
  auto driver = Driver::Load();
  ASSERT_TRUE(driver) << driver.error().message;
  auto context = Context::Retain(*driver, 0);
  ASSERT_TRUE(context) << context.error().Message();
  auto compiled = farm_->Compile(SupportRequest(device_->facts()));
  ASSERT_TRUE(compiled && (*compiled)->ok());
  auto support = SupportCode::Load(*context, (*compiled)->cubin, device_->facts());
  ASSERT_TRUE(support) << support.error().Message();
  parts_ = std::make_unique<WorkerParts>(std::move(*context), device_->facts(), std::move(*support),
                                         Bytes(1 << 30));
  auto lane = Lane::Make(*parts_);
  ASSERT_TRUE(lane) << lane.error().Message();
  lane_ = std::move(*lane);
}

}  // namespace grove::cuda
