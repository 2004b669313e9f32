#include "eval/cuda/baselines.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "eval/cuda/bare_gpu.h"
#include "eval/cuda/blas.h"
#include "eval/cuda/blas_lt.h"
#include "eval/cuda/factor.h"
#include "eval/cuda/statistics.h"

namespace grove::cuda {
namespace {

using seeds::Tensor;
using seeds::TensorRole;

constexpr GemmKind kKinds[] = {GemmKind::kFp32, GemmKind::kTf32, GemmKind::kFp16, GemmKind::kBf16};
// Larger matrices take the batched routine seconds each: it is made for small ones.
constexpr std::int64_t kLargestBatched = 1024;

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

class Measuring {
 public:
  Measuring(BareGpu& gpu, const seeds::Case& task_case, const BaselineWatch& watch)
      : gpu_(gpu), case_(task_case), watch_(watch) {}

  // Times one entry; a failure is a problem of the report, not the end of it.
  void Add(std::string name, const std::string& version, const ColdTiming& how,
           const std::function<Status()>& enqueue) {
    if (watch_.stop.stop_requested()) return;
    auto timed = TimeCold(gpu_, how, enqueue);
    if (!timed) return Problem(name, timed.error());
    const Summary summary = Summarise(timed->samples);
    Baseline baseline;
    baseline.name = std::move(name);
    baseline.version = version;
    baseline.uuid = gpu_.parts->facts.uuid;
    baseline.median = summary.median;
    baseline.min = summary.min;
    baseline.q3 = summary.q3;
    baseline.samples = std::move(timed->samples);
    if (watch_.measured) watch_.measured(baseline);
    report_.baselines.push_back(std::move(baseline));
  }
  void Problem(const std::string& name, const Error& error) {
    report_.problems.push_back(fmt::format("{}: {}", name, error.message));
  }

  Status Products(const Product& p) {
    auto blas = Blas::Load();
    if (!blas) Problem("cublas", blas.error());
    auto lt = BlasLt::Load();
    if (!lt) Problem("cublaslt", lt.error());
    for (const GemmKind kind : kKinds) {
      if (watch_.stop.stop_requested()) break;
      Tensor a;
      Tensor b;
      int seen = 0;
      for (const Tensor& tensor : case_.tensors) {
        if (tensor.role == TensorRole::kInput) (seen++ == 0 ? a : b) = tensor;
      }
      a.dtype = b.dtype = TypeOf(kind);
      auto of_a = Memory(gpu_, a.bytes().value);
      if (!of_a) return Failure(std::move(of_a.error()));
      auto of_b = Memory(gpu_, b.bytes().value);
      if (!of_b) return Failure(std::move(of_b.error()));
      auto of_c = Memory(gpu_, p.m * p.n * static_cast<std::int64_t>(ElementBytes(kind)));
      if (!of_c) return Failure(std::move(of_c.error()));
      if (auto drawn = Draw(gpu_, a, 0, 1, of_a->data()); !drawn) return drawn;
      if (auto drawn = Draw(gpu_, b, 1, 1, of_b->data()); !drawn) return drawn;
      const CuStream stream = gpu_.lane->stream();
      if (blas) {
        Add(fmt::format("cublas_{}", Name(kind)), (*blas)->version(), {}, [&] {
          return (*blas)->Gemm(stream, kind, p.m, p.n, p.k, of_a->data(), of_b->data(),
                               of_c->data());
        });
      }
      if (lt) {
        auto workspace = Memory(gpu_, BlasLt::kWorkspace);
        if (!workspace) return Failure(std::move(workspace.error()));
        ByHeuristic(**lt, kind, p, [&, lt_library = lt->get()](int algorithm) {
          return lt_library->Gemm(stream, algorithm, of_a->data(), of_b->data(), of_c->data(),
                                  workspace->data());
        });
      }
    }
    return {};
  }

  // The fastest of cuBLASLt's proposals, found with a few samples each and then timed in full.
  void ByHeuristic(BlasLt& lt, GemmKind kind, const Product& p,
                   const std::function<Status(int)>& run) {
    const std::string name = fmt::format("cublaslt_{}", Name(kind));
    auto proposals = lt.Prepare(kind, p.m, p.n, p.k);
    if (!proposals) return Problem(name, proposals.error());
    int best = -1;
    Nanoseconds best_time{0};
    ColdTiming brief;
    brief.most = 5;
    brief.wall = Seconds(0.5);
    for (int i = 0; i < *proposals && !watch_.stop.stop_requested(); ++i) {
      auto timed = TimeCold(gpu_, brief, [&] { return run(i); });
      if (!timed) continue;  // the heuristic may propose what then refuses
      const Nanoseconds median = Summarise(timed->samples).median;
      if (best < 0 || median < best_time) {
        best = i;
        best_time = median;
      }
    }
    if (watch_.stop.stop_requested()) return;
    if (best < 0) {
      return Problem(name, {ErrorCode::kUnavailable, "none of its proposals runs"});
    }
    Add(name, lt.version(), {}, [&] { return run(best); });
  }

