// mbarrier and cp.async.bulk: phases, counts, transaction bytes, and the order that they give.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/opcodes/harness.h"

namespace grove::emulator::opcodes {
namespace {

const char kBarrier[] =
    ".reg .b32 base, s, v, n, bar; .reg .b64 st, x; .reg .pred done;\n"
    ".shared .align 8 .b8 mbar[16]; .shared .align 16 .b8 buf[4096];\n";
// mbar[0] expects `count` arrivals.
std::string Init(const std::string& count) {
  return "mov.u32 bar, mbar; mov.u32 base, buf; setp.eq.u32 p, tid, 0;\n"
         "@p mbarrier.init.shared::cta.b64 [bar], " +
         count + ";\nfence.mbarrier_init.release.cluster; bar.sync 0;\n";
}
const char kWaitZero[] =
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0;\n@!done bra WAIT;\n";

std::vector<std::uint64_t> RunAll(const std::string& body, std::vector<std::uint64_t> in,
                                  std::int64_t threads) {
  std::vector<std::uint64_t> out(static_cast<std::size_t>(threads), 0);
  const bool ok = RunModule(ModuleText(kBarrier, body), std::as_writable_bytes(std::span(in)),
                            std::as_writable_bytes(std::span(out)), threads);
  return ok ? out : std::vector<std::uint64_t>{};
}

std::vector<std::uint64_t> Numbers(std::size_t n) {
  std::vector<std::uint64_t> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = i * 0x9e3779b97f4a7c15;
  return v;
}

TEST(MbarrierOps, AllThreadsArriveAndTheOthersDataIsThere) {
  const auto in = Numbers(128);
  const auto out =
      RunAll(Init("128") +
                 "add.u64 in, in, t8; ld.global.u64 x, [in];\n"
                 "shl.b32 s, tid, 3; add.u32 s, s, base; st.shared.u64 [s], x;\n"
                 "mbarrier.arrive.shared::cta.b64 st, [bar];\n" +
                 kWaitZero +
                 "sub.u32 s, 127, tid; shl.b32 s, s, 3; add.u32 s, s, base;\n"
                 "ld.shared.u64 x, [s]; add.u64 out, out, t8; st.global.u64 [out], x;\n",
             in, 128);
  ASSERT_EQ(out.size(), 128u);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], in[127 - i]);
}

TEST(MbarrierOps, StateTokensAndParitiesFollowThePhases) {
  // One thread, two phases: before and after each arrival, both kinds of test.
  const auto out = RunAll(Init("1") +
                              "mov.u32 v, 0;\n"
                              "mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 0; selp.u32 "
                              "n, 1, 0, done; or.b32 "
                              "v, v, n;\n"
                              "mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 1; selp.u32 "
                              "n, 2, 0, done; or.b32 "
                              "v, v, n;\n"
                              "mbarrier.arrive.shared::cta.b64 st, [bar];\n"
                              "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 n, 4, "
                              "0, done; or.b32 v, v, "
                              "n;\n"
                              "mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 0; selp.u32 "
                              "n, 8, 0, done; or.b32 "
                              "v, v, n;\n"
                              "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
                              "mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 1; selp.u32 "
                              "n, 16, 0, done; or.b32 "
                              "v, v, n;\n"
                              "mbarrier.test_wait.parity.shared::cta.b64 done, [bar], 0; selp.u32 "
                              "n, 32, 0, done; or.b32 "
                              "v, v, n;\n"
                              "cvt.u64.u32 x, v; st.global.u64 [out], x;\n",
                          {0}, 1);
  ASSERT_EQ(out.size(), 1u);
  // Phase 0 runs at first: only parity 1 (the phase before) is complete.
  EXPECT_EQ(out[0], 2u + 4 + 8 + 16);
}

TEST(MbarrierOps, ArrivalsWithACountAndDroppedParticipants) {
  const auto out =
      RunAll(Init("5") +
                 "mbarrier.arrive.shared::cta.b64 st, [bar], 3;\n"
                 "mbarrier.arrive_drop.shared::cta.b64 _, [bar];\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 v, 1, 0, done;\n"
                 "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 n, 2, 0, done; "
                 "or.b32 v, v, "
                 "n;\n"
                 // The next phase expects four.
                 "mbarrier.arrive.shared::cta.b64 st, [bar], 4;\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 n, 4, 0, done; "
                 "or.b32 v, v, "
                 "n;\n"
                 "mbarrier.pending_count.b64 n, st; shl.b32 n, n, 8; or.b32 v, v, n;\n"
                 "cvt.u64.u32 x, v; st.global.u64 [out], x;\n",
             {0}, 1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0], 2u + 4 + (4u << 8));
}

TEST(MbarrierOps, ThePhaseWaitsForItsBytes) {
  const auto out =
      RunAll(Init("1") +
                 "mbarrier.arrive.expect_tx.shared::cta.b64 st, [bar], 64;\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 v, 1, 0, done;\n"
                 "mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [bar], 48;\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 n, 2, 0, done; "
                 "or.b32 v, v, "
                 "n;\n"
                 "mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [bar], 16;\n"
                 "mbarrier.test_wait.shared::cta.b64 done, [bar], st; selp.u32 n, 4, 0, done; "
                 "or.b32 v, v, "
                 "n;\n"
                 "cvt.u64.u32 x, v; st.global.u64 [out], x;\n",
             {0}, 1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0], 4u);
}

TEST(MbarrierOps, CpAsyncArrivesForItsCopies) {
  const auto in = Numbers(64);
  const auto out =
      RunAll(Init("64") +
                 "add.u64 in, in, t8; shl.b32 s, tid, 3; add.u32 s, s, base;\n"
                 "cp.async.ca.shared.global [s], [in], 8;\n"
                 "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];\n" +
                 kWaitZero +
                 "xor.b32 s, tid, 63; shl.b32 s, s, 3; add.u32 s, s, base;\n"
                 "ld.shared.u64 x, [s]; add.u64 out, out, t8; st.global.u64 [out], x;\n",
             in, 64);
  ASSERT_EQ(out.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], in[i ^ 63]);
}

TEST(BulkCopyOps, GlobalToSharedAndBack) {
  const auto in = Numbers(128);
  const auto out = RunAll(
      Init("1") +
          "@!p bra WAIT;\n"
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;\n"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [base], [in], 512, "
          "[bar];\n"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [base+512], [in+512], "
          "512, [bar];\n" +
          kWaitZero +
          // Every thread adds one, then one thread writes all back.
          "shl.b32 s, tid, 3; add.u32 s, s, base; ld.shared.u64 x, [s]; add.u64 x, x, 1;\n"
          "st.shared.u64 [s], x; fence.proxy.async.shared::cta; bar.sync 0; @!p bra DONE;\n"
          "cp.async.bulk.global.shared::cta.bulk_group [out], [base], 1024;\n"
          "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:\n",
      in, 128);
  ASSERT_EQ(out.size(), 128u);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], in[i] + 1);
}

}  // namespace
}  // namespace grove::emulator::opcodes
