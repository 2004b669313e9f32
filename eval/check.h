// Correctness: a kernel's output against the fp64 reference, and the class of accuracy that its
// error belongs to. Derivations and the figures behind the constants: docs/trust.md. All functions
// are pure and thread-safe; Compare uses the calling oneTBB arena and its result does not depend on
// the number of threads.
//
// Error is measured in the scale of the reference itself, row by row, never in absolute terms: the
// largest output of a softmax over 65536 columns is 1e-3, so all zeros pass an absolute 1e-2.
//   row error  = |got - ref|_2 / |ref|_2 over a row
//   scaled max = max of |got - ref| / max(rms of ref over its row, |ref|)
// All zeros have row error 1; a constant has the reference's deviation over its RMS. A row whose
// reference is zero is measured against the smallest normal number of its type: only a true zero,
// or what rounds to it, passes. The row error averages over a long row; the scaled maximum catches
// a single wrong element in it (outputs above the RMS are compared relatively, so that the honest
// rounding of a peak is not counted as an error of the row).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "seeds/task.h"

namespace grove::eval {

// Half-open range of flattened element indices.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct ErrorReport {
  std::int64_t elements = 0;  // compared
  std::int64_t rows = 0;      // that these elements are in
  double worst_row_l2 = 0;    // relative L2 error of the worst row; infinite on a mismatch
  std::int64_t worst_row = -1;
  double median_row_l2 = 0;  // over at most 65536 rows, evenly spread
  double scaled_max = 0;     // infinite on a mismatch
  // The element of scaled_max, or the first mismatch; -1 when every element is exact.
  std::int64_t worst_element = -1;
  double expected = 0;  // reference and output there
  double got = 0;
  // Elements that are NaN or infinite where the reference, rounded to the output's type, is finite,
  // or that are not the same NaN or infinity where it is not.
  std::int64_t non_finite_mismatches = 0;

  bool non_finite_mismatch() const { return non_finite_mismatches > 0; }
};

// Compares an output with its reference. A row is `row_elements` neighbours (0: the innermost dim);
// rows below 16 elements are joined to groups of at least 16, because a few elements may all be
// small by chance. With `ranges` only those elements are read (spot checks of large outputs), and a
// row is that part of it which they cover; the spans are of the whole tensor all the same.
// REQUIRES: got.size() == output.bytes(), reference.size() == output.elements(), ranges inside.
ErrorReport Compare(const seeds::Tensor& output, std::span<const std::byte> got,
                    std::span<const double> reference, std::int64_t row_elements = 0,
                    std::span<const ElementRange> ranges = {});

// The largest relative L2 error that still is of a class, for sums of `reduction` terms:
//   fp64  2^-53 (16 + g)     fp32  2^-24 (16 + g)      g = min(sqrt(reduction), 256)
//   tf32  1.5 * 2^-10        fp16  2^-9                bf16  2^-6           fp8  2^-3
// A sum of K fp32 terms in the worst order (one after the other) has an error of about
// sqrt(K) / 2.45 units of 2^-24, other orders less; 16 units cover fast exponentials, reciprocals
// and the rounding of the output. K = 4096: 4.8e-6, against 1.1e-6 to 1.6e-6 for honest fp32 and
// three tf32 products, 6.3e-6 for two bf16 parts, 1.4e-5 for a published kernel of fp16 halves,
// 3e-4 for tf32 or fp16 operands rounded to nearest, 9e-4 for tf32 operands that nobody rounded
// (tensor cores cut them).
double ClassThreshold(seeds::PrecisionClass c, std::int64_t reduction);

// The best class whose threshold the error does not exceed; none beyond fp8 or for NaN. tf32 and
// fp16 both keep 11 bits of an operand, so fp16 operands on inputs of moderate size show as tf32:
// only their range tells them apart, which is what the mixed-scale cases of a task are for. The
// fp16 class is what an fp16 result, or rounding to fp16 more than once on the way, leaves.
std::optional<seeds::PrecisionClass> ClassifyError(double relative_l2, std::int64_t reduction);

struct Tolerance {
  double row_l2 = 0;
  double scaled_max = 0;
};

// With a scaled maximum of 16 times the row error (of 10^9 normal errors the largest is 6.2
// deviations), but at most 1/2: an element that is zero where it should not be is no rounding, not
// even in fp8.
Tolerance ToleranceOf(double row_l2);

// What an output of case `case_index` may err: the case's own tolerance where it gives one, else
// the threshold of the class demanded of the case, or of the output's element type where that is
// less precise. Integer outputs must be exact.
Tolerance ToleranceFor(const seeds::Task& task, std::size_t case_index,
                       const seeds::Tensor& output);

// False on a mismatch and on NaN, whatever the tolerance.
bool Within(const ErrorReport& report, const Tolerance& tolerance);

}  // namespace grove::eval
