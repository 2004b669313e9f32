#include "ideas/idea.h"

#include <string>

#include <gtest/gtest.h>

namespace grove::ideas {
namespace {

constexpr const char* kTwo = R"({"ideas": [
  {"title": "Vectorised loads", "category": "memory access", "rationale": "16 bytes", "expected_gain": 1.8},
  {"title": "One warp per row", "category": "parallelism and occupancy", "rationale": "no barrier", "expected_gain": 2}
]})";

// Whether any note holds `text`.
bool Notes(const ParsedIdeas& parsed, const std::string& text) {
  for (const std::string& note : parsed.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(ParseIdeas, APlainReplyIsReadWithoutNotes) {
  const auto parsed = ParseIdeas(kTwo, 4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ideas.size(), 2u);
  EXPECT_TRUE(parsed->notes.empty());
  EXPECT_EQ(parsed->ideas[0].title, "Vectorised loads");
  EXPECT_EQ(parsed->ideas[0].category, Category::kMemoryAccess);
  EXPECT_EQ(parsed->ideas[0].rationale, "16 bytes");
  EXPECT_DOUBLE_EQ(parsed->ideas[0].expected_gain, 1.8);
  EXPECT_EQ(parsed->ideas[1].category, Category::kParallelism);
}

TEST(ParseIdeas, AFencedReplyWithProseAroundIsRead) {
  const std::string reply = "Sure! Here are {two} ideas:\n```json\n" + std::string(kTwo) +
                            "\n```\nThe checker says: correct. {\"ideas\": none}\n";
  const auto parsed = ParseIdeas(reply, 4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->ideas.size(), 2u);
}

TEST(ParseIdeas, ABareArrayIsRead) {
  const auto parsed = ParseIdeas(
      R"([{"title": "A", "category": "memory access", "rationale": "r", "expected_gain": 1.1}])",
      4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->ideas.size(), 1u);
}

TEST(ParseIdeas, TrailingCommasAndCommentsAreMended) {
  const auto parsed = ParseIdeas(R"({"ideas": [ // best first
    {"title": "A", "category": "memory access", "rationale": "r", "expected_gain": 1.5,},
  ],})",
                                 4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ideas.size(), 1u);
  EXPECT_DOUBLE_EQ(parsed->ideas[0].expected_gain, 1.5);
}

TEST(ParseIdeas, ALineBreakInsideAStringIsABlank) {
  const auto parsed = ParseIdeas(
      "{\"ideas\": [{\"title\": \"A\", \"category\": \"memory access\", \"rationale\": \"one\n"
      "two\", \"expected_gain\": 1.5}]}",
      4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->ideas[0].rationale, "one two");
}

TEST(ParseIdeas, ACutReplyKeepsItsCompleteIdeas) {
  const std::string whole = kTwo;
  const std::string cut = whole.substr(0, whole.find("no barrier"));
  const auto parsed = ParseIdeas(cut, 4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ideas.size(), 1u);
  EXPECT_EQ(parsed->ideas[0].title, "Vectorised loads");
  EXPECT_TRUE(Notes(*parsed, "ends inside"));
}

// Wherever a reply is cut, what comes back is a prefix of its ideas, or an error.
TEST(ParseIdeas, EveryCutGivesAPrefixOrAnError) {
  const std::string whole = kTwo;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const auto parsed = ParseIdeas(whole.substr(0, length), 4);
    if (!parsed) continue;
    ASSERT_LE(parsed->ideas.size(), 2u);
    EXPECT_EQ(parsed->ideas[0].title, "Vectorised loads") << length;
  }
}

TEST(ParseIdeas, OneBrokenIdeaDoesNotCostTheOthers) {
  const auto parsed = ParseIdeas(
      R"({"ideas": [{"title": "A", "category": "memory access", "rationale": "r", "expected_gain": 1.5},
         {"title": unquoted},
         {"title": "C", "category": "memory access", "rationale": "r", "expected_gain": 1.5}]})",
      4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ideas.size(), 2u);
  EXPECT_EQ(parsed->ideas[1].title, "C");
}

TEST(ParseIdeas, AnUnknownCategoryIsTakenAsTheNearestAndSaid) {
  const auto parsed = ParseIdeas(
      R"([{"title": "A", "category": "Tensor Core usage", "rationale": "r", "expected_gain": 3}])",
      4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->ideas[0].category, Category::kPrecision);
  EXPECT_TRUE(Notes(*parsed, "Tensor Core usage"));
}

TEST(ParseIdeas, IdeasBeyondTheNumberWantedAreDroppedAndCounted) {
  const auto parsed = ParseIdeas(kTwo, 1);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->ideas.size(), 1u);
  EXPECT_TRUE(Notes(*parsed, "1 ideas beyond the 1 wanted"));
}

