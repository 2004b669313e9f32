#include "eval/cuda/doctor.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "eval/cuda/bare_gpu.h"
#include "eval/cuda/blas.h"
#include "eval/cuda/blas_lt.h"
#include "eval/cuda/convolution.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/factor.h"
#include "eval/cuda/statistics.h"
#include "eval/cuda/tool.h"

namespace grove::cuda {
namespace {

using seeds::Tensor;

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

ColdTiming Counted(int count) {
  ColdTiming how;
  how.most = count;
  return how;
}

template <typename Library>
LibraryFinding FindingOf(const char* product, const Result<std::unique_ptr<Library>>& library) {
  return {product, library.has_value(), library ? (*library)->version() : library.error().message};
}

std::string CounterAccess() {
  const auto tool = FindTool("ncu");
  const std::string ncu = tool ? "; " + tool->string() : "; no ncu here to read them";
  std::ifstream file("/proc/driver/nvidia/params");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("RmProfilingAdminOnly")) continue;
    const bool open = line.find(": 0") != std::string::npos;
    return (open ? "open to every user" : "for administrators only") + ncu;
  }
  return "not known whether permitted (the driver's parameters cannot be read)" + ncu;
}

}  // namespace

Result<DoctorReport> Diagnose(int ordinal, codegen::Compiler& compiler) {
  auto opened = OpenGpu(ordinal, compiler);
  if (!opened) return Fail(opened.error());
  BareGpu& gpu = *opened;
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

  auto empty = TimeCold(gpu, Counted(11), [&]() -> Status {
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
    auto copy = TimeCold(gpu, Counted(11), [&]() -> Status {
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
  report.libraries.push_back(FindingOf("cuBLAS", blas));
  report.libraries.push_back(FindingOf("cuBLASLt", BlasLt::Load()));
  report.libraries.push_back(FindingOf("cuSOLVER", Solver::Load()));
  report.libraries.push_back(FindingOf("cuDNN", Convolution::Load()));
  report.blas = report.libraries.front().words;
  if (!blas) return report;
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
    auto timed = TimeCold(gpu, Counted(7), [&] {
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

}  // namespace grove::cuda
