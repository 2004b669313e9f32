// The checker householder_qr on the host: honest factorisations pass with a wide margin on every
// structure of input, and each way to be wrong shows at the gate that is there for it.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/inputs.h"
#include "eval/qr_check.h"

namespace grove::eval {
namespace {

using seeds::CheckerProfile;
using Structure = seeds::Distribution::Structure;
using ::testing::HasSubstr;

struct Factors {
  std::int64_t batch = 0, n = 0;
  std::vector<float> a, h, tau;

  float& H(std::int64_t b, std::int64_t i, std::int64_t j) {
    return h[static_cast<std::size_t>((b * n + i) * n + j)];
  }
  float& Tau(std::int64_t b, std::int64_t j) { return tau[static_cast<std::size_t>(b * n + j)]; }
  std::vector<Gate> Judge(CheckerProfile profile = CheckerProfile::kStrict) const {
    return JudgeQr(QrColumns(a, h, tau, batch, n), n, profile);
  }
};

// Householder's method in fp32, column by column.
Factors Factor(std::vector<float> a, std::int64_t batch, std::int64_t n) {
  Factors f{batch, n, a, std::move(a), std::vector<float>(static_cast<std::size_t>(batch * n))};
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t k = 0; k < n; ++k) {
      float square = 0;
      for (std::int64_t i = k + 1; i < n; ++i) square += f.H(b, i, k) * f.H(b, i, k);
      if (square == 0) continue;
      const float alpha = f.H(b, k, k);
      const float beta = -std::copysign(std::sqrt(alpha * alpha + square), alpha);
      const float tau = (beta - alpha) / beta;
      for (std::int64_t i = k + 1; i < n; ++i) f.H(b, i, k) *= 1 / (alpha - beta);
      f.H(b, k, k) = beta;
      f.Tau(b, k) = tau;
      for (std::int64_t j = k + 1; j < n; ++j) {
        float sum = f.H(b, k, j);
        for (std::int64_t i = k + 1; i < n; ++i) sum += f.H(b, i, k) * f.H(b, i, j);
        f.H(b, k, j) -= tau * sum;
        for (std::int64_t i = k + 1; i < n; ++i) f.H(b, i, j) -= tau * sum * f.H(b, i, k);
      }
    }
  }
  return f;
}

std::vector<float> Draw(Structure structure, double cond, std::int64_t batch, std::int64_t n) {
  seeds::Tensor tensor;
  tensor.shape = {batch, n, n};
  tensor.distribution.kind = seeds::Distribution::Kind::kMatrix;
  tensor.distribution.a = cond;
  tensor.distribution.structure = structure;
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  FillInput(tensor, 77, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

Factors Honest(Structure structure, double cond = 1, std::int64_t batch = 3, std::int64_t n = 48) {
  return Factor(Draw(structure, cond, batch, n), batch, n);
}

// The first gate that failed; empty when all passed.
std::string Failed(const std::vector<Gate>& gates) {
  for (const Gate& gate : gates) {
    if (!gate.passed()) return gate.name;
  }
  return "";
}

TEST(QrCheck, HonestFactorsPassOnEveryStructureWithAWideMargin) {
  for (int s = 0; s < seeds::kStructureCount; ++s) {
    const auto structure = static_cast<Structure>(s);
    const auto gates = Honest(structure, 2).Judge();
    EXPECT_EQ(Failed(gates), "") << Name(structure);
    for (const Gate& gate : gates) {
      if (gate.name == "finite") continue;
      EXPECT_GT(gate.margin(), gate.name == "tau=0" ? 1 : 10) << Name(structure) << gate.name;
    }
  }
}

TEST(QrCheck, ZeroAndOneByOneMatricesAndIdentityPass) {
  EXPECT_EQ(Failed(Factor(std::vector<float>(64, 0), 1, 8).Judge()), "");
  EXPECT_EQ(Failed(Factor({3, -2, 0}, 3, 1).Judge()), "");
  std::vector<float> identity(25, 0);
  for (std::size_t i = 0; i < 5; ++i) identity[6 * i] = 1;
  EXPECT_EQ(Failed(Factor(identity, 1, 5).Judge()), "");
}

TEST(QrCheck, TheOtherSignOfRIsRightAsWell) {
  // H = I - 2 e e^T in a column that is zero below: R's diagonal changes its sign.
  std::vector<float> identity(16, 0);
  for (std::size_t i = 0; i < 4; ++i) identity[5 * i] = 1;
  Factors f = Factor(identity, 1, 4);
  f.H(0, 1, 1) = -1;
  f.Tau(0, 1) = 2;
  EXPECT_EQ(Failed(f.Judge()), "");
}

TEST(QrCheck, CopiedInputAndZeroTauAreRefused) {
  Factors f = Honest(Structure::kDense);
  f.h = f.a;
  std::fill(f.tau.begin(), f.tau.end(), 0.0F);
  EXPECT_EQ(Failed(f.Judge()), "QtA=R");
  EXPECT_EQ(Failed(f.Judge(CheckerProfile::kCompetition)), "QtA=R");
}

TEST(QrCheck, RightRWithoutReflectorsIsRefused) {
  Factors f = Honest(Structure::kDense);
  std::fill(f.tau.begin(), f.tau.end(), 0.0F);
  EXPECT_EQ(Failed(f.Judge()), "QtA=R");
}

TEST(QrCheck, AReflectorThatIsNoReflectionIsRefused) {
  Factors f = Honest(Structure::kDense);
  f.Tau(1, 5) *= 1.01F;
  const auto gates = f.Judge();
  for (const Gate& gate : gates) {
    if (gate.name != "QtQ=I" && gate.name != "tau") continue;
    EXPECT_FALSE(gate.passed()) << gate.name;
    EXPECT_EQ(gate.matrix, 1);
  }
  // Too little for the published gates at this size, and still no reflection.
  Factors slight = Honest(Structure::kDense);
  slight.Tau(1, 5) *= 1 + 2e-5F;
  EXPECT_EQ(Failed(slight.Judge(CheckerProfile::kCompetition)), "");
  EXPECT_EQ(Failed(slight.Judge()), "tau");
}

TEST(QrCheck, NaNAndInfinityAreNamedWithTheirPlace) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Factors f = Honest(Structure::kDense);
    f.H(2, 40, 7) = bad;
    for (const auto profile : {CheckerProfile::kStrict, CheckerProfile::kCompetition}) {
      const auto gates = f.Judge(profile);
      ASSERT_EQ(Failed(gates), "finite");
      EXPECT_THAT(Describe(gates[0]), HasSubstr("matrix 2, column 7"));
    }
    Factors t = Honest(Structure::kDense);
    t.Tau(0, 3) = bad;
    EXPECT_EQ(Failed(t.Judge()), "finite");
  }
}

