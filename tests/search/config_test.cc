#include "search/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::search {
namespace {

using ::testing::HasSubstr;

TEST(ConfigTest, WhatIsWrittenIsReadBack) {
  SearchConfig config;
  config.task = "softmax";
  config.rounds = 7;
  config.suite = "crfm";
  config.cases = {"crfm"};
  config.seed = 0xffffffffffffffffULL;
  const auto read = ConfigFromJson(ToJson(config));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(config));
}

TEST(ConfigTest, AnUnknownFieldNamesTheNearest) {
  const auto read = ConfigFromJson(R"({"ronds": 3})");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("'rounds'"));
}

TEST(ConfigTest, ValuesOutOfRangeAndOfTheWrongTypeAreRefused) {
  EXPECT_FALSE(ConfigFromJson(R"({"rounds": 0})"));
  EXPECT_FALSE(ConfigFromJson(R"({"branches": 65})"));
  EXPECT_FALSE(ConfigFromJson(R"({"rounds": "3"})"));
  EXPECT_FALSE(ConfigFromJson(R"({"rounds": 9999999999999})"));
  EXPECT_FALSE(ConfigFromJson("[]"));
  EXPECT_FALSE(ConfigFromJson("{"));
}

TEST(ConfigTest, ModelsAndLimitsAreReadBack) {
  SearchConfig config;
  ModelSpec model;
  model.name = "openai:m";
  model.roles = {"idea", "code", "repair"};
  model.weight = 0.5;
  model.endpoint = "http://localhost:1/v1";
  model.price_in = 1.25;
  config.models = {model};
  ASSERT_TRUE(Set(config, "budget.tokens", "7M"));
  ASSERT_TRUE(Set(config, "budget.round.dollars", "$1.5"));
  ASSERT_TRUE(Set(config, "budget.seconds", "2h"));
  const auto read = ConfigFromJson(ToJson(config));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(config));
  ASSERT_EQ(read->limits.size(), 3U);
  EXPECT_EQ(read->models[0].price_in, 1.25);
}

TEST(ConfigTest, EverySettingOfTheTableCanBeSetToWhatItShows) {
  SearchConfig config;
  for (const Setting& setting : Settings()) {
    EXPECT_FALSE(setting.help.empty()) << setting.key;
    if (setting.value.empty()) continue;
    EXPECT_TRUE(Set(config, setting.key, setting.value)) << setting.key;
  }
  EXPECT_EQ(ToJson(config), ToJson(SearchConfig()));
}

TEST(ConfigTest, AnUnknownSettingAndAnUnknownModelNameTheNearest) {
  SearchConfig config;
  const auto set = Set(config, "budget.tokns", "7M");
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message, HasSubstr("'budget.tokens'"));
  config.model = "playbok";
  const auto valid = Validate(config);
  ASSERT_FALSE(valid);
  EXPECT_THAT(valid.error().message, HasSubstr("'playbook'"));
  config.model = "openai";
  EXPECT_FALSE(Validate(config));
  config.model = "openai:gpt";
  EXPECT_TRUE(Validate(config));
}

TEST(ConfigTest, ARoleWithoutAModelIsRefused) {
  SearchConfig config;
  ModelSpec model;
  model.name = "playbook";
  model.roles = {"idea"};
  config.models = {model};
  const auto valid = Validate(config);
  ASSERT_FALSE(valid);
  EXPECT_THAT(valid.error().message, HasSubstr("'code'"));
}

TEST(ConfigTest, AmountsAreReadInTheirUnits) {
  using results::LedgerKind;
  EXPECT_EQ(*ParseAmount("7M", LedgerKind::kTokens), 7e6);
  EXPECT_EQ(*ParseAmount("1.5k", LedgerKind::kTokens), 1500);
  EXPECT_EQ(*ParseAmount("30m", LedgerKind::kSeconds), 1800);
  EXPECT_EQ(*ParseAmount("$0.25", LedgerKind::kDollars), 0.25);
  for (const char* bad : {"", "M", "-1", "7X", "1.5", "7 M", "nan", "inf", "1e99"}) {
    EXPECT_FALSE(ParseAmount(bad, LedgerKind::kTokens)) << bad;
  }
}

}  // namespace
}  // namespace grove::search
