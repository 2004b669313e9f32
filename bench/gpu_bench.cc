// Measures the GPU evaluator itself, on a machine with a GPU. Figures and how to read them:
// docs/evaluator.md. Subcommands:
//   throughput TASK N   N distinct candidates of a task, parse to verdict with timing, cold compile
//                       cache: candidates per minute
//   hostile N           N candidates of the softmax task, one in ten hostile, against the verdicts
//                       that the same programs get alone
//   repeat TASK         ten timings of a task's seed on its scored case: the spread
//   dump TASK FOLDER    the seed's cubin, launch and time, for scripts/do_bench_cubin.py
//   pair TASK           the seed interleaved with itself: must be a tie
//   doctor              measured rates against the device table
//   baseline TASK       the vendor library on the task's first scored case
//   cases TASK...       the scored cases as JSON, for scripts/torch_baseline.py
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/cuda/baselines.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/doctor.h"
#include "eval/evaluator.h"
#include "seeds/task.h"

namespace {

using grove::cuda::CudaDevice;
using SteadyClock = std::chrono::steady_clock;
namespace codegen = grove::codegen;
namespace eval = grove::eval;
namespace seeds = grove::seeds;

[[noreturn]] void Stop(const std::string& message) {
  std::fprintf(stderr, "gpu_bench: %s\n", message.c_str());
  std::exit(1);
}

template <typename T>
T Must(grove::Result<T> result) {
  if (!result) Stop(result.error().message);
  return std::move(*result);
}

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

struct Bench {
  Bench() {
    farm = Must(codegen::MakeCompileFarm({}));  // no cache folder: every compilation is cold
    grove::cuda::CudaOptions options;
    options.compiler = farm.get();
    if (const char* workers = std::getenv("GROVE_GPU_WORKERS"))
      options.workers = std::atoi(workers);
    device = Must(grove::cuda::MakeCudaDevice(options));
    const auto& facts = device->facts();
    fmt::print("{} ({}), driver {}, {} SMs, {:.2f} GHz, {}\n", facts.name, facts.uuid,
               facts.driver_version, facts.sm_count, facts.clock_khz * 1e-6, Must(farm->Version()));
  }

  std::unique_ptr<eval::Evaluator> MakeEvaluator(const seeds::Task& task) {
    eval::EvaluatorOptions options;
    options.arch = device->facts().arch();
    return Must(eval::Evaluator::Create(task, *farm, *device, options));
  }

