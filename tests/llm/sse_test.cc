// The event stream's parser: the same events however the bytes are split.
#include "llm/sse.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::llm {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

struct Collected {
  Events events;
  SseParser::Sink sink() {
    return [this](const SseEvent& event) {
      events.emplace_back(event.type, event.data);
      return true;
    };
  }
};

Events Parse(const std::vector<std::string_view>& pieces) {
  Collected collected;
  SseParser parser;
  for (const std::string_view piece : pieces) EXPECT_TRUE(parser.Feed(piece, collected.sink()));
  EXPECT_TRUE(parser.Finish(collected.sink()));
  return collected.events;
}

const std::string kStream =
    "\xEF\xBB\xBF: a comment\r\nevent: message_start\r\ndata: {\"a\":1}\r\n\r\n"
    "data: one\ndata: two\ndata:\ndata:  four\n\n"
    ":\n\nid: 7\nretry: 10\ndata\n\n"
    "event: ping\r\r"
    "data: last\rdata: of them\r\r"
    "data: [DONE]\n\n";
const Events kEvents = {{"message_start", "{\"a\":1}"},
                        {"", "one\ntwo\n\n four"},
                        {"", ""},
                        {"", "last\nof them"},
                        {"", "[DONE]"}};

TEST(Sse, WholeStreamGivesItsEvents) { EXPECT_EQ(Parse({kStream}), kEvents); }

TEST(Sse, EverySplitIntoTwoAndThreeGivesTheSameEvents) {
  const std::string_view stream = kStream;
  for (std::size_t a = 0; a <= stream.size(); ++a) {
    for (std::size_t b = a; b <= stream.size(); ++b) {
      ASSERT_EQ(Parse({stream.substr(0, a), stream.substr(a, b - a), stream.substr(b)}), kEvents)
          << "split at " << a << " and " << b;
    }
  }
}

TEST(Sse, ByteByByteGivesTheSameEvents) {
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < kStream.size(); ++i) bytes.push_back({&kStream[i], 1});
  EXPECT_EQ(Parse(bytes), kEvents);
}

TEST(Sse, RandomBytesInRandomPiecesGiveWhatTheWholeGives) {
  std::mt19937 random(20260);
  const std::string_view alphabet("data: event\r\n\r\n\n:\0\xFF x", 24);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += alphabet[random() % alphabet.size()];
    std::vector<std::string_view> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 9, text.size() - at);
      pieces.push_back(std::string_view(text).substr(at, size));
      at += size;
    }
    ASSERT_EQ(Parse(pieces), Parse({text})) << "round " << round;
  }
}

TEST(Sse, AnEventWithoutItsBlankLineIsDeliveredAtTheEnd) {
  EXPECT_EQ(Parse({"data: cut"}), (Events{{"", "cut"}}));
  EXPECT_EQ(Parse({"data: cut\n"}), (Events{{"", "cut"}}));
}

TEST(Sse, TheEndMarkIsRecognised) {
  EXPECT_TRUE((SseEvent{"", "[DONE]"}.done()));
  EXPECT_FALSE((SseEvent{"", "[DONE] "}.done()));
}

TEST(Sse, ASinkThatHasEnoughGetsNoMore) {
  SseParser parser;
  int events = 0;
  const auto sink = [&](const SseEvent&) { return ++events < 2; };
  ASSERT_TRUE(parser.Feed("data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4", sink));
  ASSERT_TRUE(parser.Feed("\n\n", sink));
  ASSERT_TRUE(parser.Finish(sink));
  EXPECT_EQ(events, 2);
}

TEST(Sse, ALineAboveItsLimitIsRefusedHoweverItArrives) {
  SseParser whole({.line = 100, .event = 1000});
  Collected collected;
  EXPECT_FALSE(whole.Feed("data: " + std::string(100, 'x') + "\n", collected.sink()));
  SseParser dripped({.line = 100, .event = 1000});
  Status last;
  int fed = 0;
  while (last && fed < 1000) {
    last = dripped.Feed("x", collected.sink());
    ++fed;
  }
  EXPECT_EQ(fed, 101);
  EXPECT_EQ(last.error().code, ErrorCode::kInvalidInput);
}

TEST(Sse, AnEventOfManyLinesIsLimitedToo) {
  SseParser parser({.line = 100, .event = 1000});
  Collected collected;
  Status last;
  for (int i = 0; i < 20 && last; ++i) {
    last = parser.Feed("data: " + std::string(90, 'x') + "\n", collected.sink());
  }
  ASSERT_FALSE(last);
  EXPECT_THAT(last.error().message, ::testing::HasSubstr("1000 bytes"));
  EXPECT_TRUE(collected.events.empty());
}

// Rescanning the line at every piece would take hours here.
TEST(Sse, ALongLineInSinglesIsReadInLinearTime) {
  SseParser parser;
  Collected collected;
  ASSERT_TRUE(parser.Feed("data: ", collected.sink()));
  for (int i = 0; i < 4'000'000; ++i) ASSERT_TRUE(parser.Feed("x", collected.sink()));
  ASSERT_TRUE(parser.Feed("\n\n", collected.sink()));
  ASSERT_EQ(collected.events.size(), 1U);
  EXPECT_EQ(collected.events[0].second.size(), 4'000'000U);
}

}  // namespace
}  // namespace grove::llm
