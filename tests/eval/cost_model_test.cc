// The model against hand-checked occupancies, and against the order and the rough times that known
// kernels have on an H200 (docs/model.md lists how far each is off). The counters below are counted
// by hand from the loops of such kernels, per block, for a sample of the launch.
#include "eval/model/cost_model.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::eval {
namespace {

using codegen::EntryPoint;
using codegen::ResolvedLaunch;
using emulator::Counters;

const DeviceSpec& H200() { return *FindDevice("H200"); }

EntryPoint Entry(std::int64_t registers, std::int64_t static_shared = 0) {
  EntryPoint e;
  e.name = "kernel";
  e.registers = registers;
  e.static_shared = static_shared;
  return e;
}

ResolvedLaunch Launch(std::int64_t gx, std::int64_t gy, std::int64_t threads,
                      std::int64_t shared = 0) {
  ResolvedLaunch l;
  l.kernel = "kernel";
  l.grid = {gx, gy, 1};
  l.block = {threads, 1, 1};
  l.shared_bytes = shared;
  return l;
}

// Counters of one block, multiplied by `n` blocks that share nothing.
Counters Times(Counters c, std::int64_t n) {
  for (std::int64_t* v : {&c.blocks,
                          &c.warp_instructions,
                          &c.thread_instructions,
                          &c.fp32,
                          &c.fp64,
                          &c.fp16,
                          &c.integer,
                          &c.special,
                          &c.conversion,
                          &c.control,
                          &c.tensor,
                          &c.global_loads,
                          &c.global_stores,
                          &c.shared_loads,
                          &c.shared_stores,
                          &c.local_accesses,
                          &c.atomics,
                          &c.barriers,
                          &c.shuffles,
                          &c.global_load_sectors,
                          &c.global_store_sectors,
                          &c.unique_load_bytes,
                          &c.unique_store_bytes,
                          &c.block_load_bytes,
                          &c.shared_wavefronts}) {
    *v *= n;
  }
  c.tensor_flops_f16 *= static_cast<double>(n);
  c.tensor_flops_tf32 *= static_cast<double>(n);
  return c;
}

double Ms(const ModelledLaunch& m) { return Milliseconds(m.time).count(); }

// --- softmax over rows of 65536 floats, 4096 rows -----------------------------------------------

constexpr std::int64_t kCols = 65536;
constexpr std::int64_t kRows = 4096;

// A block of `threads` works on one row: `passes` reads, one write, `width` floats per access.
Counters RowBlock(std::int64_t threads, std::int64_t passes, std::int64_t width) {
  Counters c;
  const std::int64_t warps = threads / 32;
  const std::int64_t accesses = kCols / (threads * width) * warps;  // per pass
  c.blocks = 1;
  c.global_loads = passes * accesses;
  c.global_stores = accesses;
  c.global_load_sectors = c.global_loads * 4 * width;
  c.global_store_sectors = c.global_stores * 4 * width;
  c.block_load_bytes = c.unique_load_bytes = kCols * 4;
  c.unique_store_bytes = kCols * 4;
  c.special = accesses * width * 2;
  c.fp32 = accesses * width * (passes + 3);
  c.integer = accesses * (passes + 1) * 2;
  c.shuffles = warps * 5 * 4;
  c.barriers = warps * 6;
  c.shared_loads = c.shared_stores = warps * 4;
  c.shared_wavefronts = warps * 8;
  c.control = accesses * (passes + 1);
  c.warp_instructions = c.global_loads + c.global_stores + c.special + c.fp32 + c.integer +
                        c.control + c.shuffles + c.barriers + c.shared_loads * 2;
  return c;
}

double BlockPerRow(std::int64_t threads, std::int64_t passes, std::int64_t width,
                   std::int64_t registers) {
  return Ms(ModelLaunch(H200(), Launch(kRows, 1, threads), Entry(registers),
                        Times(RowBlock(threads, passes, width), 32)));
}

double ThreadPerRow() {
  Counters c;  // 256 threads, 8 warps: every access of a warp touches 32 rows
  c.blocks = 1;
  c.global_loads = 8 * 3 * kCols;
  c.global_stores = 8 * kCols;
  c.global_load_sectors = c.global_loads * 32;
  c.global_store_sectors = c.global_stores * 32;
  c.block_load_bytes = c.unique_load_bytes = 256 * kCols * 4;
  c.unique_store_bytes = 256 * kCols * 4;
  c.special = 8 * kCols * 2;
  c.fp32 = 8 * kCols * 6;
  c.integer = 8 * kCols * 4;
  c.control = 8 * kCols;
  c.warp_instructions =
      c.global_loads + c.global_stores + c.special + c.fp32 + c.integer + c.control;
  return Ms(ModelLaunch(H200(), Launch(kRows / 256, 1, 256), Entry(32), Times(c, 16)));
}

TEST(SoftmaxModel, OrdersTheFourKernelsEveryoneWrites) {
  const double thread_per_row = ThreadPerRow();
  const double scalar = BlockPerRow(256, 3, 1, 32);
  const double vector_online = BlockPerRow(512, 2, 4, 32);
  const double resident = BlockPerRow(1024, 1, 4, 64);
  RecordProperty("thread_per_row_ms", std::to_string(thread_per_row));
  RecordProperty("scalar_ms", std::to_string(scalar));
  RecordProperty("vector_online_ms", std::to_string(vector_online));
  RecordProperty("resident_ms", std::to_string(resident));
  EXPECT_GT(thread_per_row, 5 * scalar);
  EXPECT_GT(scalar, 1.1 * vector_online);
  EXPECT_GT(vector_online, 1.2 * resident);
}

TEST(SoftmaxModel, RegisterResidentKernelComesNearTheFloor) {
  const double ms = BlockPerRow(1024, 1, 4, 64);
  EXPECT_GE(ms, 0.511);  // the bytes at the measured copy bandwidth
  EXPECT_LE(ms, 0.62);
}

TEST(SoftmaxModel, ThreePassVectorKernelIsNearTheMeasuredOne) {
  // CRFM's kernel, a CTA a row with float4: 1.168 ms measured.
  const double ms = BlockPerRow(1024, 3, 4, 32);
  RecordProperty("three_pass_vector_ms", std::to_string(ms));
  EXPECT_NEAR(ms, 1.168, 0.25 * 1.168);
}

TEST(SoftmaxModel, TwoPassesLieBetweenOneAndThree) {
  // torch.compile: 0.659 ms measured.
  EXPECT_NEAR(BlockPerRow(512, 2, 4, 32), 0.659, 0.3 * 0.659);
}

// --- fp16 row kernels with one read and one write, as AutoKernel's starters ---------------------

// One block a row, every element kept in registers between its read and its write.
double HalfRows(std::int64_t rows, std::int64_t columns, std::int64_t threads, bool write) {
  Counters c;
  const std::int64_t warps = threads / 32;
  const std::int64_t accesses = columns / 8 / 32;  // 16 bytes a lane
  c.blocks = 1;
  c.global_loads = accesses;
  c.global_load_sectors = accesses * 16;
  c.block_load_bytes = c.unique_load_bytes = columns * 2;
  if (write) {
    c.global_stores = accesses;
    c.global_store_sectors = accesses * 16;
    c.unique_store_bytes = columns * 2;
  }
  c.fp32 = accesses * 8 * 3;
  c.conversion = accesses * 8 * 2;
  c.integer = accesses * 6 + warps * 10;
  c.shuffles = warps * 10;
  c.barriers = warps * 2;
  c.shared_loads = c.shared_stores = warps * 2;
  c.shared_wavefronts = warps * 4;
  c.warp_instructions = c.global_loads + c.global_stores + c.fp32 + c.conversion + c.integer +
                        c.shuffles + c.barriers + c.shared_loads * 2;
  return 1e3 * Ms(ModelLaunch(H200(), Launch(rows, 1, threads), Entry(40), Times(c, 32)));
}

TEST(RowKernelModel, LiesNearTheMeasuredStarters) {
  const double rmsnorm = HalfRows(8192, 8192, 256, true);    // 70.8 us measured, softmax 71.2
  const double layernorm = HalfRows(8192, 4096, 256, true);  // 40.2 us
  const double reduce = HalfRows(8192, 8192, 256, false);    // 39.8 us (torch.compile)
  RecordProperty("rmsnorm_us", std::to_string(rmsnorm));
  RecordProperty("layernorm_us", std::to_string(layernorm));
  RecordProperty("reduce_us", std::to_string(reduce));
  EXPECT_NEAR(rmsnorm, 70.8, 0.2 * 70.8);
  EXPECT_NEAR(layernorm, 40.2, 0.25 * 40.2);
  EXPECT_NEAR(reduce, 39.8, 0.25 * 39.8);
}

// --- matrix product, 4096^3 ---------------------------------------------------------------------

constexpr std::int64_t kN = 4096;

// Distinct bytes over sampled blocks that each read `tile` rows of A and `tile` columns of B.
std::int64_t GemmUnique(const ResolvedLaunch& launch, const std::vector<std::int64_t>& sample,
                        std::int64_t tile, std::int64_t element) {
  std::set<std::int64_t> rows, columns;
  for (const std::int64_t b : sample) {
    columns.insert(b % launch.grid[0]);
    rows.insert(b / launch.grid[0]);
  }
  return static_cast<std::int64_t>(rows.size() + columns.size()) * tile * kN * element;
}

ModelledLaunch Gemm(Counters block, std::int64_t tile, std::int64_t threads, std::int64_t registers,
                    std::int64_t shared, std::int64_t element) {
  const ResolvedLaunch launch = Launch(kN / tile, kN / tile, threads);
  const auto sample = SampleBlocks(launch, 64);
  block.blocks = 1;
  block.block_load_bytes = 2 * tile * kN * element;
  block.unique_store_bytes = tile * tile * 4;
  block.global_store_sectors = tile * tile * 4 / 32;
  block.warp_instructions = block.fp32 + block.integer + block.control + block.tensor +
                            block.global_loads + block.global_stores + block.shared_loads +
                            block.shared_stores + block.barriers;
  Counters c = Times(block, static_cast<std::int64_t>(sample.size()));
  c.unique_load_bytes = GemmUnique(launch, sample, tile, element);
  return ModelLaunch(H200(), launch, Entry(registers, shared), c);
}

ModelledLaunch NaiveGemm() {
  Counters c;  // 32 x 32 threads, one output each; unrolled by 4
  const std::int64_t warps = 32;
  c.global_loads = warps * kN * 2;
  c.global_load_sectors = warps * kN * 5;
  c.fp32 = warps * kN;
  c.integer = warps * kN;
  c.control = warps * kN / 4;
  c.global_stores = warps;
  return Gemm(c, 32, 1024, 32, 0, 4);
}

ModelledLaunch SharedTiledGemm() {
  Counters c;  // 32 x 32 tiles of A and B in shared memory
  const std::int64_t warps = 32, steps = kN / 32;
  c.global_loads = warps * steps * 2;
  c.global_load_sectors = c.global_loads * 4;
  c.shared_stores = warps * steps * 2;
  c.shared_loads = warps * steps * 32 * 5 / 4;  // four values of A in one access
  c.shared_wavefronts = c.shared_stores + c.shared_loads;
  c.fp32 = warps * kN;
  c.integer = warps * steps * 8;
  c.barriers = warps * steps * 2;
  c.control = warps * steps;
  c.global_stores = warps;
  return Gemm(c, 32, 1024, 40, 8192, 4);
}

ModelledLaunch RegisterTiledGemm() {
  Counters c;  // 128 x 128 x 8 tiles, 256 threads of 8 x 8 outputs
  const std::int64_t warps = 8, steps = kN / 8;
  c.global_loads = warps * steps * 2;
  c.global_load_sectors = c.global_loads * 16;
  c.shared_stores = warps * steps * 5;
  c.shared_loads = warps * steps * 8 * 4;
  c.shared_wavefronts = warps * steps * 8 * 6 + c.shared_stores;
  c.fp32 = warps * steps * 8 * 64;
  c.integer = warps * steps * 16;
  c.barriers = warps * steps * 2;
  c.control = warps * steps;
  c.global_stores = warps * 16;
  return Gemm(c, 128, 256, 128, 8192, 4);
}

ModelledLaunch TensorCoreGemm() {
  Counters c;  // fp16, 128 x 128 x 32 tiles, 8 warps of 64 x 32, m16n8k16
  const std::int64_t warps = 8, steps = kN / 32;
  c.tensor = warps * steps * 2 * 4 * 4;
  c.tensor_flops_f16 = 2.0 * 128 * 128 * static_cast<double>(kN);
  c.global_loads = warps * steps * 4;
  c.global_load_sectors = c.global_loads * 16;
  c.shared_stores = warps * steps * 4;
  c.shared_loads = warps * steps * 2 * 6;
  c.shared_wavefronts = c.shared_loads * 4 + c.shared_stores * 4;
  c.integer = warps * steps * 16;
  c.barriers = warps * steps * 2;
  c.control = warps * steps;
  c.global_stores = warps * 32;
  return Gemm(c, 128, 256, 128, 20480, 2);
}

TEST(GemmModel, OrdersNaiveTiledRegisterTiledAndTensorCores) {
  const double naive = Ms(NaiveGemm());
  const double tiled = Ms(SharedTiledGemm());
  const double registers = Ms(RegisterTiledGemm());
  const double tensor = Ms(TensorCoreGemm());
  RecordProperty("naive_ms", std::to_string(naive));
  RecordProperty("tiled_ms", std::to_string(tiled));
  RecordProperty("register_tiled_ms", std::to_string(registers));
  RecordProperty("tensor_ms", std::to_string(tensor));
  EXPECT_GT(naive, 1.5 * tiled);
  EXPECT_GT(tiled, 2 * registers);
  EXPECT_GT(registers, 5 * tensor);
}

TEST(GemmModel, GoodSimtKernelLiesWhereGoodSimtKernelsAre) {
  // cuBLAS without TF32 takes 2.677 ms; the pipes alone need 2.05 ms; good hand-written ones 2.6
  // to 4.
  const double ms = Ms(RegisterTiledGemm());
  EXPECT_GE(ms, 2.3);
  EXPECT_LE(ms, 4.0);
}

TEST(GemmModel, MmaKernelIsSlowerThanWgmmaAndFasterThanAStarter) {
  // cuBLAS (wgmma) takes 0.197 ms and AutoKernel's Triton starter 0.420 ms.
  const double ms = Ms(TensorCoreGemm());
  EXPECT_GE(ms, 0.197);
  EXPECT_LE(ms, 0.45);
}

TEST(GemmModel, SharingBetweenBlocksKeepsDramTrafficFarBelowL2Traffic) {
  const ModelledLaunch m = RegisterTiledGemm();
  EXPECT_LT(m.dram_bytes, 0.25 * m.l2_bytes);
  EXPECT_GE(m.dram_bytes, 3.0 * kN * kN * 4 * 0.9);  // A, B and C at least once
}

// --- properties ---------------------------------------------------------------------------------

TEST(ModelLaunch, NeverBelowTheDistinctBytesAtCopyBandwidth) {
  for (const std::int64_t n : {1, 4, 64}) {
    const ResolvedLaunch launch = Launch(4096, 1, 256);
    const auto m = ModelLaunch(H200(), launch, Entry(32), Times(RowBlock(256, 1, 4), n));
    const double bytes = 4096.0 * 2 * kCols * 4;
    EXPECT_GE(m.time.count(), bytes / H200().copy_gbs) << n;
  }
}

TEST(ModelLaunch, ScalesTheSampleToTheWholeLaunch) {
  const ResolvedLaunch launch = Launch(4096, 1, 256);
  const auto small = ModelLaunch(H200(), launch, Entry(32), Times(RowBlock(256, 3, 4), 16));
  const auto large = ModelLaunch(H200(), launch, Entry(32), Times(RowBlock(256, 3, 4), 256));
  EXPECT_NEAR(small.time.count(), large.time.count(), 0.01 * large.time.count());
}

TEST(ModelLaunch, BankConflictsCost) {
  Counters c = RowBlock(256, 1, 4);
  c.shared_loads = 100000;
  c.shared_wavefronts = 100000;
  c.warp_instructions += 100000;
  const auto plain = ModelLaunch(H200(), Launch(4096, 1, 256), Entry(32), Times(c, 8));
  c.shared_wavefronts *= 32;
  const auto conflicts = ModelLaunch(H200(), Launch(4096, 1, 256), Entry(32), Times(c, 8));
  EXPECT_GT(conflicts.time, 5 * plain.time);
  EXPECT_EQ(conflicts.bound, "shared");
}

TEST(ModelLaunch, OneBusyMultiprocessorIsSlowerThanAllOfThem) {
  // The same work in 1 block and in 132 blocks.
  const Counters one = Times(RowBlock(1024, 1, 4), 132);
  Counters whole = one;
  whole.blocks = 1;
  const auto serial = ModelLaunch(H200(), Launch(1, 1, 1024), Entry(32), whole);
  const auto spread = ModelLaunch(H200(), Launch(132, 1, 1024), Entry(32), one);
  EXPECT_GT(serial.time, 10 * spread.time);
  EXPECT_EQ(serial.bound, "latency");
}

TEST(ModelLaunch, TheTailOfAPartWaveCosts) {
  Counters c;
  c.blocks = 1;
  c.fp32 = 1000000;
  c.warp_instructions = 1000000;
  const auto full = ModelLaunch(H200(), Launch(132, 1, 1024), Entry(64), Times(c, 4));
  const auto tail = ModelLaunch(H200(), Launch(133, 1, 1024), Entry(64), Times(c, 4));
  EXPECT_NEAR(tail.time / full.time, 2, 0.05);
}

TEST(ModelLaunch, DoublePrecisionIsHalfSpeedOnH200AndFarBelowOnL4) {
  Counters c;
  c.blocks = 1;
  c.fp32 = c.warp_instructions = 1000000;
  Counters d = c;
  d.fp32 = 0;
  d.fp64 = 1000000;
  const ResolvedLaunch launch = Launch(1320, 1, 512);
  const auto ratio = [&](const char* name) {
    const DeviceSpec& device = *FindDevice(name);
    return ModelLaunch(device, launch, Entry(32), Times(d, 4)).time /
           ModelLaunch(device, launch, Entry(32), Times(c, 4)).time;
  };
  EXPECT_NEAR(ratio("H200"), 2, 0.6);
  EXPECT_GT(ratio("L4"), 30);
}

TEST(ModelLaunch, AnEmptyKernelCostsALaunch) {
  Counters c;
  c.blocks = 1;
  c.warp_instructions = 1;
  const auto m = ModelLaunch(H200(), Launch(1, 1, 32), Entry(16), c);
  EXPECT_EQ(m.bound, "launch");
  EXPECT_GT(m.time, Microseconds(0.9));
  EXPECT_LT(m.time, Microseconds(2));
  const std::array<ModelledLaunch, 3> three{m, m, m};
  EXPECT_LT(SumLaunches(three), 3 * SumLaunches(std::span(three).first(1)));
  EXPECT_GT(SumLaunches(std::span(three).first(1)), Microseconds(2));
  EXPECT_EQ(SumLaunches({}), Nanoseconds(0));
}

TEST(ModelLaunch, PipesAreSortedAndNameTheBound) {
  const ModelledLaunch m = RegisterTiledGemm();
  ASSERT_FALSE(m.pipes.empty());
  EXPECT_EQ(m.pipes.front().name, m.bound);
  EXPECT_TRUE(std::is_sorted(m.pipes.begin(), m.pipes.end(),
                             [](const auto& a, const auto& b) { return a.time > b.time; }));
  EXPECT_GE(m.time, m.pipes.front().time);
}

TEST(ModelLaunch, SaysWhenALaunchDoesNotFit) {
  Counters c;
  c.blocks = 1;
  const auto m = ModelLaunch(H200(), Launch(1, 1, 1024), Entry(128), c);
  EXPECT_EQ(m.bound, "does not fit");
  EXPECT_EQ(m.time, Nanoseconds(0));
  EXPECT_EQ(ModelLaunch(H200(), Launch(1, 1, 32), Entry(16), Counters{}).bound, "no sample");
}

TEST(ModelLaunch, AFootprintBoundsTheExtrapolatedBytes) {
  // Sixteen sampled blocks that share nothing, but the whole tensor has only 1 MB.
  Counters c = Times(RowBlock(256, 1, 4), 16);
  c.unique_store_bytes = 0;
  const auto with = ModelLaunch(H200(), Launch(4096, 1, 256), Entry(32), c, Bytes(1 << 20));
  EXPECT_LE(with.dram_bytes, 1 << 20);
}

// --- occupancy ----------------------------------------------------------------------------------

TEST(Occupancy, LimitedByThreads) {
  const auto o = ComputeOccupancy(H200(), Entry(32), 1024, 0);
  EXPECT_EQ(o.blocks_per_sm, 2);
  EXPECT_EQ(o.limiter, "threads");
  EXPECT_DOUBLE_EQ(o.warps_share, 1.0);
}

TEST(Occupancy, LimitedByRegistersInUnitsOf256PerWarp) {
  // 33 registers x 32 = 1056, rounded to 1280: 12 warps a file, 48 an SM, 6 blocks of 8 warps.
  const auto o = ComputeOccupancy(H200(), Entry(33), 256, 0);
  EXPECT_EQ(o.blocks_per_sm, 6);
  EXPECT_EQ(o.limiter, "registers");
  EXPECT_DOUBLE_EQ(o.warps_share, 0.75);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(128), 256, 0).blocks_per_sm, 2);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(255), 256, 0).blocks_per_sm, 1);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(65), 1024, 0).blocks_per_sm, 0);
}