  Status Factorise(const Factorisation& f) {
    const std::int64_t bytes = 4 * f.batch * f.n * f.n;
    auto pristine = Memory(gpu_, bytes);
    if (!pristine) return Failure(std::move(pristine.error()));
    auto work = Memory(gpu_, bytes);
    if (!work) return Failure(std::move(work.error()));
    auto taus = Memory(gpu_, 4 * f.batch * f.n);
    if (!taus) return Failure(std::move(taus.error()));
    auto info = Memory(gpu_, 16);
    if (!info) return Failure(std::move(info.error()));
    const CuStream stream = gpu_.lane->stream();
    const Driver& driver = gpu_.lane->driver();
    std::size_t input = 0;
    while (case_.tensors[input].role != TensorRole::kInput) ++input;
    if (auto drawn = Draw(gpu_, case_.tensors[input], input, 1, pristine->data()); !drawn) {
      return drawn;
    }
    const QrBatch batch{f.batch, f.n, work->data(), taus->data()};
    ColdTiming how;
    // The factorisation is in place: every execution gets the matrices anew.
    how.before = [&]() -> Status {
      auto copied = driver.Check(driver.MemcpyDtoDAsync(work->data(), pristine->data(),
                                                        static_cast<std::size_t>(bytes), stream),
                                 "cuMemcpyDtoDAsync");
      if (!copied) return Fail(ToError(copied.error()));
      return {};
    };
    how.blocked = false;  // dozens of launches for each matrix
    how.most = 6;         // a batch of large matrices, one after the other, takes seconds
    how.wall = Seconds(0.8);

    if (auto solver = Solver::Load(); !solver) {
      Problem("cusolver_geqrf", solver.error());
    } else if (auto workspace = (*solver)->Workspace(f.n, work->data()); !workspace) {
      Problem("cusolver_geqrf", workspace.error());
    } else if (auto memory = Memory(gpu_, *workspace); !memory) {
      Problem("cusolver_geqrf", memory.error());
    } else {
      Add("cusolver_geqrf", (*solver)->version(), how, [&] {
        return (*solver)->Geqrf(stream, batch, memory->data(), *workspace, info->data());
      });
    }

    if (f.n > kLargestBatched) return {};
    auto batched = BatchedQr::Load();
    if (!batched) {
      Problem("cublas_geqrf_batched", batched.error());
      return {};
    }
    std::vector<CuDevicePtr> addresses;
    for (std::int64_t i = 0; i < f.batch; ++i) {
      addresses.push_back(work->data() + static_cast<CuDevicePtr>(4 * i * f.n * f.n));
    }
    for (std::int64_t i = 0; i < f.batch; ++i) {
      addresses.push_back(taus->data() + static_cast<CuDevicePtr>(4 * i * f.n));
    }
    const auto pointer_bytes = static_cast<std::int64_t>(addresses.size() * sizeof(CuDevicePtr));
    auto pointers = Memory(gpu_, pointer_bytes);
    if (!pointers) return Failure(std::move(pointers.error()));
    auto copied =
        driver.Check(driver.MemcpyHtoDAsync(pointers->data(), addresses.data(),
                                            static_cast<std::size_t>(pointer_bytes), stream),
                     "cuMemcpyHtoDAsync");
    if (!copied) return Fail(ToError(copied.error()));
    if (auto waited = gpu_.lane->Wait(std::chrono::milliseconds(60000)); !waited) {
      return Fail(ErrorCode::kUnavailable, waited.error().message);
    }
    Add("cublas_geqrf_batched", (*batched)->version(), how, [&] {
      return (*batched)->Geqrf(stream, batch, pointers->data(),
                               pointers->data() + static_cast<CuDevicePtr>(pointer_bytes / 2));
    });
    return {};
  }