TEST(ParseIdeas, MissingFieldsTakeDefaultsAndAMissingTitleDropsTheIdea) {
  const auto parsed =
      ParseIdeas(R"({"ideas": [{"rationale": "no title"}, {"title": "Shared memory tile"}]})", 4);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ideas.size(), 1u);
  EXPECT_EQ(parsed->ideas[0].category, Category::kMemoryAccess);  // from the title
  EXPECT_DOUBLE_EQ(parsed->ideas[0].expected_gain, 1.1);
  EXPECT_TRUE(Notes(*parsed, "idea 1 has no title"));
  EXPECT_TRUE(Notes(*parsed, "no rationale"));
  EXPECT_TRUE(Notes(*parsed, "no usable expected_gain"));
}

TEST(ParseIdeas, GainsWrittenAsTextAreRead) {
  const auto gain = [](const std::string& text) {
    const auto parsed =
        ParseIdeas(R"([{"title": "A", "rationale": "r", "expected_gain": )" + text + "}]", 1);
    return parsed ? parsed->ideas[0].expected_gain : -1;
  };
  EXPECT_DOUBLE_EQ(gain("\"1.8x\""), 1.8);
  EXPECT_DOUBLE_EQ(gain("\"about 30%\""), 1.3);
  EXPECT_DOUBLE_EQ(gain("\"much\""), 1.1);
  EXPECT_DOUBLE_EQ(gain("-4"), 1.1);
  EXPECT_DOUBLE_EQ(gain("1e300"), 1000);
}

TEST(ParseIdeas, TheSameIdeaTwiceIsKeptOnce) {
  const auto parsed = ParseIdeas(
      R"([{"title": "Vectorised loads!", "rationale": "r"}, {"title": "vectorised  LOADS", "rationale": "r"}])",
      4);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->ideas.size(), 1u);
  EXPECT_TRUE(Notes(*parsed, "repeats"));
}

TEST(ParseIdeas, NothingUsableIsAnErrorThatSaysWhy) {
  EXPECT_NE(ParseIdeas("", 4).error().message.find("no JSON object"), std::string::npos);
  EXPECT_NE(ParseIdeas("I cannot help with that.", 4).error().message.find("no JSON object"),
            std::string::npos);
  const auto parsed = ParseIdeas(R"({"ideas": [{"rationale": "r"}]})", 4);
  EXPECT_NE(parsed.error().message.find("no title"), std::string::npos);
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidInput);
}

TEST(ParseIdeas, IdeasThatAreNotObjectsOrNotAListAreNoCrash) {
  EXPECT_FALSE(ParseIdeas(R"({"ideas": "none"})", 4));
  EXPECT_FALSE(ParseIdeas(R"({"ideas": [1, null, "x"]})", 4));
  EXPECT_FALSE(ParseIdeas(R"({"ideas": {"title": 3}})", 4));
}

TEST(ParseIdeas, AMegabyteOfWhiteSpaceAndDeepNestingEnd) {
  EXPECT_FALSE(ParseIdeas(std::string(1 << 20, ' '), 4));
  EXPECT_FALSE(ParseIdeas(std::string(20000, '{'), 4));
  const auto parsed = ParseIdeas(std::string(1 << 20, '\n') + kTwo, 4);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->ideas.size(), 2u);
}

TEST(ParseIdeas, ControlCharactersAndEndlessTextAreCutToOneLine) {
  const auto parsed = ParseIdeas(
      R"([{"title": "A\u0007\nB", "rationale": ")" + std::string(10000, 'x') + "\"}]", 4);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->ideas[0].title, "A B");
  EXPECT_EQ(parsed->ideas[0].rationale.size(), 4000u);
}

TEST(Category, EveryNameIsFoundAgainWhateverItsCase) {
  for (const Category category : kCategories) {
    std::string name(Name(category));
    EXPECT_EQ(CategoryFromName(name), category);
    name[0] = static_cast<char>(std::toupper(name[0]));
    EXPECT_EQ(CategoryFromName(name), category);
    EXPECT_EQ(NearestCategory(name), category);
  }
  EXPECT_EQ(CategoryFromName("magic"), std::nullopt);
}

TEST(SameIdea, PunctuationAndCaseDoNotMakeAnotherIdea) {
  Idea a, b;
  a.title = "Two-stage  pipeline (cp.async)";
  b.title = "two stage pipeline: CP.ASYNC";
  EXPECT_TRUE(SameIdea(a, b));
  b.title = "three stage pipeline: cp.async";
  EXPECT_FALSE(SameIdea(a, b));
}

}  // namespace
}  // namespace grove::ideas
