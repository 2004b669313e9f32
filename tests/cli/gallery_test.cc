// `grove gallery`, and the commands around packages, as a user meets them without a GPU.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "eval/package.h"
#include "seeds/safetensors.h"
#include "tests/support/program.h"
#include "tests/support/task_text.h"

namespace grove {
namespace {

using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;

class GalleryTest : public ::testing::Test {
 protected:
  ProgramResult Grove(std::vector<std::string> arguments) {
    ProgramOptions options;
    options.folder = folder_.path();
    options.environment = {"GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache"};
    options.deadline = std::chrono::seconds(600);
    if (arguments.front() != "--tasks") {
      arguments.insert(arguments.begin(),
                       {"--tasks", std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks"});
    }
    return testing::RunProgram("grove", std::move(arguments), options);
  }
  void Search() {
    const ProgramResult run =
        Grove({"run", "softmax_small", "--name", "one", "--rounds", "1", "--ideas", "1",
               "--branches", "1", "--device", "emulator", "--quiet"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }

  testing::ScratchFolder folder_;
};

TEST_F(GalleryTest, AKernelIsAddedListedAndVerifiedUntilItIsAnother) {
  Search();
  const ProgramResult added = Grove({"gallery", "--folder", "g", "add", "one/best"});
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const ProgramResult listed = Grove({"gallery", "--folder", "g"});
  EXPECT_THAT(listed.out, HasSubstr("softmax_small"));
  const ProgramResult same = Grove({"gallery", "--folder", "g", "verify", "--device", "emulator"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("1 of 1 kernels are as they were"));

  const auto file = folder_.path() / "g" / "softmax_small" / "program.cu";
  std::string source = *ReadFile(file);
  const auto brace = source.rfind('}');
  source.insert(brace, " if (threadIdx.x == 0) y[0] = 7; ");
  std::ofstream(file) << source;
  const ProgramResult other = Grove({"gallery", "--folder", "g", "verify", "--device", "emulator"});
  EXPECT_EQ(other.exit_code, 1) << other.out << other.err;
  EXPECT_THAT(other.out, HasSubstr("0 of 1"));
}

TEST_F(GalleryTest, AKernelOfTheGalleryIsExportedWithoutARun) {
  const auto file = [&](const char* name) { return *ReadFile(folder_.path() / name); };
  const std::string tasks = std::string(GROVE_SOURCE_DIR) + "/seeds/tasks";
  const ProgramResult cu =
      Grove({"--tasks", tasks, "export", "matmul", "--gallery", "--to", "cu", "-o", "m.cu"});
  ASSERT_EQ(cu.exit_code, 0) << cu.err;
  EXPECT_THAT(file("m.cu"), HasSubstr(*ReadFile(std::string(GROVE_SOURCE_DIR) +
                                                "/results/gallery/matmul/program.cu")));
  EXPECT_THAT(file("m.cu"), HasSubstr("kernel matmul of the gallery"));
  EXPECT_THAT(file("m.cu"), HasSubstr("H200, compiled by NVRTC 13.0)"));
  const ProgramResult nvcc = Grove({"--tasks", tasks, "export", "softmax", "--gallery", "--to",
                                    "torch", "--compiler", "nvcc", "-o", "s.py", "--json"});
  ASSERT_EQ(nvcc.exit_code, 0) << nvcc.err;
  EXPECT_THAT(nvcc.out, HasSubstr("\"compiler\": \"nvcc\""));
  EXPECT_THAT(file("s.py"), HasSubstr("cuda_sources=[API + CUDA]"));
  const ProgramResult near =
      Grove({"--tasks", tasks, "export", "matmull", "--gallery", "--to", "cu"});
  EXPECT_EQ(near.exit_code, 2);
  EXPECT_THAT(near.err, HasSubstr("did you mean 'matmul'"));
  const ProgramResult none = Grove({"--tasks", tasks, "export", "--gallery", "--to", "cu"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("grove gallery lists them"));
}

TEST_F(GalleryTest, WhatIsNotThereIsOneMessage) {
  const ProgramResult none = Grove({"gallery", "--folder", "nowhere"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no gallery at nowhere"));
  std::filesystem::create_directories(folder_.path() / "g" / "a");
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "verify", "b"}).exit_code, 2);
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "verify"}).exit_code, 2);
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "add", "one/best"}).exit_code, 2);
}

TEST_F(GalleryTest, ASearchUntilEvaluatePacksItsSeedAndSaysWhatComesNext) {
  const ProgramResult run = Grove({"run", "softmax_small", "--until", "evaluate", "--name", "one"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("grove eval-package 0001.package"));
  EXPECT_THAT(run.out, HasSubstr("grove absorb 0001.result --run one"));
  const std::string package = "runs/one/packages/0001.package";
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / package));
  // No result, but a package: nothing is taken in.
  const ProgramResult wrong = Grove({"absorb", package});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("no result of grove"));
  const ProgramResult here = Grove({"eval-package", package, "--device", "emulator"});
  EXPECT_NE(here.exit_code, 0);
  const ProgramResult device =
      Grove({"run", "softmax_small", "--until", "evaluate", "--device", "cuda"});
  EXPECT_EQ(device.exit_code, 2);
  EXPECT_EQ(Grove({"run", "softmax_small", "--until", "lunch"}).exit_code, 2);
}

