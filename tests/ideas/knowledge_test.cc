#include "ideas/knowledge.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"

namespace grove::ideas {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"(# Memory access

For people.

## Wide loads
- Families: gemm, row_reduction
- Arch: sm_90
- When: rows are
  aligned
- Moves: instructions
- See: LDG.128

Load a uint4.
Store one too.

Second paragraph.

## Other
- When: always
- See: nothing
- Moves: time
- Families: all

Text.
)";

// The message of reading `text`; empty when it can be read.
std::string Problem(const std::string& text) {
  const auto read = ReadKnowledge(text, "a.md");
  if (read) return "";
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidInput);
  return read.error().message;
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ReadKnowledge, GivesEveryFieldOfEveryEntry) {
  const auto entries = ReadKnowledge(kGood, "a.md");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  const KnowledgeEntry& first = entries->front();
  EXPECT_EQ(first.tier, "Memory access");
  EXPECT_EQ(first.title, "Wide loads");
  EXPECT_EQ(first.families, (std::vector<std::string>{"gemm", "row_reduction"}));
  EXPECT_EQ(first.arch, 90);
  EXPECT_EQ(first.when, "rows are aligned");
  EXPECT_EQ(first.moves, "instructions");
  EXPECT_EQ(first.see, "LDG.128");
  EXPECT_EQ(first.text, "Load a uint4. Store one too. Second paragraph.");
  EXPECT_EQ(entries->back().families, std::vector<std::string>{"all"});
  EXPECT_EQ(entries->back().arch, 0);
  EXPECT_EQ(Describe(entries->back()),
            "Other [Memory access]: Text. When: always Moves: time See: nothing");
}

TEST(ReadKnowledge, AnEntryWithoutOneOfItsPartsIsRefusedByNameAndLine) {
  EXPECT_THAT(Problem(Replace(kGood, "- See: LDG.128\n", "")),
              HasSubstr("a.md:5: entry \"Wide loads\" lacks See"));
  EXPECT_THAT(Problem(Replace(kGood, "- When: always\n", "")), HasSubstr("lacks When"));
  EXPECT_THAT(Problem(Replace(kGood, "- Moves: time\n", "")), HasSubstr("lacks Moves"));
  EXPECT_THAT(Problem(Replace(kGood, "- Families: all\n", "")), HasSubstr("lacks Families"));
  EXPECT_THAT(Problem(Replace(kGood, "\nText.\n", "")), HasSubstr("lacks a text"));
}

TEST(ReadKnowledge, AnythingElseIsRefusedWithItsLine) {
  EXPECT_THAT(Problem(Replace(kGood, "- See: LDG", "- Sees: LDG")), HasSubstr("did you mean"));
  EXPECT_THAT(Problem(Replace(kGood, "- See: LDG.128", "- When: twice")),
              HasSubstr("a.md:11: expected field When once"));
  EXPECT_THAT(Problem(Replace(kGood, "sm_90", "hopper")), HasSubstr("a.md:7: expected an arch"));
  EXPECT_THAT(Problem(Replace(kGood, "gemm, row", "gemm,, row")), HasSubstr("a.md:6: expected"));
  EXPECT_THAT(Problem(Replace(kGood, "- Moves: inst", "Moves: inst")), HasSubstr("a.md:10"));
  EXPECT_THAT(Problem(Replace(kGood, "- Moves: inst", "- Moves inst")), HasSubstr("a colon"));
  EXPECT_THAT(Problem(Replace(kGood, "## Other", "## Wide loads")), HasSubstr("not used above"));
  EXPECT_THAT(Problem(Replace(kGood, "## Other", "### Other")), HasSubstr("# Title or ## Title"));
  EXPECT_THAT(Problem(Replace(kGood, "## Other", "# Other")), HasSubstr("one title of the tier"));
  EXPECT_THAT(Problem(Replace(kGood, "# Memory access", "")), HasSubstr("# Title"));
  EXPECT_THAT(Problem("# Only a title\n"), HasSubstr("at least one entry"));
  EXPECT_THAT(Problem(""), HasSubstr("at least one entry"));
}

TEST(ReadKnowledge, WindowsLineEndsAndAMissingLastNewlineAreNoFault) {
  std::string text = kGood;
  text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.insert(at, "\r");
  }
  const auto entries = ReadKnowledge(text, "a.md");
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(entries->front().when, "rows are aligned");
  EXPECT_EQ(entries->back().text, "Text.");
}

// --- the shipped files
// ------------------------------------------------------------------------------

