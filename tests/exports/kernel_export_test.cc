// Exported files are compiled by those who would compile them: nvcc, Python. What launches is
// proven in host_launch_test.cc; running on a GPU is scripts/gpu-exports.
#include "results/exports/kernel_export.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "base/files.h"
#include "codegen/host_code.h"
#include "tests/exports/expected.h"
#include "tests/exports/subjects.h"

namespace grove::results {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class KernelExport : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / fmt::format("grove_kernel_export_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> Write(const ExportedKernel& kernel, ExportFormat format,
                              const fs::path& to) const {
    const auto files = RenderExport(kernel, format);
    EXPECT_TRUE(files) << kernel.name << ": " << (files ? "" : files.error().message);
    if (!files) return {};
    const auto paths = WriteExport(*files, to);
    EXPECT_TRUE(paths);
    return paths.value_or(std::vector<fs::path>{});
  }

  // The compiler's complaints about a program, by the command that its head names: none, and the
  // program is there.
  std::string Compile(const ExportedKernel& kernel, std::string_view more = "-Xptxas -O0") const {
    const fs::path folder = folder_ / (kernel.name + std::string(Name(kernel.compiler)));
    fs::create_directories(folder);
    const auto paths = Write(kernel, ExportFormat::kCu, folder);
    if (paths.empty()) return "not written";
    const std::string text = ReadFile(paths.front()).value_or("");
    const std::size_t at = text.find("\n// nvcc ");
    if (at == std::string::npos) return "the head says no command";
    const std::string arguments = text.substr(at + 9, text.find('\n', at + 1) - at - 9);
    std::string said =
        Output(fmt::format("cd {} && {} {} {} 2>&1", folder.string(), GROVE_NVCC, more, arguments));
    if (!fs::exists(folder / kernel.name)) said += "no program";
    return said;
  }

  fs::path folder_;
};

ExportedKernel ByNvcc(ExportedKernel kernel) {
  kernel.compiler = KernelCompiler::kNvcc;
  return kernel;
}

ExportedKernel Only(ExportedKernel kernel, const std::vector<std::string>& cases) {
  kernel.cases.clear();
  for (std::size_t i = 0; i < kernel.task.cases.size(); ++i) {
    if (std::find(cases.begin(), cases.end(), kernel.task.cases[i].name) != cases.end()) {
      kernel.cases.push_back(i);
    }
  }
  return kernel;
}

TEST_F(KernelExport, AProgramWithAllThatPlansHaveCompilesAndLinks) {
  const ExportedKernel kernel = Only(Everything(), {"n32", "n176", "n512"});
  ASSERT_EQ(kernel.cases.size(), 3U);
  EXPECT_EQ(Compile(kernel), "");
}

TEST_F(KernelExport, AProgramWithItsReferenceCompilesAndLinks) {
  // Two element types and shapes in one file; the same names in kernel and reference.
  const ExportedKernel kernel = SeedOf("softmax", {"crfm", "4096x4096_f16"});
  EXPECT_EQ(Compile(ByNvcc(kernel)), "");
  EXPECT_EQ(Compile(Only(kernel, {"crfm"})), "");
}

TEST_F(KernelExport, InstructionsOfOneChipOnlyCompileByNvcc) {
  // wgmma and setmaxnreg, which no pass for plain compute_90 may meet.
  ExportedKernel kernel = SeedOf("matmul", {"crfm"});
  const fs::path gallery = fs::path(GROVE_SOURCE_DIR) / "results/gallery/matmul";
  auto program = codegen::MakeProgram(ReadFile(gallery / "program.cu").value(),
                                      ReadFile(gallery / "plan.json").value());
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_THAT(program->source, HasSubstr("wgmma"));
  kernel.program = *program;
  kernel.name = "matmul_gallery";
  EXPECT_EQ(Compile(ByNvcc(kernel), ""), "");
}

TEST_F(KernelExport, TheHostSideOfAnExtensionIsPlainCpp) {
  const auto paths = Write(Only(Everything(), {"n176"}), ExportFormat::kTorchCpp, folder_);
  ASSERT_EQ(paths.size(), 4U);
  EXPECT_EQ(Output(fmt::format("g++ -std=c++17 -Wall -Wextra -Wno-missing-field-initializers "
                               "-isystem {} -c {} -o {} 2>&1",
                               GROVE_CUDA_INCLUDE, (folder_ / "everything.cpp").string(),
                               (folder_ / "everything.o").string())),
            "");
  EXPECT_TRUE(fs::exists(folder_ / "everything.o"));
}