  Status Convolve(const ConvolutionShape& shape) {
    auto library = Convolution::Load();
    if (!library) {
      Problem("cudnn", library.error());
      return {};
    }
    std::vector<GuardedBuffer> buffers;
    for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
      const Tensor& tensor = case_.tensors[i];
      auto buffer = Memory(gpu_, tensor.bytes().value);
      if (!buffer) return Failure(std::move(buffer.error()));
      if (tensor.role == TensorRole::kInput) {
        if (auto drawn = Draw(gpu_, tensor, i, 1, buffer->data()); !drawn) return drawn;
      }
      buffers.push_back(std::move(*buffer));
    }
    for (const bool tf32 : {false, true}) {
      const std::string name = tf32 ? "cudnn_tf32" : "cudnn_fp32";
      auto workspace = (*library)->Prepare(shape, tf32);
      if (!workspace) {
        Problem(name, workspace.error());
        continue;
      }
      auto memory = Memory(gpu_, *workspace);
      if (!memory) return Failure(std::move(memory.error()));
      Add(name, (*library)->version(), {}, [&] {
        return (*library)->Run(gpu_.lane->stream(), buffers[0].data(), buffers[1].data(),
                               buffers[2].data(), buffers[3].data(), memory->data(), *workspace);
      });
    }
    return {};
  }

  BaselineReport Take() { return std::move(report_); }

 private:
  BareGpu& gpu_;
  const seeds::Case& case_;
  const BaselineWatch& watch_;
  BaselineReport report_;
};

}  // namespace

std::optional<Product> ProductOf(const seeds::Task& task, const seeds::Case& c) {
  if (task.family != "gemm" || c.tensors.size() != 3) return std::nullopt;
  const Tensor& a = c.tensors[0];
  const Tensor& b = c.tensors[1];
  const Tensor& out = c.tensors[2];
  if (a.role != TensorRole::kInput || b.role != TensorRole::kInput ||
      out.role != TensorRole::kOutput || a.shape.size() != 2 || b.shape.size() != 2) {
    return std::nullopt;
  }
  const Product product{a.shape[0], b.shape[1], a.shape[1]};
  if (b.shape[0] != product.k || out.shape != std::vector<std::int64_t>{product.m, product.n}) {
    return std::nullopt;
  }
  return product;
}

std::optional<Factorisation> FactorisationOf(const seeds::Task& task, const seeds::Case& c) {
  if (task.family != "qr" && !task.name.starts_with("qr")) return std::nullopt;
  const Tensor* input = nullptr;
  for (const Tensor& tensor : c.tensors) {
    if (tensor.role != TensorRole::kInput) continue;
    if (input != nullptr) return std::nullopt;
    input = &tensor;
  }
  if (input == nullptr || input->dtype != DType::kF32 || input->shape.size() != 3 ||
      input->shape[1] != input->shape[2]) {
    return std::nullopt;
  }
  return Factorisation{input->shape[0], input->shape[1]};
}

std::optional<ConvolutionShape> ConvolutionOf(const seeds::Task& task, const seeds::Case& c) {
  if (task.family != "conv" || c.tensors.size() != 4) return std::nullopt;
  const auto stride = c.dim("S");
  const auto padding = c.dim("P");
  const auto& x = c.tensors[0].shape;
  const auto& w = c.tensors[1].shape;
  if (!stride || !padding || *stride < 1 || x.size() != 4 || w.size() != 4 || w[2] != w[3] ||
      w[1] != x[1] || c.tensors[2].shape != std::vector<std::int64_t>{w[0]}) {
    return std::nullopt;
  }
  for (const Tensor& tensor : c.tensors) {
    if (tensor.dtype != DType::kF32) return std::nullopt;
  }
  const ConvolutionShape shape{x[0], x[1], x[2], x[3], w[0], w[2], *stride, *padding};
  const std::vector<std::int64_t> out = {shape.batch, shape.filters, shape.out_height(),
                                         shape.out_width()};
  if (c.tensors[3].role != TensorRole::kOutput || c.tensors[3].shape != out) return std::nullopt;
  return shape;
}

Result<BaselineReport> MeasureBaselines(int ordinal, codegen::Compiler& compiler,
                                        const seeds::Task& task, std::size_t case_index,
                                        const BaselineWatch& watch) {
  const seeds::Case& c = task.cases.at(case_index);
  const auto product = ProductOf(task, c);
  const auto factorisation = FactorisationOf(task, c);
  const auto convolution = ConvolutionOf(task, c);
  if (!product && !factorisation && !convolution) return BaselineReport{};
  auto opened = OpenGpu(ordinal, compiler);
  if (!opened) return Failure(std::move(opened.error()));
  Measuring measuring(*opened, c, watch);
  Status done;
  if (product) done = measuring.Products(*product);
  if (done && factorisation) done = measuring.Factorise(*factorisation);
  if (done && convolution) done = measuring.Convolve(*convolution);
  // Memory that does not suffice for one yardstick costs that one, and what was measured stays.
  if (!done) measuring.Problem("vendor libraries", done.error());
  return measuring.Take();
}

}  // namespace grove::cuda
