// What the protocols share: UTF-8, refusals and what they mean, secrets.
#include "llm/protocol.h"

#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/secret.h"

namespace grove::llm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ValidUtf8, GoodTextStaysAsItIs) {
  const std::string text = "plain, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x8C\xB3";
  EXPECT_EQ(ValidUtf8(text), text);
}

TEST(ValidUtf8, EveryBadByteIsReplaced) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(ValidUtf8("a\xFF"
                      "b"),
            "a" + mark + "b");
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), mark + mark) << "overlong";
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), mark + mark + mark) << "surrogate";
  EXPECT_EQ(ValidUtf8("\xE2\x82"), mark + mark) << "cut";
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), mark + mark + mark + mark) << "above U+10FFFF";
}

TEST(Refusal, TheErrorObjectIsRead) {
  const Refusal refusal = ReadRefusal(
      400,
      R"({"error":{"message":"no\nsuch thing","type":"invalid_request_error","param":"seed"}})",
      Secret());
  EXPECT_EQ(refusal.message, "no such thing");
  EXPECT_EQ(refusal.type, "invalid_request_error");
  EXPECT_EQ(refusal.param, "seed");
}

TEST(Refusal, AWebPageIsReadWithoutItsTags) {
  EXPECT_EQ(ReadRefusal(502, "<html><h1>Bad  Gateway</h1></html>", Secret()).message,
            "Bad Gateway");
}

TEST(Refusal, ALongMessageIsCutAndControlCharactersGo) {
  const Refusal refusal = ReadRefusal(500, std::string(10000, 'x') + "\x1b[31m", Secret());
  EXPECT_LE(refusal.message.size(), 300U);
  EXPECT_EQ(ReadRefusal(500, "a\x1b[31mb", Secret()).message, "a [31mb");
}

TEST(Refusal, AKeyIsMaskedBeforeTheMessageIsCut) {
  const Secret key("sk-0123456789abcdef");
  const std::string body = std::string(290, 'x') + key.Reveal();
  EXPECT_THAT(ReadRefusal(401, body, key).message, Not(HasSubstr("sk-")));
}

TEST(Classify, EachStatusNamesTheCallersAction) {
  const auto code = [](int status) { return Classify({status, "", "", "m"}, "KEY").error.code; };
  EXPECT_EQ(code(400), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(401), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(402), ErrorCode::kResource);
  EXPECT_EQ(code(404), ErrorCode::kNotFound);
  EXPECT_EQ(code(302), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(429), ErrorCode::kUnavailable);
  EXPECT_EQ(code(500), ErrorCode::kUnavailable);
  EXPECT_EQ(code(529), ErrorCode::kUnavailable);
  EXPECT_THAT(Classify({401, "", "", "m"}, "MY_KEY").error.message, HasSubstr("MY_KEY"));
}

TEST(Classify, OnlyWhatMayPassIsTriedAgain) {
  const auto retry = [](int status) { return Classify({status, "", "", "m"}, "KEY").retry; };
  for (const int status : {408, 429, 500, 502, 503, 504, 529}) EXPECT_TRUE(retry(status)) << status;
  for (const int status : {301, 400, 401, 402, 403, 404, 413, 422, 501}) {
    EXPECT_FALSE(retry(status)) << status;
  }
  EXPECT_FALSE(Classify({429, "insufficient_quota", "", "m"}, "KEY").retry);
  EXPECT_TRUE(Classify({0, "overloaded_error", "", "m"}, "KEY").retry);
  EXPECT_FALSE(Classify({0, "invalid_request_error", "", "m"}, "KEY").retry);
}

TEST(Secret, NoWayOfPrintingShowsIt) {
  const Secret key("sk-visible");
  std::ostringstream out;
  out << key;
  EXPECT_EQ(out.str(), "***");
  EXPECT_EQ(fmt::format("{}", key), "***");
  EXPECT_EQ(fmt::format("{:>5}", key), "  ***");
}

TEST(Secret, EveryOccurrenceIsMasked) {
  const Secret key("abc");
  EXPECT_EQ(key.Mask("abcabc and abc"), "****** and ***");
  EXPECT_EQ(Secret().Mask("abc"), "abc");
}

TEST(Secret, OnlyPrintableAsciiFitsAHeader) {
  EXPECT_TRUE(Secret("sk-1_2").FitsHeader());
  EXPECT_FALSE(Secret("a\r\nX: y").FitsHeader());
  EXPECT_FALSE(Secret("a b").FitsHeader());
}

}  // namespace
}  // namespace grove::llm
