// Errors in the scale of the reference: what must never pass, what must pass, and where it points.
#include "eval/check.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "seeds/task.h"

namespace grove::eval {
namespace {

using seeds::PrecisionClass;
using seeds::Tensor;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor Output(std::vector<std::int64_t> shape, DType dtype = DType::kF32) {
  Tensor tensor;
  tensor.name = "y";
  tensor.role = seeds::TensorRole::kOutput;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

std::vector<std::byte> Store(const Tensor& tensor, const std::vector<double>& values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    StoreElement(tensor.dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return bytes;
}

ErrorReport CompareValues(const Tensor& tensor, const std::vector<double>& got,
                          const std::vector<double>& reference, std::int64_t row = 0,
                          std::span<const ElementRange> ranges = {}) {
  return Compare(tensor, Store(tensor, got), reference, row, ranges);
}

std::vector<double> Normals(std::size_t count, double mean = 0, double deviation = 1,
                            unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> values(count);
  for (double& v : values) v = normal(generator);
  return values;
}

// Rows of a softmax of normals: the outputs are about 1 / columns.
std::vector<double> Softmax(std::size_t rows, std::size_t columns) {
  auto values = Normals(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += std::exp(values[r * columns + j]);
    for (std::size_t j = 0; j < columns; ++j) {
      values[r * columns + j] = std::exp(values[r * columns + j]) / sum;
    }
  }
  return values;
}

seeds::Task TaskOf(const Tensor& output, PrecisionClass demanded, std::int64_t reduction) {
  seeds::Task task;
  task.demanded = demanded;
  task.cases.emplace_back();
  task.cases[0].tensors.push_back(output);
  task.reduction.push_back(reduction);
  return task;
}

bool Passes(const Tensor& tensor, const std::vector<double>& got,
            const std::vector<double>& reference, PrecisionClass demanded = PrecisionClass::kFp8) {
  const auto task = TaskOf(tensor, demanded, tensor.shape.back());
  return Within(CompareValues(tensor, got, reference), ToleranceFor(task, 0, tensor));
}

TEST(Compare, TheReferenceItselfIsExact) {
  const Tensor y = Output({4, 1000}, DType::kF64);
  const auto reference = Normals(4000);
  const ErrorReport report = CompareValues(y, reference, reference);
  EXPECT_EQ(report.elements, 4000);
  EXPECT_EQ(report.rows, 4);
  EXPECT_EQ(report.worst_row_l2, 0);
  EXPECT_EQ(report.scaled_max, 0);
  EXPECT_EQ(report.worst_element, -1);
}

TEST(Compare, RoundingToTheOutputTypePassesItsClass) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor y = Output({4, 1000}, dtype);
    const auto reference = Normals(4000);
    EXPECT_TRUE(Passes(y, reference, reference, PrecisionClass::kFp64)) << Name(dtype);
  }
}

// Exploit 1: where outputs are small an absolute tolerance passes anything.
TEST(Compare, ZerosConstantsAndTheMeanNeverPassForSoftmax) {
  const Tensor y = Output({4, 4096});
  const auto reference = Softmax(4, 4096);
  EXPECT_FALSE(Passes(y, std::vector<double>(4 * 4096, 0.0), reference));
  EXPECT_FALSE(Passes(y, std::vector<double>(4 * 4096, 1.0), reference));
  EXPECT_FALSE(Passes(y, std::vector<double>(4 * 4096, 1.0 / 4096), reference));
  EXPECT_FALSE(Passes(y, std::vector<double>(4 * 4096, 1e-30), reference));
  EXPECT_DOUBLE_EQ(CompareValues(y, std::vector<double>(4 * 4096, 0.0), reference).worst_row_l2,
                   1.0);
}

TEST(Compare, ZerosConstantsAndTheMeanNeverPassForNormals) {
  for (const double scale : {1e-30, 1e-3, 1.0, 1e30}) {
    const Tensor y = Output({16, 257});
    const auto reference = Normals(16 * 257, 0, scale);
    EXPECT_FALSE(Passes(y, std::vector<double>(16 * 257, 0.0), reference)) << scale;
    EXPECT_FALSE(Passes(y, std::vector<double>(16 * 257, scale), reference)) << scale;
  }
}

TEST(Compare, OneZeroRowAmongGoodOnesFails) {
  const Tensor y = Output({1000, 64});
  const auto reference = Normals(64000);
  auto got = reference;
  std::fill_n(got.begin() + 64 * 777, 64, 0.0);
  const ErrorReport report = CompareValues(y, got, reference);
  EXPECT_EQ(report.worst_row, 777);
  EXPECT_DOUBLE_EQ(report.worst_row_l2, 1.0);
  EXPECT_LT(report.median_row_l2, 1e-7);
}

// A row much smaller than its neighbours has its own scale.
TEST(Compare, ASmallRowIsNotHiddenByALargeOne) {
  const Tensor y = Output({2, 64});
  auto reference = Normals(128);
  for (std::size_t j = 64; j < 128; ++j) reference[j] *= 1e-20;
  auto got = reference;
  for (std::size_t j = 64; j < 128; ++j) got[j] = 0;
  EXPECT_DOUBLE_EQ(CompareValues(y, got, reference).worst_row_l2, 1.0);
}

TEST(Compare, OneWrongElementOfALongRowFailsByTheMaximum) {
  const std::size_t n = 1 << 20;
  const Tensor y = Output({1, static_cast<std::int64_t>(n)}, DType::kF16);
  const auto reference = Normals(n);
  auto got = reference;
  got[123456] += 1;
  const auto task = TaskOf(y, PrecisionClass::kFp16, 1);
  const Tolerance tolerance = ToleranceFor(task, 0, y);
  const ErrorReport report = CompareValues(y, got, reference);
  EXPECT_LE(report.worst_row_l2, tolerance.row_l2) << "diluted in the row";
  EXPECT_GT(report.scaled_max, tolerance.scaled_max);
  EXPECT_EQ(report.worst_element, 123456);
  EXPECT_FALSE(Within(report, tolerance));
}

TEST(Compare, OneElementThatIsZeroIsOfNoClass) {
  const Tensor y = Output({4, 193});
  const std::vector<double> reference(4 * 193, 1.0 / 193);
  auto got = reference;
  got[578] = 0;
  const ErrorReport report = CompareValues(y, got, reference);
  EXPECT_LE(report.worst_row_l2, ClassThreshold(PrecisionClass::kFp8, 193)) << "diluted";
  EXPECT_FALSE(Within(report, ToleranceOf(ClassThreshold(PrecisionClass::kFp8, 193))));
}

TEST(Compare, TheRoundingOfAPeakIsNotAnErrorOfItsRow) {
  const Tensor y = Output({1, 65536});
  std::vector<double> reference(65536, 1e-12);
  reference[100] = 0.9999999;
  EXPECT_TRUE(Passes(y, reference, reference, PrecisionClass::kFp32));
}

// Exploit 4: 99% of a sum, rescaled.
TEST(Compare, ADroppedHundredthOfASumFailsFp32) {
  const Tensor y = Output({1, 256});
  const auto full = Normals(256 * 1000, 0, 1, 3);
  std::vector<double> reference(256), got(256);
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t k = 0; k < 1000; ++k) reference[i] += full[i * 1000 + k];
    for (std::size_t k = 0; k < 990; ++k) got[i] += full[i * 1000 + k] / 0.99;
  }
  EXPECT_FALSE(Passes(y, got, reference, PrecisionClass::kBf16));
}