  std::unique_ptr<codegen::CompileFarm> farm;
  std::unique_ptr<CudaDevice> device;
};

seeds::Task Load(const std::string& name) {
  return Must(seeds::SelectCases(Must(seeds::LoadTask(seeds::DefaultTasksFolder(), name)), "", {}));
}

// Runs `count` jobs on `threads` threads.
void Parallel(int threads, int count, const std::function<void(int)>& job) {
  std::atomic<int> next{0};
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (int i = next++; i < count; i = next++) job(i);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

std::string Label(const eval::Evaluation& evaluation) {
  return fmt::format("{}@{}", eval::Name(evaluation.verdict.kind),
                     eval::Name(evaluation.verdict.stage));
}

int Throughput(const std::string& name, int count) {
  Bench bench;
  const seeds::Task task = Load(name);
  auto evaluator = bench.MakeEvaluator(task);
  std::map<std::string, int> verdicts;
  std::vector<double> latencies(static_cast<std::size_t>(count));
  std::vector<std::string> labels(static_cast<std::size_t>(count));
  const auto begin = SteadyClock::now();
  Parallel(16, count, [&](int i) {
    const auto start = SteadyClock::now();
    // Distinct programs, as a model would write them: nothing is compiled or measured twice.
    const std::string reply = fmt::format(
        "Candidate {}.\n```cuda\nnamespace candidate {{ constexpr int id = {}; }}\n{}\n"
        "```\n```json\n{}\n```\n",
        i, i, task.seed.source, task.seed.plan);
    auto program = codegen::ParseReply(reply);
    if (!program) Stop(program.error().message);
    auto evaluation = evaluator->Evaluate(*program);
    if (!evaluation) Stop(evaluation.error().message);
    labels[static_cast<std::size_t>(i)] = Label(*evaluation);
    latencies[static_cast<std::size_t>(i)] = SecondsSince(start);
    if (!evaluation->verdict.passed()) {
      fmt::print("candidate {}: {} {}\n", i, Label(*evaluation), evaluation->verdict.message);
    }
  });
  const double wall = SecondsSince(begin);
  for (const std::string& label : labels) ++verdicts[label];
  std::sort(latencies.begin(), latencies.end());
  fmt::print(
      "throughput {}: {} candidates in {:.2f} s, {:.3f} s each, {:.0f} per minute, {:.0f} "
      "times 64.4 s; latency median {:.2f} s; {} cases each\n",
      name, count, wall, wall / count, 60 * count / wall, 64.4 * count / wall,
      latencies[latencies.size() / 2], task.cases.size());
  for (const auto& [label, number] : verdicts) fmt::print("  {} x {}\n", number, label);
  const auto counts = bench.farm->counts();
  fmt::print("  compiles {}, workers started {}, rerun {}\n", counts.compiles,
             bench.device->counters().started, bench.device->counters().rerun);
  return 0;
}

struct Specimen {
  std::string name;
  bool hostile = false;
  std::string source;
  std::string plan;
};

std::vector<Specimen> Specimens(const seeds::Task& softmax) {
  const std::string plan =
      R"json({"version": 1, "launches": [{"kernel": "k", "grid": ["M"], "block": [256],
          "args": ["x", "y"]}]})json";
  const auto kernel = [](const std::string& body) {
    return "extern \"C\" __global__ void __launch_bounds__(256) k(const float* x, float* y) {\n"
           "  __shared__ float part[256];\n"
           "  const float* row = x + (long long)blockIdx.x * dim::N;\n"
           "  float* out = y + (long long)blockIdx.x * dim::N;\n"
           "  float m = -INFINITY;\n"
           "  for (int j = threadIdx.x; j < dim::N; j += 256) m = fmaxf(m, row[j]);\n"
           "  part[threadIdx.x] = m; __syncthreads();\n"
           "  for (int w = 128; w; w /= 2) { if (threadIdx.x < w) part[threadIdx.x] = "
           "fmaxf(part[threadIdx.x], part[threadIdx.x + w]); __syncthreads(); }\n"
           "  m = part[0]; __syncthreads();\n"
           "  float s = 0;\n"
           "  for (int j = threadIdx.x; j < dim::N; j += 256) s += __expf(row[j] - m);\n"
           "  part[threadIdx.x] = s; __syncthreads();\n"
           "  for (int w = 128; w; w /= 2) { if (threadIdx.x < w) part[threadIdx.x] += "
           "part[threadIdx.x + w]; __syncthreads(); }\n"
           "  s = part[0];\n" +
           body + "\n}\n";
  };
  const std::string write =
      "for (int j = threadIdx.x; j < dim::N; j += 256) out[j] = __expf(row[j] - m) / s;";
  std::vector<Specimen> list;
  list.push_back({"seed", false, softmax.seed.source, softmax.seed.plan});
  list.push_back({"good", false, kernel(write), plan});
  list.push_back({"good_reciprocal", false,
                  kernel("const float r = 1.0f / s;"
                         " for (int j = threadIdx.x; j < dim::N; j += 256) out[j] ="
                         " __expf(row[j] - m) * r;"),
                  plan});
  list.push_back({"zeros", false,
                  kernel("for (int j = threadIdx.x; j < dim::N; j += 256) out[j] = 0;"), plan});
  list.push_back({"short_row", false,
                  kernel("for (int j = threadIdx.x; j < dim::N - 1; j += 256) out[j] ="
                         " __expf(row[j] - m) / s;"),
                  plan});
  list.push_back({"half", false,
                  kernel("for (int j = threadIdx.x; j < dim::N; j += 256) { const float v ="
                         " __expf(row[j] - m) / s; out[j] = __uint_as_float(__float_as_uint(v) &"
                         " 0xffffe000u); }"),
                  plan});
  list.push_back({"no_compile", false, kernel("out[0] = undeclared;"), plan});
  list.push_back({"changes_input", false,
                  kernel(write + " if (threadIdx.x == 0) const_cast<float*>(row)[0] += 1;"), plan});
  list.push_back({"illegal", true, kernel(write + " out[(1LL << 33) + threadIdx.x] = 1;"), plan});
  list.push_back({"misaligned", true,
                  kernel(write + " *(float2*)((char*)out + 4 + 8) ="
                                 " make_float2(0, 0); *(float4*)(((size_t)out &"
                                 " ~15ull) + 4) = make_float4(0, 0, 0, 0);"),
                  plan});
  list.push_back({"trap", true, kernel(write + " __trap();"), plan});
  list.push_back(
      {"endless", true, kernel(write + " while (*(const volatile float*)x != 1e30f) {}"), plan});
  list.push_back({"deadlock", true,
                  kernel(write + " volatile float* p = part; if (threadIdx.x < 32) p[0] = 0;"
                                 " __syncthreads(); if (threadIdx.x >= 128) while (p[0] != 7.0f) {}"
                                 " __syncthreads(); p[0] = 7.0f;"),
                  plan});
  list.push_back(
      {"hungry", true,
       "extern \"C\" __global__ void k(const float* x, float* y, float* w) { y[0] = w[0];"
       " }\n",
       R"json({"version": 1, "workspace": [{"name": "w", "dtype": "f32",
                      "shape": ["100 * 1024 * 1024 * 256"]}],
                      "launches": [{"kernel": "k", "grid": ["M"], "block": [256],
                                    "args": ["x", "y", "w"]}]})json"});
  return list;
}