TEST_F(KernelExport, TheCudaSideOfAnExtensionByNvccCompiles) {
  const auto paths = Write(ByNvcc(Only(Everything(), {"n176"})), ExportFormat::kTorchCpp, folder_);
  ASSERT_EQ(paths.size(), 4U);
  // As PyTorch compiles: its macros forbid what kernels need.
  EXPECT_EQ(Output(fmt::format("{} -std=c++17 -gencode=arch=compute_90a,code=sm_90a "
                               "--expt-relaxed-constexpr -Xptxas -O0 "
                               "-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ "
                               "-D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ "
                               "-c {} -o {} 2>&1",
                               GROVE_NVCC, (folder_ / "everything.cu").string(),
                               (folder_ / "everything.o").string())),
            "");
  EXPECT_TRUE(fs::exists(folder_ / "everything.o"));
}

// Minutes of nvcc: by hand, and before a release.
TEST_F(KernelExport, EverySubjectCompiles) {
  if (std::getenv("GROVE_TEST_ALL_EXPORTS") == nullptr) {
    GTEST_SKIP()
        << "set GROVE_TEST_ALL_EXPORTS=1: nvcc over every subject takes a quarter of an hour";
  }
  for (ExportedKernel& kernel : AllSubjects()) {
    if (kernel.name.ends_with("_reference")) continue;  // compiled as every seed's reference
    kernel.cases.resize(std::min<std::size_t>(kernel.cases.size(), 2));
    EXPECT_EQ(Compile(kernel), "") << kernel.name;
    EXPECT_EQ(Compile(ByNvcc(kernel)), "") << kernel.name;
  }
}

TEST_F(KernelExport, TheProgramSaysHowItIsCompiledAndWhereItIsFrom) {
  ExportedKernel kernel = SeedOf("softmax", {"crfm"});
  kernel.about = {"from run a", "Idea: \x1b[31mred\u202e", "ends in a backslash \\", "two\nlines"};
  const auto files = RenderExport(kernel, ExportFormat::kCu);
  ASSERT_TRUE(files);
  const std::string& text = files->front().content;
  EXPECT_EQ(files->front().name, "softmax_seed.cu");
  EXPECT_THAT(text, HasSubstr("// from run a\n"));
  EXPECT_THAT(text, HasSubstr("// nvcc -std=c++17 -O3 softmax_seed.cu -o softmax_seed\n"));
  EXPECT_THAT(text, HasSubstr(kernel.program.source));  // as the model wrote it
  EXPECT_THAT(text, HasSubstr("grove_generate"));
  EXPECT_THAT(text, Not(HasSubstr("grove_fill")));  // the evaluator's other kernels stay at home
  const auto nvcc = RenderExport(ByNvcc(kernel), ExportFormat::kCu);
  ASSERT_TRUE(nvcc);
  EXPECT_THAT(nvcc->front().content,
              HasSubstr("// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a "
                        "--expt-relaxed-constexpr softmax_seed.cu"));
  EXPECT_THAT(text, HasSubstr("// ends in a backslash \\.\n"));
  EXPECT_THAT(text, HasSubstr("// two lines\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\u202e")));
  EXPECT_THAT(text, HasSubstr("// case crfm: x f32 {4096, 65536} -> y f32 {4096, 65536}\n"));
}

TEST_F(KernelExport, ThePlansOfCuPyScriptsLaunchWhatThePlansMean) {
  const std::vector<ExportedKernel> subjects = AllSubjects();
  std::string paths;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const fs::path path = folder_ / fmt::format("s{}.py", i);
    Write(subjects[i], ExportFormat::kCupy, path);
    paths += " " + path.string();
  }
  const auto got = Sections(Output(fmt::format(
      "python3 {}/tests/exports/record_python.py cupy{} 2>&1", GROVE_SOURCE_DIR, paths)));
  int maps = 0;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const ExportedKernel& s = subjects[i];
    const auto kernels = codegen::EmitHostCode(s.program.plan, s.task.cases[s.cases.front()],
                                               codegen::HostLanguage::kPython)
                             .kernels;
    for (std::size_t k = 0; k < s.cases.size(); ++k) {
      const seeds::Case& c = s.task.cases[s.cases[k]];
      const auto plan = codegen::ResolvePlan(s.program.plan, c, {});
      ASSERT_TRUE(plan);
      const auto found = got.find(fmt::format("{} {}", i, k));
      ASSERT_NE(found, got.end()) << s.name << (got.empty() ? "" : got.rbegin()->second);
      ASSERT_EQ(found->second, ExpectedCalls(c, *plan, kernels, maps)) << s.name << " " << c.name;
    }
  }
}

