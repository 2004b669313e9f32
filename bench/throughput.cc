// Candidates per minute, parse to timed verdict, of a fixed set of 60 programs: 30 honest, 15
// wrong, 15 hostile (bench/data/throughput.txt names them; they are programs of the gauntlet, so
// each verdict is known). Nothing is cached: every program is compiled cold. Prints the breakdown
// per stage, what each kind of program costs, and the verdicts that are not as expected; on a GPU
// the share of the time in which it was busy. Figures: docs/evaluator.md (GPU), docs/emulator.md.
//
//   throughput [emulator|cuda] [LIST]      exit code 1 when a verdict is not as expected
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <tbb/task_arena.h>

#include "base/files.h"
#include "codegen/compile_farm.h"
#include "eval/cuda/cuda_device.h"
#include "eval/emulator_device.h"
#include "eval/gauntlet.h"
#include "seeds/task.h"

namespace {

using SteadyClock = std::chrono::steady_clock;
namespace eval = grove::eval;

[[noreturn]] void Stop(const std::string& message) {
  std::fprintf(stderr, "throughput: %s\n", message.c_str());
  std::exit(2);
}

template <typename T>
T Must(grove::Result<T> result) {
  if (!result) Stop(result.error().message);
  return std::move(*result);
}

// Kind of each program ("honest", "wrong", "hostile"), by name.
std::map<std::string, std::string> ReadList(const std::filesystem::path& file) {
  std::istringstream lines(Must(grove::ReadFile(file, 1 << 20)));
  std::map<std::string, std::string> kinds;
  std::string kind;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      kind = line;
    } else {
      kinds[line.substr(line.find_first_not_of(' '))] = kind;
    }
  }
  return kinds;
}

// How often nvidia-smi, asked every 0.1 s, says that a kernel was running.
class BusyShare {
 public:
  BusyShare() {
    pipe_ = ::popen(
        "nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -lms 100 "
        "2>/dev/null & echo $!; wait",
        "r");
    if (pipe_ == nullptr) return;
    if (std::fscanf(pipe_, "%d", &process_) != 1) process_ = 0;
    reader_ = std::thread([this] {
      for (double value = 0; std::fscanf(pipe_, "%lf", &value) == 1;) {
        if (!on_) continue;
        sum_ += value;
        ++count_;
      }
    });
  }
  ~BusyShare() {
    if (process_ > 0) std::system(fmt::format("kill {}", process_).c_str());
    if (reader_.joinable()) reader_.join();
    if (pipe_ != nullptr) ::pclose(pipe_);
  }
  void Start() { on_ = true; }
  double Percent() {
    on_ = false;
    return count_ > 0 ? sum_ / count_ : 0;
  }

 private:
  std::FILE* pipe_ = nullptr;
  int process_ = 0;
  std::atomic<bool> on_{false};
  double sum_ = 0;  // read when on_ is false again: one late sample does no harm
  int count_ = 0;
  std::thread reader_;
};

struct Share {
  int programs = 0;
  grove::Milliseconds time{0};
};

}  // namespace

int main(int argc, char** argv) {
  const std::string device_name = argc > 1 ? argv[1] : "emulator";
  const std::filesystem::path list =
      argc > 2 ? argv[2] : GROVE_SOURCE_DIR "/bench/data/throughput.txt";
  const auto kinds = ReadList(list);
  auto gauntlet = Must(eval::LoadGauntlet(eval::DefaultGauntletFolder(), ""));
  std::erase_if(gauntlet.entries, [&](const auto& entry) { return !kinds.contains(entry.name); });
  if (gauntlet.entries.size() != kinds.size()) {
    Stop(fmt::format("{} names {} programs, the gauntlet has {} of them", list.string(),
                     kinds.size(), gauntlet.entries.size()));
  }

  const auto farm = Must(grove::codegen::MakeCompileFarm({}));  // no cache folder: all cold
  std::unique_ptr<eval::Device> device, screen;
  std::unique_ptr<BusyShare> busy;
  eval::GauntletOptions options;
  if (device_name == "cuda") {
    grove::cuda::CudaOptions cuda;
    cuda.compiler = farm.get();
    device = Must(grove::cuda::MakeCudaDevice(cuda));
    screen = eval::MakeEmulatorDevice(device->spec(), {});
    options.evaluation.screen = screen.get();
    busy = std::make_unique<BusyShare>();
  } else if (device_name == "emulator") {
    device = eval::MakeEmulatorDevice(*eval::FindDevice("H200"), {});
  } else {
    Stop(fmt::format("{} is no device; use emulator or cuda", device_name));
  }
  options.tasks = grove::seeds::DefaultTasksFolder();
  options.evaluation.arch = device->spec().arch;

  SteadyClock::time_point begin;
  options.ready = [&] {
    begin = SteadyClock::now();
    if (busy) busy->Start();
  };
  std::vector<eval::GauntletOutcome> outcomes;
  const int threads = device_name == "cuda" ? 16 : tbb::this_task_arena::max_concurrency();
  tbb::task_arena arena(threads);
  const auto prepared = SteadyClock::now();
  arena.execute([&] { outcomes = Must(eval::RunGauntlet(gauntlet, *farm, *device, options)); });
  const std::chrono::duration<double> wall = SteadyClock::now() - begin;
  const double share = busy ? busy->Percent() : 0;

  const auto count = static_cast<double>(outcomes.size());
  fmt::print("{} programs on {} ({}), {} at once: {:.2f} s, {:.0f} candidates per minute\n",
             outcomes.size(), device->name(), device->spec().name, threads, wall.count(),
             60 * count / wall.count());
  fmt::print("before it, {:.2f} s for {} tasks and their references\n",
             std::chrono::duration<double>(begin - prepared).count(), gauntlet.tasks.size());
  if (busy) fmt::print("GPU busy {:.0f}% (nvidia-smi, every 0.1 s)\n", share);

  std::map<eval::Stage, Share> stages;
  std::map<std::string, Share> by_kind;
  grove::Milliseconds total{0};
  int others = 0;
  for (const eval::GauntletOutcome& outcome : outcomes) {
    Share& kind = by_kind[kinds.at(outcome.name)];
    ++kind.programs;
    kind.time += outcome.time;
    for (const eval::StageRecord& stage : outcome.stages) {
      Share& one = stages[stage.stage];
      ++one.programs;
      one.time += stage.duration;
      total += stage.duration;
    }
    if (outcome.status == eval::GauntletStatus::kAsExpected) continue;
    ++others;
    fmt::print("not as expected: {}: {} at {}, expected {}: {}\n", outcome.name,
               eval::Name(outcome.got.kind), eval::Name(outcome.got.stage), outcome.expected,
               outcome.got.message.substr(0, 200));
  }
  fmt::print("\n| stage | steps | ms a program | share |\n|---|---|---|---|\n");
  for (const auto& [stage, one] : stages) {
    fmt::print("| {} | {} | {:.1f} | {:.0f}% |\n", eval::Name(stage), one.programs,
               one.time.count() / count, 100 * one.time.count() / total.count());
  }
  fmt::print("\n| kind | programs | ms each, waiting included |\n|---|---|---|\n");
  for (const auto& [kind, one] : by_kind) {
    fmt::print("| {} | {} | {:.0f} |\n", kind, one.programs, one.time.count() / one.programs);
  }
  return others == 0 ? 0 : 1;
}
