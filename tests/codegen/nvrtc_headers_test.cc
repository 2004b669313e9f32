// The prelude and every header served from memory, through a real NVRTC (skipped where there is
// none). No GPU is needed.
#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/entry_points.h"
#include "codegen/headers.h"
#include "codegen/program.h"
#include "plan_support.h"

namespace grove::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NvrtcTest : public ::testing::Test {
 protected:
  struct Outcome {
    bool ok = false;
    std::string log;
    std::string ptx;
  };

  void SetUp() override {
    const char* home = std::getenv("CUDA_HOME");
    root_ = home != nullptr ? home : "/usr/local/cuda";
    library_ = dlopen((root_ / "lib64/libnvrtc.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) library_ = dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) GTEST_SKIP() << "no NVRTC: " << dlerror();
    Load("nvrtcCreateProgram", create_);
    Load("nvrtcCompileProgram", compile_);
    Load("nvrtcGetProgramLogSize", log_size_);
    Load("nvrtcGetProgramLog", log_);
    Load("nvrtcGetPTXSize", ptx_size_);
    Load("nvrtcGetPTX", ptx_);
    Load("nvrtcDestroyProgram", destroy_);
  }

  Outcome Compile(const std::string& source) {
    const auto headers = BuiltinHeaders();
    std::vector<const char*> names, contents;
    for (const auto& [name, content] : headers) {
      names.push_back(name.c_str());
      contents.push_back(content.c_str());
    }
    void* program = nullptr;
    EXPECT_EQ(create_(&program, source.c_str(), "kernel.cu", static_cast<int>(headers.size()),
                      contents.data(), names.data()),
              0);
    const std::string include = "-I" + (root_ / "include").string();
    const std::string cccl = "-I" + (root_ / "include/cccl").string();
    const std::vector<const char*> options = {"-arch=sm_90", include.c_str(), cccl.c_str()};
    Outcome outcome;
    outcome.ok = compile_(program, static_cast<int>(options.size()), options.data()) == 0;
    std::size_t size = 0;
    log_size_(program, &size);
    outcome.log.resize(size);
    log_(program, outcome.log.data());
    if (outcome.ok) {
      ptx_size_(program, &size);
      outcome.ptx.resize(size);
      ptx_(program, outcome.ptx.data());
    }
    destroy_(&program);
    return outcome;
  }

  // Compiles without a word, not even a warning.
  void ExpectClean(const std::string& source) {
    const Outcome outcome = Compile(source);
    EXPECT_TRUE(outcome.ok && outcome.log.size() <= 1) << outcome.log << "\n" << source;
  }

 private:
  template <typename Function>
  void Load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    ASSERT_NE(function, nullptr) << name;
  }

  std::filesystem::path root_;
  void* library_ = nullptr;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*ptx_size_)(void*, std::size_t*) = nullptr;
  int (*ptx_)(void*, char*) = nullptr;
  int (*destroy_)(void**) = nullptr;
};

constexpr std::string_view kKernel = "extern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n";

// Those that forward to cuda/std take seconds each; the next test compiles them all at once.
TEST_F(NvrtcTest, EachServedHeaderCompilesAlone) {
  for (const auto& [name, content] : BuiltinHeaders()) {
    if (content.find("<cuda/std/") != std::string::npos) continue;
    ExpectClean("#include <" + name + ">\n" + std::string(kKernel));
  }
}

TEST_F(NvrtcTest, AllServedHeadersTogetherInBothOrders) {
  std::string forward, backward;
  for (const auto& [name, content] : BuiltinHeaders()) {
    forward += "#include <" + name + ">\n";
    backward.insert(0, "#include \"" + name + "\"\n");
  }
  for (const std::string& includes : {forward, backward}) {
    const Outcome outcome = Compile(includes + std::string(kKernel));
    EXPECT_TRUE(outcome.ok) << outcome.log;
  }
}

TEST_F(NvrtcTest, ServedHeadersBesideTheToolkitsOwn) {
  const std::string toolkit =
      "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n#include <mma.h>\n"
      "#include <cuda.h>\n#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
      "#include <cuda/std/climits>\n#include <cuda/std/cstdint>\n#include <cuda/std/cmath>\n"
      "#include <cuda/barrier>\n#include <cuda/pipeline>\n#include <cuda/ptx>\n"
      "#include <math_constants.h>\n#include <cuComplex.h>\n";
  const std::string served =
      "#include <cuda_runtime.h>\n#include <stdint.h>\n#include <cstdint>\n#include <limits.h>\n"
      "#include <float.h>\n#include <math.h>\n#include <cmath>\n#include <assert.h>\n";
  for (const std::string& includes : {served + toolkit, toolkit + served}) {
    const Outcome outcome = Compile(
        includes + "extern \"C\" __global__ void k(const __grid_constant__ CUtensorMap m) {}\n");
    ASSERT_TRUE(outcome.ok) << outcome.log;
    const Result<std::vector<EntryPoint>> entries = EntryPointsFromPtx(outcome.ptx);
    ASSERT_TRUE(entries) << entries.error().message;
    EXPECT_THAT((*entries)[0].param_sizes, ElementsAre(128));
  }
}

