#include "ideas/novelty.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "llm/playbook_client.h"

namespace grove::ideas {
namespace {

struct Pair {
  bool same = false;
  Idea a, b;
};

Idea IdeaFrom(const nlohmann::json& list) {
  Idea idea;
  idea.title = list.at(0);
  idea.category = *CategoryFromName(std::string(list.at(1)));
  idea.rationale = list.at(2);
  return idea;
}

std::vector<Pair> LabelledPairs() {
  const auto text = ReadFile(std::string(GROVE_SOURCE_DIR) + "/tests/data/ideas/pairs.json",
                             std::uintmax_t{1} << 20);
  EXPECT_TRUE(text) << text.error().message;
  std::vector<Pair> pairs;
  for (const auto& entry : nlohmann::json::parse(*text)) {
    pairs.push_back({entry.at("same"), IdeaFrom(entry.at("a")), IdeaFrom(entry.at("b"))});
  }
  return pairs;
}

// The threshold lies between the labelled pairs: none that differ are taken for one, and of those
// that are one at most a sixth is missed.
TEST(Novelty, TheThresholdSeparatesTheLabelledPairs) {
  int same = 0, found = 0;
  double most_different = 0, least_same = 1;
  for (const Pair& pair : LabelledPairs()) {
    const double similarity = Similarity(SketchOf(pair.a), SketchOf(pair.b));
    if (pair.same) {
      ++same;
      found += similarity >= kNearDuplicate ? 1 : 0;
      least_same = std::min(least_same, similarity);
    } else {
      most_different = std::max(most_different, similarity);
      EXPECT_LT(similarity, kNearDuplicate) << pair.a.title << " / " << pair.b.title;
    }
  }
  std::printf("different up to %.2f, same from %.2f; %d of %d found\n", most_different, least_same,
              found, same);
  EXPECT_GE(same, 10);
  EXPECT_GE(6 * found, 5 * same);
}

// What the catalogue holds are different ideas, however alike their words are.
TEST(Novelty, NoTwoIdeasOfThePlaybookAreOne) {
  const auto tips = llm::LoadPlaybookTips();
  ASSERT_TRUE(tips) << tips.error().message;
  int compared = 0;
  for (std::size_t i = 0; i < tips->size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto& a = (*tips)[i];
      const auto& b = (*tips)[j];
      if (a.family != b.family || a.title == b.title) continue;
      const auto idea = [](const llm::PlaybookTip& tip) {
        Idea made;
        made.title = tip.title;
        made.rationale = tip.rationale;
        return made;
      };
      EXPECT_FALSE(NearDuplicate(idea(a), idea(b)))
          << a.title << " / " << b.title << ": "
          << Similarity(SketchOf(idea(a)), SketchOf(idea(b)));
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(Novelty, WordsAreComparedWithoutTheirEndings) {
  EXPECT_EQ(NormalisedWords("Vectorized loads"), NormalisedWords("vectorised LOAD"));
  EXPECT_EQ(NormalisedWords("Use the tiling of bytes"), NormalisedWords("tile byte"));
  EXPECT_EQ(NormalisedWords("unrolled, unrolling"), NormalisedWords("unroll unroll"));
  EXPECT_NE(NormalisedWords("tile 64"), NormalisedWords("tile 128"));
}

TEST(Novelty, AnIdeaIsItsOwnDuplicateAndNothingIsLikeNothing) {
  Idea idea;
  idea.title = "Warp per row";
  EXPECT_EQ(Similarity(SketchOf(idea), SketchOf(idea)), 1.0);
  Idea empty, other;
  empty.title = "the";
  other.title = "a";
  EXPECT_LT(Similarity(SketchOf(empty), SketchOf(other)), kNearDuplicate);
}

}  // namespace
}  // namespace grove::ideas
