#include "eval/cuda/doctor.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "eval/cuda/blas.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/lane.h"
#include "eval/cuda/statistics.h"

namespace grove::cuda {
namespace {

using seeds::Tensor;
using seeds::TensorRole;
constexpr std::chrono::milliseconds kDeadline{60000};
constexpr std::size_t kBefore = 0;
constexpr std::size_t kAfter = 1;
constexpr std::size_t kBlock = 2;

// A GPU opened in this process.
struct Opened {
  std::unique_ptr<WorkerParts> parts;
  std::unique_ptr<Lane> lane;
  GuardedBuffer flush;
};

Result<Opened> Open(int ordinal, codegen::Compiler& compiler) {
  auto driver = Driver::Load();
  if (!driver) return Fail(driver.error());
  auto count = DeviceCount(**driver);
  if (!count) return Fail(ToError(count.error()));
  if (ordinal < 0 || ordinal >= *count) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU {}: the driver shows {}", ordinal, *count));
  }
  auto facts = ReadDeviceFacts(**driver, ordinal);
  if (!facts) return Fail(ToError(facts.error()));
  auto context = Context::Retain(*driver, ordinal);
  if (!context) return Fail(ToError(context.error()));
  auto compiled = compiler.Compile(SupportRequest(*facts));
  if (!compiled) return Fail(compiled.error());
  if (!(*compiled)->ok()) return Fail(ErrorCode::kInternal, (*compiled)->log.substr(0, 500));
  auto support = SupportCode::Load(*context, (*compiled)->cubin, *facts);
  if (!support) return Fail(ToError(support.error()));
  Opened opened;
  opened.parts = std::make_unique<WorkerParts>(std::move(*context), std::move(*facts),
                                               std::move(*support), Bytes(0));
  auto lane = Lane::Make(*opened.parts);
  if (!lane) return Fail(ToError(lane.error()));
  opened.lane = std::move(*lane);
  auto flush = opened.parts->pool.Acquire(2 * std::max(1, opened.parts->facts.l2_bytes));
  if (!flush) return Fail(ToError(flush.error()));
  opened.flush = std::move(*flush);
  return opened;
}

struct Timed {
  std::vector<Nanoseconds> samples;
  double clock_ghz = 0;
};

// Cold times of `enqueue`: as timer.h times candidates, but for the ring of inputs.
Result<Timed> TimeCold(Opened& gpu, int count, const std::function<Status()>& enqueue) {
  Lane& lane = *gpu.lane;
  const Driver& driver = lane.driver();
  const SupportCode& support = gpu.parts->support;
  Timed timed;
  for (int i = -2; i < count; ++i) {
    // Warm-up without the blocking kernel: a library loads its kernels and takes memory at its
    // first call, which waits for the device.
    const bool warm_up = i < 0;
    const std::uint32_t token = lane.NextToken();
    CuStatus ok = lane.ClearResults();
    if (ok) {
      ok = driver.Check(
          driver.MemsetD8Async(gpu.flush.data(), 0, static_cast<std::size_t>(gpu.flush.bytes()),
                               lane.stream()),
          "cuMemsetD8Async");
    }
    if (ok) ok = support.TakeStamp(lane.stream(), lane.slot(kBefore));
    if (ok && !warm_up)
      ok = support.Block(lane.stream(), lane.flag(), token, 10'000'000'000, lane.slot(kBlock));
    if (ok)
      ok = driver.Check(driver.EventRecord(lane.start().get(), lane.stream()), "cuEventRecord");
    if (!ok) return Fail(ToError(ok.error()));
    Status ours = enqueue();
    ok = driver.Check(driver.EventRecord(lane.stop().get(), lane.stream()), "cuEventRecord");
    if (ok) ok = support.TakeStamp(lane.stream(), lane.slot(kAfter));
    if (ok) ok = lane.ReadResults();
    lane.Open(token);
    if (auto waited = lane.Wait(kDeadline); !waited) {
      return Fail(ErrorCode::kUnavailable, waited.error().message);
    }
    if (!ours) return Fail(ours.error());
    if (!ok) return Fail(ToError(ok.error()));
    auto time = Elapsed(lane.start(), lane.stop());
    if (!time) return Fail(ToError(time.error()));
    if (warm_up) continue;
    timed.samples.push_back(*time);
    const auto before = lane.result<Stamp>(kBefore);
    const auto after = lane.result<Stamp>(kAfter);
    if (before.sm == after.sm && after.nanoseconds > before.nanoseconds + 2000) {
      timed.clock_ghz = static_cast<double>(after.cycles - before.cycles) /
                        static_cast<double>(after.nanoseconds - before.nanoseconds);
    }
  }
  return timed;
}

Tensor RandomMatrix(std::int64_t rows, std::int64_t columns, DType dtype) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {rows, columns};
  return tensor;
}

DType TypeOf(GemmKind kind) {
  switch (kind) {
    case GemmKind::kFp16:
      return DType::kF16;
    case GemmKind::kBf16:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

std::string CounterAccess() {
  std::ifstream file("/proc/driver/nvidia/params");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("RmProfilingAdminOnly")) continue;
    return line.find(": 0") != std::string::npos ? "open to every user" : "for administrators only";
  }
  return "not known (the driver's parameters cannot be read)";
}

}  // namespace

