// Mutated modules must load or be refused, and run to an end or a fault: never crash, never touch
// memory outside the buffers (which the sanitizer build would show).
#include <cstdlib>
#include <random>

#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

std::string Mutate(std::string text, std::mt19937& random) {
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const int times = 1 + static_cast<int>(pick(4));
  for (int i = 0; i < times; ++i) {
    const std::size_t at = pick(text.size());
    switch (pick(6)) {
      case 0:  // a number or letter becomes another
        text[at] = "0123456789abcdefrspx.,[]{}%;:-+"[pick(31)];
        break;
      case 1: {  // a line goes
        const std::size_t begin = text.rfind('\n', at), end = text.find('\n', at);
        if (begin != std::string::npos && end != std::string::npos) text.erase(begin, end - begin);
        break;
      }
      case 2: {  // a line comes twice, elsewhere
        const std::size_t begin = text.rfind('\n', at), end = text.find('\n', at);
        if (begin == std::string::npos || end == std::string::npos) break;
        const std::string line = text.substr(begin, end - begin);
        const std::size_t to = text.find('\n', pick(text.size()));
        if (to != std::string::npos) text.insert(to, line);
        break;
      }
      case 3: {  // a register's number changes
        const std::size_t percent = text.find('%', at);
        if (percent == std::string::npos) break;
        const std::size_t digit = text.find_first_of("0123456789", percent);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + pick(10));
        break;
      }
      case 4: {  // a type changes
        static const char* const kTypes[] = {".u64", ".u32", ".f32", ".s32", ".b16", ".pred",
                                             ".f64", ".b64", ".u8",  ".f16", ".v4"};
        const std::size_t dot = text.find('.', at);
        if (dot == std::string::npos) break;
        const std::size_t end = text.find_first_of(". \t;", dot + 1);
        if (end != std::string::npos) text.replace(dot, end - dot, kTypes[pick(11)]);
        break;
      }
      default: {  // a large number
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text.insert(digit, "99999");
        break;
      }
    }
  }
  return text;
}

void RunAll(const std::string& text, std::mt19937& random) {
  auto module = LoadModule(text);
  if (!module) {
    EXPECT_FALSE(module.error().message.empty());
    return;
  }
  std::size_t at = 0;
  while ((at = text.find(".entry ", at)) != std::string::npos) {
    at += 7;
    const std::size_t end = text.find_first_of("( \t\n", at);
    if (end == std::string::npos) continue;
    LaunchConfig config;
    config.kernel = text.substr(at, end - at);
    config.block = {64, 1, 1};
    config.grid = {2, 1, 1};
    config.shared_bytes = 512;
    AddressSpace space;
    std::vector<std::byte> memory(1 << 16);
    AddressSpace::Buffer buffer;
    buffer.name = "memory";
    buffer.host = memory.data();
    buffer.bytes = static_cast<std::int64_t>(memory.size());
    buffer.track_uninitialised = (random() & 1) != 0;
    const std::uint64_t address = space.Map(buffer);
    const std::size_t close = text.find(')', end);
    std::size_t param = end;
    while ((param = text.find(".param", param + 1)) != std::string::npos && param < close) {
      const bool wide =
          text.compare(param + 7, 4, ".u64") == 0 || text.compare(param + 7, 4, ".b64") == 0;
      std::vector<std::byte> bytes(wide ? 8 : 4);
      const std::uint64_t value = wide ? address + (random() % 64) * 16 : random() % 100;
      std::memcpy(bytes.data(), &value, bytes.size());
      config.params.push_back(bytes);
    }
    LaunchOptions options;
    options.instruction_budget = 400'000;
    options.parallel = false;
    options.count_memory = (random() & 1) != 0;
    options.detect_races = (random() & 1) != 0;
    options.detect_uninitialised = (random() & 1) != 0;
    const LaunchOutcome outcome = Run(**module, config, space, options);
    if (outcome.fault) {
      EXPECT_FALSE(outcome.fault->message.empty());
    }
  }
}

class Fuzz : public ::testing::TestWithParam<const char*> {};

TEST_P(Fuzz, MutatedModulesEndInOrder) {
  const std::string text = ReadPtx(GetParam());
  ASSERT_FALSE(text.empty());
  const char* rounds = std::getenv("GROVE_FUZZ_ROUNDS");
  const int n = rounds != nullptr ? std::atoi(rounds) : 40;
  const char* start = std::getenv("GROVE_FUZZ_SEED");
  const unsigned seed = start != nullptr ? static_cast<unsigned>(std::atoi(start)) : 1;
  for (int i = 0; i < n; ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed + static_cast<unsigned>(i));
    std::mt19937 random(seed + static_cast<unsigned>(i));
    RunAll(Mutate(text, random), random);
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, Fuzz,
                         ::testing::Values("basic", "tensor", "math", "grid", "library"));

}  // namespace
}  // namespace grove::emulator
