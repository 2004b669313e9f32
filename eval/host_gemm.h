// A plan's library product (codegen/plan.h) in plain arithmetic on host memory: what the emulator
// does where a GPU calls its library. Thread-safe; uses the calling oneTBB arena.
#pragma once

#include <cstddef>

#include "codegen/plan.h"

namespace grove::eval {

// `a`, `b` and `c` are the starts of the operands' buffers. Operands are rounded as the compute
// type says; each sum is taken in the order of k, in fp32 (fp64 for f64 data; for bf16x9 in fp64,
// rounded once). An element of c is read only when beta is not 0, as BLAS has it. REQUIRES: a
// product that ResolvePlan has checked, and buffers of the sizes it was checked against.
void RunGemm(const codegen::ResolvedGemm& gemm, const std::byte* a, const std::byte* b,
             std::byte* c);

}  // namespace grove::eval