TEST_F(KernelExport, CuPyScriptsFindTheHeadersThatCooperativeGroupsNeeds) {
  const fs::path script = folder_ / "softmax.py";
  Write(SeedOf("softmax", {"crfm"}), ExportFormat::kCupy, script);
  const auto tree = [&](const char* name, std::initializer_list<const char*> files) {
    for (const char* file : files) {
      const fs::path path = folder_ / name / file;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << "x";
    }
    return (folder_ / name).string();
  };
  const auto found = [&](const std::string& toolkits) {
    return Output(fmt::format("python3 {}/tests/exports/record_python.py headers {} {} 2>&1",
                              GROVE_SOURCE_DIR, script.string(), toolkits));
  };
  const std::string whole = tree("whole", {"include/cuda_fp16.h", "include/cccl/nv/target"});
  const std::string old = tree("old", {"include/cuda_fp16.h", "include/nv/target"});
  const std::string bare = tree("site/nvidia/cu13", {"include/cuda_fp16.h"});
  const std::string apart = tree("site12/nvidia/cuda_runtime", {"include/cuda_fp16.h"});
  tree("site12/nvidia/cuda_cccl", {"include/nv/target"});
  const std::string cupy = tree("cupy", {"__init__.py"});
  // A wheel without CCCL, and behind it whatever has it; no wheel loses its own headers by it.
  EXPECT_EQ(found(whole), fmt::format("{0}/include {0}/include/cccl\n", whole));
  EXPECT_EQ(found(old), fmt::format("{0}/include\n", old));
  EXPECT_EQ(found(bare + " " + whole), fmt::format("{}/include {}/include/cccl\n", bare, whole));
  EXPECT_EQ(found(bare + " " + old), fmt::format("{}/include {}/include\n", bare, old));
  EXPECT_EQ(found(apart + " " + whole), fmt::format("{}/include {}/include/cccl\n", apart, whole));
  EXPECT_EQ(found(apart), fmt::format("{0}/include {1}/site12/nvidia/cuda_cccl/include\n", apart,
                                      folder_.string()));
  EXPECT_EQ(found("/nowhere " + whole), fmt::format("{0}/include {0}/include/cccl\n", whole));
  EXPECT_EQ(found("/nowhere"), "\n");
  EXPECT_EQ(found(bare), fmt::format("{}/include\n", bare));
  // CuPy brings the header itself.
  tree("cupy", {"_core/include/cupy/_cccl/libcudacxx/nv/target"});
  EXPECT_EQ(found(bare),
            fmt::format("{}/include {}/_core/include/cupy/_cccl/libcudacxx\n", bare, cupy));
  // Where it looks: CuPy's toolkit, the environment's, wheels beside the script's modules.
  const std::string looked =
      Output(fmt::format("CUDA_HOME=/home/toolkit PYTHONPATH={}/site:{}/site12 python3 "
                         "{}/tests/exports/record_python.py headers {} 2>&1",
                         folder_.string(), folder_.string(), GROVE_SOURCE_DIR, script.string()));
  EXPECT_THAT(looked, ::testing::StartsWith("/cupy/toolkit /home/toolkit "));
  EXPECT_THAT(looked, HasSubstr(" " + bare + " "));
  EXPECT_THAT(looked, HasSubstr(" " + apart + " "));
  EXPECT_THAT(looked, ::testing::EndsWith(" /usr/local/cuda /usr\n"));
}

TEST_F(KernelExport, PythonModulesBuildTheirExtensionAndHandInputsOn) {
  const ExportedKernel softmax = SeedOf("softmax", {"crfm", "4096x4096_f16"});
  const ExportedKernel everything = Only(Everything(), {"n32", "n512"});
  const ExportedKernel by_nvcc = ByNvcc(everything);
  std::string paths;
  for (const auto& [kernel, format] :
       {std::pair{&softmax, ExportFormat::kTorch}, std::pair{&softmax, ExportFormat::kKernelBench},
        std::pair{&everything, ExportFormat::kGpuMode},
        std::pair{&by_nvcc, ExportFormat::kGpuMode}}) {
    const fs::path path = folder_ / fmt::format("{}_{}.py", Name(format), Name(kernel->compiler));
    Write(*kernel, format, path);
    paths += " " + path.string();
  }
  const std::string out = Output(fmt::format(
      "python3 {}/tests/exports/record_python.py torch{} 2>&1", GROVE_SOURCE_DIR, paths));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = std::min(out.find('\n', at), out.size());
    lines.push_back(out.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 4U) << out;
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr(R"("functions": ["run"])"));
    EXPECT_THAT(line, HasSubstr(R"("bare": true)"));
    EXPECT_THAT(line, HasSubstr(R"("one": "out", "two": ["out", "out"])"));
    EXPECT_THAT(line, HasSubstr("getCurrentCUDAStream"));
  }
  EXPECT_THAT(lines[0], Not(HasSubstr("\"model\"")));
  EXPECT_THAT(lines[1], HasSubstr(R"("model": "out")"));
  EXPECT_THAT(lines[2], HasSubstr(R"("custom": ["out", "out"])"));
  EXPECT_THAT(lines[2], HasSubstr(R"("cuda": null)"));
  EXPECT_THAT(lines[2], HasSubstr(R"("with_cuda": true)"));
  EXPECT_THAT(lines[2], HasSubstr(R"("libraries": ["-ldl", "-lcublas"])"));
  EXPECT_THAT(lines[3], HasSubstr("-gencode=arch=compute_90a,code=sm_90a"));
  EXPECT_THAT(lines[3], HasSubstr(R"("libraries": ["-lcublas"])"));
  EXPECT_THAT(lines[0], Not(HasSubstr("-lcublas")));
}