// y = x + w, where w is kept with the task, as an imported module's parameters are.
class StoredTaskPackage : public GalleryTest {
 protected:
  void SetUp() override {
    const std::filesystem::path task = folder_.path() / "mine/stored";
    std::filesystem::create_directories(task);
    const auto write = [&](const char* name, std::string_view text) {
      ASSERT_TRUE(WriteFileAtomic(task / name, text));
    };
    write("task.toml", testing::TaskText({.stored = "w", .n = 64, .more = R"([[case]]
name = "again"
role = "smoke"
dims = { n = 64 }
flops = "n"
reduction = 1
)"}));
    constexpr std::string_view kProgram =
        R"(extern "C" __global__ void add(const tensor::x* x, const tensor::w* w, tensor::y* y) {
  y[threadIdx.x] = static_cast<tensor::y>(x[threadIdx.x]) + static_cast<tensor::y>(w[threadIdx.x]);
}
)";
    constexpr std::string_view kPlan = R"({"version": 1, "launches": [
  {"kernel": "add", "grid": ["1"], "block": ["n"], "args": ["x", "w", "y"]}]}
)";
    write("seed.cu", kProgram);
    write("seed.json", kPlan);
    write("reference.cu", kProgram);  // y is a double there
    write("reference.json", kPlan);
    seeds::Tensor w;
    w.name = "w";
    w.dtype = DType::kF32;
    w.shape = {64};
    std::string bytes;
    for (int i = 0; i < 64; ++i) {
      const float value = 1.0F + static_cast<float>(i) / 7;  // bytes above 127: no text
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    ASSERT_TRUE(seeds::WriteSafetensors(task / "data.safetensors", {w}, {bytes}));
  }
};

TEST_F(StoredTaskPackage, StoredTensorsTravelWholeAndTheResultIsTakenIn) {
  const ProgramResult run = Grove({"--tasks", "mine", "run", "stored", "--until", "evaluate",
                                   "--model", "mailbox", "--name", "one"});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const std::string file = *ReadFile(folder_.path() / "runs/one/packages/0001.package");
  const auto package = eval::DecodePackage(file);
  ASSERT_TRUE(package) << package.error().message;
  // What eval-package does on the other machine: the task as it travelled, the packed program.
  std::filesystem::create_directories(folder_.path() / "there/stored");
  for (const auto& [name, content] : package->files) {
    ASSERT_TRUE(WriteFileAtomic(folder_.path() / "there/stored" / name, content));
    EXPECT_EQ(content, *ReadFile(folder_.path() / "mine/stored" / name)) << name;
  }
  ASSERT_EQ(package->programs.size(), 1U);
  ASSERT_TRUE(WriteFileAtomic(folder_.path() / "packed.cu", package->programs[0].source));
  ASSERT_TRUE(WriteFileAtomic(folder_.path() / "packed.json", package->programs[0].plan));
  const ProgramResult there =
      Grove({"--tasks", "there", "eval", "stored", "packed.cu", "--device", "emulator"});
  EXPECT_EQ(there.exit_code, 0) << there.out << there.err;

  eval::PackageResult result;
  result.run = package->run;
  result.run_key = package->run_key;
  result.number = package->number;
  result.package = HashText(file);
  result.complete = true;
  result.gpus = {{"GPU-0123", "NVIDIA H200", "580.1", 0}};
  eval::Evaluation evaluation;
  evaluation.verdict.kind = eval::VerdictKind::kPass;
  evaluation.stages.emplace_back();
  eval::CaseTime time;
  time.case_name = "full";
  time.time = time.min = time.q3 = Nanoseconds(2500);
  time.samples = {Nanoseconds(2500)};
  evaluation.times = {time};
  evaluation.score = Nanoseconds(2500);
  result.evaluations = {{package->programs[0].identity, evaluation}};
  ASSERT_TRUE(WriteFileAtomic(folder_.path() / "0001.result", eval::Encode(result)));
  const ProgramResult absorbed = Grove({"absorb", "0001.result", "--run", "one"});
  EXPECT_EQ(absorbed.exit_code, 0) << absorbed.out << absorbed.err;
  EXPECT_THAT(absorbed.out, HasSubstr("1 evaluations of package 0001 on NVIDIA H200"));
  const ProgramResult twice = Grove({"absorb", "0001.result"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("was absorbed before, or copied to"));
  // Copied to where results lie, and then absorbed from there.
  const ProgramResult in_place = Grove({"absorb", "runs/one/packages/0001.result"});
  EXPECT_EQ(in_place.exit_code, 0) << in_place.err;
  EXPECT_THAT(in_place.out, HasSubstr("in place already and good"));
}

}  // namespace
}  // namespace grove