TEST(Occupancy, LimitedBySharedMemoryWithAReservedKilobyte) {
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 128, 232448).blocks_per_sm, 1);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 128, 232449).blocks_per_sm, 0);
  // 228 KB / 2 = 114 KB a block, of which 1 KB is reserved.
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 128, 113 * 1024).blocks_per_sm, 2);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 128, 113 * 1024 + 1).blocks_per_sm, 1);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32, 113 * 1024), 128, 0).limiter, "shared memory");
}

TEST(Occupancy, AllThatAllowAsFewBlocksAreNamed) {
  // 255 registers: 8 warps an SM; 200 KB: one block.
  const auto both = ComputeOccupancy(H200(), Entry(255), 256, 200 * 1024);
  EXPECT_EQ(both.blocks_per_sm, 1);
  EXPECT_EQ(both.limiter, "registers and shared memory");
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 1024, 113 * 1024).limiter, "threads")
      << "every warp is there";
}

TEST(Occupancy, LimitedByBlocks) {
  const auto o = ComputeOccupancy(H200(), Entry(16), 32, 0);
  EXPECT_EQ(o.blocks_per_sm, 32);
  EXPECT_EQ(o.limiter, "blocks");
  EXPECT_DOUBLE_EQ(o.warps_share, 0.5);
  EXPECT_EQ(ComputeOccupancy(*FindDevice("L40S"), Entry(16), 32, 0).blocks_per_sm, 24);
}

