// The whole way from PTX to a modelled time: a sample of a kernel's blocks runs in the emulator,
// and the model turns the counters into a time on an H200. Registers and shared memory are what
// ptxas reports for the same PTX (sm_90).
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "eval/emulator/emulator.h"
#include "eval/model/cost_model.h"

namespace grove::eval {
namespace {

struct Kernel {
  const char* file;
  const char* name;
  std::array<std::int64_t, 3> grid, block;
  std::int64_t registers, shared;
  std::vector<std::int64_t> buffers;  // bytes
  std::int32_t n;
  std::int64_t sample;
};

template <typename T>
std::vector<std::byte> Param(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

ModelledLaunch Model(const Kernel& k) {
  const auto text = ReadFile(std::string(GROVE_SOURCE_DIR "/tests/data/model/") + k.file);
  if (!text) {
    ADD_FAILURE() << text.error().message;
    return {};
  }
  const auto module = emulator::LoadModule(*text);
  if (!module) {
    ADD_FAILURE() << module.error().message;
    return {};
  }
  codegen::ResolvedLaunch launch;
  launch.kernel = k.name;
  launch.grid = k.grid;
  launch.block = k.block;
  codegen::EntryPoint entry;
  entry.name = k.name;
  entry.registers = k.registers;
  entry.static_shared = k.shared;

  emulator::AddressSpace memory;
  emulator::LaunchConfig config;
  config.kernel = k.name;
  config.grid = k.grid;
  config.block = k.block;
  config.blocks = SampleBlocks(launch, k.sample);
  // Contents do not matter here: every buffer repeats one small one.
  constexpr std::int64_t kPeriod = 1 << 16;
  std::vector<std::vector<std::byte>> hosts;
  std::int64_t footprint = 0;
  for (const std::int64_t bytes : k.buffers) {
    hosts.emplace_back(kPeriod);
    emulator::AddressSpace::Buffer buffer;
    buffer.name = "buffer";
    buffer.host = hosts.back().data();
    buffer.bytes = bytes;
    buffer.period = kPeriod;
    config.params.push_back(Param(memory.Map(buffer)));
    footprint += bytes;
  }
  config.params.push_back(Param(k.n));
  emulator::LaunchOptions options;
  options.count_memory = true;
  const auto outcome = emulator::Run(**module, config, memory, options);
  if (outcome.fault) {
    ADD_FAILURE() << k.name << ": " << outcome.fault->message;
    return {};
  }
  EXPECT_EQ(outcome.counters.blocks, static_cast<std::int64_t>(config.blocks.size()));
  return ModelLaunch(*FindDevice("H200"), launch, entry, outcome.counters, Bytes(footprint));
}

double Ms(const ModelledLaunch& m) { return Milliseconds(m.time).count(); }

std::string Why(const ModelledLaunch& m) {
  std::string s = std::to_string(Ms(m)) + " ms, bound by " + m.bound + ";";
  for (const ModelledPipe& p : m.pipes) {
    s += " " + std::string(p.name) + " " + std::to_string(Milliseconds(p.time).count());
  }
  return s;
}

constexpr std::int64_t kSoftmaxBytes = std::int64_t{4096} * 65536 * 4;

TEST(EmulatedModel, SoftmaxKernelsComeInTheRightOrder) {
  const std::vector<std::int64_t> buffers{kSoftmaxBytes, kSoftmaxBytes};
  const auto thread =
      Model({"softmax.ptx", "thread_per_row", {128, 1, 1}, {32, 1, 1}, 32, 0, buffers, 65536, 2});
  const auto scalar = Model(
      {"softmax.ptx", "block_per_row", {4096, 1, 1}, {256, 1, 1}, 25, 128, buffers, 65536, 16});
  const auto online = Model(
      {"softmax.ptx", "vector_online", {4096, 1, 1}, {512, 1, 1}, 28, 128, buffers, 65536, 16});
  const auto resident =
      Model({"softmax.ptx", "resident", {8192, 1, 1}, {1024, 1, 1}, 56, 128, buffers, 32768, 16});
  RecordProperty("thread_per_row", Why(thread));
  RecordProperty("block_per_row", Why(scalar));
  RecordProperty("vector_online", Why(online));
  RecordProperty("resident", Why(resident));
  EXPECT_GT(Ms(thread), 5 * Ms(scalar)) << Why(thread) << "\n" << Why(scalar);
  EXPECT_GT(Ms(scalar), 1.1 * Ms(online)) << Why(scalar) << "\n" << Why(online);
  EXPECT_GT(Ms(online), 1.2 * Ms(resident)) << Why(online) << "\n" << Why(resident);
  EXPECT_GE(Ms(resident), 0.511) << Why(resident);
  EXPECT_LE(Ms(resident), 0.62) << Why(resident);
}

TEST(EmulatedModel, MatrixProductsComeInTheRightOrder) {
  constexpr std::int64_t kSingle = std::int64_t{4096} * 4096 * 4;
  const std::vector<std::int64_t> buffers{kSingle, kSingle, kSingle};
  const auto naive =
      Model({"gemm.ptx", "naive", {128, 128, 1}, {32, 32, 1}, 32, 0, buffers, 4096, 8});
  const auto tiles =
      Model({"gemm.ptx", "shared_tiles", {128, 128, 1}, {32, 32, 1}, 32, 8192, buffers, 4096, 8});
  const auto registers =
      Model({"gemm.ptx", "register_tiles", {32, 32, 1}, {256, 1, 1}, 127, 8192, buffers, 4096, 8});
  const auto tensor = Model({"gemm.ptx",
                             "tensor_cores",
                             {32, 32, 1},
                             {256, 1, 1},
                             128,
                             18944,
                             {kSingle / 2, kSingle / 2, kSingle},
                             4096,
                             8});
  RecordProperty("naive", Why(naive));
  RecordProperty("shared_tiles", Why(tiles));
  RecordProperty("register_tiles", Why(registers));
  RecordProperty("tensor_cores", Why(tensor));
  EXPECT_GT(Ms(naive), 1.2 * Ms(tiles)) << Why(naive) << "\n" << Why(tiles);
  EXPECT_GT(Ms(tiles), 1.8 * Ms(registers)) << Why(tiles) << "\n" << Why(registers);
  EXPECT_GT(Ms(registers), 4 * Ms(tensor)) << Why(registers) << "\n" << Why(tensor);
  EXPECT_GE(Ms(registers), 2.05) << Why(registers);
  EXPECT_LE(Ms(registers), 4.5) << Why(registers);
}

}  // namespace
}  // namespace grove::eval
