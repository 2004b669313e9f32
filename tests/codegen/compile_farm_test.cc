#include "codegen/compile_farm.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/process.h"
#include "codegen/compile_cache.h"
#include "tests/codegen/temporary_folder.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;
using Kind = CompileOutcome::Status;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr const char* kReverse = R"(
extern "C" __global__ void __launch_bounds__(256) reverse(const float* a, float* b, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = s[255 - threadIdx.x] * n;
}
)";

constexpr const char* kSpill = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spill(const float* a, float* b, int n) {
  float v[80];
#pragma unroll
  for (int i = 0; i < 80; i++) v[i] = a[i * n + threadIdx.x];
  for (int j = 0; j < n; j++) {
#pragma unroll
    for (int i = 0; i < 80; i++) v[i] = v[(i + 7) % 80] * v[i] + 1.f;
  }
#pragma unroll
  for (int i = 0; i < 80; i++) b[i * n] = v[i];
}
)";

// Takes gigabytes and minutes: 2^19 classes.
constexpr const char* kTemplateBomb = R"(
template <int N, int M> struct F {
  static constexpr int v = F<N - 1, M * 2>::v + F<N - 1, M * 2 + 1>::v;
};
template <int M> struct F<0, M> { static constexpr int v = 1; };
extern "C" __global__ void k(int* p) { *p = F<19, 0>::v; }
)";

std::string Numbered(int i) {
  return "extern \"C\" __global__ void k" + std::to_string(i) +
         "(int* p) { *p = " + std::to_string(i) + "; }\n";
}

CompileRequest Request(std::string source) { return {std::move(source), "sm_90", {}}; }

class CompileFarmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto toolkit = FindToolkit();
    if (!toolkit) GTEST_SKIP() << toolkit.error().message;
  }

  std::unique_ptr<CompileFarm> Make(FarmOptions options = {}) {
    if (options.workers == 0) options.workers = 2;
    // A busy machine must not turn a test of something else into one of the deadline.
    if (options.deadline == FarmOptions().deadline) options.deadline = std::chrono::minutes(5);
    if (!options.warning) {
      options.warning = [this](std::string_view text) {
        const std::lock_guard lock(mutex_);
        warnings_.emplace_back(text);
      };
    }
    auto farm = MakeCompileFarm(options);
    EXPECT_TRUE(farm) << farm.error().message;
    return farm ? std::move(*farm) : nullptr;
  }

  static CompileOutcome Compile(CompileFarm& farm, const CompileRequest& request) {
    auto outcome = farm.Compile(request);
    EXPECT_TRUE(outcome) << outcome.error().message;
    return outcome ? **outcome : CompileOutcome{};
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(CompileFarmTest, OneCompilationGivesPtxAndCubin) {
  const auto farm = Make();
  const CompileOutcome outcome = Compile(*farm, Request(kReverse));
  EXPECT_EQ(outcome.status, Kind::kOk) << outcome.log;
  EXPECT_THAT(outcome.ptx, HasSubstr(".visible .entry reverse("));
  EXPECT_THAT(outcome.ptx, HasSubstr(".target sm_90"));
  EXPECT_EQ(outcome.cubin.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_GT(outcome.time.count(), 0);
  EXPECT_FALSE(outcome.from_cache);
  EXPECT_EQ(outcome.log, "");
}

TEST_F(CompileFarmTest, EntriesTellWhatALaunchMustKnow) {
  const auto farm = Make();
  const CompileOutcome outcome = Compile(*farm, Request(std::string(kReverse) + kSpill));
  ASSERT_EQ(outcome.status, Kind::kOk) << outcome.log;
  ASSERT_EQ(outcome.entries.size(), 2u);
  const bool in_order = outcome.entries[0].name == "reverse";
  const EntryPoint& reverse = outcome.entries[in_order ? 0 : 1];
  const EntryPoint& spill = outcome.entries[in_order ? 1 : 0];

  EXPECT_EQ(reverse.name, "reverse");
  EXPECT_EQ(reverse.param_sizes, (std::vector<std::size_t>{8, 8, 4}));
  EXPECT_EQ(reverse.static_shared, 1024);
  EXPECT_EQ(reverse.max_threads, 256);
  EXPECT_GE(reverse.registers, 4);
  EXPECT_LE(reverse.registers, 64);
  EXPECT_EQ(reverse.spill_stores, 0);
  EXPECT_EQ(reverse.stack_bytes, 0);

  EXPECT_EQ(spill.name, "spill");
  EXPECT_EQ(spill.registers, 32);  // 65536 registers for 2048 threads
  EXPECT_EQ(spill.max_threads, 1024);
  EXPECT_GT(spill.spill_stores, 100);
  EXPECT_GT(spill.spill_loads, 100);
  EXPECT_GT(spill.stack_bytes, 100);
  EXPECT_EQ(spill.static_shared, 0);
}

TEST_F(CompileFarmTest, RegistersAgreeWithCuobjdump) {
  fs::path tool;
  for (const char* path : {"/usr/local/cuda/bin/cuobjdump", "/usr/bin/cuobjdump"}) {
    if (fs::exists(path)) tool = path;
  }
  if (tool.empty()) GTEST_SKIP() << "no cuobjdump on this machine";
  const auto farm = Make();
  const CompileOutcome outcome = Compile(*farm, Request(kSpill));
  ASSERT_EQ(outcome.status, Kind::kOk) << outcome.log;
  const fs::path cubin = folder_.path() / "k.cubin";
  ASSERT_TRUE(WriteFileAtomic(cubin, outcome.cubin));
  ProcessOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", "\"$0\" -res-usage \"$1\" >&2", tool.string(), cubin.string()};
  options.channel = false;
  auto dump = Process::Start(options);
  ASSERT_TRUE(dump) << dump.error().message;
  ASSERT_TRUE(dump->WaitFor(std::chrono::seconds(60)));
  const EntryPoint& entry = outcome.entries.at(0);
  EXPECT_THAT(dump->ErrorText(), HasSubstr("REG:" + std::to_string(entry.registers)));
  EXPECT_THAT(dump->ErrorText(), HasSubstr("STACK:" + std::to_string(entry.stack_bytes)));
}

TEST_F(CompileFarmTest, RegistersAndSpillsAgreeWithPtxas) {
  const fs::path tool = "/usr/local/cuda/bin/ptxas";
  if (!fs::exists(tool)) GTEST_SKIP() << "no ptxas on this machine";
  const auto farm = Make();
  for (const char* source : {kReverse, kSpill}) {
    const CompileOutcome outcome = Compile(*farm, Request(source));
    ASSERT_EQ(outcome.status, Kind::kOk) << outcome.log;
    const fs::path ptx = folder_.path() / "k.ptx";
    ASSERT_TRUE(WriteFileAtomic(ptx, outcome.ptx));
    ProcessOptions options;
    options.program = tool;
    options.arguments = {"-v", "-arch=sm_90", "-o", "/dev/null", ptx.string()};
    options.environment = SelectEnvironment({"PATH", "TMPDIR"});
    options.channel = false;
    auto ptxas = Process::Start(options);
    ASSERT_TRUE(ptxas) << ptxas.error().message;
    const auto status = ptxas->WaitFor(std::chrono::seconds(60));
    ASSERT_TRUE(status && status->ok()) << ptxas->ErrorText();
    const EntryPoint& entry = outcome.entries.at(0);
    const std::string& said = ptxas->ErrorText();
    EXPECT_THAT(said, HasSubstr("Used " + std::to_string(entry.registers) + " registers"));
    EXPECT_THAT(said, HasSubstr(std::to_string(entry.stack_bytes) + " bytes stack frame, " +
                                std::to_string(entry.spill_stores) + " bytes spill stores, " +
                                std::to_string(entry.spill_loads) + " bytes spill loads"));
    if (entry.static_shared > 0) {
      EXPECT_THAT(said, HasSubstr(std::to_string(entry.static_shared) + " bytes smem"));
    }
  }
}

TEST_F(CompileFarmTest, ACompileErrorIsAnOutcomeWithItsLine) {
  const auto farm = Make();
  const CompileOutcome outcome =
      Compile(*farm, Request("extern \"C\" __global__ void k(int* p) {\n  *p = missing;\n}\n"));
  EXPECT_EQ(outcome.status, Kind::kError);
  EXPECT_THAT(outcome.log, HasSubstr("kernel.cu(2): error:"));
  EXPECT_THAT(outcome.log, HasSubstr("missing"));
  EXPECT_EQ(outcome.ptx, "");
  EXPECT_EQ(outcome.cubin, "");
}

TEST_F(CompileFarmTest, HeadersOfTheToolkitAreFound) {
  const auto farm = Make();
  const CompileOutcome outcome = Compile(*farm, Request(R"(
#include <cuda_fp16.h>
#include <cuda/std/array>
extern "C" __global__ void k(__half* p) { cuda::std::array<int, 2> a{1, 2}; *p = __float2half(a[1]); }
)"));
  EXPECT_EQ(outcome.status, Kind::kOk) << outcome.log;
}

TEST_F(CompileFarmTest, HeadersThatModelsIncludeByHabitAreServedFromMemory) {
  const auto farm = Make();
  const CompileOutcome outcome = Compile(*farm, Request(R"(
#include <cuda_runtime.h>
#include <stdint.h>
#include <cstdint>
#include <math.h>
#include <float.h>
extern "C" __global__ void k(float* p) { *p = fmaxf(*p, -FLT_MAX) + (uint32_t)3; }
)"));
  EXPECT_EQ(outcome.status, Kind::kOk) << outcome.log;
}

TEST_F(CompileFarmTest, TheLogHoldsNoHostPath) {
  const auto toolkit = FindToolkit();
  const auto farm = Make();
  // An error inside a toolkit header, and a file that is not there.
  for (const char* source :
       {"#define __half 7\n#include <cuda_fp16.h>\n", "#include \"nothing_here.h\"\n"}) {
    const CompileOutcome outcome = Compile(*farm, Request(source));
    EXPECT_EQ(outcome.status, Kind::kError);
    EXPECT_NE(outcome.log, "");
    EXPECT_THAT(outcome.log, Not(HasSubstr("/usr")));
    EXPECT_THAT(outcome.log, Not(HasSubstr(toolkit->nvrtc_library.parent_path().string())));
    EXPECT_THAT(outcome.log, Not(HasSubstr(fs::current_path().string())));
  }
  const CompileOutcome inside =
      Compile(*farm, Request("#define __half 7\n#include <cuda_fp16.h>\n"));
  EXPECT_THAT(inside.log, HasSubstr("<cuda>/cuda_fp16"));
}

TEST_F(CompileFarmTest, OptionsReachTheCompiler) {
  const auto farm = Make();
  CompileRequest request = Request("extern \"C\" __global__ void k(int* p) { *p = SEVEN; }");
  request.options = {"-DSEVEN=7777"};
  const CompileOutcome outcome = Compile(*farm, request);
  ASSERT_EQ(outcome.status, Kind::kOk) << outcome.log;
  EXPECT_THAT(outcome.ptx, HasSubstr("7777"));
}

TEST_F(CompileFarmTest, AnOptionThatReadsFilesIsAnError) {
  const auto farm = Make();
  CompileRequest request = Request(kReverse);
  request.options = {"-I/etc"};
  const auto outcome = farm->Compile(request);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(farm->counts().compiles, 0);
}

TEST_F(CompileFarmTest, AnArchitectureThatNvrtcLacksIsAnErrorAndNotTheProgramsFault) {
  const auto farm = Make();
  CompileRequest request = Request(kReverse);
  request.arch = "sm_30";
  const auto outcome = farm->Compile(request);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(outcome.error().message, HasSubstr("architecture"));
}

TEST_F(CompileFarmTest, VersionNamesNvrtc) {
  const auto farm = Make();
  const auto version = farm->Version();
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_THAT(*version, ::testing::MatchesRegex("NVRTC [0-9]+\\.[0-9]+"));
}

TEST_F(CompileFarmTest, TwentyCallersAreServedByTwoWorkers) {
  const auto farm = Make();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&, i] {
      const auto outcome = farm->Compile(Request(Numbered(i)));
      if (outcome && (*outcome)->ok() &&
          (*outcome)->ptx.find("k" + std::to_string(i) + "(") != std::string::npos) {
        ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 20);
  EXPECT_EQ(farm->counts().compiles, 20);
  EXPECT_LE(farm->counts().workers_started, 2);
}

TEST_F(CompileFarmTest, EqualRequestsInFlightAreCompiledOnce) {
  const auto farm = Make();
  ASSERT_TRUE(farm->Version());  // so that all callers meet a farm that runs
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      const auto outcome = farm->Compile(Request("#include <cuda/std/array>\n" + Numbered(1)));
      if (outcome && (*outcome)->ok()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 10);
  const FarmCounts counts = farm->counts();
  EXPECT_EQ(counts.compiles + counts.shared, 10);
  EXPECT_GE(counts.shared, 1);
  EXPECT_LT(counts.compiles, 10);
}

TEST_F(CompileFarmTest, WorkersStartOnlyWhenNeeded) {
  FarmOptions options;
  options.workers = 4;
  const auto farm = Make(options);
  EXPECT_TRUE(farm->WorkerPids().empty());
  for (int i = 0; i < 3; ++i) Compile(*farm, Request(Numbered(i)));
  EXPECT_EQ(farm->WorkerPids().size(), 1u);  // one caller, one worker
  EXPECT_EQ(farm->counts().workers_started, 1);
}

TEST_F(CompileFarmTest, AWorkerIsReplacedAfterItsShareOfCompilations) {
  FarmOptions options;
  options.workers = 1;
  options.compiles_per_worker = 2;
  const auto farm = Make(options);
  for (int i = 0; i < 5; ++i) Compile(*farm, Request(Numbered(i)));
  EXPECT_EQ(farm->counts().workers_started, 3);
  EXPECT_EQ(farm->counts().workers_lost, 0);
}

TEST_F(CompileFarmTest, AProgramThatCompilesForTooLongIsStopped) {
  FarmOptions options;
  options.workers = 1;
  options.deadline = milliseconds(700);
  options.memory_limit = Bytes(std::int64_t{16} << 30);
  options.cache_folder = folder_.path();
  const auto farm = Make(options);
  const CompileOutcome outcome = Compile(*farm, Request(kTemplateBomb));
  EXPECT_EQ(outcome.status, Kind::kTimeout);
  EXPECT_THAT(outcome.log, HasSubstr("700 ms"));
  EXPECT_EQ(farm->counts().workers_lost, 1);
  EXPECT_TRUE(farm->WorkerPids().empty());
  EXPECT_EQ(Compile(*farm, Request(Numbered(1))).status, Kind::kOk);  // the next one is not harmed
}

TEST_F(CompileFarmTest, AProgramThatTakesTheFrontEndsMemoryIsToldApart) {
  if (kSanitized) GTEST_SKIP() << "no address space limit in sanitizer builds";
  FarmOptions options;
  options.workers = 1;
  options.memory_limit = Bytes(std::int64_t{380} << 20);
  const auto farm = Make(options);
  const CompileOutcome outcome = Compile(*farm, Request(kTemplateBomb));
  EXPECT_EQ(outcome.status, Kind::kMemory) << outcome.log;
  EXPECT_THAT(outcome.log, HasSubstr("380 MiB"));
  EXPECT_EQ(farm->counts().workers_lost, 1);
  EXPECT_EQ(Compile(*farm, Request(Numbered(1))).status, Kind::kOk);
}

TEST_F(CompileFarmTest, AProgramThatTakesTheBackEndsMemoryIsToldApart) {
  if (kSanitized) GTEST_SKIP() << "no address space limit in sanitizer builds";
  FarmOptions options;
  options.workers = 1;
  options.memory_limit = Bytes(std::int64_t{380} << 20);
  const auto farm = Make(options);
  const CompileOutcome outcome =
      Compile(*farm, Request("__device__ int big[1 << 29] = {1};\n"
                             "extern \"C\" __global__ void k(int* p) { *p = big[*p]; }\n"));
  EXPECT_EQ(outcome.status, Kind::kMemory) << outcome.log;
  EXPECT_EQ(Compile(*farm, Request(Numbered(1))).status, Kind::kOk);
}

TEST_F(CompileFarmTest, AWordAboutMemoryInTheSourceDeceivesNobody) {
  const auto farm = Make();
  const CompileOutcome outcome =
      Compile(*farm, Request("#error catastrophic error: out of memory\n"));
  EXPECT_EQ(outcome.status, Kind::kError);
}

TEST_F(CompileFarmTest, AWorkerKilledFromOutsideCostsNothingButTime) {
  FarmOptions options;
  options.workers = 1;
  const auto farm = Make(options);
  ASSERT_TRUE(farm->Version());
  const auto before = farm->WorkerPids();
  ASSERT_EQ(before.size(), 1u);
  // Slow enough to be caught in the middle.
  const std::string source = "#include <cooperative_groups.h>\n#include <cuda/std/array>\n";
  std::thread caller([&] {
    const CompileOutcome outcome = Compile(*farm, Request(source + Numbered(1)));
    EXPECT_EQ(outcome.status, Kind::kOk) << outcome.log;
  });
  while (farm->counts().compiles == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(100));
  ::kill(before[0], SIGKILL);
  caller.join();
  EXPECT_EQ(farm->counts().workers_lost, 1);
  EXPECT_EQ(farm->counts().workers_started, 2);
}

TEST_F(CompileFarmTest, AnIdleWorkerThatDiedIsReplaced) {
  FarmOptions options;
  options.workers = 1;
  const auto farm = Make(options);
  Compile(*farm, Request(Numbered(1)));
  ::kill(farm->WorkerPids().at(0), SIGKILL);
  EXPECT_EQ(Compile(*farm, Request(Numbered(2))).status, Kind::kOk);
}

TEST_F(CompileFarmTest, TheWorkersEnvironmentHoldsNoKey) {
  ::setenv("FAKE_API_KEY", "sk-very-secret", 1);
  const auto farm = Make();
  ASSERT_TRUE(farm->Version());
  const std::string proc = "/proc/" + std::to_string(farm->WorkerPids().at(0));
  const auto environment = ReadFile(proc + "/environ");
  ::unsetenv("FAKE_API_KEY");
  ASSERT_TRUE(environment) << environment.error().message;
  EXPECT_THAT(*environment, Not(HasSubstr("sk-very-secret")));
  EXPECT_THAT(*environment, Not(HasSubstr("HOME=")));
  EXPECT_THAT(*environment, HasSubstr("CUDA_CACHE_DISABLE=1"));
}

TEST_F(CompileFarmTest, AWorkerMayWriteNoFileAndMakesNoCore) {
  const auto farm = Make();
  ASSERT_TRUE(farm->Version());
  const auto limits = ReadFile("/proc/" + std::to_string(farm->WorkerPids().at(0)) + "/limits");
  ASSERT_TRUE(limits) << limits.error().message;
  EXPECT_THAT(*limits, ::testing::ContainsRegex("Max core file size +0 +0 "));
  if (!kSanitized) {
    EXPECT_THAT(*limits, ::testing::ContainsRegex("Max file size +0 +0 "));
    EXPECT_THAT(*limits, ::testing::ContainsRegex("Max address space +4294967296 +4294967296 "));
  }
}

TEST_F(CompileFarmTest, TheFarmsEndIsItsWorkersEnd) {
  auto farm = Make();
  Compile(*farm, Request(Numbered(1)));
  const int pid = farm->WorkerPids().at(0);
  farm.reset();
  EXPECT_FALSE(fs::exists("/proc/" + std::to_string(pid)));
}

TEST_F(CompileFarmTest, ASecondFarmFindsWhatTheFirstHasCompiled) {
  FarmOptions options;
  options.cache_folder = folder_.path() / "cache";
  const CompileOutcome first = Compile(*Make(options), Request(kReverse));
  const auto farm = Make(options);
  const CompileOutcome second = Compile(*farm, Request(kReverse));
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(farm->counts().compiles, 0);
  EXPECT_EQ(farm->counts().cache_hits, 1);
  EXPECT_EQ(second.ptx, first.ptx);
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(second.time, first.time);
  EXPECT_EQ(second.entries.at(0).registers, first.entries.at(0).registers);
}

TEST_F(CompileFarmTest, ADamagedCacheFileCostsOneCompilation) {
  FarmOptions options;
  options.cache_folder = folder_.path() / "cache";
  const auto farm = Make(options);
  const CompileOutcome first = Compile(*farm, Request(kReverse));
  for (const auto& entry : fs::recursive_directory_iterator(options.cache_folder)) {
    if (entry.is_regular_file()) fs::resize_file(entry.path(), entry.file_size() / 2);
  }
  const CompileOutcome again = Compile(*farm, Request(kReverse));
  EXPECT_EQ(again.status, Kind::kOk);
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.ptx, first.ptx);
  EXPECT_TRUE(Compile(*farm, Request(kReverse)).from_cache);
}

TEST_F(CompileFarmTest, ACacheThatCannotBeWrittenIsToldOnceAndFailsNothing) {
  FarmOptions options;
  options.cache_folder = folder_.path() / "file";
  std::ofstream(options.cache_folder) << "in the way";
  const auto farm = Make(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Compile(*farm, Request(Numbered(i))).status, Kind::kOk);
  }
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CompileFarmTest, WithoutNvrtcTheErrorIsOneLine) {
  FarmOptions options;
  options.cuda_home = folder_.path();
  const auto farm = MakeCompileFarm(options);
  ASSERT_FALSE(farm);
  EXPECT_EQ(farm.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(farm.error().message, HasSubstr("no NVRTC"));
  EXPECT_EQ(farm.error().message.find('\n'), std::string::npos);
}

TEST_F(CompileFarmTest, ALibraryThatIsNoNvrtcIsNamed) {
  fs::create_directories(folder_.path() / "lib64");
  std::ofstream(folder_.path() / "lib64" / "libnvrtc.so.13") << "not a library";
  FarmOptions options;
  options.cuda_home = folder_.path();
  const auto farm = Make(options);
  const auto outcome = farm->Compile(Request(kReverse));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("cannot load NVRTC"));
  EXPECT_EQ(outcome.error().message.find('\n'), std::string::npos);
}

TEST_F(CompileFarmTest, AMissingWorkerProgramIsNotFound) {
  FarmOptions options;
  options.worker_binary = folder_.path() / "nothing";
  const auto farm = MakeCompileFarm(options);
  ASSERT_FALSE(farm);
  EXPECT_EQ(farm.error().code, ErrorCode::kNotFound);
}

TEST_F(CompileFarmTest, AWorkerThatDiesWhileStartingIsAnErrorWithItsOwnMessage) {
  const fs::path script = folder_.path() / "worker";
  std::ofstream(script) << "#!/bin/sh\necho 'libfoo.so is missing' >&2\nexit 9\n";
  fs::permissions(script, fs::perms::owner_all);
  FarmOptions options;
  options.worker_binary = script;
  const auto farm = Make(options);
  const auto outcome = farm->Compile(Request(kReverse));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("exit code 9: libfoo.so is missing"));
}

}  // namespace
}  // namespace grove::codegen
