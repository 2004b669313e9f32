#include "codegen/plan_library.h"

#include <algorithm>

#include <fmt/format.h>

namespace grove::codegen {
namespace {

Failure Bad(std::string_view place, std::string_view field, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("{}{}{}: {}", place, field.empty() ? "" : ".", field, what));
}

// The stored matrices of one operand, as half-open element ranges.
struct Extent {
  std::int64_t rows = 0, columns = 0;
  std::int64_t one = 0;             // elements from the first to past the last of one matrix
  std::int64_t begin = 0, end = 0;  // of all batch entries together
};

Result<Extent> ExtentOf(std::string_view place, std::string_view field, const GemmOperand& operand,
                        std::int64_t rows, std::int64_t columns, std::int64_t batch) {
  const ResolvedMatrix& m = operand.matrix;
  if (m.offset < 0) {
    return Bad(place, field, fmt::format("the offset is {}, expected at least 0", m.offset));
  }
  if (m.stride < 0) {
    return Bad(place, field, fmt::format("the stride is {}, expected at least 0", m.stride));
  }
  if (m.ld < columns || m.ld > kMaxGemmSize) {
    return Bad(
        place, field,
        fmt::format("ld is {}, expected {} (the stored row) to {}", m.ld, columns, kMaxGemmSize));
  }
  Extent extent;
  extent.rows = rows;
  extent.columns = columns;
  extent.begin = m.offset;
  std::int64_t batches = 0;
  // (rows - 1) * ld stays below 2^62; the sums may not.
  extent.one = (rows - 1) * m.ld + columns;
  if (__builtin_mul_overflow(batch - 1, m.stride, &batches) ||
      __builtin_add_overflow(batches, extent.one, &extent.end) ||
      __builtin_add_overflow(extent.end, m.offset, &extent.end) || extent.end > operand.elements) {
    return Bad(place, field,
               fmt::format("{} matrices of {} x {} with offset {}, ld {} and stride {} reach past "
                           "the {} elements of '{}'",
                           batch, rows, columns, m.offset, m.ld, m.stride, operand.elements,
                           operand.name));
  }
  return extent;
}

bool SameBuffer(const ResolvedMatrix& x, const ResolvedMatrix& y) {
  return x.kind == y.kind && x.index == y.index;
}

// Whether two operands of one buffer surely have no element in common. Beside ranges that do not
// meet, one layout is understood: rectangles of the same matrices (a panel and its trailing part).
bool Apart(const ResolvedMatrix& x, const Extent& ex, const ResolvedMatrix& y, const Extent& ey,
           std::int64_t batch) {
  if (ex.end <= ey.begin || ey.end <= ex.begin) return true;
  if (x.ld != y.ld || (batch > 1 && x.stride != y.stride)) return false;
  // The rectangles must lie in one matrix of rows of ld elements, and each batch entry in its own.
  const auto column = [](const ResolvedMatrix& m) { return m.offset % m.ld; };
  const auto row = [](const ResolvedMatrix& m) { return m.offset / m.ld; };
  if (column(x) + ex.columns > x.ld || column(y) + ey.columns > y.ld) return false;
  const std::int64_t top = std::min(row(x), row(y));
  const std::int64_t bottom = std::max(row(x) + ex.rows, row(y) + ey.rows);
  if (batch > 1 && (x.stride % x.ld != 0 || (bottom - top) * x.ld > x.stride)) return false;
  const bool columns_apart =
      column(x) + ex.columns <= column(y) || column(y) + ey.columns <= column(x);
  const bool rows_apart = row(x) + ex.rows <= row(y) || row(y) + ey.rows <= row(x);
  return columns_apart || rows_apart;
}

Status CheckTypes(std::string_view place, std::optional<GemmCompute> compute, ResolvedGemm& gemm) {
  const DType in = gemm.a.dtype;
  const DType out = gemm.c.dtype;
  const bool half = in == DType::kF16 || in == DType::kBF16;
  const bool known = (in == DType::kF32 || in == DType::kF64) ? out == in
                     : half                                   ? out == in || out == DType::kF32
                                                              : false;
  if (gemm.b.dtype != in || !known) {
    return Bad(place, "",
               fmt::format("a is {}, b {} and c {}; a and b are both f32, f64, f16 or bf16, and c "
                           "is the same (f32 also for f16 and bf16)",
                           grove::Name(in), grove::Name(gemm.b.dtype), grove::Name(out)));
  }
  gemm.compute = compute.value_or(in == DType::kF64 ? GemmCompute::kFp64 : GemmCompute::kFp32);
  const bool fits = in == DType::kF64   ? gemm.compute == GemmCompute::kFp64
                    : in == DType::kF32 ? gemm.compute != GemmCompute::kFp64
                                        : gemm.compute == GemmCompute::kFp32;
  if (fits) return {};
  return Bad(place, "compute",
             fmt::format("{} does not go with {} data ({})", Name(gemm.compute), grove::Name(in),
                         in == DType::kF64   ? "fp64"
                         : in == DType::kF32 ? "fp32, tf32, fp16, bf16 or bf16x9"
                                             : "fp32"));
}

}  // namespace