TEST(Compare, TheWorstElementIsNamedWithBothValues) {
  const Tensor y = Output({8, 32}, DType::kF64);
  const auto reference = Normals(256);
  auto got = reference;
  got[77] = reference[77] + 0.5;
  const ErrorReport report = CompareValues(y, got, reference);
  EXPECT_EQ(report.worst_element, 77);
  EXPECT_EQ(report.worst_row, 2);
  EXPECT_EQ(report.expected, reference[77]);
  EXPECT_EQ(report.got, got[77]);
}

TEST(Compare, NaNAndInfinityWhereTheReferenceIsFiniteAreMismatches) {
  for (const double bad : {kNaN, kInf, -kInf}) {
    const Tensor y = Output({4, 100});
    const auto reference = Normals(400);
    auto got = reference;
    got[250] = bad;
    got[251] = bad;
    const ErrorReport report = CompareValues(y, got, reference);
    EXPECT_TRUE(report.non_finite_mismatch());
    EXPECT_EQ(report.non_finite_mismatches, 2);
    EXPECT_EQ(report.worst_element, 250);
    EXPECT_EQ(report.worst_row, 2);
    EXPECT_EQ(report.worst_row_l2, kInf);
    EXPECT_FALSE(Within(report, {kInf, kInf}));
  }
}

