#include "eval/cuda/support.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "eval/cuda/support_source.h"
#include "eval/inputs.h"

namespace grove::cuda {
namespace {

using seeds::Distribution;

// Mirrors `Recipe` of kernels/support.cu.
struct Recipe {
  int kind = 0;
  int dtype = 0;
  int integer = 0;
  int plain = 0;
  double a = 0, b = 0, limit = 0;
  double low = 0, count = 0;
  std::int64_t inner = 0, tail = 0;
  std::int64_t elements = 0;
  std::int64_t rows = 1, structure = 0;
};

double LargestFinite(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(std::numeric_limits<float>::max());
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<double>::max();
  }
}

// Order of seeds::Distribution::Kind as the kernels know it.
int KindOf(Distribution::Kind kind) {
  switch (kind) {
    case Distribution::Kind::kNormal:
      return 0;
    case Distribution::Kind::kUniform:
      return 1;
    case Distribution::Kind::kConstant:
      return 2;
    case Distribution::Kind::kMixed:
      return 3;
    case Distribution::Kind::kTail:
      return 4;
    case Distribution::Kind::kMatrix:
      return 5;
    case Distribution::Kind::kFile:  // copied, never drawn (checker.cc)
      break;
  }
  return 0;
}

Recipe RecipeOf(const seeds::Tensor& tensor) {
  const Distribution& d = tensor.distribution;
  Recipe r;
  r.kind = KindOf(d.kind);
  r.dtype = static_cast<int>(tensor.dtype);
  r.integer = IsFloat(tensor.dtype) ? 0 : 1;
  r.a = d.a;
  r.b = d.b;
  r.limit = LargestFinite(tensor.dtype);
  r.low = std::ceil(d.a);
  r.count = std::max(std::ceil(d.b) - r.low, 1.0);
  r.inner = tensor.shape.empty() ? 1 : tensor.shape.back();
  r.tail = std::max<std::int64_t>(1, r.inner / 100);
  r.elements = tensor.elements();
  r.rows = tensor.shape.size() < 2 ? 1 : tensor.shape[tensor.shape.size() - 2];
  r.structure = static_cast<std::int64_t>(d.structure);
  r.plain =
      d.kind == Distribution::Kind::kNormal && tensor.dtype == DType::kF32 && d.a == 0 && d.b == 1
          ? 1
          : 0;
  return r;
}

constexpr unsigned kBlockSize = 256;
constexpr std::int64_t kMinRow = 16;         // as eval/check.cc: shorter rows are joined
constexpr std::int64_t kSegment = 65536;     // longer rows are split
constexpr std::int64_t kMedianRows = 65536;  // as eval/check.cc
constexpr std::int64_t kWarpRow = 2048;      // up to here a warp takes a whole row

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

codegen::CompileRequest SupportRequest(const DeviceFacts& facts) {
  codegen::CompileRequest request;
  request.source = kSupportSource;
  request.arch = facts.arch();
  request.options = {"--fmad=false"};
  return request;
}

std::uint64_t PoisonPattern(DType dtype, int which) {
  std::array<std::byte, 8> bytes;
  eval::FillPoison(bytes, dtype, which);
  std::uint64_t pattern = 0;
  std::memcpy(&pattern, bytes.data(), sizeof pattern);
  return pattern;
}

CompareShape ShapeOf(const seeds::Tensor& output, std::int64_t row_elements) {
  CompareShape shape;
  shape.elements = output.elements();
  std::int64_t row = row_elements;
  if (row <= 0) row = output.shape.empty() ? 1 : output.shape.back();
  row = std::max<std::int64_t>(row, 1);
  if (row < kMinRow) row *= CeilDiv(kMinRow, row);
  shape.row = row;
  shape.rows = CeilDiv(shape.elements, row);
  shape.segment = std::min(row, kSegment);
  shape.per_row = CeilDiv(row, shape.segment);
  shape.dtype = static_cast<int>(output.dtype);
  shape.threads = row <= kWarpRow ? 32 : static_cast<int>(kBlockSize);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (output.dtype) {
    case DType::kF64:
      shape.overflow = kInfinity;
      shape.tiny = std::numeric_limits<double>::min();
      break;
    case DType::kF32:
      shape.overflow = 0x1.ffffffp127;
      shape.tiny = 0x1p-126;
      break;
    case DType::kF16:
      shape.overflow = 65520;
      shape.tiny = 0x1p-14;
      break;
    case DType::kBF16:
      shape.overflow = 0x1.ffp127;
      shape.tiny = 0x1p-126;
      break;
    default:
      shape.overflow = kInfinity;
      shape.tiny = 1;
      break;
  }
  return shape;
}

CompareScratch ScratchOf(const CompareShape& shape) {
  constexpr std::int64_t kSumsBytes = 64;
  constexpr std::int64_t kWorstBytes = 16;
  CompareScratch s;
  const std::int64_t segments = shape.rows * shape.per_row;
  s.median_stride = std::max<std::int64_t>(1, CeilDiv(shape.rows, kMedianRows));
  s.median_count = CeilDiv(shape.rows, s.median_stride);
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t bytes) {
    const std::int64_t begin = at;
    at += CeilDiv(bytes, 256) * 256;
    return begin;
  };
  s.sums = take(segments * kSumsBytes);
  s.worst = take(segments * kWorstBytes);
  s.scales = take(shape.rows * 8);
  s.errors = take(shape.rows * 8);
  s.mismatches = take(shape.rows * 8);
  s.medians = take(s.median_count * 8);
  s.bytes = at;
  return s;
}

