// The checker householder_qr: whether H and tau are a QR factorisation of A, in the layout of
// LAPACK's geqrf (R on and above the diagonal of H, the tails of the Householder vectors below it
// with an implicit leading 1, Q = H1 H2 ... Hn, Hk = I - tau_k v_k v_k^T). Many factorisations are
// right, so nothing is compared with a reference: Q is applied in fp64, reflector by reflector, and
// what must hold is measured, column by column. Nothing is sampled: every column of every matrix is
// measured. The same measurement runs on a GPU (eval/cuda/kernels/support.cu, grove_qr_columns) and
// on the host; judging it is here, once.
//
// Gates, n the size and eps = 2^-23; the first two are those that a public competition publishes
// (1-norm: largest sum of a column's magnitudes), the others are of the profile `strict`:
//   QtA=R     |R - Qt A|_1 / |A|_1 of each matrix              <= 20 n eps
//   QtQ=I     |Qt Q - I|_1 of each matrix                      <= 100 n eps
//   A=QR      |(A - Q R)_j|_2 / |A_j|_2 of each column j       <= 20 n eps   (competition: shown)
//   tau       |tau v^T v - 2| of each reflector, tau not 0     <= 4 max(n, 8) eps
//   tau=0     |x|_2 / |A_j|_2 where tau is 0, x what the       <= 4 eps
//             reflectors before leave below the diagonal: 0 in the candidate's own arithmetic
// Householder's method keeps the third in every column, however small (N. Higham, "Accuracy and
// stability of numerical algorithms", 2002, theorem 19.4), so a column that was skipped because it
// is small beside others shows there. And all of H and tau must be finite.
//
// Pure functions, thread-safe; QrColumns uses the calling oneTBB arena.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "seeds/task.h"

namespace grove::eval {

// What is measured of one column. Plain doubles: the device writes the same.
struct QrColumn {
  double a_norm1 = 0, a_norm2 = 0;  // of A's column
  double qta_norm1 = 0;             // of (R - Qt A)_j
  double qr_norm2 = 0;              // of (A - Q R)_j
  double qtq_norm1 = 0;             // of (Qt Q - I)_j
  double defect = 0;                // |tau v^T v - 2|; 0 where tau is 0
  double tail = 0;                  // |x|_2 where tau is 0
  double non_finite = 0;            // elements of H's column and tau
};

// All columns, matrix after matrix. REQUIRES: a and h hold batch * n * n, tau batch * n elements.
std::vector<QrColumn> QrColumns(std::span<const float> a, std::span<const float> h,
                                std::span<const float> tau, std::int64_t batch, std::int64_t n);

// One property of the outputs that a checker measured.
struct Gate {
  std::string name;  // "QtA=R"
  double value = 0;  // the worst; infinite where it cannot be computed
  double limit = 0;
  bool decides = true;       // false: shown only
  std::int64_t matrix = 0;   // where the worst is
  std::int64_t column = -1;  // -1: of the whole matrix

  bool passed() const { return !decides || value <= limit; }  // not of NaN
  double margin() const;                                      // limit / value; above 1 passes
};

// The gates of a profile, in the order above ("finite" first, in its place alone when it fails).
// REQUIRES: columns.size() is a multiple of n.
std::vector<Gate> JudgeQr(std::span<const QrColumn> columns, std::int64_t n,
                          seeds::CheckerProfile profile);

// "QtA=R is 3.1e-2, allowed 1.2e-3, in matrix 5, column 17".
std::string Describe(const Gate& gate);
// "QtA=R 1830x, QtQ=I 954x, ...": by how much each gate was passed.
std::string DescribeMargins(std::span<const Gate> gates);

// What a task's checker measured of one case (worst draw of it).
struct GateRecord {
  std::string case_name;
  Gate gate;
};

// "least margins to the gates: QtA=R 1830x (n512), ...": of each gate but "finite", the case that
// came nearest. Empty for no gates.
std::string LeastMargins(const std::vector<GateRecord>& gates);

}  // namespace grove::eval
