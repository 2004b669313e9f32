#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/program.h"
#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PreludeTest, NamesDimsTensorsAndScalars) {
  EXPECT_EQ(Prelude(SampleCase()),
            "#include <math.h>\n#include <float.h>\n#include <limits.h>\n#include <stdint.h>\n"
            "#define GROVE_DIM_M 4096\n#define GROVE_DIM_N 1000\n#define GROVE_IS_f32 1\n"
            "namespace dim {\n"
            "[[maybe_unused]] constexpr int M = 4096;\n"
            "[[maybe_unused]] constexpr int N = 1000;\n"
            "}\n"
            "namespace tensor {\n"
            "using x = float;\n"
            "using y = float;\n"
            "}\n"
            "namespace scalar {\n"
            "[[maybe_unused]] constexpr float eps = 0x1.4f8b58p-17f;  // 1e-05\n"
            "[[maybe_unused]] constexpr int k_max = 7;\n"
            "}\n"
            "#line 1 \"kernel.cu\"\n");
}

TEST(PreludeTest, DimsBeyondIntAreLongLong) {
  seeds::Case sample = SampleCase();
  sample.dims = {
      {"a", 2147483647}, {"b", 2147483648}, {"c", std::numeric_limits<std::int64_t>::min()}};
  const std::string text = Prelude(sample);
  EXPECT_THAT(text, HasSubstr("constexpr int a = 2147483647;"));
  EXPECT_THAT(text, HasSubstr("constexpr long long b = 2147483648LL;"));
  EXPECT_THAT(text, HasSubstr("constexpr long long c = -9223372036854775807LL - 1;"));
}

TEST(PreludeTest, HeadersOfSixteenBitTypesOnlyWhenATensorNeedsThem) {
  seeds::Case sample = SampleCase();
  EXPECT_THAT(Prelude(sample), Not(HasSubstr("fp16")));
  EXPECT_THAT(Prelude(sample), Not(HasSubstr("bf16")));
  sample.tensors[0].dtype = DType::kF16;
  EXPECT_THAT(Prelude(sample), HasSubstr("#include <cuda_fp16.h>"));
  EXPECT_THAT(Prelude(sample), HasSubstr("using x = __half;"));
  EXPECT_THAT(Prelude(sample), Not(HasSubstr("cuda_bf16.h")));
  sample.tensors[1].dtype = DType::kBF16;
  EXPECT_THAT(Prelude(sample), HasSubstr("#include <cuda_bf16.h>"));
  EXPECT_THAT(Prelude(sample), EndsWith("#line 1 \"kernel.cu\"\n"));
}

TEST(PreludeTest, ScalarsAreExact) {
  seeds::Case sample = SampleCase();
  sample.scalars = {{"d", DType::kF64, 0.1},
                    {"f", DType::kF32, 0.1},
                    {"inf", DType::kF32, -std::numeric_limits<double>::infinity()},
                    {"nan", DType::kF64, std::numeric_limits<double>::quiet_NaN()},
                    {"n", DType::kI64, 3}};
  const std::string text = Prelude(sample);
  EXPECT_THAT(text, HasSubstr("constexpr double d = 0x1.999999999999ap-4;"));
  EXPECT_THAT(text, HasSubstr("constexpr float f = 0x1.99999ap-4f;"));
  EXPECT_THAT(text, HasSubstr("constexpr float inf = -__builtin_bit_cast(float, 0x7f800000U);"));
  EXPECT_THAT(text, HasSubstr("constexpr double nan = __builtin_bit_cast(double,"));
  EXPECT_THAT(text, HasSubstr("constexpr long long n = 3LL;"));
}

TEST(PreludeTest, DefinesNoMacrosButThoseThatCombinedProgramsChooseBy) {
  const std::string text = Prelude(SampleCase());
  for (std::size_t at = text.find("#define"); at != std::string::npos;
       at = text.find("#define", at + 1)) {
    EXPECT_EQ(text.compare(at, 14, "#define GROVE_"), 0) << text.substr(at, 40);
  }
}

}  // namespace
}  // namespace grove::codegen