TEST(Occupancy, AdaHoldsOnly1536Threads) {
  EXPECT_EQ(ComputeOccupancy(*FindDevice("L40S"), Entry(32), 1024, 0).blocks_per_sm, 1);
  EXPECT_EQ(ComputeOccupancy(*FindDevice("L40S"), Entry(32), 512, 0).blocks_per_sm, 3);
}

TEST(Occupancy, PartWarpsCountAsWhole) {
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 33, 0).blocks_per_sm, 32);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 1000, 0).blocks_per_sm, 2);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 0, 0).blocks_per_sm, 0);
  EXPECT_EQ(ComputeOccupancy(H200(), Entry(32), 1025, 0).blocks_per_sm, 0);
}

// --- sampling -----------------------------------------------------------------------------------

TEST(SampleBlocks, TakesAllBlocksOfASmallLaunch) {
  EXPECT_THAT(SampleBlocks(Launch(3, 1, 32), 8), testing::ElementsAre(0, 1, 2));
  EXPECT_TRUE(SampleBlocks(Launch(3, 1, 32), 0).empty());
}

TEST(SampleBlocks, HasFirstLastAndCorners) {
  const auto sample = SampleBlocks(Launch(100, 50, 32), 32);
  EXPECT_THAT(sample, testing::IsSupersetOf({0, 99, 4900, 4999}));
}

