#include "base/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace grove {
namespace {

TEST(DTypeTest, EveryNameRoundTrips) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                            DType::kI32, DType::kI8, DType::kU8, DType::kBool}) {
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  }
  EXPECT_FALSE(DTypeFromName("f31"));
}

TEST(DTypeTest, EveryHalfSurvivesTheRoundTripThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToHalf(value), bits);
  }
}

TEST(DTypeTest, HalfRoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(2049.0F), FloatToHalf(2048.0F));  // tie, to even
  EXPECT_EQ(FloatToHalf(2051.0F), FloatToHalf(2052.0F));  // tie, to even
  EXPECT_EQ(FloatToHalf(65519.0F), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.0F, -25)), 0);  // half of the least denormal: tie to 0
  EXPECT_EQ(FloatToHalf(std::nextafter(std::ldexp(1.0F, -25), 1.0F)), 1);
}

TEST(DTypeTest, StoringADoubleAsHalfRoundsOnce) {
  // Just above a tie between two halves: rounding to float first would make it a tie.
  const double value = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  std::byte out[2];
  StoreElement(DType::kF16, out, 0, value);
  std::uint16_t bits;
  std::memcpy(&bits, out, 2);
  EXPECT_EQ(bits, 0x3c01);
}

TEST(DTypeTest, IntegersSaturate) {
  std::byte out[8];
  StoreElement(DType::kI32, out, 0, 1e20);
  EXPECT_EQ(LoadElement(DType::kI32, out, 0), std::numeric_limits<std::int32_t>::max());
  StoreElement(DType::kI64, out, 0, -1e30);
  EXPECT_EQ(LoadElement(DType::kI64, out, 0),
            static_cast<double>(std::numeric_limits<std::int64_t>::min()));
  StoreElement(DType::kI8, out, 0, std::nan(""));
  EXPECT_EQ(LoadElement(DType::kI8, out, 0), 0);
}

}  // namespace
}  // namespace grove
