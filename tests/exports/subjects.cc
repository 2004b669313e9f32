#include "tests/exports/subjects.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/share.h"
#include "llm/playbook/catalogue.h"
#include "llm/playbook/traits.h"
#include "seeds/task.h"

namespace grove::results {
namespace {

namespace fs = std::filesystem;

fs::path Source() { return GROVE_SOURCE_DIR; }

seeds::Task Task(const std::string& name) {
  auto task = seeds::LoadTask(Source() / "seeds/tasks", name);
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  return task ? *std::move(task) : seeds::Task{};
}

// Cases for which the plan resolves: all scored ones and a few of the others.
void ChooseCases(ExportedKernel& kernel, bool widened) {
  std::size_t small = 0;
  for (std::size_t i = 0; i < kernel.task.cases.size(); ++i) {
    seeds::Case& c = kernel.task.cases[i];
    if (widened) {
      for (seeds::Tensor& t : c.tensors) {
        if (t.role == seeds::TensorRole::kOutput) t.dtype = DType::kF64;
      }
    }
    const bool scored = c.role == seeds::CaseRole::kScored;
    if (!scored && small >= 3) continue;
    if (!codegen::ResolvePlan(kernel.program.plan, c, {})) continue;
    small += scored ? 0 : 1;
    kernel.cases.push_back(i);
  }
}

bool Add(std::vector<ExportedKernel>& list, std::string name, seeds::Task task,
         const std::string& source, const std::string& plan, bool widened = false) {
  auto program = codegen::MakeProgram(source, plan);
  if (!program) return false;
  ExportedKernel kernel;
  kernel.name = std::move(name);
  kernel.task = std::move(task);
  kernel.program = *std::move(program);
  ChooseCases(kernel, widened);
  if (kernel.cases.empty()) return false;
  list.push_back(std::move(kernel));
  return true;
}

std::string TaskOfGauntlet(const fs::path& folder) {
  const auto text = ReadFile(folder / "expect.toml");
  const std::string_view mark = "task = \"";
  const std::size_t at = text ? text->find(mark) : std::string::npos;
  if (at == std::string::npos) return "";
  return text->substr(at + mark.size(), text->find('"', at + mark.size()) - at - mark.size());
}

}  // namespace

ExportedKernel GauntletProgram(const std::string& name) {
  const fs::path folder = Source() / "tests/gauntlet" / name;
  std::vector<ExportedKernel> list;
  const auto source = ReadFile(folder / "source.cu");
  const auto plan = ReadFile(folder / "plan.json");
  EXPECT_TRUE(source) << name;
  EXPECT_TRUE(Add(list, name, Task(TaskOfGauntlet(folder)), source.value_or(""), plan.value_or("")))
      << name;
  return list.empty() ? ExportedKernel{} : list.front();
}

ExportedKernel Everything() {
  // The kernels do little: what counts is that all of a plan's means are there.
  constexpr const char* kSource = R"cu(#include <cuda.h>
#include <cooperative_groups.h>
constexpr int kWeights[2] = {1, 0};
float Half(float value) { return value / 2; }  // no execution space: device code for NVRTC
template <typename T>
T Same(T value) { return value; }
struct Pair {
  float a, b;
  float sum() const { return a + b; }
};
extern "C" __global__ void copy(const float* a, float* h, float* tau, float* t, int k, long long wide,
                                float real, double exact) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  const long long all = 1LL * dim::batch * dim::n * dim::n;
  if (i < all) h[i] = a[i] * static_cast<float>(kWeights[0]);
  if (i < 1LL * dim::batch * dim::n) tau[i] = 0;
  if (i == 0) t[0] = Same(Half(real)) + static_cast<float>(exact) + k + wide + Pair{0, 0}.sum();
}
extern "C" {
__global__ void sync(float* t, int round) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) t[1] = round;
}
}
extern "C" __global__ void spread(float* t, const float* w) {
  extern __shared__ float kept[];
  kept[threadIdx.x] = w[threadIdx.x % 16];
  __syncthreads();
  if (kept[0] < 0) t[2] = 1;
}
extern "C" __global__ void tiles(const __grid_constant__ CUtensorMap map, const __grid_constant__ CUtensorMap other,
                                 float* t) {
  if (reinterpret_cast<unsigned long long>(&map) == reinterpret_cast<unsigned long long>(&other)) t[3] = 1;
}
)cu";
  constexpr const char* kPlan = R"js({"version": 1, "variants": [
    {"when": "n < 16 && (f16 || batch < 0)", "launches": [{"kernel": "copy", "grid": 1, "block": 1,
      "args": ["a", "h", "tau", "tau", 0, {"i64": 0}, {"f32": 0}, {"f64": 0}]}]},
    {"when": "n % 32 == 0 && f32",
     "workspace": [{"name": "t", "dtype": "f32", "shape": ["max(4, n)", 64], "init": "zero"},
                   {"name": "w", "dtype": "f32", "shape": ["batch", 32, "n"]},
                   {"name": "half", "dtype": "bf16", "shape": [64, "n * 8"], "init": "zero"}],
     "tensor_maps": [{"name": "over_a", "tensor": "a", "box": [1, 16, 32], "swizzle": "128B", "l2_promotion": "256B"},
                     {"name": "over_half", "tensor": "half", "box": [8, 64], "element_strides": [1, 1]}],
     "launches": [
       {"kernel": "copy", "grid": "ceil_div(batch * n * n, 256)", "block": 256, "dependent": true,
        "args": ["a", "h", "tau", "t", "n - 2 * batch", {"i64": "(n + 7) * 4294967296 - -5 % 3"}, {"f32": 0.1}, {"f64": 1e-30}]},
       {"kernel": "tiles", "grid": 1, "block": [32, 2, 1], "args": ["over_a", "over_half", "t"], "dependent": true},
       {"repeat": {"var": "p", "from": 0, "to": "n", "step": "max(32, n / 4)", "launches": [
         {"library": "gemm", "m": 32, "n": "max(0, n - p - 32)", "k": "n - p", "batch": "batch", "compute": "tf32",
          "a": {"buffer": "a", "offset": "p * n", "ld": "n", "stride": "n * n", "transpose": true},
          "b": {"buffer": "a", "offset": "p * n + p + 32 > n * n - 1 ? 0 : p * n + p + 32", "ld": "n", "stride": "n * n"},
          "c": {"buffer": "w", "ld": "n", "stride": "32 * n"}, "alpha": -1.5, "beta": 0.25},
         {"kernel": "spread", "grid": 16, "block": 64, "shared": "min(max_shared, 1024 * (47 + p % 64))", "cluster": [16, 1, 1],
          "dependent": true, "args": ["t", "w"]},
         {"repeat": {"var": "q", "from": "p", "to": "p + 3", "launches": [
           {"kernel": "sync", "grid": "min(sm_count, 8)", "block": "p > q ? 1 : 32 * (1 + !(q - p))", "cooperative": true,
            "dependent": true, "args": ["t", "p * 10 + q"]}]}}]}}]},
    {"launches": [{"kernel": "copy", "grid": "ceil_div(batch * n * n, 256)", "block": 256,
      "args": ["a", "h", "tau", "h", "n", {"i64": "l2_bytes"}, {"f32": "n"}, {"f64": "sm_count"}]}]}]})js";
  std::vector<ExportedKernel> list;
  EXPECT_TRUE(Add(list, "everything", Task("qr"), kSource, kPlan));
  EXPECT_TRUE(codegen::MakeProgram(kSource, kPlan))
      << codegen::MakeProgram(kSource, kPlan).error().message;
  return list.empty() ? ExportedKernel{} : list.front();
}

