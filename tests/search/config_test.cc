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

}  // namespace
}  // namespace grove::search
