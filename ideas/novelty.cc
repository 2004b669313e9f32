#include "ideas/novelty.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/hash.h"

namespace grove::ideas {
namespace {

// Words of every idea.
const std::set<std::string_view>& Idle() {
  static const std::set<std::string_view> words = {
      "a",       "all",  "an",    "and",   "are",  "as",     "at",    "be",      "because",
      "by",      "can",  "do",    "each",  "for",  "from",   "has",   "have",    "in",
      "instead", "into", "is",    "it",    "its",  "kernel", "more",  "not",     "now",
      "of",      "on",   "one",   "only",  "or",   "per",    "so",    "than",    "that",
      "the",     "then", "there", "this",  "to",   "use",    "using", "used",    "uses",
      "via",     "we",   "which", "while", "with", "will",   "would", "current", "currently",
      "parent",  "make", "makes", "every", "they", "these"};
  return words;
}

// A light stemmer: what it does to a word matters less than that it does the same to its kin.
std::string Stem(std::string word) {
  if (word.size() > 3 && word.back() == 's' && word[word.size() - 2] != 's') word.pop_back();
  for (const std::string_view ending : {"ization", "isation", "ation", "izing", "ising", "ized",
                                        "ised", "ize", "ise", "ing", "ion", "ed", "ly", "e", "y"}) {
    if (word.size() < ending.size() + 3 || !std::string_view(word).ends_with(ending)) continue;
    word.resize(word.size() - ending.size());
    break;
  }
  // "unrolled" and "unroll", "mapping" and "map".
  if (word.size() > 3 && word[word.size() - 1] == word[word.size() - 2]) word.pop_back();
  return word;
}

std::uint64_t Mix(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<std::string> NormalisedWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty() && !Idle().contains(word)) {
      if (std::string stem = Stem(word); !stem.empty()) words.push_back(std::move(stem));
    }
    word.clear();
  };
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      word += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               static_cast<unsigned char>(c) >= 0x80) {
      word += c;
    } else {
      end();
    }
  }
  end();
  return words;
}

Sketch SketchOf(const Idea& idea) {
  std::vector<std::uint64_t> items;
  const auto title = NormalisedWords(idea.title);
  for (std::size_t i = 0; i < title.size(); ++i) {
    items.push_back(HashText(title[i]).low);
    // Words of a title weigh more than those of a rationale: a second item for each.
    items.push_back(HashText("title " + title[i]).low);
    if (i > 0) items.push_back(HashText(title[i - 1] + " " + title[i]).low);
  }
  for (const std::string& word : NormalisedWords(idea.rationale)) {
    items.push_back(HashText(word).low);
  }
  if (items.empty()) items.push_back(HashText("title " + NormalisedTitle(idea.title)).low);
  Sketch sketch;
  sketch.fill(std::numeric_limits<std::uint32_t>::max());
  for (const std::uint64_t item : items) {
    std::uint64_t state = item;
    for (std::uint32_t& least : sketch) {
      state = Mix(state);
      least = std::min(least, static_cast<std::uint32_t>(state >> 32));
    }
  }
  return sketch;
}

double Similarity(const Sketch& a, const Sketch& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < kSketchSize; ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / kSketchSize;
}

Gist GistOf(const Idea& idea) { return {idea.title, NormalisedTitle(idea.title), SketchOf(idea)}; }

bool NearDuplicate(const Gist& a, const Gist& b) {
  return a.normalised == b.normalised || Similarity(a.sketch, b.sketch) >= kNearDuplicate;
}

bool NearDuplicate(const Idea& a, const Idea& b) { return NearDuplicate(GistOf(a), GistOf(b)); }

}  // namespace grove::ideas