ExportedKernel SeedOf(const std::string& name, const std::vector<std::string>& cases) {
  ExportedKernel kernel;
  kernel.name = name + "_seed";
  kernel.task = Task(name);
  auto program = codegen::MakeProgram(kernel.task.seed.source, kernel.task.seed.plan);
  EXPECT_TRUE(program) << name;
  if (program) kernel.program = *std::move(program);
  for (std::size_t i = 0; i < kernel.task.cases.size(); ++i) {
    const seeds::Case& c = kernel.task.cases[i];
    const bool named = std::find(cases.begin(), cases.end(), c.name) != cases.end();
    if (cases.empty() ? c.role == seeds::CaseRole::kScored : named) kernel.cases.push_back(i);
  }
  EXPECT_FALSE(kernel.cases.empty()) << name;
  return kernel;
}

std::vector<ExportedKernel> AllSubjects() {
  std::vector<ExportedKernel> list;
  const auto names = seeds::ListTasks(Source() / "seeds/tasks");
  EXPECT_TRUE(names);
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    const seeds::Task task = Task(name);
    EXPECT_TRUE(Add(list, name + "_seed", task, task.seed.source, task.seed.plan)) << name;
    if (task.checker == seeds::Checker::kReference) {
      EXPECT_TRUE(
          Add(list, name + "_reference", task, task.reference.source, task.reference.plan, true))
          << name;
    }
  }
  list.push_back(Everything());
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(Source() / "tests/gauntlet")) {
    if (entry.path().filename().string().starts_with("honest_")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::size_t honest = 0;
  for (const fs::path& folder : folders) {
    const auto source = ReadFile(folder / "source.cu");
    const auto plan = ReadFile(folder / "plan.json");
    const std::string task = TaskOfGauntlet(folder);
    // Some are a model's reply, some have a task of their own (tests/gauntlet/tasks.toml).
    if (!source || std::find(names->begin(), names->end(), task) == names->end()) continue;
    honest += Add(list, folder.filename(), Task(task), *source, plan.value_or("")) ? 1 : 0;
  }
  EXPECT_GT(honest, 30U);

  const auto catalogue = llm::playbook::Catalogue::Load(ShareFolder("playbook"));
  EXPECT_TRUE(catalogue);
  std::size_t written = 0;
  for (const auto& [task, suite, traits] : std::vector<std::array<std::string, 3>>{
           {"softmax", "crfm", "op=softmax strategy=resident threads=256 held=16 vec=4 stream=1"},
           {"softmax", "crfm", "op=softmax strategy=split threads=64 chunks=4 vec=4 unroll=2"},
           {"layernorm", "crfm", "op=layernorm strategy=split threads=64 chunks=4 vec=4 share=1"},
           {"rmsnorm", "autokernel", "op=rmsnorm strategy=warp threads=128 vec=4"},
           {"matmul", "crfm", "op=matmul strategy=mma bm=64 bn=64 wm=32 wn=32 stages=3"},
           {"matmul", "autokernel",
            "op=matmul strategy=mma bm=128 bn=64 wm=64 wn=32 bk=64 stages=3 swizzle=1 group=2"},
           {"fused_mlp", "autokernel", "op=fused_mlp strategy=mma bm=64 bn=64 wm=32 wn=32"},
           {"conv2d", "crfm", "op=conv2d strategy=mma bm=96 bn=128 stages=3"},
           {"flash_attention", "autokernel",
            "op=flash_attention strategy=mma warps=2 keys=32 stages=2 heavy=1"},
           {"cross_entropy", "autokernel", "op=cross_entropy strategy=block passes=2 vec=4"}}) {
    const auto complete =
        catalogue->Complete(llm::playbook::TraitsOf(fmt::format("// traits: {}\n", traits), ""));
    EXPECT_TRUE(complete) << traits;
    if (!complete) continue;
    const auto program = catalogue->Render(*complete, {});
    EXPECT_TRUE(program) << traits;
    auto selected = seeds::SelectCases(Task(task), suite, {});
    EXPECT_TRUE(selected) << traits;
    if (!program || !selected) continue;
    ++written;
    EXPECT_TRUE(Add(list, fmt::format("playbook_{}_{}", task, written), *std::move(selected),
                    program->source, program->plan))
        << traits;
  }
  return list;
}

}  // namespace grove::results
