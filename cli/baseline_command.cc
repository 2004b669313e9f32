// `grove baseline`: measures what a task's kernels are compared with, and keeps it
// (eval/baselines.h).
#include <cstdio>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/share.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/known_baselines.h"
#include "codegen/program.h"
#include "eval/baselines.h"
#include "eval/cuda/baselines.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/tool.h"
#include "results/format.h"

namespace grove::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using eval::StoredBaseline;

// torch.compile with max-autotune takes minutes.
constexpr std::chrono::milliseconds kTorchDeadline{540000};

// Beside the program, in the installed share folder, or in the source tree that it was built in.
Result<fs::path> TorchScript() {
  const fs::path bin = ExecutableFolder();
  std::vector<fs::path> places = {bin / "torch_baseline.py",
                                  bin / "../share/grove/scripts/torch_baseline.py"};
  for (fs::path folder = bin; folder != folder.parent_path(); folder = folder.parent_path()) {
    places.push_back(folder / "scripts/torch_baseline.py");
  }
  std::error_code error;
  for (const fs::path& place : places) {
    if (fs::exists(place, error)) return place;
  }
  return Fail(ErrorCode::kNotFound, "torch_baseline.py is missing beside " + bin.string());
}

// The task's folder when it was imported from a module that can be run again; else empty.
fs::path ModuleFolder(const std::string& task, const Common& common) {
  std::error_code error;
  const fs::path folder = fs::absolute(
      (common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks) / task,
      error);
  return !error && fs::is_regular_file(folder / "problem.json", error) ? folder : fs::path();
}

// PyTorch's times, from a process of its own on that GPU alone.
Result<eval::TorchResults> RunTorch(const BaselineOptions& options, const seeds::Task& task,
                                    const fs::path& module, const eval::GpuIdentity& gpu) {
  auto script = TorchScript();
  if (!script) return Failure(std::move(script.error()));
  std::optional<fs::path> python;
  if (options.python.empty()) {
    python = cuda::FindTool("python3");
  } else if (options.python.find('/') != std::string::npos) {
    python = options.python;
  } else {
    python = cuda::FindTool(options.python);
  }
  if (!python) {
    return Fail(ErrorCode::kNotFound, "no Python found; name the one that has PyTorch: --python");
  }
  cuda::ToolRun run;
  run.program = *python;
  run.arguments = {script->string()};
  run.environment = {"CUDA_VISIBLE_DEVICES=" + gpu.uuid};
  run.input = eval::TorchRequest(task, module);
  run.deadline = kTorchDeadline;
  auto output = cuda::RunTool(run);
  if (!output) return Failure(std::move(output.error()));
  if (!output->status.ok()) {
    std::string words = output->errors;
    while (!words.empty() && words.back() == '\n') words.pop_back();
    words = words.substr(words.rfind('\n') == std::string::npos ? 0 : words.rfind('\n') + 1);
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} {}: {}", python->string(), output->status.Describe(),
                            words.substr(0, 300)));
  }
  return eval::ParseTorchResults(output->out, task);
}

StoredBaseline Entry(const seeds::Task& task, const seeds::Case& c, const eval::GpuIdentity& gpu) {
  StoredBaseline entry;
  entry.task = task.name;
  entry.case_name = c.name;
  entry.case_key = eval::CaseKey(task, c);
  entry.driver = gpu.driver;
  entry.measured = std::chrono::system_clock::now();
  return entry;
}

Json RowJson(const StoredBaseline& b, const std::string& uuid, const char* kind) {
  Json row = {{"case", b.case_name},
              {"baseline", b.name},
              {"version", b.library},
              {"gpu_uuid", uuid},
              {"time_ns", b.time.count()}};
  if (b.low) row["min_ns"] = b.low->count();
  if (b.high) row["q3_ns"] = b.high->count();
  row["kind"] = kind;
  return row;
}