TEST(SampleBlocks, IsSortedDistinctInRangeAndOfTheRightSize) {
  for (const std::int64_t count : {1, 2, 3, 7, 8, 9, 31, 64, 100}) {
    for (const auto& grid : {std::pair<std::int64_t, std::int64_t>{101, 1}, {128, 128}, {1, 997}}) {
      const ResolvedLaunch launch = Launch(grid.first, grid.second, 32);
      const auto sample = SampleBlocks(launch, count);
      EXPECT_EQ(static_cast<std::int64_t>(sample.size()), std::min(count, launch.blocks()));
      EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
      EXPECT_EQ(std::set<std::int64_t>(sample.begin(), sample.end()).size(), sample.size());
      EXPECT_GE(sample.front(), 0);
      EXPECT_LT(sample.back(), launch.blocks());
    }
  }
}

TEST(SampleBlocks, HasRunsOfNeighboursSpreadOverTheGrid) {
  const auto sample = SampleBlocks(Launch(100000, 1, 32), 64);
  int neighbours = 0;
  for (std::size_t i = 1; i < sample.size(); ++i) neighbours += sample[i] == sample[i - 1] + 1;
  EXPECT_GE(neighbours, 32);
  for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
    EXPECT_TRUE(std::any_of(sample.begin(), sample.end(),
                            [&](std::int64_t b) { return b / 25000 == quarter; }));
  }
}

