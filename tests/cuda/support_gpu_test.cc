// Our own device code against its definitions on the host.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "eval/inputs.h"
#include "gpu_fixture.h"

namespace grove::cuda {
namespace {

using seeds::Distribution;
constexpr std::chrono::milliseconds kWait{20000};

class Support : public LaneTest {
 protected:
  GuardedBuffer Buffer(std::int64_t bytes) {
    auto buffer = parts_->pool.Acquire(bytes);
    EXPECT_TRUE(buffer) << buffer.error().Message();
    return buffer ? std::move(*buffer) : GuardedBuffer();
  }
  void Upload(const GuardedBuffer& to, const void* from, std::size_t bytes) {
    ASSERT_EQ(lane_->driver().MemcpyHtoDAsync(to.data(), from, bytes, lane_->stream()), kCuSuccess);
    ASSERT_TRUE(lane_->Wait(kWait));
  }
  std::vector<std::byte> Download(const GuardedBuffer& from) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(from.bytes()));
    EXPECT_EQ(
        lane_->driver().MemcpyDtoHAsync(bytes.data(), from.data(), bytes.size(), lane_->stream()),
        kCuSuccess);
    EXPECT_TRUE(lane_->Wait(kWait));
    return bytes;
  }
  template <typename T>
  T Result(std::size_t slot) {
    EXPECT_TRUE(lane_->ReadResults());
    EXPECT_TRUE(lane_->Wait(kWait));
    return lane_->result<T>(slot);
  }
};

TEST_F(Support, InputsAreBitForBitThoseOfTheHost) {
  const Distribution distributions[] = {
      {Distribution::Kind::kNormal, 0, 1},     {Distribution::Kind::kNormal, 1000, 0.1},
      {Distribution::Kind::kUniform, -3, 5},   {Distribution::Kind::kConstant, 0.3, 0},
      {Distribution::Kind::kMixed, 1e3, 1e-3}, {Distribution::Kind::kTail, 2, 3}};
  const DType dtypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                          DType::kI32, DType::kI8,  DType::kU8,  DType::kBool};
  for (const Distribution& distribution : distributions) {
    for (const DType dtype : dtypes) {
      seeds::Tensor tensor;
      tensor.dtype = dtype;
      tensor.shape = {37, 1001};
      tensor.distribution = distribution;
      auto buffer = Buffer(tensor.bytes().value);
      ASSERT_TRUE(parts_->support.Generate(lane_->stream(), tensor, 3, 0x123456789abcdefULL,
                                           buffer.data()));
      const auto got = Download(buffer);
      std::vector<std::byte> expected(got.size());
      eval::FillInput(tensor, 0x123456789abcdefULL, 3, expected);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0)
          << Name(distribution.kind) << " " << distribution.a << " " << Name(dtype);
    }
  }
}

TEST_F(Support, PoisonIsThatOfTheHostAndIsCounted) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI8}) {
    for (int which : {0, 1}) {
      auto buffer = Buffer(1003 * static_cast<std::int64_t>(SizeOf(dtype)));
      const std::uint64_t pattern = PoisonPattern(dtype, which);
      ASSERT_TRUE(parts_->support.Fill(lane_->stream(), buffer.data(), buffer.bytes(), pattern));
      const auto got = Download(buffer);
      std::vector<std::byte> expected(got.size());
      eval::FillPoison(expected, dtype, which);
      EXPECT_EQ(got, expected) << Name(dtype) << which;
      ASSERT_TRUE(lane_->ClearResults());
      ASSERT_TRUE(parts_->support.CountPattern(lane_->stream(), buffer.data(), 1003,
                                               static_cast<int>(SizeOf(dtype)), pattern, 0, true,
                                               lane_->slot(0)));
      EXPECT_EQ(Result<ScanResult>(0).count, 1003U);
    }
  }
}