TEST_F(KernelExport, SourceThatLooksLikePythonStaysText) {
  ExportedKernel kernel = SeedOf("softmax", {"crfm"});
  auto program = codegen::MakeProgram(
      kernel.program.source + "\n// '''); import os; os._exit(7) # \\\n", kernel.program.plan_json);
  ASSERT_TRUE(program) << program.error().message;
  kernel.program = *program;
  for (const ExportFormat format : {ExportFormat::kTorch, ExportFormat::kCupy}) {
    const fs::path path = folder_ / fmt::format("{}.py", Name(format));
    Write(kernel, format, path);
    const fs::path check = folder_ / "check.py";
    std::ofstream(check) << R"(import ast, sys
tree = list(ast.walk(ast.parse(open(sys.argv[1]).read())))
texts = [n.value for n in tree if isinstance(n, ast.Constant) and isinstance(n.value, str)]
print(sum("import os; os._exit(7) # \\" in text for text in texts),
      any(getattr(n.func, "attr", "") == "_exit" for n in tree if isinstance(n, ast.Call)))
)";
    EXPECT_EQ(Output(fmt::format("python3 {} {} 2>&1", check.string(), path.string())),
              "1 False\n");
  }
}

TEST_F(KernelExport, AFolderWithSetupHasEverythingItNames) {
  const auto paths = Write(SeedOf("softmax", {"crfm"}), ExportFormat::kTorchCpp, folder_ / "ext");
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.filename().string());
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("setup.py", "softmax_seed.cpp", "softmax_seed_api.h",
                                              "softmax_seed_binding.cpp"));
  EXPECT_EQ(
      Output(fmt::format("python3 -m py_compile {} 2>&1", (folder_ / "ext/setup.py").string())),
      "");
  const std::string setup = ReadFile(folder_ / "ext/setup.py").value();
  EXPECT_THAT(setup, HasSubstr("\"softmax_seed_binding.cpp\", \"softmax_seed.cpp\""));
  EXPECT_THAT(ReadFile(folder_ / "ext/softmax_seed_binding.cpp").value(),
              HasSubstr("#include \"softmax_seed_api.h\""));
}

TEST_F(KernelExport, CuPyDoesNotCompileByNvcc) {
  const auto files = RenderExport(ByNvcc(SeedOf("softmax", {"crfm"})), ExportFormat::kCupy);
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("CuPy compiles by NVRTC"));
}

TEST_F(KernelExport, CasesAreChosenByNameAndJoinedWhereShapesDecide) {
  const auto selected = seeds::SelectCases(SeedOf("qr").task, "qr", {});
  ASSERT_TRUE(selected);
  const seeds::Task& task = *selected;
  const auto scored = CasesToExport(task, ExportFormat::kCu, {});
  const auto shapes = CasesToExport(task, ExportFormat::kTorch, {});
  ASSERT_TRUE(scored);
  ASSERT_TRUE(shapes);
  EXPECT_EQ(scored->size(), 12U);  // mixed, rankdef, ... are shapes that were there
  EXPECT_EQ(shapes->size(), 7U);
  const auto unknown = CasesToExport(task, ExportFormat::kCu, {"n321"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean"));
}

TEST_F(KernelExport, APlanThatDoesNotResolveIsAnError) {
  ExportedKernel kernel = SeedOf("softmax", {"crfm"});
  auto program = codegen::MakeProgram(
      kernel.program.source,
      R"({"version": 1, "launches": [{"kernel": "softmax", "grid": ["M / 0"], "block": [64], "args": ["x", "y"]}]})");
  ASSERT_TRUE(program);
  kernel.program = *program;
  for (const std::string& name : ExportFormatNames()) {
    const auto files = RenderExport(kernel, *ExportFormatFromName(name));
    ASSERT_FALSE(files) << name;
    EXPECT_THAT(files.error().message, HasSubstr("case crfm: launches[0].grid[0]")) << name;
  }
}

}  // namespace
}  // namespace grove::results
