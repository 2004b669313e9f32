// The compile farm: compilations per second with a cold cache, by number of workers, and the
// latency of a hit in the cache. Results and the command are in docs/compile.md.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "codegen/compile_farm.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

// A row softmax: shuffles, shared memory, two loops; what a round's candidates look like.
constexpr const char* kSmall = R"(
extern "C" __global__ void __launch_bounds__(256) softmax(const float* x, float* y, int n) {
  __shared__ float part[8];
  const float* row = x + blockIdx.x * static_cast<long long>(n);
  float m = -1e30f;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
  for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  for (int i = 0; i < 8; ++i) m = fmaxf(m, part[i]);
  __syncthreads();
  float s = 0;
  for (int i = threadIdx.x; i < n; i += 256) s += __expf(row[i] - m);
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0;
  for (int i = 0; i < 8; ++i) s += part[i];
  float* out = y + blockIdx.x * static_cast<long long>(n);
  for (int i = threadIdx.x; i < n; i += 256) out[i] = __expf(row[i] - m) / s;
}
)";
constexpr const char* kWithHeaders = "#include <cuda_fp16.h>\n#include <mma.h>\n";

// The same work under a text, and so a cache key, of its own.
CompileRequest Variant(const std::string& source) {
  static std::atomic<std::int64_t> counter{0};
  return {source + "// " + std::to_string(counter++) + "\n", "sm_90", {}};
}

std::unique_ptr<CompileFarm> MakeFarm(benchmark::State& state, const FarmOptions& options) {
  auto farm = MakeCompileFarm(options);
  if (!farm) {
    state.SkipWithError(farm.error().message.c_str());
    return nullptr;
  }
  return std::move(*farm);
}

// One iteration compiles 8 texts per worker, handed out to as many threads as there are workers.
void ColdCompile(benchmark::State& state, const std::string& source) {
  FarmOptions options;
  options.workers = static_cast<int>(state.range(0));
  const auto farm = MakeFarm(state, options);
  if (farm == nullptr) return;
  const auto compile_all = [&] {
    std::atomic<bool> good = true;
    std::vector<std::thread> threads;
    for (int t = 0; t < options.workers; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 8; ++i) {
          const auto outcome = farm->Compile(Variant(source));
          if (!outcome || !(*outcome)->ok()) good = false;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return good.load();
  };
  if (!compile_all()) state.SkipWithError("a compilation failed");  // also starts the workers
  for (auto _ : state) {
    if (!compile_all()) state.SkipWithError("a compilation failed");
  }
  state.SetItemsProcessed(state.iterations() * 8 * options.workers);
}

void CacheHit(benchmark::State& state) {
  std::string name = (fs::temp_directory_path() / "grove-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return state.SkipWithError("no temporary folder");
  FarmOptions options;
  options.workers = 1;
  options.cache_folder = name;
  if (const auto farm = MakeFarm(state, options)) {
    const CompileRequest request = Variant(kSmall);
    if (!farm->Compile(request)) state.SkipWithError("a compilation failed");
    for (auto _ : state) {
      const auto outcome = farm->Compile(request);
      if (!outcome || !(*outcome)->from_cache) state.SkipWithError("a miss");
      benchmark::DoNotOptimize(outcome);
    }
  }
  std::error_code ignored;
  fs::remove_all(name, ignored);
}

void WorkerStart(benchmark::State& state) {
  FarmOptions options;
  options.workers = 1;
  for (auto _ : state) {
    const auto farm = MakeFarm(state, options);
    if (farm == nullptr) return;
    if (!farm->Version()) state.SkipWithError("no worker");
  }
}

BENCHMARK_CAPTURE(ColdCompile, small, std::string(kSmall))
    ->Name("ColdCompile/softmax")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ColdCompile, headers, std::string(kWithHeaders) + kSmall)
    ->Name("ColdCompile/softmax_fp16_mma_headers")
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(CacheHit)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(WorkerStart)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace grove::codegen

BENCHMARK_MAIN();