// What passes the published gates because the columns are small beside others.
TEST(QrCheck, ColumnsThatWereSkippedForBeingSmallShowInTheStrictProfileOnly) {
  Factors f = Honest(Structure::kClustered, 0, 2, 64);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t j = 34; j < 64; ++j) {
      f.Tau(b, j) = 0;
      for (std::int64_t i = j + 1; i < 64; ++i) f.H(b, i, j) = 0;
    }
  }
  EXPECT_EQ(Failed(f.Judge(CheckerProfile::kCompetition)), "");
  EXPECT_EQ(Failed(f.Judge()), "A=QR");
}

TEST(QrCheck, TauZeroIsAllowedOnlyWhereNothingIsLeft) {
  // Near-rank-deficient columns truncated: the column is left at 1e-5 of its size.
  Factors f = Honest(Structure::kNearRank, 0, 1, 64);
  f.Tau(0, 50) = 0;
  for (std::int64_t i = 51; i < 64; ++i) f.H(0, i, 50) = 0;
  const auto gates = f.Judge();
  bool refused = false;
  for (const Gate& gate : gates) refused = refused || (gate.name == "tau=0" && !gate.passed());
  EXPECT_TRUE(refused);
}

TEST(QrCheck, TheWrongMatrixOfABatchIsFound) {
  Factors f = Honest(Structure::kMixed, 2, 5);
  for (std::int64_t j = 0; j < f.n; ++j) f.H(3, j, j) *= 1.001F;
  const auto gates = f.Judge();
  ASSERT_EQ(Failed(gates), "QtA=R");
  EXPECT_EQ(gates[1].matrix, 3);
}

// Gram-Schmidt's or Cholesky's failure: R is right, the columns of Q are not orthogonal.
TEST(QrCheck, AVectorFromAnotherMatrixIsRefused) {
  Factors f = Honest(Structure::kDense);
  for (std::int64_t i = 11; i < f.n; ++i) f.H(0, i, 10) = f.H(1, i, 10);
  EXPECT_NE(Failed(f.Judge()), "");
}

TEST(QrCheck, MarginsAreWords) {
  const auto gates = Honest(Structure::kDense).Judge();
  const std::string text = DescribeMargins(gates);
  EXPECT_THAT(text, HasSubstr("QtA=R "));
  EXPECT_THAT(text, HasSubstr("x, QtQ=I "));
}

}  // namespace
}  // namespace grove::eval
