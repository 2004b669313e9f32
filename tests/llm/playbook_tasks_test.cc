// The proof that the playbook's programs solve the shipped tasks: generated programs for every
// operation go through the evaluator like a candidate's (compiler, plan, emulator with its checks,
// fp64 reference, precision class) on small check cases of the real task. With
// GROVE_PLAYBOOK_ALL_CASES=1 every check case is run, which takes some minutes.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/program.h"
#include "eval/emulator_device.h"
#include "eval/evaluator.h"
#include "eval/model/device_spec.h"
#include "llm/playbook_client.h"
#include "seeds/task.h"
#include "tests/llm/playbook_fixture.h"

namespace grove::llm::playbook {
namespace {

std::filesystem::path Tasks() { return std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks"; }

struct Tested {
  std::string name;  // of the test
  std::string task, suite;
  std::string traits;
  std::vector<std::string> cases;  // check cases that are run
};
void PrintTo(const Tested& program, std::ostream* out) { *out << program.traits; }

// The named check cases of the suite; all of them when the environment says so.
seeds::Task ChecksOf(const Tested& program) {
  auto whole = seeds::LoadTask(Tasks(), program.task);
  EXPECT_TRUE(whole) << (whole ? "" : whole.error().message);
  if (!whole) return {};
  auto task = seeds::SelectCases(*whole, program.suite, {});
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  if (!task) return {};
  const bool all = std::getenv("GROVE_PLAYBOOK_ALL_CASES") != nullptr;
  std::size_t kept = 0;
  for (std::size_t i = task->cases.size(); i-- > 0;) {
    const seeds::Case& c = task->cases[i];
    const bool timed = c.role == seeds::CaseRole::kScored || c.role == seeds::CaseRole::kExtra;
    const bool named =
        std::find(program.cases.begin(), program.cases.end(), c.name) != program.cases.end();
    if (!timed && (all || named)) {
      ++kept;
      continue;
    }
    const auto at = static_cast<std::ptrdiff_t>(i);
    task->cases.erase(task->cases.begin() + at);
    task->reduction.erase(task->reduction.begin() + at);
    task->reference_elements_per_block.erase(task->reference_elements_per_block.begin() + at);
  }
  EXPECT_GE(kept, program.cases.size()) << "a case that the test names does not exist";
  return std::move(*task);
}

class PlaybookTasks : public PlaybookSuite, public ::testing::WithParamInterface<Tested> {
 protected:
  static void SetUpTestSuite() {
    Load(std::filesystem::path(GROVE_BINARY_DIR).parent_path() /
         "test-results/playbook_tasks_cache");
  }
};

TEST_P(PlaybookTasks, PassesTheChecksOfItsTask) {
  const auto made = ProgramOf(GetParam().traits);
  ASSERT_TRUE(made) << made.error().message;

  const seeds::Task task = ChecksOf(GetParam());
  ASSERT_FALSE(task.cases.empty());
  const auto device = eval::MakeEmulatorDevice(*eval::FindDevice("H200"), {});
  eval::EvaluatorOptions options;
  options.arch = device->spec().arch;
  options.determinism_runs = 2;
  const auto evaluator = eval::Evaluator::Create(task, *farm_, *device, options);
  ASSERT_TRUE(evaluator) << evaluator.error().message;
  const auto evaluation = (*evaluator)->Evaluate(made->program);
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(eval::Name(evaluation->verdict.kind), eval::Name(eval::VerdictKind::kPass))
      << TraitsLine(made->traits) << "\n"
      << evaluation->verdict.case_name << ": " << evaluation->verdict.message;
}

std::vector<Tested> AllPrograms() {
  const std::vector<std::string> softmax = {"ak_rows3_cols1023_bf16", "ak_rows2_cols4104_f16"};
  const std::vector<std::string> layernorm = {"ak_row1023_bf16", "ak_large_mean_f16"};
  const std::vector<std::string> rmsnorm = {"rows3_cols1023_bf16", "rows5_cols768_f16",
                                            "near_max_f16"};
  const std::vector<std::string> reduce = {"rows33_cols1023_bf16", "rows17_cols1024_f16"};
  const std::vector<std::string> loss = {"rows33_classes1023_f32", "near_max_f16"};
  const std::vector<std::string> rotary = {"s127_d64_f32", "s33_d96_f16", "d6_f16"};
  const std::vector<std::string> product = {"ak_m128_n256_k64_f16", "ak_m129_n127_k31_f16"};
  const std::vector<std::string> single = {"m33_n65_k17", "mixed_scale"};
  const std::vector<std::string> mlp = {"b17_d64_h129_f16", "saturated_f32"};
  const std::vector<std::string> conv = {"channels8_kernel3", "one_output", "all_equal"};
  const std::vector<std::string> attention = {"s65_d32", "large_mean"};
  const std::vector<std::string> causal = {"s33_d32_batch_bf16", "s65_d32_f16"};
  return {
      {"SoftmaxBlock", "softmax", "autokernel",
       "op=softmax strategy=block passes=2 vec=4 unroll=4 fastexp=1", softmax},
      {"SoftmaxResident", "softmax", "autokernel",
       "op=softmax strategy=resident threads=256 held=16 vec=4 fastexp=1 stream=1", softmax},
      {"SoftmaxWarp",
       "softmax",
       "autokernel",
       "op=softmax strategy=warp threads=64 vec=4",
       {"ak_rows3_cols1023_bf16", "ak_one_row_31_bf16"}},
      {"SoftmaxSplit", "softmax", "autokernel",
       "op=softmax strategy=split threads=64 chunks=4 vec=4 unroll=2", softmax},
      {"LayerNormBlock", "layernorm", "autokernel",
       "op=layernorm strategy=block passes=2 vec=4 unroll=4", layernorm},
      {"LayerNormResident", "layernorm", "autokernel",
       "op=layernorm strategy=resident threads=128 held=8 vec=4 stream=1", layernorm},
      {"LayerNormWarp",
       "layernorm",
       "autokernel",
       "op=layernorm strategy=warp threads=128 vec=4",
       {"ak_row1023_bf16", "ak_row67_bf16"}},
      {"LayerNormSplit", "layernorm", "autokernel",
       "op=layernorm strategy=split threads=64 chunks=4 vec=4 share=1", layernorm},
      {"RmsNormBlock", "rmsnorm", "autokernel", "op=rmsnorm strategy=block vec=4 unroll=2",
       rmsnorm},
      {"RmsNormResident", "rmsnorm", "autokernel",
       "op=rmsnorm strategy=resident threads=64 held=8 vec=4 stream=1", rmsnorm},
      {"RmsNormWarp", "rmsnorm", "autokernel", "op=rmsnorm strategy=warp threads=128 vec=4",
       rmsnorm},
      {"ReduceBlock", "reduce", "autokernel", "op=reduce strategy=block vec=4 unroll=4", reduce},
      {"ReduceWarp", "reduce", "autokernel", "op=reduce strategy=warp vec=4 stream=1", reduce},
      {"CrossEntropyThreePasses", "cross_entropy", "autokernel",
       "op=cross_entropy strategy=block vec=1 threads=128", loss},
      {"CrossEntropyOnline", "cross_entropy", "autokernel",
       "op=cross_entropy strategy=block passes=2 vec=4 unroll=4 fastexp=1 stream=1", loss},
      {"Rotary", "rotary_embedding", "autokernel", "op=rotary_embedding strategy=packs", rotary},
      {"RotaryFourHeads", "rotary_embedding", "autokernel",
       "op=rotary_embedding strategy=packs heads=4 threads=64 stream=1", rotary},
      {"MatmulMma", "matmul", "autokernel", "op=matmul strategy=mma bm=64 bn=64 wm=32 wn=32",
       product},
      {"MatmulMmaPipeline",
       "matmul",
       "autokernel",
       "op=matmul strategy=mma bm=128 bn=64 wm=64 wn=32 bk=64 stages=3 swizzle=1 group=2",
       {"ak_m127_n65_k129_bf16", "ak_m128_n256_k64_f16"}},
      {"MatmulMmaHalf", "matmul", "crfm_fp16",
       "op=matmul strategy=mma bm=128 bn=128 wm=64 wn=64 stages=2", product},
      {"MatmulMmaSplit", "matmul", "crfm",
       "op=matmul strategy=mma bm=64 bn=64 wm=32 wn=32 stages=3", single},
      {"MatmulMmaSplitDeep", "matmul", "crfm",
       "op=matmul strategy=mma bm=64 bn=64 wm=64 wn=32 bk=64 stages=1", single},
      {"FusedMlp", "fused_mlp", "autokernel", "op=fused_mlp strategy=mma bm=64 bn=64 wm=32 wn=32",
       mlp},
      {"FusedMlpPipeline",
       "fused_mlp",
       "autokernel",
       "op=fused_mlp strategy=mma bm=64 bn=64 wm=32 wn=32 bk=64 stages=3 swizzle=1",
       {"b33_d65_h96_f16", "b17_d64_h129_bf16"}},
      // What the Hopper programs do with cases that TMA cannot serve.
      {"MatmulHopperElsewhere",
       "matmul",
       "autokernel",
       "op=matmul strategy=wgmma persistent=1",
       {"ak_m129_n127_k31_f16", "ak_m127_n65_k129_bf16", "ak_mixed_scale_f32"}},
      {"MatmulSplitElsewhere",
       "matmul",
       "autokernel",
       "op=matmul strategy=wgmma_split",
       {"ak_m129_n127_k31_f16", "ak_m127_n65_k129_bf16"}},
      {"FusedMlpHopperElsewhere",
       "fused_mlp",
       "autokernel",
       "op=fused_mlp strategy=wgmma bm=256 bn=128 persistent=1",
       {"b33_d65_h96_f16", "b17_d64_h129_bf16", "saturated_f32"}},
      {"Conv2d", "conv2d", "crfm", "op=conv2d strategy=mma bm=32 bn=64 wm=16 wn=32", conv},
      {"Conv2dPipeline",
       "conv2d",
       "crfm",
       "op=conv2d strategy=mma bm=96 bn=128 stages=3",
       {"filters97", "mixed_scale"}},
      {"Conv2dReluMaxpool",
       "conv2d_relu_maxpool",
       "crfm",
       "op=conv2d_relu_maxpool strategy=mma bm=32 bn=64 wm=16 wn=32 stages=2",
       {"channels8_kernel3", "even_plane", "all_negative"}},
      {"Attention", "attention", "crfm", "op=attention strategy=mma", attention},
      {"AttentionPipeline",
       "attention",
       "crfm",
       "op=attention strategy=mma warps=2 keys=64 stages=2",
       {"s77_d128", "near_max"}},
      {"AttentionWideHopperElsewhere", "attention", "crfm", "op=attention strategy=wgmma_wide",
       attention},
      {"FlashAttention", "flash_attention", "autokernel", "op=flash_attention strategy=mma",
       causal},
      {"FlashAttentionPipeline", "flash_attention", "autokernel",
       "op=flash_attention strategy=mma warps=2 keys=32 stages=2 heavy=1", causal},
  };
}

INSTANTIATE_TEST_SUITE_P(Playbook, PlaybookTasks, ::testing::ValuesIn(AllPrograms()),
                         [](const auto& tested) { return tested.param.name; });

struct Part {
  std::string task, suite;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.task << ", suite " << part.suite; }

std::vector<Part> AllParts() {
  std::vector<Part> parts;
  const auto names = seeds::ListTasks(Tasks());
  if (!names) return parts;
  for (const std::string& name : *names) {
    const auto task = seeds::LoadTask(Tasks(), name);
    if (!task) continue;  // task_test.cc reports it
    for (const std::string& suite : task->suites) parts.push_back({name, suite});
  }
  return parts;
}

class PlaybookKnows : public ::testing::TestWithParam<Part> {};

TEST_P(PlaybookKnows, EverySuiteOfEveryTask) {
  const auto whole = seeds::LoadTask(Tasks(), GetParam().task);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto task = seeds::SelectCases(*whole, GetParam().suite, {});
  ASSERT_TRUE(task) << task.error().message;
  const auto known = CheckPlaybookKnows(*task, ShareFolder("playbook"));
  EXPECT_TRUE(known) << known.error().message;
}

INSTANTIATE_TEST_SUITE_P(Tasks, PlaybookKnows, ::testing::ValuesIn(AllParts()),
                         [](const auto& part) { return part.param.task + "_" + part.param.suite; });

}  // namespace
}  // namespace grove::llm::playbook