TEST_F(Support, TheComparisonReportsWhatTheHostsReports) {
  std::mt19937_64 random(99);
  std::normal_distribution<double> normal;
  struct Shape {
    std::vector<std::int64_t> shape;
    std::int64_t row;
    DType dtype;
  };
  const Shape shapes[] = {{{100, 1000}, 0, DType::kF32}, {{7, 70001}, 0, DType::kF32},
                          {{513, 5}, 0, DType::kF32},    {{3, 400, 100}, 40000, DType::kF16},
                          {{64, 333}, 0, DType::kBF16},  {{3000, 17}, 0, DType::kF64},
                          {{50, 50}, 0, DType::kI32},    {{1}, 0, DType::kF32},
                          {{2, 150000}, 0, DType::kF16}};
  for (const Shape& s : shapes) {
    for (const int flaw : {0, 1, 2, 3}) {
      seeds::Tensor tensor;
      tensor.role = seeds::TensorRole::kOutput;
      tensor.dtype = s.dtype;
      tensor.shape = s.shape;
      const auto n = static_cast<std::size_t>(tensor.elements());
      std::vector<double> reference(n);
      std::vector<std::byte> got(static_cast<std::size_t>(tensor.bytes().value));
      for (std::size_t i = 0; i < n; ++i) {
        reference[i] = 10 * normal(random);
        StoreElement(s.dtype, got.data(), static_cast<std::int64_t>(i),
                     reference[i] * (1 + 1e-5 * normal(random)));
      }
      if (flaw == 1) StoreElement(s.dtype, got.data(), static_cast<std::int64_t>(n / 2), 77);
      if (flaw == 2 && IsFloat(s.dtype)) {
        StoreElement(s.dtype, got.data(), static_cast<std::int64_t>(n / 3), std::nan(""));
        StoreElement(s.dtype, got.data(), static_cast<std::int64_t>(n - 1),
                     std::numeric_limits<double>::infinity());
      }
      if (flaw == 3) {
        for (std::size_t i = 0; i < n; ++i) reference[i] = 0;
      }
      const eval::ErrorReport expected = eval::Compare(tensor, got, reference, s.row);

      auto out = Buffer(tensor.bytes().value);
      auto ref = Buffer(tensor.elements() * 8);
      Upload(out, got.data(), got.size());
      Upload(ref, reference.data(), n * 8);
      const CompareShape shape = ShapeOf(tensor, s.row);
      const CompareScratch layout = ScratchOf(shape);
      auto scratch = Buffer(layout.bytes);
      ASSERT_TRUE(lane_->ClearResults());
      ASSERT_TRUE(parts_->support.Compare(lane_->stream(), out.data(), ref.data(), shape, layout,
                                          scratch.data(), lane_->slot(0)));
      const auto result = Result<CompareResult>(0);
      const std::string what =
          std::string(Name(s.dtype)) + " " + std::to_string(n) + " flaw " + std::to_string(flaw);
      EXPECT_EQ(static_cast<std::int64_t>(result.mismatches), expected.non_finite_mismatches)
          << what;
      if (result.mismatches > 0) {
        EXPECT_EQ(result.first_mismatch, expected.worst_element) << what;
        EXPECT_EQ(result.first_mismatch_row, expected.worst_row) << what;
        continue;
      }
      EXPECT_EQ(shape.rows, expected.rows) << what;
      const auto near = [&](double got_value, double wanted) {
        if (std::isinf(wanted)) {
          EXPECT_EQ(got_value, wanted) << what;
        } else {
          EXPECT_NEAR(got_value, wanted, 1e-9 * wanted) << what;
        }
      };
      near(result.worst_row_l2, expected.worst_row_l2);
      near(result.scaled_max, expected.scaled_max);
      if (expected.scaled_max > 0) {
        EXPECT_EQ(result.worst_element, expected.worst_element) << what;
        EXPECT_EQ(result.worst_row, expected.worst_row) << what;
        EXPECT_EQ(result.got, expected.got) << what;
        EXPECT_EQ(result.expected, expected.expected) << what;
      }
    }
  }
}