// The rows of a command: printed as they come, or at the end as JSON.
class Rows {
 public:
  Rows(std::string uuid, bool measured, bool json)
      : uuid_(std::move(uuid)), kind_(measured ? "measured" : "modelled"), json_(json) {}

  void Add(StoredBaseline b) {
    if (!json_) PrintLine(b);
    all_.push_back(std::move(b));
  }
  const std::vector<StoredBaseline>& all() const { return all_; }
  void End() const {
    if (!json_) return;
    Json json = Json::array();
    for (const StoredBaseline& row : all_) json.push_back(RowJson(row, uuid_, kind_));
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  }

 private:
  void PrintLine(const StoredBaseline& b) const {
    std::string interval;
    if (b.low && b.high) {
      interval =
          fmt::format("  [{}, {}]", results::FormatTime(*b.low), results::FormatTime(*b.high));
    }
    fmt::print("{:<16} {:<22} {:>10} {}{}  {}\n", results::Visible(b.case_name),
               results::Visible(b.name), results::FormatTime(b.time), kind_, interval,
               results::Visible(b.library));
    std::fflush(stdout);
  }

  const std::string uuid_;
  const char* const kind_;
  const bool json_;
  std::vector<StoredBaseline> all_;
};

void Problems(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    fmt::print(stderr, "grove: {}\n", results::Visible(problem));
  }
}

int Import(const BaselineOptions& options, const Common& common) {
  auto whole = seeds::LoadTask(
      common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks, options.task);
  if (!whole) return Complain(whole.error());
  auto task = seeds::SelectCases(*whole, common.bench.suite, common.bench.cases);
  if (!task) return Complain(task.error());
  auto text = ReadFile(options.import, std::uintmax_t{64} << 20);
  if (!text) return Complain(text.error());
  auto results = eval::ParseTorchResults(*text, *task);
  if (!results) {
    return Complain(
        Error{results.error().code, options.import.string() + ": " + results.error().message});
  }
  // The file does not say which driver it ran with: that of the GPU when it is here.
  std::string driver;
  if (const auto gpus = cuda::ListGpus(); gpus) {
    for (const cuda::DeviceFacts& gpu : *gpus) {
      if (gpu.uuid == results->gpu.uuid) driver = cuda::DriverText(gpu);
    }
  }
  if (driver.empty()) {
    return Complain({ErrorCode::kUnavailable,
                     fmt::format("{} was measured on {} ({}), which is not here; a baseline is "
                                 "taken in on the machine of its GPU",
                                 options.import.string(), results->gpu.name, results->gpu.uuid)});
  }
  results->gpu.driver = driver;
  for (StoredBaseline& b : results->baselines) b.driver = driver;
  Problems(results->problems);
  if (auto saved = eval::SaveBaselines(CacheFolder(common), results->gpu, results->baselines);
      !saved) {
    return Complain(saved.error());
  }
  Rows rows(results->gpu.uuid, true, common.json);
  for (StoredBaseline& b : results->baselines) rows.Add(std::move(b));
  rows.End();
  return kExitDone;
}

// The vendor's libraries on every scored case, until a stop is requested; gives what went wrong.
std::vector<std::string> MeasureVendor(Workbench& bench, const eval::GpuIdentity& gpu,
                                       const std::stop_token& stop, Rows& rows) {
  std::vector<std::string> problems;
  const seeds::Task& task = bench.task;
  for (std::size_t i = 0; i < task.cases.size() && !stop.stop_requested(); ++i) {
    const seeds::Case& c = task.cases[i];
    if (c.role != seeds::CaseRole::kScored) continue;
    cuda::BaselineWatch watch;
    watch.stop = stop;
    watch.measured = [&](const cuda::Baseline& baseline) {
      StoredBaseline entry = Entry(task, c, gpu);
      entry.name = baseline.name;
      entry.library = baseline.version;
      entry.time = baseline.median;
      entry.low = baseline.min;
      entry.high = baseline.q3;
      entry.samples = baseline.samples;
      rows.Add(std::move(entry));
    };
    auto vendor = cuda::MeasureBaselines(gpu.ordinal, *bench.compiler, task, i, watch);
    if (!vendor) {
      problems.push_back("no vendor baseline: " + vendor.error().message);
      break;
    }
    problems.insert(problems.end(), vendor->problems.begin(), vendor->problems.end());
  }
  return problems;
}

}  // namespace

