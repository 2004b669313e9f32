// How fast the emulator executes: thread-instructions per second of a shared-memory GEMM, a row
// reduction and a softmax, in a one-thread arena and over all cores, plain and with every check on.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/task_arena.h>

#include "base/files.h"
#include "eval/emulator/emulator.h"

namespace grove::emulator {
namespace {

template <typename T>
std::vector<std::byte> Param(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

struct Workload {
  const char* kernel;
  std::int64_t n;  // the kernel's last parameter
  std::array<std::int64_t, 3> grid, block;
  std::vector<std::int64_t> elements;  // floats in each buffer, the last one is the output
};

const Workload kGemm{"gemm", 256, {8, 8, 1}, {32, 32, 1}, {256 * 256, 256 * 256, 256 * 256}};
const Workload kReduce{"reduce", 16384, {128, 1, 1}, {256, 1, 1}, {128 * 16384, 128}};
const Workload kSoftmax{"softmax", 4096, {128, 1, 1}, {256, 1, 1}, {128 * 4096, 128 * 4096}};

void Execute(benchmark::State& state, const Workload& work, bool checks) {
  const auto text = ReadFile(std::string(GROVE_SOURCE_DIR "/bench/data/") + work.kernel + ".ptx");
  if (!text) return state.SkipWithError(text.error().message.c_str());
  const auto module = LoadModule(*text);
  if (!module) return state.SkipWithError(module.error().message.c_str());
  std::vector<std::vector<float>> buffers;
  AddressSpace memory;
  LaunchConfig config;
  config.kernel = work.kernel;
  config.grid = work.grid;
  config.block = work.block;
  for (const std::int64_t elements : work.elements) {
    buffers.emplace_back(static_cast<std::size_t>(elements), 0.5f);
    AddressSpace::Buffer buffer;
    buffer.name = "buffer";
    buffer.host = reinterpret_cast<std::byte*>(buffers.back().data());
    buffer.bytes = elements * 4;
    config.params.push_back(Param(memory.Map(buffer)));
  }
  config.params.push_back(Param(static_cast<std::int32_t>(work.n)));
  LaunchOptions options;
  options.count_memory = options.detect_races = options.detect_uninitialised = checks;
  const int threads = state.range(0) == 0 ? static_cast<int>(std::thread::hardware_concurrency())
                                          : static_cast<int>(state.range(0));
  tbb::task_arena arena(threads);
  double instructions = 0;
  for (auto _ : state) {
    const LaunchOutcome outcome =
        arena.execute([&] { return Run(**module, config, memory, options); });
    if (outcome.fault) return state.SkipWithError(outcome.fault->message.c_str());
    instructions += static_cast<double>(outcome.counters.thread_instructions);
  }
  state.counters["thread_instructions/s"] =
      benchmark::Counter(instructions, benchmark::Counter::kIsRate);
  state.counters["threads"] = threads;
}

void Plain(benchmark::State& state, const Workload& work) { Execute(state, work, false); }
void Checked(benchmark::State& state, const Workload& work) { Execute(state, work, true); }

// Argument 0 means all cores.
#define GROVE_EMULATOR_BENCH(mode, name, work) \
  BENCHMARK_CAPTURE(mode, name, work)->Arg(1)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond)
GROVE_EMULATOR_BENCH(Plain, gemm, kGemm);
GROVE_EMULATOR_BENCH(Plain, reduce, kReduce);
GROVE_EMULATOR_BENCH(Plain, softmax, kSoftmax);
GROVE_EMULATOR_BENCH(Checked, gemm, kGemm);
GROVE_EMULATOR_BENCH(Checked, reduce, kReduce);
GROVE_EMULATOR_BENCH(Checked, softmax, kSoftmax);

}  // namespace
}  // namespace grove::emulator

BENCHMARK_MAIN();
