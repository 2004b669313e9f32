// Ideas: optimization hypotheses in plain words, and the parsing of a model's reply into them. The
// reply is hostile input: cut off, fenced twice, wrapped in prose, or lying. Stateless functions,
// safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::ideas {

// What an idea is mainly about. The six kinds keep a round's ideas diverse.
enum class Category {
  kMemoryAccess,
  kAsynchrony,
  kPrecision,
  kInstructions,
  kParallelism,
  kControlFlow,
};
constexpr std::size_t kCategoryCount = 6;
constexpr std::array<Category, kCategoryCount> kCategories = {
    Category::kMemoryAccess, Category::kAsynchrony,  Category::kPrecision,
    Category::kInstructions, Category::kParallelism, Category::kControlFlow};

// "memory access", "asynchrony and latency hiding", "data type and precision",
// "instructions and arithmetic", "parallelism and occupancy", "control flow and indexing".
std::string_view Name(Category category);
std::optional<Category> CategoryFromName(std::string_view name);
// The category whose name or usual vocabulary is nearest to what a model wrote ("Memory",
// "tensor cores", "occupancy tuning"); kInstructions when nothing fits.
Category NearestCategory(std::string_view text);

struct Idea {
  std::string title;  // one line, at most 200 bytes
  Category category = Category::kInstructions;
  std::string rationale;       // at most 4000 bytes
  double expected_gain = 1.1;  // ratio of times, parent / child; within [0.1, 1000]
};

struct ParsedIdeas {
  std::vector<Idea> ideas;         // in the reply's order, near-duplicates dropped
  std::vector<std::string> notes;  // what was wrong, mended or dropped, one line each
};

// The ideas of a reply: {"ideas": [...]} or a bare array, in a fence or not, with prose around it,
// trailing commas, comments, single ideas that are broken, or an end that is missing (every
// complete idea is kept). At most `wanted` ideas are returned. An idea without a title is dropped;
// other missing fields take a default, with a note.
// kInvalidInput when not one idea could be read; the message says what was wrong.
Result<ParsedIdeas> ParseIdeas(std::string_view reply, std::size_t wanted);

// Titles with case, punctuation and white space taken away are equal.
bool SameIdea(const Idea& a, const Idea& b);
// The title as SameIdea compares it: "one warp per row".
std::string NormalisedTitle(std::string_view title);
// A hash of the normalised title, for sets of ideas.
std::uint64_t TitleKey(std::string_view title);

}  // namespace grove::ideas