int Hostile(int count) {
  Bench bench;
  const seeds::Task task = Load("softmax");
  auto evaluator = bench.MakeEvaluator(task);
  const std::vector<Specimen> specimens = Specimens(task);
  std::vector<std::size_t> honest;
  std::vector<std::size_t> hostile;
  for (std::size_t i = 0; i < specimens.size(); ++i) {
    (specimens[i].hostile ? hostile : honest).push_back(i);
  }
  const auto evaluate = [&](const Specimen& specimen, int id) {
    auto program = codegen::MakeProgram(
        fmt::format("namespace candidate {{ constexpr int id = {}; }}\n{}", id, specimen.source),
        specimen.plan);
    if (!program) Stop(specimen.name + ": " + program.error().message);
    auto evaluation = evaluator->Evaluate(*program);
    if (!evaluation) Stop(specimen.name + ": " + evaluation.error().message);
    return std::move(*evaluation);
  };
  std::vector<std::string> alone;
  for (std::size_t i = 0; i < specimens.size(); ++i) {
    const auto start = SteadyClock::now();
    const auto evaluation = evaluate(specimens[i], 1000000 + static_cast<int>(i));
    alone.push_back(Label(evaluation));
    fmt::print("alone {:16} {:28} {:6.2f} s  {}\n", specimens[i].name, alone.back(),
               SecondsSince(start), evaluation.verdict.message.substr(0, 110));
  }
  std::vector<std::size_t> batch;
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<std::size_t>(i);
    batch.push_back(i % 10 == 9 ? hostile[n / 10 % hostile.size()] : honest[n % honest.size()]);
  }
  std::shuffle(batch.begin(), batch.end(), std::mt19937(4));
  std::vector<std::string> got(batch.size());
  const auto begin = SteadyClock::now();
  fmt::print("batch begins\n");
  std::fflush(stdout);
  Parallel(24, count, [&](int i) {
    const auto n = static_cast<std::size_t>(i);
    got[n] = Label(evaluate(specimens[batch[n]], i));
  });
  const double wall = SecondsSince(begin);
  int same = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (got[i] == alone[batch[i]]) {
      ++same;
    } else {
      fmt::print("DIFFERS {}: alone {}, in the batch {}\n", specimens[batch[i]].name,
                 alone[batch[i]], got[i]);
    }
  }
  const auto counters = bench.device->counters();
  fmt::print(
      "hostile: {} candidates, {} with the verdict they get alone, {:.1f} s, {:.0f} per "
      "minute; workers started {}, died {}, requests rerun {}, blamed {}\n",
      count, same, wall, 60 * count / wall, counters.started, counters.died, counters.rerun,
      counters.blamed);
  return same == count ? 0 : 1;
}

// The seed of a task on its first scored case.
struct Scored {
  eval::CaseContext context;
  eval::Prepared seed;
};

eval::Prepared Prepare(Bench& bench, const seeds::ProgramText& text, const seeds::Case& c) {
  auto program = Must(codegen::MakeProgram(text.source, text.plan));
  eval::Prepared prepared;
  prepared.plan = Must(codegen::ResolvePlan(program.plan, c, bench.device->limits()));
  codegen::CompileRequest request;
  request.source = codegen::Prelude(c) + program.source;
  request.arch = bench.device->facts().arch();
  prepared.compiled = Must(bench.farm->Compile(request));
  if (!prepared.compiled->ok()) Stop(prepared.compiled->log);
  return prepared;
}