CuExpected<SupportCode> SupportCode::Load(const Context& context, std::string_view cubin,
                                          const DeviceFacts& facts) {
  SupportCode code;
  code.driver_ = &context.driver();
  code.sm_count_ = static_cast<unsigned>(std::max(1, facts.sm_count));
  auto module = LoadModule(context.driver(), cubin);
  if (!module) return tl::unexpected(module.error());
  code.module_ = std::move(*module);
  const std::pair<const char*, CuFunction*> wanted[] = {
      {"grove_generate", &code.generate_},   {"grove_fill", &code.fill_},
      {"grove_count_pattern", &code.count_}, {"grove_check_guard", &code.guard_},
      {"grove_hash", &code.hash_},           {"grove_differ", &code.differ_},
      {"grove_compare_sums", &code.sums_},   {"grove_compare_rows", &code.rows_},
      {"grove_compare_worst", &code.worst_}, {"grove_compare_report", &code.report_},
      {"grove_gather", &code.gather_},       {"grove_block", &code.block_},
      {"grove_stamp", &code.stamp_},         {"grove_empty", &code.empty_},
      {"grove_transpose", &code.transpose_}, {"grove_qr_columns", &code.qr_columns_}};
  for (const auto& [name, slot] : wanted) {
    if (auto ok = code.driver_->Check(
            code.driver_->ModuleGetFunction(slot, code.module_.get(), name), "cuModuleGetFunction");
        !ok) {
      return tl::unexpected(ok.error());
    }
    // Loaded now: at its first launch, loading could wait for a blocking kernel that waits for us.
    if (auto ok = code.driver_->Check(code.driver_->FuncLoad(*slot), "cuFuncLoad"); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return code;
}

unsigned SupportCode::GridFor(std::int64_t items, unsigned block) const {
  const std::int64_t wanted = CeilDiv(std::max<std::int64_t>(items, 1), block);
  return static_cast<unsigned>(std::min<std::int64_t>(wanted, 8 * sm_count_));
}

CuStatus SupportCode::Launch(CuStream stream, CuFunction function, unsigned grid, unsigned block,
                             void** params, std::string_view name) const {
  CuLaunchConfig config;
  config.grid_x = grid;
  config.block_x = block;
  config.stream = stream;
  return driver_->Check(driver_->LaunchKernelEx(&config, function, params, nullptr), name);
}

CuStatus SupportCode::Generate(CuStream stream, const seeds::Tensor& tensor, std::size_t index,
                               std::uint64_t seed, CuDevicePtr data) const {
  Recipe recipe = RecipeOf(tensor);
  std::uint64_t tensor_index = index;
  void* params[] = {&data, &recipe, &seed, &tensor_index};
  return Launch(stream, generate_, GridFor((recipe.elements + 3) / 4, kBlockSize), kBlockSize,
                params, "drawing inputs");
}

CuStatus SupportCode::Fill(CuStream stream, CuDevicePtr data, std::int64_t bytes,
                           std::uint64_t pattern) const {
  if (bytes <= 0) return {};
  void* params[] = {&data, &bytes, &pattern};
  return Launch(stream, fill_, GridFor(bytes / 16 + 1, kBlockSize), kBlockSize, params, "filling");
}

CuStatus SupportCode::CountPattern(CuStream stream, CuDevicePtr data, std::int64_t elements,
                                   int element_bytes, std::uint64_t pattern, CuDevicePtr mask,
                                   bool first_pass, CuDevicePtr result) const {
  int first = first_pass ? 1 : 0;
  void* params[] = {&data, &elements, &element_bytes, &pattern, &mask, &first, &result};
  return Launch(stream, count_, GridFor(elements, kBlockSize), kBlockSize, params,
                "looking for poison");
}

CuStatus SupportCode::CheckGuard(CuStream stream, CuDevicePtr begin, CuDevicePtr end,
                                 std::uint64_t pattern, CuDevicePtr result) const {
  auto bytes = static_cast<std::int64_t>(end - begin);
  if (bytes <= 0) return {};
  void* params[] = {&begin, &bytes, &pattern, &result};
  return Launch(stream, guard_, GridFor(bytes, kBlockSize), kBlockSize, params, "checking guards");
}

CuStatus SupportCode::Hash(CuStream stream, CuDevicePtr data, std::int64_t bytes,
                           CuDevicePtr result) const {
  void* params[] = {&data, &bytes, &result};
  return Launch(stream, hash_, GridFor(bytes / 8 + 1, kBlockSize), kBlockSize, params, "hashing");
}

CuStatus SupportCode::Differ(CuStream stream, CuDevicePtr a, CuDevicePtr b, std::int64_t bytes,
                             CuDevicePtr result) const {
  void* params[] = {&a, &b, &bytes, &result};
  return Launch(stream, differ_, GridFor(bytes / 16 + 1, kBlockSize), kBlockSize, params,
                "comparing inputs");
}

CuStatus SupportCode::Compare(CuStream stream, CuDevicePtr got, CuDevicePtr reference,
                              const CompareShape& shape, const CompareScratch& scratch,
                              CuDevicePtr memory, CuDevicePtr result) const {
  CompareShape s = shape;
  const auto at = [memory](std::int64_t offset) {
    return memory + static_cast<CuDevicePtr>(offset);
  };
  CuDevicePtr sums = at(scratch.sums);
  CuDevicePtr worst = at(scratch.worst);
  CuDevicePtr scales = at(scratch.scales);
  CuDevicePtr errors = at(scratch.errors);
  CuDevicePtr mismatches = at(scratch.mismatches);
  CuDevicePtr medians = at(scratch.medians);
  const unsigned grid = GridFor(shape.rows * shape.per_row * shape.threads, kBlockSize);
  void* sum_params[] = {&got, &reference, &s, &sums};
  if (auto ok = Launch(stream, sums_, grid, kBlockSize, sum_params, "comparing"); !ok) return ok;
  void* row_params[] = {&sums, &s, &scales, &errors, &mismatches, &result};
  if (auto ok = Launch(stream, rows_, GridFor(shape.rows, kBlockSize), kBlockSize, row_params,
                       "comparing rows");
      !ok) {
    return ok;
  }
  void* worst_params[] = {&got, &reference, &s, &scales, &worst};
  if (auto ok = Launch(stream, worst_, grid, kBlockSize, worst_params, "finding the worst element");
      !ok) {
    return ok;
  }
  void* report_params[] = {&got, &reference, &s, &sums, &errors, &mismatches, &worst, &result};
  if (auto ok = Launch(stream, report_, 1, 1024, report_params, "reporting"); !ok) return ok;
  std::int64_t stride = scratch.median_stride;
  std::int64_t count = scratch.median_count;
  void* gather_params[] = {&errors, &stride, &count, &medians};
  return Launch(stream, gather_, GridFor(count, kBlockSize), kBlockSize, gather_params,
                "gathering row errors");
}

CuStatus SupportCode::QrColumns(CuStream stream, CuDevicePtr a, CuDevicePtr h, CuDevicePtr tau,
                                std::int64_t batch, std::int64_t n, CuDevicePtr transposed,
                                CuDevicePtr columns) const {
  std::int64_t tiles = CeilDiv(n, 32);
  void* transpose_params[] = {&h, &transposed, &n, &tiles};
  if (auto ok = Launch(stream, transpose_, static_cast<unsigned>(batch * tiles * tiles), kBlockSize,
                       transpose_params, "transposing H");
      !ok) {
    return ok;
  }
  // As many warps, a column each, as 48 KB of shared memory hold; one of a longer column.
  const std::int64_t column_bytes = n * 8;
  const std::int64_t warps = std::clamp<std::int64_t>(49152 / column_bytes, 1, 8);
  const std::int64_t shared = warps * column_bytes;
  if (shared > 49152) {
    if (auto ok = driver_->Check(
            driver_->FuncSetAttribute(qr_columns_, kFuncMaxDynamicShared, static_cast<int>(shared)),
            "cuFuncSetAttribute(dynamic shared memory)");
        !ok) {
      return ok;
    }
  }
  int size = static_cast<int>(n);
  std::int64_t count = batch * n;
  void* params[] = {&a, &transposed, &tau, &size, &count, &columns};
  CuLaunchConfig config;
  config.grid_x = static_cast<unsigned>(CeilDiv(count, warps));
  config.block_x = static_cast<unsigned>(32 * warps);
  config.shared_bytes = static_cast<unsigned>(shared);
  config.stream = stream;
  return driver_->Check(driver_->LaunchKernelEx(&config, qr_columns_, params, nullptr),
                        "checking the factors");
}

CuStatus SupportCode::Block(CuStream stream, CuDevicePtr flag, std::uint32_t token,
                            std::uint64_t timeout_ns, CuDevicePtr stamp) const {
  void* params[] = {&flag, &token, &timeout_ns, &stamp};
  return Launch(stream, block_, 1, 1, params, "blocking kernel");
}

CuStatus SupportCode::TakeStamp(CuStream stream, CuDevicePtr stamp) const {
  void* params[] = {&stamp};
  return Launch(stream, stamp_, 1, 1, params, "clock stamp");
}

CuStatus SupportCode::Empty(CuStream stream) const {
  return Launch(stream, empty_, 1, 1, nullptr, "empty kernel");
}

}  // namespace grove::cuda