std::string_view Name(GemmCompute compute) {
  switch (compute) {
    case GemmCompute::kFp32:
      return "fp32";
    case GemmCompute::kTf32:
      return "tf32";
    case GemmCompute::kFp16:
      return "fp16";
    case GemmCompute::kBf16:
      return "bf16";
    case GemmCompute::kBf16x9:
      return "bf16x9";
    case GemmCompute::kFp64:
      return "fp64";
  }
  return "";
}

bool HasLibrarySteps(const ResolvedPlan& plan) {
  return std::any_of(plan.launches.begin(), plan.launches.end(),
                     [](const ResolvedLaunch& launch) { return launch.gemm != nullptr; });
}

Status CheckGemm(std::string_view place, std::optional<GemmCompute> compute,
                 const std::array<GemmOperand, 3>& operands, ResolvedGemm& gemm) {
  const auto& [a, b, c] = operands;
  gemm.a = a.matrix;
  gemm.b = b.matrix;
  gemm.c = c.matrix;
  if (gemm.k < 1) return Bad(place, "k", "is 0; a product sums at least one term");
  if (Status s = CheckTypes(place, compute, gemm); !s) return s;
  if (!c.writable) {
    return Bad(place, "c.buffer", fmt::format("'{}' is an input, which is not written", c.name));
  }
  const auto extent = [&](std::string_view field, const GemmOperand& operand, std::int64_t rows,
                          std::int64_t columns) {
    if (operand.matrix.transpose) std::swap(rows, columns);
    return ExtentOf(place, field, operand, rows, columns, gemm.batch);
  };
  const Result<Extent> ea = extent("a", a, gemm.m, gemm.k);
  if (!ea) return Fail(ea.error());
  const Result<Extent> eb = extent("b", b, gemm.k, gemm.n);
  if (!eb) return Fail(eb.error());
  const Result<Extent> ec = extent("c", c, gemm.m, gemm.n);
  if (!ec) return Fail(ec.error());
  // Entries of c behind each other, or side by side in rows that hold all of them.
  if (gemm.batch > 1 && gemm.c.stride < ec->one &&
      (gemm.c.stride < gemm.n || gemm.batch > gemm.c.ld / gemm.c.stride)) {
    return Bad(place, "c.stride",
               fmt::format("is {}, so the batch entries of c overlap; expected at least {}",
                           gemm.c.stride, ec->one));
  }
  if (SameBuffer(gemm.a, gemm.c) && !Apart(gemm.a, *ea, gemm.c, *ec, gemm.batch)) {
    return Bad(place, "c", fmt::format("overlaps a in '{}'", c.name));
  }
  if (SameBuffer(gemm.b, gemm.c) && !Apart(gemm.b, *eb, gemm.c, *ec, gemm.batch)) {
    return Bad(place, "c", fmt::format("overlaps b in '{}'", c.name));
  }
  return {};
}

}  // namespace grove::codegen
