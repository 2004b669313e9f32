// Replays a fuzzer's corpus and deterministic mutations of it, with no fuzzing engine: what an
// ordinary build of any compiler can run in CI. Usage: PROGRAM CORPUS_FOLDER MUTATIONS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void Try(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

// One to four changes: a byte, a piece removed, doubled or moved, a cut, a piece of another text.
std::string Mutate(std::string text, const std::string& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
  };
  for (std::size_t n = 1 + below(4); n > 0; --n) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(32, text.size() - at) + 1);
    switch (below(7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        text.resize(at);
        break;
      case 5: {
        const std::size_t from = below(other.size() + 1);
        text.insert(at, other.substr(from, below(64)));
        break;
      }
      default:
        text.insert(at, std::to_string(static_cast<std::int64_t>(random())));
        break;
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER MUTATIONS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const auto& file : files) {
    auto text = grove::ReadFile(file, std::uintmax_t{1} << 20);
    if (!text) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) {
    std::fprintf(stderr, "%s: an empty corpus proves nothing\n", argv[1]);
    return 1;
  }
  Try("");
  std::mt19937_64 random(1);
  const long mutations = std::strtol(argv[2], nullptr, 10);
  for (const std::string& text : texts) {
    Try(text);
    for (long i = 0; i < mutations; ++i) {
      Try(Mutate(text, texts[static_cast<std::size_t>(random() % texts.size())], random));
    }
  }
  std::printf("%zu texts, %ld mutations each: no finding\n", texts.size(), mutations);
  return 0;
}
