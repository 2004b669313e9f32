#include "llm/playbook/traits.h"

#include <gtest/gtest.h>

namespace grove::llm::playbook {
namespace {

TEST(Traits, ALineIsWrittenAndReadBack) {
  const Traits traits = {
      {"op", "softmax"}, {"strategy", "block"}, {"threads", "256"}, {"vec", "4"}};
  EXPECT_EQ(TraitsLine(traits), "// traits: op=softmax strategy=block threads=256 vec=4");
  EXPECT_EQ(TraitsOf("#include <x>\n" + TraitsLine(traits) + "\nint a;", "row_reduction"), traits);
}

TEST(Traits, AKernelWithoutALineIsNaiveUnlessItUsesSharedMemory) {
  EXPECT_EQ(TraitsOf("__global__ void k() {}", "gemm").at("strategy"), "naive");
  EXPECT_EQ(TraitsOf("__shared__ float a[1];", "gemm").at("strategy"), "tile");
  const Traits block = TraitsOf("__shared__ float a[1]; float4 b; __expf(x);", "row_reduction");
  EXPECT_EQ(block, (Traits{{"strategy", "block"}, {"vec", "4"}, {"fastexp", "1"}}));
}

TEST(Traits, HostileLinesAreReadAsFarAsTheyAreTraits) {
  const Traits traits =
      TraitsOf("// traits: strategy=block x y= =z a=b=c threads=2;rm vec=4\n", "gemm");
  EXPECT_EQ(traits, (Traits{{"strategy", "block"}, {"vec", "4"}}));
  std::string endless = "// traits: strategy=block";
  for (int i = 0; i < 1000; ++i) endless += " n" + std::to_string(i) + "=1";
  EXPECT_LE(TraitsOf(endless, "gemm").size(), 64u);
}

TEST(Condition, NamesAValueListOrABound) {
  const Traits traits = {{"strategy", "warp"}};
  const Facts facts = {{"row", 100}};
  const auto holds = [&](const char* text) { return Condition::Parse(text)->Holds(traits, facts); };
  EXPECT_TRUE(holds("strategy=block|warp"));
  EXPECT_FALSE(holds("strategy=block"));
  EXPECT_FALSE(holds("vec=4"));
  EXPECT_TRUE(holds("row<=100"));
  EXPECT_FALSE(holds("row<100"));
  EXPECT_TRUE(holds("row>=100"));
  EXPECT_TRUE(holds("row>99"));
  EXPECT_FALSE(holds("rows>0"));
}

TEST(Condition, OtherTextsAreRefused) {
  for (const char* text : {"", "x", "=4", "a=", "a=b|", "a<", "a<b", "a<=1x", "a b=1"}) {
    EXPECT_FALSE(Condition::Parse(text)) << text;
  }
}

}  // namespace
}  // namespace grove::llm::playbook