Scored PrepareScored(Bench& bench, const seeds::Task& task) {
  Scored scored;
  scored.context.task = &task;
  for (std::size_t i = 0; i < task.cases.size(); ++i) {
    if (task.cases[i].role != seeds::CaseRole::kScored) continue;
    scored.context.case_index = i;
    break;
  }
  seeds::Case promoted = scored.context.task_case();
  for (seeds::Tensor& tensor : promoted.tensors) {
    if (tensor.role == seeds::TensorRole::kOutput) tensor.dtype = grove::DType::kF64;
  }
  scored.context.reference = Prepare(bench, task.reference, promoted);
  scored.seed = Prepare(bench, task.seed, scored.context.task_case());
  return scored;
}

eval::TimeOutcome TimeSeed(Bench& bench, const Scored& scored, std::uint64_t seed) {
  eval::TimeRequest request;
  request.context = &scored.context;
  request.candidate = &scored.seed;
  request.seed = seed;
  auto outcome = Must(bench.device->Time(request));
  if (outcome.fault) Stop(outcome.fault->message);
  return outcome;
}

void Print(const eval::TimeOutcome& outcome) {
  for (const eval::ModeTime& mode : outcome.modes) {
    fmt::print("  {:6} {:10.2f} us [{:.2f}, {:.2f}] {:4} samples, stderr {:.3f}%, {} {}\n",
               mode.mode, mode.median.count() / 1e3, mode.min.count() / 1e3, mode.q3.count() / 1e3,
               mode.samples.size(), 100 * mode.relative_stderr, mode.stopped, mode.note);
  }
  fmt::print("  throttled {}, clock {:.3f} GHz, empty kernel {:.2f} us, recheck error {:.2e}\n",
             outcome.throttled, outcome.mean_clock_ghz, outcome.empty_kernel.count() / 1e3,
             outcome.errors.empty() ? -1 : outcome.errors[0].worst_row_l2);
  for (const eval::LaunchReport& launch : outcome.launches) {
    fmt::print("  launch {} {:.2f} us, {} blocks an SM, {:.0f}% of the warps\n", launch.kernel,
               launch.time.count() / 1e3, launch.occupancy.blocks_per_sm,
               100 * launch.occupancy.warps_share);
  }
}

int Repeat(const std::string& name) {
  Bench bench;
  const seeds::Task task = Load(name);
  const Scored scored = PrepareScored(bench, task);
  std::vector<double> medians;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto begin = SteadyClock::now();
    const auto outcome = TimeSeed(bench, scored, 100 + i);
    medians.push_back(outcome.time.count() / 1e3);
    if (i == 0) Print(outcome);
    fmt::print("repeat {} {}: {:.2f} us in {:.2f} s\n", name, i, medians.back(),
               SecondsSince(begin));
  }
  const auto [low, high] = std::minmax_element(medians.begin(), medians.end());
  fmt::print("repeat {}: ten medians from {:.2f} to {:.2f} us, spread {:.2f}%\n", name, *low, *high,
             100 * (*high - *low) / *low);
  return 0;
}

int Dump(const std::string& name, const std::filesystem::path& folder) {
  Bench bench;
  const seeds::Task task = Load(name);
  const Scored scored = PrepareScored(bench, task);
  const auto outcome = TimeSeed(bench, scored, 5);
  Print(outcome);
  const codegen::ResolvedLaunch& launch = scored.seed.plan.launches.at(0);
  if (scored.seed.plan.launches.size() != 1 || !scored.seed.plan.workspaces.empty()) {
    Stop("dump is for programs of one launch without workspaces");
  }
  nlohmann::json json;
  json["kernel"] = launch.kernel;
  json["grid"] = launch.grid;
  json["block"] = launch.block;
  json["shared"] = launch.shared_bytes;
  json["grove_cold_us"] = outcome.time.count() / 1e3;
  for (const codegen::ResolvedArg& arg : launch.args) {
    if (arg.kind != codegen::ResolvedArg::Kind::kTensor) Stop("dump is for tensor arguments only");
    json["args"].push_back(scored.context.task_case().tensors[arg.index].name);
  }
  for (const seeds::Tensor& tensor : scored.context.task_case().tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", grove::Name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"output", tensor.role == seeds::TensorRole::kOutput}});
  }
  auto a = grove::WriteFileAtomic(folder / (name + ".cubin"), scored.seed.compiled->cubin);
  auto b = grove::WriteFileAtomic(folder / (name + ".json"), json.dump(1));
  if (!a) Stop(a.error().message);
  if (!b) Stop(b.error().message);
  return 0;
}

