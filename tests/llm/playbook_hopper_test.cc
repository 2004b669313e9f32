// What can be proven of the playbook's Hopper programs without a Hopper GPU: they are compiled for
// sm_90a for cases of the shipped tasks, without spills, their plans hold, and with TMA and wgmma
// replaced by plain loops that follow the rules of those instructions (swizzle, descriptors,
// fragments, transaction bytes) they run in the emulator and give the right products. With
// GROVE_PLAYBOOK_OUT=FOLDER the compiled programs are written there, for grove eval on a GPU.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/share.h"
#include "codegen/program.h"
#include "seeds/task.h"
#include "tests/llm/playbook_fixture.h"

namespace grove::llm::playbook {
namespace {

struct Tested {
  std::string name;  // of the test and of the files
  std::string task, suite;
  std::string traits;
  std::vector<std::string> cases;  // names, as in task.toml with the type behind
};
void PrintTo(const Tested& program, std::ostream* out) { *out << program.traits; }

// 0 where the text is not there.
int NumberAfter(const std::string& source, const std::string& text) {
  const std::size_t at = source.find(text);
  return at == std::string::npos ? 0 : std::atoi(source.c_str() + at + text.size());
}

// The PTX of one entry point, from its name to the next one's.
std::string_view BodyOf(std::string_view ptx, std::string_view entry) {
  const std::string head = fmt::format(".entry {}(", entry);
  const std::size_t from = ptx.find(head);
  if (from == ptx.npos) return {};
  return ptx.substr(from, ptx.find(".entry ", from + head.size()) - from);
}

class PlaybookHopper : public PlaybookSuite, public ::testing::WithParamInterface<Tested> {};

TEST_P(PlaybookHopper, IsCompiledWithoutSpillsAndItsPlanHolds) {
  const auto made = ProgramOf(GetParam().traits);
  ASSERT_TRUE(made) << made.error().message;
  const codegen::KernelProgram& program = made->program;
  if (const char* folder = std::getenv("GROVE_PLAYBOOK_OUT")) {
    const std::filesystem::path base = std::filesystem::path(folder) / GetParam().name;
    ASSERT_TRUE(WriteFileAtomic(base.string() + ".cu", program.source));
    ASSERT_TRUE(WriteFileAtomic(base.string() + ".json", program.plan_json));
  }

  const auto whole = seeds::LoadTask(ShareFolder("tasks"), GetParam().task);
  ASSERT_TRUE(whole) << whole.error().message;
  // Extra cases are only there when they are named.
  const std::vector<std::string>& wanted = GetParam().cases;
  std::vector<std::string> timed_cases;
  for (const seeds::Case& c : whole->cases) {
    const bool named = std::find(wanted.begin(), wanted.end(), c.name) != wanted.end();
    const bool timed = c.role == seeds::CaseRole::kScored || c.role == seeds::CaseRole::kExtra;
    if (named && timed) timed_cases.push_back(c.name);
  }
  const auto task = seeds::SelectCases(*whole, GetParam().suite, timed_cases);
  ASSERT_TRUE(task) << task.error().message;
  const int given = NumberAfter(program.source, "setmaxnreg.dec.sync.aligned.u32 ");
  const int taken = NumberAfter(program.source, "setmaxnreg.inc.sync.aligned.u32 ");
  EXPECT_GE(given, 24);
  std::set<std::string> seen;
  for (const seeds::Case& c : task->cases) {
    const auto plan = codegen::ResolvePlan(program.plan, c, {});
    ASSERT_TRUE(plan) << c.name << ": " << plan.error().message;
    if (std::find(wanted.begin(), wanted.end(), c.name) == wanted.end()) continue;
    seen.insert(c.name);
    const auto compiled = farm_->Compile({codegen::Prelude(c) + program.source, "sm_90a", {}});
    ASSERT_TRUE(compiled) << compiled.error().message;
    ASSERT_TRUE((*compiled)->ok()) << c.name << ": " << (*compiled)->log;
    // ptxas warns when it gives up on keeping products under way.
    EXPECT_EQ((*compiled)->log.find("wgmma"), std::string::npos) << (*compiled)->log;
    EXPECT_NE((*compiled)->ptx.find("wgmma.mma_async"), std::string::npos) << c.name;
    const auto valid = codegen::ValidatePlan(*plan, (*compiled)->entries, {});
    EXPECT_TRUE(valid) << c.name << ": " << valid.error().message;
    int balanced = 0;
    for (const codegen::EntryPoint& entry : (*compiled)->entries) {
      EXPECT_EQ(entry.spill_stores + entry.spill_loads + entry.stack_bytes, 0)
          << c.name << ": " << entry.name;
      EXPECT_GT(entry.registers, 0) << entry.name;
      // What one warpgroup gives away must be what the other two ask for, or they wait for ever: a
      // block has no more registers than it was launched with.
      if (BodyOf((*compiled)->ptx, entry.name).find("setmaxnreg") != std::string_view::npos) {
        EXPECT_LE(given + 2 * taken, 3 * entry.registers) << entry.name;
        ++balanced;
      }
    }
    EXPECT_GT(balanced, 0) << c.name;
  }
  EXPECT_EQ(seen.size(), GetParam().cases.size()) << "a case that the test names does not exist";
}

std::vector<Tested> AllPrograms() {
  const std::vector<std::string> product = {"crfm_fp16", "ak_large_mean_f16"};
  const std::vector<std::string> single = {"crfm", "m33_n65_k17"};
  const std::vector<std::string> conv = {"crfm", "channels8_kernel3"};
  const std::vector<std::string> mlp = {"2048x2048x5504_f16", "b5_d256_h320_bf16"};
  const std::vector<std::string> plain = {"crfm", "s65_d32"};
  const std::vector<std::string> causal = {"2x32x1024x64_f16", "s33_d32_batch_bf16"};
  return {
      {"attention_128", "attention", "crfm", "op=attention strategy=wgmma", plain},
      {"attention_64", "attention", "crfm", "op=attention strategy=wgmma span=64 ring=4", plain},
      {"attention_wide_256", "attention", "crfm", "op=attention strategy=wgmma_wide", {"head1024"}},
      {"attention_wide_128",
       "attention",
       "crfm",
       "op=attention strategy=wgmma_wide span=128 ring=6",
       {"head1024"}},
      {"attention_wide_256_keep",
       "attention",
       "crfm",
       "op=attention strategy=wgmma_wide hints=1",
       {"head1024"}},
      {"attention_wide_256_cluster",
       "attention",
       "crfm",
       "op=attention strategy=wgmma_wide cluster=2 hints=1",
       {"head1024"}},
      {"attention_wide_128_cluster",
       "attention",
       "crfm",
       "op=attention strategy=wgmma_wide span=128 ring=6 cluster=2",
       {"head1024"}},
      // No case of its own task is as wide.
      {"flash_attention_wide",
       "attention",
       "crfm",
       "op=flash_attention strategy=wgmma_wide",
       {"head1024"}},
      {"flash_attention_128", "flash_attention", "autokernel", "op=flash_attention strategy=wgmma",
       causal},
      {"flash_attention_128_heavy",
       "flash_attention",
       "autokernel",
       "op=flash_attention strategy=wgmma heavy=1",
       {"2x32x1024x64_f16"}},
      {"flash_attention_64_heavy", "flash_attention", "autokernel",
       "op=flash_attention strategy=wgmma heavy=1 span=64 ring=4", causal},
      {"fused_mlp_128x128_dependent", "fused_mlp", "autokernel",
       "op=fused_mlp strategy=wgmma bn=128 stages=6 persistent=1 dependent=1", mlp},
      {"fused_mlp_128x128_cluster",
       "fused_mlp",
       "autokernel",
       "op=fused_mlp strategy=wgmma bn=128 stages=6 persistent=1 cluster=2",
       {"2048x2048x5504_f16"}},
      {"matmul_128x256", "matmul", "crfm_fp16", "op=matmul strategy=wgmma persistent=1", product},
      {"matmul_128x128", "matmul", "crfm_fp16",
       "op=matmul strategy=wgmma bm=128 bn=128 stages=6 persistent=1", product},
      {"matmul_256x128", "matmul", "crfm_fp16",
       "op=matmul strategy=wgmma bm=256 bn=128 stages=4 persistent=1", product},
      {"matmul_128x256_cluster", "matmul", "crfm_fp16",
       "op=matmul strategy=wgmma cluster=2 persistent=1", product},
      {"matmul_256x128_cluster",
       "matmul",
       "crfm_fp16",
       "op=matmul strategy=wgmma bm=256 bn=128 cluster=2 persistent=1 group=4",
       {"crfm_fp16"}},
      {"matmul_128x256_blocks",
       "matmul",
       "crfm_fp16",
       "op=matmul strategy=wgmma persistent=0",
       {"crfm_fp16"}},
      {"conv2d_split", "conv2d", "crfm", "op=conv2d strategy=wgmma_split", conv},
      {"conv2d_relu_maxpool_split",
       "conv2d_relu_maxpool",
       "crfm",
       "op=conv2d_relu_maxpool strategy=wgmma_split dependent=1",
       {"crfm"}},
      {"matmul_split", "matmul", "crfm", "op=matmul strategy=wgmma_split", single},
      {"matmul_split_dependent", "matmul", "crfm", "op=matmul strategy=wgmma_split dependent=1",
       single},
      {"matmul_split_cluster", "matmul", "crfm", "op=matmul strategy=wgmma_split cluster=2 run=16",
       single},
      {"matmul_split_blocks",
       "matmul",
       "crfm",
       "op=matmul strategy=wgmma_split persistent=0 run=4",
       {"crfm"}},
      {"fused_mlp_128x256", "fused_mlp", "autokernel", "op=fused_mlp strategy=wgmma persistent=1",
       mlp},
      {"fused_mlp_128x128", "fused_mlp", "autokernel",
       "op=fused_mlp strategy=wgmma bn=128 stages=6 persistent=1", mlp},
      {"fused_mlp_256x128", "fused_mlp", "autokernel",
       "op=fused_mlp strategy=wgmma bm=256 bn=128 stages=4 persistent=1", mlp},
      {"fused_mlp_128x256_cluster", "fused_mlp", "autokernel",
       "op=fused_mlp strategy=wgmma cluster=2 persistent=1", mlp},
  };
}

INSTANTIATE_TEST_SUITE_P(Playbook, PlaybookHopper, ::testing::ValuesIn(AllPrograms()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace grove::llm::playbook