Result<DoctorReport> Diagnose(int ordinal, codegen::Compiler& compiler) {
  auto opened = Open(ordinal, compiler);
  if (!opened) return Fail(opened.error());
  Opened& gpu = *opened;
  Lane& lane = *gpu.lane;
  const Driver& driver = lane.driver();
  DoctorReport report;
  report.facts = gpu.parts->facts;
  report.spec = SpecOf(report.facts);
  report.counters = CounterAccess();
  std::size_t free = 0;
  std::size_t total = 0;
  driver.MemGetInfo(&free, &total);
  report.free_bytes = static_cast<std::int64_t>(free);

  auto empty = TimeCold(gpu, 11, [&]() -> Status {
    if (auto ok = gpu.parts->support.Empty(lane.stream()); !ok) return Fail(ToError(ok.error()));
    return {};
  });
  if (!empty) return Fail(empty.error());
  report.empty_kernel = Summarise(empty->samples).median;

  const auto copied =
      static_cast<std::int64_t>(std::min<std::size_t>(std::size_t{2} << 30, free / 8));
  {
    auto from = gpu.parts->pool.Acquire(copied);
    auto to = gpu.parts->pool.Acquire(copied);
    if (!from) return Fail(ToError(from.error()));
    if (!to) return Fail(ToError(to.error()));
    const Tensor noise = RandomMatrix(1, copied / 4, DType::kF32);
    if (auto ok = gpu.parts->support.Generate(lane.stream(), noise, 0, 1, from->data()); !ok) {
      return Fail(ToError(ok.error()));
    }
    auto copy = TimeCold(gpu, 11, [&]() -> Status {
      auto ok =
          driver.Check(driver.MemcpyDtoDAsync(to->data(), from->data(),
                                              static_cast<std::size_t>(copied), lane.stream()),
                       "cuMemcpyDtoDAsync");
      if (!ok) return Fail(ToError(ok.error()));
      return {};
    });
    if (!copy) return Fail(copy.error());
    report.rates.push_back(
        {"copy", 2 * static_cast<double>(copied) / Summarise(copy->samples).median.count(),
         report.spec.copy_gbs, "GB/s"});
  }

  auto blas = Blas::Load();
  if (!blas) {
    report.blas = blas.error().message;
    return report;
  }
  report.blas = (*blas)->version();
  for (const GemmKind kind : {GemmKind::kFp32, GemmKind::kTf32, GemmKind::kFp16, GemmKind::kBf16}) {
    constexpr std::int64_t kSize = 8192;
    const Tensor matrix = RandomMatrix(kSize, kSize, TypeOf(kind));
    auto a = gpu.parts->pool.Acquire(matrix.bytes().value);
    auto b = gpu.parts->pool.Acquire(matrix.bytes().value);
    auto c = gpu.parts->pool.Acquire(matrix.bytes().value);
    if (!a || !b || !c) return report;  // too small a device for this yardstick
    for (auto [buffer, seed] : {std::pair{&*a, 1}, std::pair{&*b, 2}}) {
      if (auto ok = gpu.parts->support.Generate(lane.stream(), matrix, 0,
                                                static_cast<std::uint64_t>(seed), buffer->data());
          !ok) {
        return Fail(ToError(ok.error()));
      }
    }
    auto timed = TimeCold(gpu, 7, [&] {
      return (*blas)->Gemm(lane.stream(), kind, kSize, kSize, kSize, a->data(), b->data(),
                           c->data());
    });
    if (!timed) return Fail(timed.error());
    if (kind == GemmKind::kFp16) report.clock_ghz = timed->clock_ghz;
    const double table = kind == GemmKind::kFp32   ? report.spec.fp32_tflops
                         : kind == GemmKind::kTf32 ? report.spec.tf32_tflops
                                                   : report.spec.fp16_tflops;
    constexpr double kFlops = 2.0 * kSize * kSize * kSize;
    report.rates.push_back({fmt::format("gemm_{}", Name(kind)),
                            kFlops / Summarise(timed->samples).median.count() * 1e-3, table,
                            "TFLOP/s"});
  }
  return report;
}