int BaselineCommand(const BaselineOptions& options, const Common& common) {
  if (!options.import.empty()) return Import(options, common);
  auto bench = MakeWorkbench(options.task, common.bench);
  if (!bench) return Complain(bench.error());
  const seeds::Task task = (*bench)->task;
  const std::vector<eval::GpuIdentity> gpus = (*bench)->device->gpus();
  if (gpus.size() > 1) {
    return Complain(
        {ErrorCode::kInvalidInput, "a baseline belongs to one GPU: name one, --device cuda:N"});
  }
  if (gpus.empty() && options.torch) {
    return Complain({ErrorCode::kUnavailable, "--torch needs a GPU, and there is none"});
  }
  const eval::GpuIdentity gpu = gpus.empty() ? eval::GpuIdentity{} : gpus.front();

  auto program = codegen::MakeProgram(task.seed.source, task.seed.plan);
  if (!program) return Complain(program.error());
  auto seed = (*bench)->evaluator->Evaluate(*program);
  if (!seed) return Complain(seed.error());
  if (!seed->verdict.passed()) {
    return Complain({ErrorCode::kInvalidInput, fmt::format("the seed of {} does not pass: {}",
                                                           task.name, seed->verdict.message)});
  }
  Rows rows(gpu.uuid, !gpus.empty(), common.json);
  for (const eval::CaseTime& time : seed->times) {
    StoredBaseline entry = Entry(task, *task.FindCase(time.case_name), gpu);
    entry.name = "seed";
    entry.library = "grove " GROVE_VERSION;
    entry.time = time.time;
    if (!time.modelled) {
      entry.low = time.min;
      entry.high = time.q3;
    }
    entry.samples = time.samples;
    rows.Add(std::move(entry));
  }
  std::vector<std::string> problems;
  if (!gpus.empty()) {
    problems = MeasureVendor(**bench, gpu, common.stop, rows);
    // Kept before PyTorch has its turn, which may take minutes and fail.
    if (auto saved = eval::SaveBaselines(CacheFolder(common), gpu, rows.all()); !saved) {
      return Complain(saved.error());
    }
    if (options.torch && !common.stop.stop_requested()) {
      bench->reset();  // its workers hold memory of the GPU
      auto torch = RunTorch(options, task, ModuleFolder(options.task, common), gpu);
      if (torch && torch->gpu.uuid != gpu.uuid) {
        torch = Fail(ErrorCode::kInternal,
                     fmt::format("PyTorch ran on {}, not on {}", torch->gpu.uuid, gpu.uuid));
      }
      if (!torch) {
        problems.push_back("no PyTorch baseline: " + torch.error().message);
      } else {
        problems.insert(problems.end(), torch->problems.begin(), torch->problems.end());
        for (StoredBaseline& b : torch->baselines) b.driver = gpu.driver;
        if (auto saved = eval::SaveBaselines(CacheFolder(common), gpu, torch->baselines); !saved) {
          return Complain(saved.error());
        }
        for (StoredBaseline& b : torch->baselines) rows.Add(std::move(b));
      }
    }
  }
  Problems(problems);
  rows.End();
  if (common.stop.stop_requested()) {
    return Complain({ErrorCode::kCancelled, "stopped; what was measured is kept"});
  }
  if (gpus.empty() && !common.json) {
    fmt::print(
        "no GPU: vendor libraries cannot be measured here, and modelled times are not kept\n");
  }
  return kExitDone;
}

}  // namespace grove::cli