TEST_F(NvrtcTest, CubCompilesForDevices) {
  EXPECT_TRUE(Compile("#include <cub/block/block_reduce.cuh>\n"
                      "extern \"C\" __global__ void k(float* y) {\n"
                      "  using Reduce = cub::BlockReduce<float, 128>;\n"
                      "  __shared__ typename Reduce::TempStorage storage;\n"
                      "  const float sum = Reduce(storage).Sum(y[threadIdx.x]);\n"
                      "  if (threadIdx.x == 0) y[0] = sum;\n}\n")
                  .ok);
}

TEST_F(NvrtcTest, WhatModelsExpectOfTheHeadersIsThere) {
  ExpectClean(R"cuda(
#include <algorithm>
#include <assert.h>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <limits>
#include <type_traits>
#include <utility>
struct Pair { int first; double second; };
static_assert(sizeof(int64_t) == 8 && sizeof(uint32_t) == 4 && sizeof(std::uint8_t) == 1, "");
static_assert(INT_MAX == 2147483647 && UINT32_MAX == 4294967295U && INT64_MIN < INT32_MIN, "");
static_assert(std::is_same<float, std::remove_const<const float>::type>::value, "");
static_assert(std::numeric_limits<float>::max() == FLT_MAX, "");
constexpr float kLowest = -INFINITY;
extern "C" __global__ void k(float* y, std::size_t n) {
  assert(n > 0);
  float best = kLowest;
  best = std::max(best, std::min(FLT_MIN, DBL_MAX > 1.0 ? FLT_EPSILON : NAN));
  best = fmaxf(best, std::sqrt(static_cast<float>(M_PI)) + std::exp(y[0]) + std::abs(y[1]) + std::fabs(y[2]));
  if (std::isinf(best) || std::isnan(best)) printf("%f", static_cast<double>(best));
  memset(y, 0, 4);
  float other = std::move(best);
  y[0] = other + static_cast<float>(HUGE_VAL > 0) + static_cast<float>(offsetof(Pair, second));
}
)cuda");
}

TEST_F(NvrtcTest, ThePreludeSpecialisesACase) {
  seeds::Case sample = SampleCase();
  sample.tensors[0].dtype = DType::kF16;
  sample.tensors[1].dtype = DType::kBF16;
  sample.dims.push_back({"huge", std::int64_t{1} << 40});
  sample.scalars.push_back({"inf", DType::kF32, std::numeric_limits<double>::infinity()});
  sample.scalars.push_back({"nan", DType::kF64, std::numeric_limits<double>::quiet_NaN()});
  const Outcome outcome = Compile(
      Prelude(sample) +
      "static_assert(dim::M == 4096 && dim::huge == (1LL << 40) && scalar::eps == 1e-5f, \"\");\n"
      "static_assert(scalar::inf > 3e38f && scalar::nan != scalar::nan, \"\");\n"
      "extern \"C\" __global__ void __launch_bounds__(64) k(const tensor::x* x, tensor::y* y, int "
      "n,\n"
      "    double d, bool b) {\n"
      "  y[n] = tensor::y(static_cast<float>(x[n]) + static_cast<float>(d) + b);\n}\n");
  ASSERT_TRUE(outcome.ok) << outcome.log;
  EXPECT_EQ(outcome.log.size(), 1U) << outcome.log;
  const Result<std::vector<EntryPoint>> entries = EntryPointsFromPtx(outcome.ptx);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].name, "k");
  EXPECT_THAT((*entries)[0].param_sizes, ElementsAre(8, 8, 4, 8, 1));
  EXPECT_EQ((*entries)[0].max_threads, 64);
}

TEST_F(NvrtcTest, ErrorsNameTheLineOfTheSourceAsWritten) {
  const Outcome outcome = Compile(Prelude(SampleCase()) + "int\nwrong;\n" +
                                  "extern \"C\" __global__ void k() { q(); }\n");
  EXPECT_FALSE(outcome.ok);
  EXPECT_THAT(outcome.log, HasSubstr("kernel.cu(3): error: identifier \"q\" is undefined"));
}

}  // namespace
}  // namespace grove::codegen