Result<std::vector<Baseline>> MeasureBaselines(int ordinal, codegen::Compiler& compiler,
                                               const seeds::Task& task, std::size_t case_index) {
  std::vector<Baseline> list;
  const seeds::Case& c = task.cases.at(case_index);
  if (task.family != "gemm") return list;
  std::vector<const Tensor*> inputs;
  const Tensor* output = nullptr;
  for (const Tensor& tensor : c.tensors) {
    if (tensor.role == TensorRole::kInput) {
      inputs.push_back(&tensor);
    } else {
      output = &tensor;
    }
  }
  if (inputs.size() != 2 || output == nullptr || c.tensors.size() != 3 ||
      inputs[0]->shape.size() != 2 || inputs[1]->shape.size() != 2) {
    return list;
  }
  const std::int64_t m = inputs[0]->shape[0];
  const std::int64_t k = inputs[0]->shape[1];
  const std::int64_t n = inputs[1]->shape[1];
  if (inputs[1]->shape[0] != k || output->shape != std::vector<std::int64_t>{m, n}) return list;

  auto opened = Open(ordinal, compiler);
  if (!opened) return Fail(opened.error());
  Opened& gpu = *opened;
  Lane& lane = *gpu.lane;
  auto blas = Blas::Load();
  if (!blas) return Fail(blas.error());
  for (const GemmKind kind : {GemmKind::kFp32, GemmKind::kTf32, GemmKind::kFp16, GemmKind::kBf16}) {
    Tensor a = *inputs[0];
    Tensor b = *inputs[1];
    a.dtype = b.dtype = TypeOf(kind);
    auto buffer_a = gpu.parts->pool.Acquire(a.bytes().value);
    auto buffer_b = gpu.parts->pool.Acquire(b.bytes().value);
    auto buffer_c = gpu.parts->pool.Acquire(m * n * static_cast<std::int64_t>(ElementBytes(kind)));
    if (!buffer_a) return Fail(ToError(buffer_a.error()));
    if (!buffer_b) return Fail(ToError(buffer_b.error()));
    if (!buffer_c) return Fail(ToError(buffer_c.error()));
    for (auto [tensor, index, buffer] :
         {std::tuple{&a, 0, &*buffer_a}, std::tuple{&b, 1, &*buffer_b}}) {
      if (auto ok = gpu.parts->support.Generate(lane.stream(), *tensor,
                                                static_cast<std::size_t>(index), 1, buffer->data());
          !ok) {
        return Fail(ToError(ok.error()));
      }
    }
    auto timed = TimeCold(gpu, 30, [&] {
      return (*blas)->Gemm(lane.stream(), kind, m, n, k, buffer_a->data(), buffer_b->data(),
                           buffer_c->data());
    });
    if (!timed) return Fail(timed.error());
    const Summary summary = Summarise(timed->samples);
    Baseline baseline;
    baseline.name = fmt::format("cublas_{}", Name(kind));
    baseline.version = (*blas)->version();
    baseline.uuid = gpu.parts->facts.uuid;
    baseline.median = summary.median;
    baseline.min = summary.min;
    baseline.q3 = summary.q3;
    baseline.samples = std::move(timed->samples);
    list.push_back(std::move(baseline));
  }
  return list;
}

}  // namespace grove::cuda