// --- floors -------------------------------------------------------------------------------------

TEST(ImpossibleFloor, TakesTheFastestArithmeticAndTheDataSheetBandwidth) {
  // 2 x 4096^3 FLOP at 1979 TFLOP/s.
  const double flops = 2.0 * 4096 * 4096 * 4096;
  EXPECT_NEAR(Milliseconds(ImpossibleFloor(H200(), flops, Bytes(0))).count(), 0.0694, 1e-4);
  // 2 GiB at 4.8 TB/s.
  EXPECT_NEAR(Milliseconds(ImpossibleFloor(H200(), 0, Bytes(std::int64_t{1} << 31))).count(),
              0.4474, 1e-4);
}

TEST(ClassFloor, MatchesTheMeasuredTablesFloors) {
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const auto ms = [&](seeds::PrecisionClass c, double f, std::int64_t bytes) {
    return Milliseconds(ClassFloor(H200(), c, f, Bytes(bytes))).count();
  };
  using seeds::PrecisionClass;
  EXPECT_NEAR(ms(PrecisionClass::kFp16, flops, 0), 0.139, 0.001);
  EXPECT_NEAR(ms(PrecisionClass::kTf32, flops, 0), 0.278, 0.001);
  EXPECT_NEAR(ms(PrecisionClass::kFp32, flops, 0), 0.416, 0.001);  // split: 990 / 3 TFLOP/s
  EXPECT_NEAR(ms(PrecisionClass::kFp64, flops, 0), 2.05, 0.01);
  EXPECT_NEAR(ms(PrecisionClass::kFp32, 0, std::int64_t{2} * kRows * kCols * 4), 0.511, 0.001);
}

TEST(ClassFloor, IsNeverBelowTheImpossibleFloor) {
  using seeds::PrecisionClass;
  for (const DeviceSpec& d : DeviceTable()) {
    for (const auto c : {PrecisionClass::kFp64, PrecisionClass::kFp32, PrecisionClass::kTf32,
                         PrecisionClass::kFp16, PrecisionClass::kBf16, PrecisionClass::kFp8}) {
      for (const double flops : {0.0, 1e9, 1e13}) {
        for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1} << 30}) {
          EXPECT_GE(ClassFloor(d, c, flops, Bytes(bytes)), ImpossibleFloor(d, flops, Bytes(bytes)))
              << d.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace grove::eval