TEST(Library, TheShippedKnowledgeHasEveryTierAndEveryFamily) {
  const auto library = Library::Load();
  ASSERT_TRUE(library) << library.error().message;
  std::set<std::string> tiers, families;
  for (const KnowledgeEntry& entry : library->knowledge()) {
    tiers.insert(entry.tier);
    families.insert(entry.families.begin(), entry.families.end());
    EXPECT_GT(entry.text.size(), 100u) << entry.title;
    EXPECT_LT(Describe(entry).size(), 1200u) << entry.title;
  }
  EXPECT_EQ(tiers.size(), 9u);
  EXPECT_EQ(families, (std::set<std::string>{"all", "attention", "conv", "elementwise", "gemm",
                                             "qr", "row_reduction"}));
}

TEST(Library, AnUnreadableFolderSaysWhichPartIsMissing) {
  const auto none = Library::Load("/nonexistent");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

TEST(Library, ABrokenFileIsNamed) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "broken_knowledge";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(ShareFolder("playbook"), folder);
  ASSERT_TRUE(WriteFileAtomic(folder / "extra.md", Replace(kGood, "- See: LDG.128\n", "")));
  EXPECT_THAT(Library::Load(folder).error().message, HasSubstr("extra.md:5"));
  ASSERT_TRUE(WriteFileAtomic(folder / "extra.md", Replace(kGood, "Other", "Split-K")));
  EXPECT_THAT(Library::Load(folder).error().message, HasSubstr("another file"));
  std::filesystem::remove_all(folder);
}

// --- what a prompt shows
// ----------------------------------------------------------------------------

std::vector<llm::PlaybookTip> Tips() {
  std::vector<llm::PlaybookTip> tips;
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    tips.push_back(
        {"id" + n, i < 14 ? "row_reduction" : "gemm", "Tip " + n, "memory access", "why", 2});
  }
  return tips;
}

std::vector<KnowledgeEntry> Entries() {
  std::vector<KnowledgeEntry> entries;
  for (int i = 0; i < 10; ++i) {
    KnowledgeEntry& entry = entries.emplace_back();
    entry.tier = "Tier";
    entry.title = "Entry " + std::to_string(i);
    entry.families = {i < 7 ? "all" : "gemm"};
    entry.arch = i == 0 ? 90 : 0;
    entry.when = entry.moves = entry.see = entry.text = "x";
  }
  return entries;
}

TEST(Excerpt, ShowsAQuarterOfTheFamilyAndAnotherQuarterNextRound) {
  const Library library(Tips(), {});
  const auto first = library.Excerpt("row_reduction", "sm_90", 0),
             second = library.Excerpt("row_reduction", "sm_90", 1);
  EXPECT_EQ(first.size(), 4u);  // 28% of 14
  EXPECT_EQ(second.size(), 4u);
  for (const std::string& tip : second)
    EXPECT_EQ(std::count(first.begin(), first.end(), tip), 0) << tip;
}

TEST(Excerpt, EverythingOfTheFamilyComesInTurnAndNothingOfAnother) {
  const Library library(Tips(), Entries());
  std::set<std::string> seen;
  for (int round = 0; round < 4; ++round) {
    const auto excerpt = library.Excerpt("row_reduction", "sm_90", round);
    EXPECT_EQ(excerpt.size(), 6u);  // 28% of 14 and of 7
    seen.insert(excerpt.begin(), excerpt.end());
  }
  EXPECT_EQ(seen.size(), 21u);
}

TEST(Excerpt, LeavesOutWhatTheDeviceDoesNotHave) {
  const Library library({}, Entries());
  const auto has = [](const std::vector<std::string>& lines, const std::string& title) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.starts_with(title + " ["); });
  };
  EXPECT_TRUE(has(library.Excerpt("gemm", "sm_90a", 0, 1), "Entry 0"));
  EXPECT_FALSE(has(library.Excerpt("gemm", "sm_80", 0, 1), "Entry 0"));
  EXPECT_TRUE(has(library.Excerpt("gemm", "", 0, 1), "Entry 0"));  // unknown device
  EXPECT_EQ(library.Excerpt("gemm", "sm_80", 0, 1).size(), 9u);
}

TEST(Excerpt, AnUnknownFamilyStillGetsWhatConcernsAll) {
  const Library library(Tips(), Entries());
  EXPECT_EQ(library.Excerpt("sorting", "sm_90", 0).size(), 2u);  // 28% of 7
  EXPECT_TRUE(Library(Tips(), {}).Excerpt("sorting", "sm_90", 0).empty());
}

}  // namespace
}  // namespace grove::ideas