TEST_F(Support, TheHashSeesEveryBitAndEveryPlace) {
  std::vector<std::byte> bytes(4099, std::byte{3});
  auto buffer = Buffer(static_cast<std::int64_t>(bytes.size()));
  const auto hash = [&] {
    Upload(buffer, bytes.data(), bytes.size());
    EXPECT_TRUE(lane_->ClearResults());
    EXPECT_TRUE(
        parts_->support.Hash(lane_->stream(), buffer.data(), buffer.bytes(), lane_->slot(0)));
    const auto result = Result<ScanResult>(0);
    return std::pair(result.hash_a, result.hash_b);
  };
  const auto base = hash();
  EXPECT_EQ(hash(), base);
  for (std::size_t i : {std::size_t{0}, std::size_t{2048}, bytes.size() - 1}) {
    bytes[i] ^= std::byte{1};
    EXPECT_NE(hash(), base) << i;
    bytes[i] ^= std::byte{1};
  }
  bytes[8] = std::byte{4};
  const auto first = hash();
  bytes[8] = std::byte{3};
  bytes[16] = std::byte{4};
  EXPECT_NE(hash(), first) << "the same word elsewhere";
}

TEST_F(Support, GuardsAndDifferencesAreFoundByTheByte) {
  auto a = Buffer(100000);
  auto b = Buffer(100000);
  ASSERT_TRUE(parts_->support.Fill(lane_->stream(), a.data(), a.bytes(), kGuardPattern));
  ASSERT_TRUE(parts_->support.Fill(lane_->stream(), b.data(), b.bytes(), kGuardPattern));
  const unsigned char odd = 1;
  ASSERT_EQ(lane_->driver().MemcpyHtoDAsync(b.data() + 77777, &odd, 1, lane_->stream()),
            kCuSuccess);
  ASSERT_TRUE(lane_->ClearResults());
  ASSERT_TRUE(parts_->support.CheckGuard(lane_->stream(), a.data(), a.data() + 100000,
                                         kGuardPattern, lane_->slot(0)));
  ASSERT_TRUE(parts_->support.CheckGuard(lane_->stream(), b.data() + 5, b.data() + 100000,
                                         kGuardPattern, lane_->slot(1)));
  ASSERT_TRUE(parts_->support.Differ(lane_->stream(), a.data(), b.data(), 100000, lane_->slot(2)));
  EXPECT_EQ(Result<ScanResult>(0).count, 0U);
  EXPECT_EQ(lane_->result<ScanResult>(1).count, 1U);
  EXPECT_EQ(lane_->result<ScanResult>(1).first(), 77772);
  EXPECT_EQ(lane_->result<ScanResult>(2).count, 1U);
  EXPECT_EQ(lane_->result<ScanResult>(2).first(), 77777);
}

TEST_F(Support, BuffersAreReusedAndLieFarApart) {
  constexpr std::int64_t kBytes = 77777777;  // a size class that no other test uses
  auto a = Buffer(kBytes);
  auto b = Buffer(kBytes);
  const auto distance = a.data() > b.data() ? a.data() - b.data() : b.data() - a.data();
  if (device_->facts().virtual_memory) {
    EXPECT_GT(distance, CuDevicePtr{8} << 30);
  }
  const CuDevicePtr address = a.data();
  a = GuardedBuffer();
  EXPECT_EQ(Buffer(kBytes).data(), address);
  EXPECT_EQ(address % 512, 0U);
}

TEST_F(Support, TheBlockingKernelWaitsForItsGateAndGivesUpInTime) {
  ASSERT_TRUE(lane_->ClearResults());
  const std::uint32_t token = lane_->NextToken();
  ASSERT_TRUE(
      parts_->support.Block(lane_->stream(), lane_->flag(), token, 5'000'000'000, lane_->slot(0)));
  EXPECT_FALSE(lane_->Wait(std::chrono::milliseconds(50))) << "must still be blocked";
  lane_->Open(token);
  ASSERT_TRUE(lane_->Wait(kWait));
  const std::uint32_t never = lane_->NextToken();
  ASSERT_TRUE(
      parts_->support.Block(lane_->stream(), lane_->flag(), never, 20'000'000, lane_->slot(1)));
  ASSERT_TRUE(lane_->Wait(kWait));
  EXPECT_EQ(Result<Stamp>(0).timed_out, 0U);
  EXPECT_EQ(lane_->result<Stamp>(1).timed_out, 1U);
  lane_->Open(never);
}

}  // namespace
}  // namespace grove::cuda
