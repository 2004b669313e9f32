// The proof that exported host code launches what a plan means: the host side of every subject is
// compiled as an ordinary C++ program against a recorder of the CUDA calls, run, and compared line
// by line with what ResolvePlan works out for the same case; once launching what nvcc compiled,
// once what NVRTC compiled. And that what NVRTC is given there gives the machine code of grove's
// own compilation. No GPU, no nvcc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "codegen/compile_farm.h"
#include "codegen/host_code.h"
#include "results/exports/cu_unit.h"
#include "results/exports/templates.h"
#include "tests/exports/expected.h"
#include "tests/exports/subjects.h"

namespace grove::results {
namespace {

namespace fs = std::filesystem;
using codegen::ResolvedArg;
using seeds::Case;

constexpr std::string_view kIncludes =
    "#define GROVE_BLAS 1\n#include <algorithm>\n#include <cmath>\n#include <cstdlib>\n"
    "#include <initializer_list>\n#include <map>\n#include <memory>\n#include <mutex>\n#include "
    "<utility>\n"
    "#include <dlfcn.h>\n#include <unistd.h>\n#include \"tests/exports/recorder.h\"\n";

// What g++ says, and then what the program prints.
std::pair<std::string, std::string> CompileAndRun(const fs::path& folder, const std::string& text) {
  std::ofstream(folder / "host.cc") << text;
  std::string said =
      Output(fmt::format("g++ -std=c++17 -O0 -Wall -Wextra -Werror -Wno-unused-function "
                         "-Wno-missing-field-initializers -isystem {} -I{} {} -o {} -ldl 2>&1",
                         GROVE_CUDA_INCLUDE, GROVE_SOURCE_DIR, (folder / "host.cc").string(),
                         (folder / "host").string()));
  return {said, Output((folder / "host").string() + " 2>&1")};
}

// One program of the host sides of all subjects.
class HostLaunch : public ::testing::TestWithParam<KernelCompiler> {
 protected:
  void SetUp() override {
    subjects_ = AllSubjects();
    folder_ = fs::path(::testing::TempDir()) /
              fmt::format("grove_host_launch_{}_{}", Name(GetParam()), ::getpid());
    fs::create_directories(folder_);
    std::string text = std::string(kIncludes) + HostRuntime(GetParam());
    std::string main;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      text += fmt::format("namespace subject_{} {{\n{}", i,
                          HostUnit(subjects_[i], {"const void* const*", "recorder::table"}));
      text += Driver(i) + "}\n";
      main += fmt::format("  subject_{}::All();\n", i);
    }
    text +=
        "int main() {\n  for (int i = 0; i < 64; ++i) recorder::table[i] = recorder::kernels + "
        "i;\n" +
        main + "  return 0;\n}\n";
    std::tie(compiler_, recorded_) = CompileAndRun(folder_, text);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Sets the parameters' sizes and runs every case of subject i.
  std::string Driver(std::size_t i) const {
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

  std::vector<ExportedKernel> subjects_;
  fs::path folder_;
  std::string compiler_, recorded_;
};

TEST_P(HostLaunch, EverySubjectCompilesWithoutAWarningAndLaunchesWhatItsPlanMeans) {
  ASSERT_EQ(compiler_, "");
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

INSTANTIATE_TEST_SUITE_P(Compilers, HostLaunch,
                         ::testing::Values(KernelCompiler::kNvrtc, KernelCompiler::kNvcc),
                         [](const auto& one) { return std::string(Name(one.param)); });

// The exported text is compiled by the exported code, and its module is grove's own cubin, byte for
// byte.
TEST(CompiledByNvrtc, TheMachineCodeIsThatOfTheRun) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / fmt::format("grove_exported_nvrtc_{}", ::getpid());
  fs::create_directories(folder);
  ExportedKernel everything = Everything();
  everything.cases.resize(1);
  ExportedKernel standard =
      SeedOf("softmax", {"crfm"});  // a C++ header of the toolkit's, and our own
  auto program =
      codegen::MakeProgram("#include <cuda/std/type_traits>\n#include <algorithm>\n// )cuda\"\n" +
                               standard.program.source,
                           standard.program.plan_json);
  ASSERT_TRUE(program) << program.error().message;
  standard.program = *program;
  standard.name = "standard";
  const std::vector<ExportedKernel> kernels = {SeedOf("softmax", {"crfm", "4096x4096_f16"}),
                                               everything, standard};
  auto farm = codegen::MakeCompileFarm({.workers = 1, .cache_folder = {}});
  ASSERT_TRUE(farm) << farm.error().message;
  for (const ExportedKernel& kernel : kernels) {
    const auto unit = CuUnit(kernel, {.self = "unit.cpp"});
    ASSERT_TRUE(unit) << unit.error().message;
    const auto names =
        codegen::EmitHostCode(kernel.program.plan, kernel.task.cases[kernel.cases.front()],
                              codegen::HostLanguage::kCpp)
            .kernels;
    std::string text = std::string(kIncludes) + "#include \"api.h\"\n" + *unit;
    text += "int main() {\n  recorder::folder = \"" + folder.string() + "\";\n";
    text += "  for (const Case& it : Cases()) it.kernels[0];\n  return 0;\n}\n";
    std::ofstream(folder / "api.h") << asset::kExportTorchApi;
    const auto [said, printed] = CompileAndRun(folder, text);
    ASSERT_EQ(said, "") << kernel.name;
    std::string want;
    for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
      for (const std::string& name : names) want += "function " + name + "\n";
      const auto compiled = (*farm)->Compile(
          {.source = codegen::Prelude(kernel.task.cases[kernel.cases[i]]) + kernel.program.source,
           .arch = "sm_90a",
           .options = {}});
      ASSERT_TRUE(compiled) << compiled.error().message;
      ASSERT_TRUE((*compiled)->ok()) << kernel.name << ": " << (*compiled)->log;
      const auto module = ReadFile(folder / fmt::format("module{}", i));
      ASSERT_TRUE(module) << printed;
      EXPECT_TRUE(*module == (*compiled)->cubin) << kernel.name << ", case " << i;
    }
    EXPECT_EQ(printed, want) << kernel.name;
  }
  fs::remove_all(folder);
}

// Which headers exported code gives NVRTC: a wheel without CCCL is not taken for a whole toolkit.
TEST(CompiledByNvrtc, TheHeadersOfCooperativeGroupsAreFoundWhereAWheelLacksThem) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / fmt::format("grove_exported_headers_{}", ::getpid());
  const auto tree = [&](const std::string& name, std::initializer_list<const char*> files) {
    for (const char* file : files) {
      fs::create_directories((folder / name / file).parent_path());
      std::ofstream(folder / name / file) << "x";
    }
    return (folder / name).string();
  };
  const std::string whole = tree("whole", {"include/cuda_fp16.h", "include/cccl/nv/target"});
  const std::string old = tree("old", {"include/cuda_fp16.h", "include/nv/target"});
  const std::string bare = tree("nvidia/cu13", {"include/cuda_fp16.h"});
  const std::string other = tree("nvidia12/cuda_nvrtc", {"lib/libnvrtc.so.12"});
  tree("nvidia12/cuda_runtime", {"include/cuda_fp16.h"});
  tree("nvidia12/cuda_cccl", {"include/nv/target"});
  // The real toolkit as a wheel without CCCL.
  const auto toolkit = codegen::FindToolkit();
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  const fs::path wheel = folder / "site/nvidia/cu13";
  fs::create_directories(wheel / "lib");
  fs::create_directories(wheel / "include");
  for (const auto& file : fs::directory_iterator(toolkit->nvrtc_library.parent_path())) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("libnvrtc")) fs::create_symlink(file.path(), wheel / "lib" / name);
  }
  for (const auto& file : fs::directory_iterator(toolkit->include_folders.front())) {
    const std::string name = file.path().filename().string();
    if (name != "cccl" && name != "nv") fs::create_symlink(file.path(), wheel / "include" / name);
  }
  const fs::path lender = folder / "lender";
  fs::create_directories(lender / "include");
  ASSERT_TRUE(fs::exists(toolkit->include_folders.back() / "nv/target"));
  fs::create_symlink(toolkit->include_folders.back(), lender / "include/cccl");

  const auto line = [](const std::string& toolkits) {
    return fmt::format(
        "  for (const std::string& folder : grove_plan::HeaderFolders({{{}}})) "
        "std::printf(\"%s \", folder.c_str());\n  std::printf(\"\\n\");\n",
        toolkits);
  };
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  std::string text = std::string(kIncludes) + HostRuntime(KernelCompiler::kNvrtc) +
                     "int main() {\n" + line(quoted(whole)) + line(quoted(old)) +
                     line(quoted(bare) + ", \"\", " + quoted(whole)) +
                     line(quoted(bare) + ", " + quoted(old)) +
                     line(quoted(other + "/lib/..") + ", " + quoted(whole)) + line(quoted(bare)) +
                     line("\"/nowhere\"");
  text += R"(
  for (const char* source : {"#include <cooperative_groups.h>\nextern \"C\" __global__ void k() "
                             "{ cooperative_groups::this_grid().sync(); }",
                             "#include <not_there.h>"}) {
    try {
      std::printf("%d\n", grove_plan::Nvrtc::Get().Compile(source, "sm_90a", {}).size() > 1000);
    } catch (const std::exception& problem) {
      std::printf("%s", problem.what());
    }
  }
  return 0;
}
)";
  const std::string old_home = std::getenv("CUDA_HOME") == nullptr ? "" : std::getenv("CUDA_HOME");
  const std::string old_path = std::getenv("CUDA_PATH") == nullptr ? "" : std::getenv("CUDA_PATH");
  ::setenv("CUDA_HOME", wheel.c_str(), 1);
  ::setenv("CUDA_PATH", lender.c_str(), 1);
  const auto [said, printed] = CompileAndRun(folder, text);
  ::setenv("CUDA_HOME", old_home.c_str(), 1);
  ::setenv("CUDA_PATH", old_path.c_str(), 1);
  ASSERT_EQ(said, "");
  const std::string want = fmt::format(
      "{0}/include {0}/include/cccl \n{1}/include {1}/include/cccl \n"
      "{2}/include {0}/include/cccl \n{2}/include {1}/include \n"
      "{3}/lib/../../cuda_runtime/include {3}/lib/../../cuda_cccl/include \n{2}/include \n\n1\n",
      whole, old, bare, other);
  EXPECT_EQ(printed.substr(0, want.size()), want);
  EXPECT_THAT(printed, ::testing::HasSubstr("not_there.h"));
  EXPECT_THAT(printed,
              ::testing::HasSubstr(fmt::format("(headers of {}/lib/../include {}/include/cccl)",
                                               wheel.string(), lender.string())));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace grove::results