// Exploit 6: NaN compared with NaN is a match only where the reference is NaN too.
TEST(Compare, WhereTheReferenceIsNotFiniteTheSameKindIsRequired) {
  const Tensor y = Output({1, 64});
  auto reference = Normals(64);
  reference[3] = kNaN;
  reference[5] = kInf;
  reference[7] = -kInf;
  EXPECT_FALSE(CompareValues(y, reference, reference).non_finite_mismatch());
  for (const std::size_t at : {3U, 5U, 7U}) {
    auto got = reference;
    got[at] = 1;
    EXPECT_EQ(CompareValues(y, got, reference).non_finite_mismatches, 1) << at;
  }
  auto got = reference;
  std::swap(got[5], got[7]);
  EXPECT_EQ(CompareValues(y, got, reference).non_finite_mismatches, 2);
  got = reference;
  got[5] = kNaN;
  EXPECT_EQ(CompareValues(y, got, reference).non_finite_mismatches, 1);
}

TEST(Compare, AReferenceBeyondTheOutputTypeDemandsInfinity) {
  const Tensor y = Output({1, 32}, DType::kF16);
  auto reference = Normals(32);
  reference[4] = 1e6;
  EXPECT_FALSE(CompareValues(y, reference, reference).non_finite_mismatch());
  auto got = reference;
  got[4] = 65504;
  EXPECT_TRUE(CompareValues(y, got, reference).non_finite_mismatch());
}

TEST(Compare, ARowOfZerosAcceptsZeroAndNothingElse) {
  const Tensor y = Output({2, 64});
  std::vector<double> reference(128, 0.0);
  EXPECT_TRUE(Passes(y, reference, reference, PrecisionClass::kFp32));
  for (const double wrong : {1e-37, 1e-10, 1.0}) {
    auto got = reference;
    got[70] = wrong;
    EXPECT_FALSE(Passes(y, got, reference)) << wrong;
  }
}

TEST(Compare, SquaresBeyondADoubleAreNoLoophole) {
  for (const double scale : {1e-200, 1e-300, 1e200, 1e300}) {
    const Tensor y = Output({2, 64}, DType::kF64);
    const auto reference = Normals(128, 0, scale);
    EXPECT_TRUE(Passes(y, reference, reference, PrecisionClass::kFp64)) << scale;
    EXPECT_FALSE(Passes(y, std::vector<double>(128, 0.0), reference)) << scale;
    auto got = reference;
    for (double& v : got) v *= 1 + 1e-6;
    EXPECT_NEAR(CompareValues(y, got, reference).worst_row_l2, 1e-6, 1e-9) << scale;
  }
}

TEST(Compare, ADifferenceThatOverflowsFails) {
  const Tensor y = Output({1, 32}, DType::kF64);
  const std::vector<double> reference(32, 1.7e308);
  EXPECT_FALSE(Passes(y, std::vector<double>(32, -1.7e308), reference));
}

TEST(Compare, ShortRowsShareOneScale) {
  const Tensor y = Output({1000, 1}, DType::kF64);
  const auto reference = Normals(1000);
  const ErrorReport report = CompareValues(y, reference, reference);
  EXPECT_EQ(report.rows, (1000 + 15) / 16);
}

TEST(Compare, RowElementsChooseTheRow) {
  const Tensor y = Output({2, 4, 8, 8}, DType::kF64);
  const auto reference = Normals(512);
  EXPECT_EQ(CompareValues(y, reference, reference).rows, 32) << "pairs of 8";
  EXPECT_EQ(CompareValues(y, reference, reference, 256).rows, 2);
}

TEST(Compare, RangesLimitWhatIsRead) {
  const Tensor y = Output({10, 100});
  auto reference = Normals(1000);
  auto got = reference;
  got[550] = kNaN;
  const ElementRange clean[] = {{0, 500}, {600, 1000}};
  const ErrorReport report = CompareValues(y, got, reference, 0, clean);
  EXPECT_EQ(report.elements, 900);
  EXPECT_EQ(report.rows, 9);
  EXPECT_FALSE(report.non_finite_mismatch());
  const ElementRange dirty[] = {{540, 560}};
  EXPECT_TRUE(CompareValues(y, got, reference, 0, dirty).non_finite_mismatch());
}

TEST(Compare, RangesInAnyOrderWithOverlapCountOnce) {
  const Tensor y = Output({4, 64});
  const auto reference = Normals(256);
  const ElementRange ranges[] = {{100, 200}, {0, 128}, {150, 160}};
  EXPECT_EQ(CompareValues(y, reference, reference, 0, ranges).elements, 200);
}

