// The proof that exported host code launches what a plan means: the host side of every subject is
// compiled as an ordinary C++ program against a recorder of the CUDA calls, run, and compared line
// by line with what ResolvePlan works out for the same case. No GPU, no nvcc.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "codegen/host_code.h"
#include "results/exports/cu_unit.h"
#include "tests/exports/expected.h"
#include "tests/exports/subjects.h"

namespace grove::results {
namespace {

namespace fs = std::filesystem;
using codegen::ResolvedArg;
using seeds::Case;

// One program of the host sides of all subjects.
class HostLaunch : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    subjects_ = AllSubjects();
    folder_ = fs::path(::testing::TempDir()) / fmt::format("grove_host_launch_{}", ::getpid());
    fs::create_directories(folder_);
    std::string text =
        "#define GROVE_BLAS 1\n#include <algorithm>\n#include <cmath>\n"
        "#include \"tests/exports/recorder.h\"\n";
    text += HostRuntime();
    std::string main;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      text +=
          fmt::format("namespace subject_{} {{\n{}", i, HostUnit(subjects_[i], "recorder::table"));
      text += Driver(i) + "}\n";
      main += fmt::format("  subject_{}::All();\n", i);
    }
    text +=
        "int main() {\n  for (int i = 0; i < 64; ++i) recorder::table[i] = recorder::kernels + "
        "i;\n" +
        main + "  return 0;\n}\n";
    std::ofstream(folder_ / "host.cc") << text;
    const std::string compile = fmt::format(
        "g++ -std=c++17 -O0 -Wall -Wextra -Werror -Wno-unused-function "
        "-Wno-missing-field-initializers "
        "-isystem {} -I{} {} -o {} 2>&1",
        GROVE_CUDA_INCLUDE, GROVE_SOURCE_DIR, (folder_ / "host.cc").string(),
        (folder_ / "host").string());
    compiler_ = Output(compile);
    recorded_ = Output((folder_ / "host").string() + " 2>&1");
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  // Sets the parameters' sizes and runs every case of subject i.
  static std::string Driver(std::size_t i) {
    const ExportedKernel& s = subjects_[i];
    const auto kernels = Kernels(s);
    std::string text = "void All() {\n";
    for (std::size_t k = 0; k < s.cases.size(); ++k) {
      const auto plan = codegen::ResolvePlan(s.program.plan, s.task.cases[s.cases[k]], {});
      std::vector<std::string> sizes(kernels.size(), "{}");
      for (const auto& launch : plan->launches) {
        if (launch.gemm) continue;
        std::vector<std::size_t> bytes;
        for (const ResolvedArg& a : launch.args) bytes.push_back(a.size);
        const auto at = std::find(kernels.begin(), kernels.end(), launch.kernel);
        sizes[static_cast<std::size_t>(at - kernels.begin())] =
            fmt::format("{{{}}}", fmt::join(bytes, ", "));
      }
      text += fmt::format(
          "  {{\n    recorder::sizes = std::vector<std::vector<int>>{{{0}}};\n"
          "    std::printf(\"== {1} {2}\\n\");\n    const Case& it = Cases()[{2}];\n"
          "    std::vector<void*> tensors;\n"
          "    for (int t = 0; t < static_cast<int>(it.tensors.size()); ++t) "
          "tensors.push_back(recorder::Tensor(t));\n"
          "    grove_plan::Run measure;\n    Plan(it, measure);\n"
          "    grove_plan::Run run(tensors.data(), recorder::Workspace(), "
          "reinterpret_cast<cudaStream_t>(0x77), nullptr);\n    Plan(it, run);\n"
          "    std::printf(\"workspace %lld%s\\n\", run.workspace_bytes(), "
          "run.workspace_bytes() == measure.workspace_bytes() ? \"\" : \" differs\");\n  }}\n",
          fmt::join(sizes, ", "), i, k);
    }
    return text + "}\n";
  }

  static std::vector<std::string> Kernels(const ExportedKernel& s) {
    return codegen::EmitHostCode(s.program.plan, s.task.cases[s.cases.front()],
                                 codegen::HostLanguage::kCpp)
        .kernels;
  }

  static std::vector<ExportedKernel> subjects_;
  static fs::path folder_;
  static std::string compiler_, recorded_;
};
std::vector<ExportedKernel> HostLaunch::subjects_;
fs::path HostLaunch::folder_;
std::string HostLaunch::compiler_, HostLaunch::recorded_;

TEST_F(HostLaunch, TheHostCodeOfEverySubjectCompilesWithoutAWarning) { EXPECT_EQ(compiler_, ""); }

TEST_F(HostLaunch, EverySubjectLaunchesWhatItsPlanMeans) {
  std::map<std::string, std::string> got = Sections(recorded_);
  int maps = 0;
  std::size_t launches = 0, clusters = 0, dependents = 0, gemms = 0, attributes = 0, zeros = 0;
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    const ExportedKernel& s = subjects_[i];
    const auto kernels = Kernels(s);
    for (std::size_t k = 0; k < s.cases.size(); ++k) {
      const Case& c = s.task.cases[s.cases[k]];
      const auto plan = codegen::ResolvePlan(s.program.plan, c, {});
      ASSERT_TRUE(plan) << s.name << " " << c.name;
      const std::string want = ExpectedCalls(c, *plan, kernels, maps);
      ASSERT_EQ(got[fmt::format("{} {}", i, k)], want) << s.name << ", case " << c.name;
      launches += plan->launches.size();
      for (const auto& l : plan->launches) {
        clusters += l.cluster ? 1 : 0;
        dependents += l.dependent ? 1 : 0;
        gemms += l.gemm ? 1 : 0;
        attributes += l.shared_bytes > 0 && l.shared_bytes + kStaticShared > 49152 ? 1 : 0;
      }
      for (const auto& w : plan->workspaces) zeros += w.zero ? 1 : 0;
    }
  }
  std::printf(
      "%zu subjects, %zu launches, %zu in clusters, %zu dependent, %zu products, %zu with much "
      "shared memory, %d tensor maps, %zu workspaces cleared\n",
      subjects_.size(), launches, clusters, dependents, gemms, attributes, maps, zeros);
  // Or the subjects have lost what this test is about.
  EXPECT_GT(launches, 5000U);
  EXPECT_GT(clusters, 0U);
  EXPECT_GT(dependents, 0U);
  EXPECT_GT(gemms, 0U);
  EXPECT_GT(attributes, 0U);
  EXPECT_GT(maps, 0);
  EXPECT_GT(zeros, 0U);
}

}  // namespace
}  // namespace grove::results
