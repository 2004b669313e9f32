#include "llm/ensemble.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/pricing.h"
#include "tests/support/program.h"

namespace grove::llm {
namespace {

using ::testing::HasSubstr;

TEST(Ensemble, ChoosesByWeightAndAlwaysTheSame) {
  const auto make = [](std::uint64_t seed) {
    return *MakeWeightedEnsemble({{"a", {}, 3}, {"b", {}, 1}}, seed);
  };
  const auto one = make(7);
  const auto two = make(7);
  const auto other = make(8);
  std::map<std::string, int> chosen;
  int differ = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "code r1.p1.i1.b" + std::to_string(i);
    const std::string label = one->Choose(Role::kCode, key);
    EXPECT_EQ(label, two->Choose(Role::kCode, key));
    differ += label == other->Choose(Role::kCode, key) ? 0 : 1;
    ++chosen[label];
  }
  EXPECT_NEAR(chosen["a"], 3000, 200);
  EXPECT_GT(differ, 1000) << "another seed chooses otherwise";
}

TEST(Ensemble, ARoleGoesToThoseThatTakeIt) {
  const auto ensemble =
      *MakeWeightedEnsemble({{"thinker", {Role::kIdea}, 1}, {"coder", {Role::kCode}, 1}}, 1);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(ensemble->Choose(Role::kIdea, std::to_string(i)), "thinker");
    EXPECT_EQ(ensemble->Choose(Role::kCode, std::to_string(i)), "coder");
  }
}

TEST(Ensemble, WithoutMembersOrWeightItIsRefused) {
  EXPECT_FALSE(MakeWeightedEnsemble({}, 1));
  EXPECT_FALSE(MakeWeightedEnsemble({{"a", {}, 0}}, 1));
}

class PricesTest : public ::testing::Test {
 protected:
  Status Add(const std::string& text) {
    const auto path = folder_.path() / "prices.toml";
    std::ofstream(path) << text;
    return table_.Add(path);
  }
  testing::ScratchFolder folder_;
  PriceTable table_;
};

TEST_F(PricesTest, AnExactRowComesBeforeTheLongestPrefix) {
  ASSERT_TRUE(Add(R"(version = 1
[[price]]
model = "openai:gpt*"
in = 1
out = 2
[[price]]
model = "openai:gpt-4*"
in = 3
out = 4
[[price]]
model = "openai:gpt-4"
in = 5
out = 6
)"));
  EXPECT_EQ(table_.Find("openai:gpt-4")->in, 5);
  EXPECT_EQ(table_.Find("openai:gpt-4-x")->in, 3);
  EXPECT_EQ(table_.Find("openai:gpt-3")->in, 1);
  EXPECT_FALSE(table_.Find("openai:other"));
}

TEST_F(PricesTest, WhatIsWrongInTheFileIsSaidWithItsLine) {
  const auto unknown = Add("version = 1\n[[price]]\nmodel = \"m\"\nin = 1\noutt = 2\n");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("prices.toml:5: unknown key 'outt'"));
  EXPECT_FALSE(Add("[[price]]\nmodel = \"m\"\nin = 1\nout = 2\n")) << "no version";
  EXPECT_FALSE(Add("version = 1\n[[price]]\nmodel = \"m\"\nin = -1\nout = 2\n"));
  EXPECT_FALSE(Add("version = 1\n[[price]]\nmodel = \"m\"\nin = 1\n"));
  EXPECT_FALSE(Add("version = "));
}

TEST(Prices, OursCanBeReadAndSayWhereTheyComeFrom) {
  const auto table = LoadPrices();
  ASSERT_TRUE(table) << table.error().message;
  const auto price = table->Find("anthropic:claude-sonnet-4-5");
  ASSERT_TRUE(price);
  EXPECT_FALSE(price->date.empty());
  EXPECT_FALSE(price->source.empty());
  EXPECT_EQ(table->Find("playbook")->out, 0);
  EXPECT_FALSE(table->Find("openai:smollm2"));
}

TEST(Prices, ACostIsNeverMoreThanTheMost) {
  Price price;
  price.in = 2;
  price.cached = 0.5;
  price.write = 3;
  price.out = 10;
  Usage usage;
  usage.prompt = Tokens(1000);
  usage.cached = Tokens(400);
  usage.completion = Tokens(50);
  EXPECT_DOUBLE_EQ(price.Cost(usage), (600 * 3 + 400 * 0.5 + 50 * 10) / 1e6);
  EXPECT_LE(price.Cost(usage), price.Most(usage.prompt, usage.completion));
}

}  // namespace
}  // namespace grove::llm
