// What inputs contain, and what outputs contain before a kernel runs.
//
// Inputs come from a counter-based generator: element i of tensor t in draw `seed` is a pure
// function of (seed, t, i), so the host, the emulator and a GPU make the same tensor in any order
// and in parts. The functions use integers and IEEE +, -, *, /, sqrt and conversions only, each
// rounded to nearest even and never contracted into an FMA (CUDA: __fmul_rn, __fadd_rn, __fdiv_rn,
// __fsqrt_rn, __dmul_rn,
// __dadd_rn, with denormals kept), and no library function whose last bit differs between machines.
// All functions are pure and thread-safe; FillInput uses the calling oneTBB arena.
//
// Words. Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011), counter = (lo(i / 4), hi(i / 4), lo(t), hi(t)), key = (lo(seed), hi(seed)); element i
// takes word i % 4.
//
// Standard normal of a word r, in fp32, by the inverse of the normal distribution function:
//   s = int32(r ^ 0x80000000);  a = s < 0 ? ~s : s              the sign, and 0 .. 2^31 - 1
//   x = (float(a) + 0.5) * 2^-31                                in (0, 1]
//   t = (float(0x7fffffff - a) + 0.5) * 2^-31                   1 - x without cancellation
//   z = t * (2 - t);  w = -ln(z)                                (1 - x) (1 + x)
//   n = sqrt2 * x * p(w), with the sign of s
// where ln(z): e = int32(bits(z) - 0x3f3504f3) >> 23, m = float with bits(z) - (e << 23), f = m -
// 1, q = f / (2 + f), u = q * q, ln = e * ln2 + q * (2 + u * (2/3 + u * (2/5 + u * (2/7 + u *
// 2/9)))), and p is the approximation of erfinv(x) / x of M. Giles ("Approximating the erfinv
// function", GPU Computing Gems, 2011, single precision): one polynomial in w - 2.5 below w = 5,
// one in sqrt(w) - 3 above. Constants and order of operations: inputs.cc. |n| is at most 6.34
// and within 3e-3 of the exact inverse (3e-7 of it, relatively, below 4 deviations).
//
// Values, in fp64 from a and b of the distribution, then limited to the largest finite value of the
// element type and rounded to it (integers: truncated towards zero):
//   normal    a + b * n
//   uniform   a + (b - a) * ((r >> 8) * 2^-24); what rounds to b or above becomes a.
//             Integers: lo + floor((ceil(b) - lo) * (r * 2^-32)), lo = ceil(a)
//   constant  a
//   mixed     n * (r odd ? b : a)
//   tail      j >= inner - max(1, inner / 100) ? a + b * n : 0, for position j in the innermost dim
//
// Matrices (kind `matrix`, structure and decimal range a): element (r, c) of matrix b, of R rows
// and C columns, N(i) the standard normal of word i, T the number of elements and B of matrices:
//   dense          N(i) s(c), s(c) = 10^(-a c / (C - 1))
//   upper          0 below the diagonal, plus 1 .. 0.25 (linear) on it; times s(c)
//   rankdef        columns from 3C/4 on are 0; else dense
//   nearrank       columns from 3C/4 on are (N of column c - 3C/4 + 1e-5 N(i)) s(c); else dense
//   clustered      columns from C/2 on times 4 eps, eps = 2^-23, but the four around C/2 times
//                  sqrt(eps); times s(c)
//   band           0 beyond max(2, min(32, C/32)) off the diagonal, plus 1 .. 0.5 on it; times s(c)
//   rowscale       N(i) 10^(-max(a, 4) r / (R - 1))
//   nearcollinear  (N(T + B + b R + r) + 1e-4 N(i)) s(c)
//   diagonal       N(i) s(c) on the diagonal, else 0
//   mixed          of 12 (word T + b), 6 dense and 1 each rankdef, nearrank, clustered, band,
//                  rowscale, nearcollinear; of two or more matrices at least one is dense and one
//                  not (at places drawn from the two words behind all others)
// 10^x = 2^k e^(f ln 2), k = floor(x log2(10) + 1/2), f the rest, e^ by 14 terms of its series.
// These follow the inputs of a public batched-QR competition.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"
#include "seeds/task.h"

namespace grove::eval {

// The generator itself, for tests and other devices' versions of it.
std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);
float StandardNormal(std::uint32_t word);

// Fills `out` with the elements from `first` on, as many as it holds; a tensor kept in a file (kind
// kFile) is read from there, kResource when that fails.
Status MakeInput(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
                 std::span<std::byte> out, std::int64_t first = 0);

// The same for what is drawn.
// REQUIRES: not kFile; out.size() is a multiple of the element size; first >= 0.
void FillInput(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
               std::span<std::byte> out, std::int64_t first = 0);

// Element `index` as FillInput writes it.
double InputElement(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
                    std::int64_t index);

// --- poison -----------------------------------------------------------------------------------

// Outputs are filled before a run, once with each poison: `which` 0 is a NaN of an unusual payload
// (integers: 0xa5 bytes), 1 an odd finite number (integers: 0x5a bytes). A kernel that leaves an
// element alone shows both; one that happens to write a poison cannot write the other in the other
// run, so no value is forbidden to kernels.
void FillPoison(std::span<std::byte> out, DType dtype, int which);

// The first element that still has poison 0 in `run0` and poison 1 in `run1`, bit by bit; -1 when
// there is none. `first` is the index of the spans' first element.
// REQUIRES: spans of equal size.
std::int64_t FirstPoison(std::span<const std::byte> run0, std::span<const std::byte> run1,
                         DType dtype, std::int64_t first = 0);

}  // namespace grove::eval
