// The run store: candidates recorded per second, and the load of a run of 5,000 candidates.
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include "results/store.h"
#include "results/tree.h"

namespace grove::results {
namespace {

// A folder on the disk of the working folder (a tmpfs would make fsync free), removed at the end.
class Folder {
 public:
  explicit Folder(const char* name)
      : path_(std::filesystem::current_path() / fmt::format("{}.{}", name, ::getpid())) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    std::abort();
  }
  return *std::move(result);
}

RunStart Start() {
  RunStart start;
  start.name = "bench";
  start.config = "{}";
  start.program_version = "bench";
  start.task_name = "softmax";
  start.cases = {{"n512", "scored", {{"M", 4096}, {"N", 512}}, 1e7, Bytes(16777216)}};
  return start;
}

// About 4 KB of CUDA-like text, different for each candidate.
std::string Source(int n) {
  std::string source = fmt::format("// candidate {}\n", n);
  for (int line = 0; line < 60; ++line) {
    source += fmt::format("  const float value{} = load(input + {} * blockDim.x + threadIdx.x);\n",
                          line, line * 31 + n);
  }
  return source;
}

EvaluationRow Evaluation(int n) {
  EvaluationRow e;
  e.verdict.kind = eval::VerdictKind::kPass;
  e.verdict.stage = eval::Stage::kRecheck;
  e.precision = "fp32";
  e.score = Nanoseconds(50000.0 + n % 997);
  for (int s = 0; s < 10; ++s) {
    e.stages.push_back(
        {static_cast<eval::Stage>(s), "n512", eval::VerdictKind::kPass, Milliseconds(3.0 + s)});
  }
  for (const char* name : {"n512", "n1024", "n4096"}) {
    CaseTimeRow time;
    time.case_name = name;
    time.time = *e.score;
    time.floor = Nanoseconds(35000);
    time.bound = "memory";
    e.case_times.push_back(time);
    e.kernels.push_back({name, "softmax", 40});
  }
  return e;
}

// Requests, receives and evaluates `count` candidates, ten to an idea, a hundred to a round.
void Fill(Store& store, int count) {
  const CandidateId seed = Must(store.RecordSeed({0, Source(0), "{}", HashText("seed")}));
  RoundId round;
  IdeaId idea;
  for (int n = 0; n < count; ++n) {
    if (n % 100 == 0) round = Must(store.BeginRound(n / 100));
    if (n % 10 == 0) {
      IdeaDraft draft{fmt::format("Idea {}", n), "memory", "Because.", 1.2, n % 100 / 10 + 1};
      std::vector<IdeaDraft> drafts(static_cast<std::size_t>(n % 100 / 10 + 1), draft);
      for (std::size_t i = 0; i < drafts.size(); ++i) drafts[i].number = static_cast<int>(i) + 1;
      idea = Must(store.RecordIdeas(round, seed, CallId(), drafts)).back();
    }
    const CandidateId id = Must(store.RequestCandidate(idea, n % 10 + 1));
    Must(store.ReceiveProgram(id, {0, Source(n), "{\"version\":1}", HashText(Source(n))}));
    Must(store.RecordVerdict(id, Evaluation(n)));
  }
}

// Three transitions each: requested, received, evaluated.
void BM_RecordCandidates(benchmark::State& state) {
  constexpr int kCandidates = 200;
  const SystemClock clock;
  for (auto _ : state) {
    state.PauseTiming();
    const Folder folder("store_bench_record");
    auto store = Must(
        Store::Create(folder.path(), Start(), clock, {.survive_power_loss = state.range(0) != 0}));
    state.ResumeTiming();
    Fill(*store, kCandidates);
    state.PauseTiming();
    store.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kCandidates);
}
BENCHMARK(BM_RecordCandidates)
    ->ArgName("survive_power_loss")
    ->Arg(1)
    ->Arg(0)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

class LoadedRun : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State&) override {
    folder_ = std::make_unique<Folder>("store_bench_load");
    Fill(*Must(Store::Create(folder_->path(), Start(), clock_, {.survive_power_loss = false})),
         5000);
    reader_ = Must(Reader::Open(folder_->path() / "bench"));
  }
  void TearDown(const benchmark::State&) override {
    reader_.reset();
    folder_.reset();
  }

 protected:
  const SystemClock clock_;
  std::unique_ptr<Folder> folder_;
  std::unique_ptr<Reader> reader_;
};

BENCHMARK_DEFINE_F(LoadedRun, Load5000)(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Must(reader_->Load()).candidates.size());
  state.counters["file_bytes"] =
      static_cast<double>(std::filesystem::file_size(folder_->path() / "bench" / "run.db"));
}
BENCHMARK_REGISTER_F(LoadedRun, Load5000)->UseRealTime()->Unit(benchmark::kMillisecond);

BENCHMARK_DEFINE_F(LoadedRun, RenderTree5000)(benchmark::State& state) {
  const RunData data = Must(reader_->Load());
  for (auto _ : state) benchmark::DoNotOptimize(RenderTree(data, {}));
}
BENCHMARK_REGISTER_F(LoadedRun, RenderTree5000)->Unit(benchmark::kMillisecond);

BENCHMARK_DEFINE_F(LoadedRun, Check5000)(benchmark::State& state) {
  for (auto _ : state) {
    if (!CheckStore(folder_->path() / "bench")) state.SkipWithError("the store is not whole");
  }
}
BENCHMARK_REGISTER_F(LoadedRun, Check5000)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace grove::results

BENCHMARK_MAIN();
