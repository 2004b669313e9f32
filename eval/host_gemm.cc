#include "eval/host_gemm.h"

#include <bit>
#include <cstdint>
#include <vector>

#include <tbb/parallel_for.h>

#include "base/dtype.h"

namespace grove::eval {
namespace {

using codegen::GemmCompute;
using codegen::ResolvedGemm;
using codegen::ResolvedMatrix;

// To 11 significant bits, nearest even; infinities and NaN stay.
double ToTf32(double value) {
  const auto narrow = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if ((bits & 0x7f800000U) == 0x7f800000U) return static_cast<double>(narrow);
  bits += 0xfffU + ((bits >> 13) & 1U);
  return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffU));
}

double Rounded(GemmCompute compute, double value) {
  switch (compute) {
    case GemmCompute::kTf32:
      return ToTf32(value);
    case GemmCompute::kFp16:
      return static_cast<double>(HalfToFloat(FloatToHalf(static_cast<float>(value))));
    case GemmCompute::kBf16:
      return static_cast<double>(BFloat16ToFloat(FloatToBFloat16(static_cast<float>(value))));
    case GemmCompute::kFp32:
    case GemmCompute::kBf16x9:
    case GemmCompute::kFp64:
      break;
  }
  return value;
}

// One batch entry of an operand as rows x columns, untransposed and rounded.
template <typename T>
std::vector<T> Gather(const ResolvedMatrix& m, const std::byte* data, std::int64_t entry,
                      std::int64_t rows, std::int64_t columns, GemmCompute compute) {
  std::vector<T> out(static_cast<std::size_t>(rows * columns));
  const std::int64_t base = m.offset + entry * m.stride;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t at = base + (m.transpose ? c * m.ld + r : r * m.ld + c);
      out[static_cast<std::size_t>(r * columns + c)] =
          static_cast<T>(Rounded(compute, LoadElement(m.dtype, data, at)));
    }
  }
  return out;
}

template <typename T>
void Multiply(const ResolvedGemm& g, const std::byte* a, const std::byte* b, std::byte* c) {
  tbb::parallel_for(std::int64_t{0}, g.batch, [&](std::int64_t entry) {
    const std::vector<T> left = Gather<T>(g.a, a, entry, g.m, g.k, g.compute);
    const std::vector<T> right = Gather<T>(g.b, b, entry, g.k, g.n, g.compute);
    const auto alpha = static_cast<T>(g.alpha);
    const auto beta = static_cast<T>(g.beta);
    tbb::parallel_for(std::int64_t{0}, g.m, [&](std::int64_t i) {
      std::vector<T> sums(static_cast<std::size_t>(g.n));
      for (std::int64_t l = 0; l < g.k; ++l) {
        const T x = left[static_cast<std::size_t>(i * g.k + l)];
        const T* row = right.data() + l * g.n;
        for (std::int64_t j = 0; j < g.n; ++j) sums[static_cast<std::size_t>(j)] += x * row[j];
      }
      const std::int64_t base = g.c.offset + entry * g.c.stride + i * g.c.ld;
      for (std::int64_t j = 0; j < g.n; ++j) {
        T value = alpha * sums[static_cast<std::size_t>(j)];
        if (g.beta != 0) value += beta * static_cast<T>(LoadElement(g.c.dtype, c, base + j));
        StoreElement(g.c.dtype, c, base + j, static_cast<double>(value));
      }
    });
  });
}

}  // namespace

void RunGemm(const ResolvedGemm& gemm, const std::byte* a, const std::byte* b, std::byte* c) {
  if (gemm.compute == GemmCompute::kFp64 || gemm.compute == GemmCompute::kBf16x9) {
    Multiply<double>(gemm, a, b, c);
  } else {
    Multiply<float>(gemm, a, b, c);
  }
}

}  // namespace grove::eval
