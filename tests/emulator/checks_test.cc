// Every kind of fault, found where it is and not where it is not.
#include "tests/emulator/harness.h"

namespace grove::emulator {
namespace {

TEST(Faults, OneElementPastTheEndNamesBufferByteAndThread) {
  Machine m = Machine::File("basic");
  std::vector<float> out(64);
  const Fault f = m.Bad(Fault::Kind::kOutOfBounds, "past_end", m.Map(out, "result"), 64);
  EXPECT_EQ(f.buffer, "result");
  EXPECT_EQ(f.offset, 256);
  EXPECT_EQ(f.thread[0], 1);
  EXPECT_NE(f.instruction.find("st.global"), std::string::npos);
  EXPECT_GT(f.ptx_line, 0);
}

TEST(Faults, NegativeIndexBelongsToTheNearestBuffer) {
  Machine m = Machine::File("basic");
  std::vector<float> other(64), out(64);
  m.Map(other, "other");
  const Fault f = m.Bad(Fault::Kind::kOutOfBounds, "past_end", m.Map(out, "result"), -3);
  EXPECT_EQ(f.buffer, "result");
  EXPECT_EQ(f.offset, -16);
}

TEST(Faults, NullPointer) {
  Machine m = Machine::File("basic");
  const Fault f = m.Bad(Fault::Kind::kOutOfBounds, "past_end", std::uint64_t{0}, 1);
  EXPECT_NE(f.message.find("null"), std::string::npos);
}

TEST(Faults, StoreToAReadOnlyBuffer) {
  Machine m = Machine::File("basic");
  std::vector<float> in(64);
  const Fault f = m.Bad(Fault::Kind::kWriteToInput, "past_end", m.Map(in, "x", false), 1);
  EXPECT_EQ(f.buffer, "x");
  EXPECT_EQ(in[0], 0);
}

TEST(Faults, Misaligned) {
  Machine m = Machine::File("basic");
  std::vector<int> p(8);
  EXPECT_EQ(m.Bad(Fault::Kind::kMisaligned, "misaligned", m.Map(p)).offset, 2);
}

TEST(Faults, Trap) {
  Machine m = Machine::File("basic");
  std::vector<int> p{3};
  m.Bad(Fault::Kind::kTrap, "trap_kernel", m.Map(p));
  p[0] = 2;
  Machine again = Machine::File("basic");
  again.Good("trap_kernel", again.Map(p));
}

TEST(Faults, AnEndlessLoopOfOneLaneEndsByBudget) {
  Machine m = Machine::File("basic");
  m.options.instruction_budget = 3'000'000;
  const LaunchOutcome outcome = m.Launch("spin");
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Fault::Kind::kBudget);
  EXPECT_LE(outcome.counters.warp_instructions, 3'000'000 / 32 + 1000);
}

TEST(Faults, ASmallBudgetIsEnoughForASmallKernel) {
  Machine m = Machine::File("basic");
  std::vector<float> a(32), b(32), c(32);
  m.options.instruction_budget = 32 * 40;
  m.Good("vector_add", m.Map(a), m.Map(b), m.Map(c), 32);
}

TEST(Faults, BarrierThatHalfTheThreadsNeverReach) {
  Machine m = Machine::File("basic");
  std::vector<float> out(128);
  m.config.block = {128, 1, 1};
  const Fault f = m.Bad(Fault::Kind::kBarrierDivergence, "half_barrier", m.Map(out));
  EXPECT_NE(f.instruction.find("bar.sync"), std::string::npos);
}

TEST(Faults, UnknownKernelAndWrongParameters) {
  Machine m = Machine::File("basic");
  m.Bad(Fault::Kind::kBadLaunch, "no_such_kernel");
  m.Bad(Fault::Kind::kBadLaunch, "past_end", 1);
  m.Bad(Fault::Kind::kBadLaunch, "past_end", 1, 2);  // 4 bytes for a pointer
  m.config.block = {2048, 1, 1};
  m.Bad(Fault::Kind::kBadLaunch, "spin");
  m.config.block = {32, 1, 1};
  m.config.shared_bytes = 300 * 1024;
  m.Bad(Fault::Kind::kBadLaunch, "spin");
}

TEST(Races, ReductionWithoutBarriers) {
  Machine m = Machine::File("basic");
  std::vector<float> in(256, 1), out(1);
  m.config.block = {256, 1, 1};
  m.options.detect_races = true;
  EXPECT_EQ(m.Bad(Fault::Kind::kRace, "block_sum_racy", m.Map(in), m.Map(out)).buffer,
            "shared memory");
}

TEST(Races, CorrectKernelsHaveNone) {
  Machine m = Machine::File("basic");
  m.options.detect_races = true;
  m.options.detect_uninitialised = true;
  std::vector<float> in(1024, 1), out(1024);
  m.config.block = {256, 1, 1};
  m.config.grid = {4, 1, 1};
  m.Good("block_sum", m.Map(in), m.Map(out));
  EXPECT_EQ(out[3], 256);
  m.config.grid = {1, 1, 1};
  m.config.block = {128, 1, 1};
  m.Good("named_barriers", m.Map(in), m.Map(out));
  std::vector<int> flag(32);
  m.config.block = {64, 1, 1};
  m.Good("flag_wait", m.Map(flag));
  m.config.shared_bytes = 256;
  m.Good("dynamic_shared", m.Map(in), m.Map(out));
  Machine math = Machine::File("math");
  math.options = m.options;
  math.config.block = {128, 1, 1};
  math.Good("softmax", math.Map(in), math.Map(out), 512);
  Machine tensor = Machine::File("tensor");
  tensor.options = m.options;
  std::vector<short> h(256);
  tensor.Good("wmma_f16_shared", tensor.Map(h), tensor.Map(h), tensor.Map(h));
}

TEST(Uninitialised, SharedMemory) {
  Machine m = Machine::File("basic");
  std::vector<float> out(64);
  m.config.block = {64, 1, 1};
  m.Good("uninitialised", m.Map(out));  // not asked for
  m.options.detect_uninitialised = true;
  const Fault f = m.Bad(Fault::Kind::kUninitialised, "uninitialised", m.Map(out));
  EXPECT_EQ(f.offset, 128);
  EXPECT_EQ(f.thread[0], 32);
}

TEST(Uninitialised, TrackedBuffersRememberWhatEarlierLaunchesWrote) {
  Machine m = Machine::File("basic");
  std::vector<float> a(64, 1), b(64, 2), workspace(64), c(64);
  const auto pa = m.Map(a), pb = m.Map(b), pw = m.Map(workspace, "workspace", true, true),
             pc = m.Map(c);
  m.config.block = {64, 1, 1};
  m.Good("vector_add", pa, pb, pw, 60);
  m.options.detect_uninitialised = true;
  m.Good("vector_add", pw, pb, pc, 60);
  const Fault f = m.Bad(Fault::Kind::kUninitialised, "vector_add", pw, pb, pc, 64);
  EXPECT_EQ(f.buffer, "workspace");
  EXPECT_EQ(f.offset, 240);
}

TEST(Counting, SectorsUniqueBytesAndBankConflicts) {
  Machine m = Machine::File("basic");
  m.options.count_memory = true;
  std::vector<float> a(1024), b(1024), c(1024);
  m.config.grid = {4, 1, 1};
  m.config.block = {256, 1, 1};
  Counters n = m.Good("vector_add", m.Map(a), m.Map(b), m.Map(c), 1024);
  EXPECT_EQ(n.global_load_sectors, 32 * 2 * 4);
  EXPECT_EQ(n.global_store_sectors, 32 * 4);
  EXPECT_EQ(n.unique_load_bytes, 2 * 4096);
  EXPECT_EQ(n.unique_store_bytes, 4096);
  m.config.grid = {1, 1, 1};
  n = m.Good("block_sum", m.Map(a), m.Map(c));
  EXPECT_EQ(n.shared_wavefronts, n.shared_loads + n.shared_stores);
}

TEST(Periodic, ALargeBufferRepeatsItsHostBytes) {
  Machine m = Machine::File("basic");
  std::vector<float> host(1024);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i);
  AddressSpace::Buffer buffer;
  buffer.name = "large";
  buffer.host = static_cast<std::byte*>(static_cast<void*>(host.data()));
  buffer.bytes = std::int64_t{80} << 30;
  buffer.period = 4096;
  const std::uint64_t address = m.space.Map(buffer) + (std::uint64_t{70} << 30);
  std::vector<float> zero(2048), c(2048);
  m.config.grid = {8, 1, 1};
  m.config.block = {256, 1, 1};
  m.Good("vector_add", address, m.Map(zero), m.Map(c), 2048);
  EXPECT_EQ(c[5], 5);
  EXPECT_EQ(c[1029], 5);
}

}  // namespace
}  // namespace grove::emulator
