// Any text either is a module or is refused; a module's kernels run within their budget or end in a
// fault, whatever they contain.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "eval/emulator/emulator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace grove::emulator;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto module = LoadModule(text);
  if (!module) {
    if (module.error().message.empty()) std::abort();
    return 0;
  }
  // The name behind the first ".entry", with one pointer as its parameters.
  const std::size_t entry = text.find(".entry");
  if (entry == std::string_view::npos) return 0;
  const std::size_t begin = text.find_first_not_of(" \t\r\n", entry + 6);
  if (begin == std::string_view::npos) return 0;
  const std::size_t end = text.find_first_of(" \t\r\n(", begin);
  LaunchConfig config;
  config.kernel = std::string(text.substr(begin, end - begin));
  config.block = {64, 1, 1};
  config.grid = {2, 1, 1};
  std::vector<std::byte> memory(4096);
  AddressSpace space;
  AddressSpace::Buffer buffer;
  buffer.name = "x";
  buffer.host = memory.data();
  buffer.bytes = static_cast<std::int64_t>(memory.size());
  const std::uint64_t address = space.Map(buffer);
  std::vector<std::byte> pointer(8);
  std::memcpy(pointer.data(), &address, 8);
  config.params = {pointer};
  LaunchOptions options;
  options.instruction_budget = 20000;
  options.parallel = false;
  options.detect_races = true;
  options.detect_uninitialised = true;
  const LaunchOutcome outcome = Run(**module, config, space, options);
  if (outcome.fault && outcome.fault->message.empty()) std::abort();
  return 0;
}