int Doctor() {
  const auto farm = Must(codegen::MakeCompileFarm({}));
  const auto report = Must(grove::cuda::Diagnose(0, *farm));
  fmt::print("{}: driver {}, {} SMs, {:.3f} GHz, {:.1f} GB, {:.1f} GB free, L2 {:.1f} MB, {}\n",
             report.facts.name, report.facts.driver_version, report.facts.sm_count,
             report.facts.clock_khz * 1e-6, static_cast<double>(report.facts.memory_bytes) * 1e-9,
             static_cast<double>(report.free_bytes) * 1e-9, report.facts.l2_bytes * 1e-6,
             report.blas);
  for (const grove::cuda::Rate& rate : report.rates) {
    fmt::print("  {:10} {:9.1f} {} (table {:.1f})\n", rate.name, rate.measured, rate.unit,
               rate.table);
  }
  fmt::print("  empty kernel {:.2f} us, clock under load {:.3f} GHz, counters {}\n",
             report.empty_kernel.count() / 1e3, report.clock_ghz, report.counters);
  return 0;
}

int BaselineOf(const std::string& name) {
  const auto farm = Must(codegen::MakeCompileFarm({}));
  const seeds::Task task = Load(name);
  std::size_t index = 0;
  while (index + 1 < task.cases.size() && task.cases[index].role != seeds::CaseRole::kScored)
    ++index;
  const auto report = Must(grove::cuda::MeasureBaselines(0, *farm, task, index));
  for (const std::string& problem : report.problems) fmt::print("baseline {}\n", problem);
  for (const auto& baseline : report.baselines) {
    fmt::print("baseline {}/{} {} ({}): {:.2f} us [{:.2f}, {:.2f}], {} samples\n", name,
               task.cases[index].name, baseline.name, baseline.version,
               baseline.median.count() / 1e3, baseline.min.count() / 1e3, baseline.q3.count() / 1e3,
               baseline.samples.size());
  }
  return 0;
}

int Cases(const std::vector<std::string>& names) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& name : names) {
    const seeds::Task task = Load(name);
    for (const seeds::Case& c : task.cases) {
      if (c.role != seeds::CaseRole::kScored) continue;
      nlohmann::json item = {{"task", name}, {"case", c.name}};
      for (const seeds::Scalar& scalar : c.scalars) item["scalars"][scalar.name] = scalar.value;
      for (const seeds::Tensor& tensor : c.tensors) {
        item["tensors"].push_back(
            {{"name", tensor.name},
             {"role", tensor.role == seeds::TensorRole::kInput ? "input" : "output"},
             {"dtype", grove::Name(tensor.dtype)},
             {"shape", tensor.shape},
             {"distribution",
              {{"kind", seeds::Name(tensor.distribution.kind)},
               {"a", tensor.distribution.a},
               {"b", tensor.distribution.b}}}});
      }
      list.push_back(std::move(item));
    }
  }
  fmt::print("{}\n", nlohmann::json{{"cases", list}}.dump());
  return 0;
}

int Pair(const std::string& name) {
  Bench bench;
  const seeds::Task task = Load(name);
  const Scored scored = PrepareScored(bench, task);
  eval::PairRequest request;
  request.context = &scored.context;
  request.base = &scored.seed;
  request.challenger = &scored.seed;
  request.seed = 3;
  const auto pair = Must(bench.device->TimePair(request));
  if (pair.fault) Stop(pair.fault->message);
  fmt::print("pair {}: {} pairs, delta {:.3f}% +- {:.3f}%, result {}\n", name, pair.base.size(),
             100 * pair.median_delta, 100 * pair.delta_stderr,
             pair.result == eval::PairOutcome::Result::kTie ? "tie" : "not a tie");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  if (args.size() == 3 && args[0] == "throughput") return Throughput(args[1], std::atoi(argv[3]));
  if (args.size() == 2 && args[0] == "hostile") return Hostile(std::atoi(argv[2]));
  if (args.size() == 2 && args[0] == "repeat") return Repeat(args[1]);
  if (args.size() == 3 && args[0] == "dump") return Dump(args[1], args[2]);
  if (args.size() == 2 && args[0] == "pair") return Pair(args[1]);
  if (args.size() == 1 && args[0] == "doctor") return Doctor();
  if (args.size() == 2 && args[0] == "baseline") return BaselineOf(args[1]);
  if (args.size() >= 2 && args[0] == "cases") return Cases({args.begin() + 1, args.end()});
  Stop(
      "usage: gpu_bench throughput TASK N | hostile N | repeat TASK | dump TASK FOLDER | "
      "pair TASK | doctor | baseline TASK | cases TASK...");
}