TEST(Compare, ARowSplitByRangesIsOneRow) {
  const Tensor y = Output({1, 256}, DType::kF64);
  const auto reference = Normals(256);
  auto got = reference;
  for (std::size_t i = 0; i < 16; ++i) got[i] = 0;
  const ElementRange ranges[] = {{0, 16}, {64, 80}, {128, 144}};
  const ErrorReport report = CompareValues(y, got, reference, 0, ranges);
  EXPECT_EQ(report.rows, 1);
  EXPECT_LT(report.worst_row_l2, 0.9) << "a part of the row is right";
  EXPECT_GT(report.worst_row_l2, 0.2);
}

TEST(Compare, LongRowsGiveTheSameWithOneThreadAndMany) {
  const Tensor y = Output({3, 200001});
  const auto reference = Normals(3 * 200001);
  const auto many = CompareValues(y, reference, reference);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto single = CompareValues(y, reference, reference);
  EXPECT_EQ(many.worst_row_l2, single.worst_row_l2);
  EXPECT_EQ(many.scaled_max, single.scaled_max);
  EXPECT_EQ(many.worst_element, single.worst_element);
  EXPECT_EQ(many.rows, 3);
}

TEST(Compare, IntegersMustBeExact) {
  const Tensor y = Output({1, 100}, DType::kI32);
  std::vector<double> reference(100);
  for (std::size_t i = 0; i < 100; ++i) reference[i] = static_cast<double>(i * 1000);
  EXPECT_TRUE(Passes(y, reference, reference));
  auto got = reference;
  got[99] += 1;
  EXPECT_FALSE(Passes(y, got, reference));
}

TEST(Thresholds, RiseFromClassToClassForEveryReduction) {
  const PrecisionClass classes[] = {PrecisionClass::kFp64, PrecisionClass::kFp32,
                                    PrecisionClass::kTf32, PrecisionClass::kFp16,
                                    PrecisionClass::kBf16, PrecisionClass::kFp8};
  for (const std::int64_t k : {1, 100, 4096, 65536, 1 << 30}) {
    for (int i = 1; i < 6; ++i) {
      EXPECT_GT(ClassThreshold(classes[i], k), 1.3 * ClassThreshold(classes[i - 1], k)) << k;
    }
    for (const PrecisionClass c : classes) {
      EXPECT_EQ(ClassifyError(ClassThreshold(c, k), k), c);
    }
  }
}

TEST(Thresholds, PlaceTheMeasuredFiguresOf4096) {
  EXPECT_EQ(ClassifyError(1.1e-6, 4096), PrecisionClass::kFp32) << "vendor library, fp32";
  EXPECT_EQ(ClassifyError(1.4e-5, 4096), PrecisionClass::kTf32)
      << "published kernel of fp16 halves";
  EXPECT_EQ(ClassifyError(2.9e-4, 4096), PrecisionClass::kTf32) << "tf32, or fp16 operands";
  EXPECT_EQ(ClassifyError(0.2, 4096), std::nullopt);
  EXPECT_EQ(ClassifyError(1.0, 4096), std::nullopt);
  EXPECT_EQ(ClassifyError(kInf, 4096), std::nullopt);
  EXPECT_EQ(ClassifyError(kNaN, 4096), std::nullopt);
}

TEST(ToleranceFor, TheClassOfTheCaseComesBeforeTheTasks) {
  const Tensor y = Output({1, 64});
  auto task = TaskOf(y, PrecisionClass::kFp16, 4096);
  task.cases[0].demanded = PrecisionClass::kFp32;  // an fp32 case of a search scored in fp16
  EXPECT_EQ(ToleranceFor(task, 0, y).row_l2, ClassThreshold(PrecisionClass::kFp32, 4096));
  task.cases[0].demanded = std::nullopt;
  EXPECT_EQ(ToleranceFor(task, 0, y).row_l2, ClassThreshold(PrecisionClass::kFp16, 4096));
}

TEST(ToleranceFor, ACaseOverridesAndTheOutputTypeLimits) {
  const Tensor y = Output({1, 64});
  auto task = TaskOf(y, PrecisionClass::kFp32, 4096);
  EXPECT_EQ(ToleranceFor(task, 0, y).row_l2, ClassThreshold(PrecisionClass::kFp32, 4096));
  EXPECT_EQ(ToleranceFor(task, 0, Output({1, 64}, DType::kBF16)).row_l2,
            ClassThreshold(PrecisionClass::kBf16, 4096));
  task.cases[0].tolerance = 4e-3;
  EXPECT_EQ(ToleranceFor(task, 0, y).row_l2, 4e-3);
  EXPECT_EQ(ToleranceFor(task, 0, y).scaled_max, 16 * 4e-3);
}

}  // namespace
}  // namespace grove::eval
