// Whether two ideas say the same in other words: MinHash over their normalised words, which
// estimates the Jaccard similarity of the sets without keeping them (Broder 1997). Stateless; safe
// from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ideas/idea.h"

namespace grove::ideas {

inline constexpr std::size_t kSketchSize = 128;
// Smallest hash of the set under each of kSketchSize hash functions.
using Sketch = std::array<std::uint32_t, kSketchSize>;

// Lower case, words without their endings, without words that carry no meaning here ("the",
// "kernel", "use"), numbers kept.
std::vector<std::string> NormalisedWords(std::string_view text);
// Of the words of title and rationale; the title's count as single words and in pairs.
Sketch SketchOf(const Idea& idea);
// Estimate of the Jaccard similarity, 0 to 1; standard error at most 0.045.
double Similarity(const Sketch& a, const Sketch& b);

// From here on two ideas are one. Set by tests/ideas/novelty_test.cc on labelled pairs
// (tests/data/ideas/pairs.json): the best separation of those with the smallest harm, since an idea
// that is wrongly refused is lost while one that is wrongly kept costs some tokens.
inline constexpr double kNearDuplicate = 0.45;
// What two ideas are compared by, so that one that is compared again and again is read once.
struct Gist {
  std::string title;       // as written
  std::string normalised;  // NormalisedTitle of it
  Sketch sketch;
};
Gist GistOf(const Idea& idea);
// Equal titles (SameIdea), or similar by kNearDuplicate.
bool NearDuplicate(const Gist& a, const Gist& b);
bool NearDuplicate(const Idea& a, const Idea& b);

}  // namespace grove::ideas
