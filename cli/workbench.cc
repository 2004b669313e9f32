#include "cli/workbench.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "base/suggest.h"
#include "codegen/compile_farm.h"
#include "eval/cuda/cuda_device.h"
#include "eval/device_group.h"
#include "eval/emulator_device.h"
#include "eval/model/device_spec.h"

namespace grove::cli {
namespace {

Failure UnknownDevice(const std::string& name) {
  static const std::vector<std::string> kDevices = {"auto",   "emulator", "cuda",
                                                    "cuda:0", "cuda:0,1", "all"};
  return Fail(ErrorCode::kNotFound, UnknownName("device", name, kDevices));
}

Result<std::unique_ptr<eval::Device>> MakeEmulator(const WorkbenchOptions& options) {
  const std::string& gpu = options.gpu;
  const eval::DeviceSpec* spec = eval::FindDevice(gpu);
  if (spec == nullptr) {
    std::vector<std::string> names;
    for (const eval::DeviceSpec& known : eval::DeviceTable()) names.push_back(known.name);
    return Fail(ErrorCode::kNotFound, UnknownName("GPU", gpu, names));
  }
  eval::EmulatorOptions limits;
  if (options.small_budget > 0) {
    limits.check_budget = options.small_budget;
    limits.pilot_budget = options.small_budget;
    limits.full_budget = options.small_budget;
  }
  return eval::MakeEmulatorDevice(*spec, limits);
}

Result<std::unique_ptr<eval::Device>> MakeGpu(int ordinal, codegen::Compiler& compiler) {
  cuda::CudaOptions options;
  options.ordinal = ordinal;
  options.compiler = &compiler;
  auto device = cuda::MakeCudaDevice(options);
  if (!device) return Failure(std::move(device.error()));
  return std::unique_ptr<eval::Device>(std::move(*device));
}

// "auto" takes the first GPU when there is one; "all" takes every one, which must be of one model.
Result<std::unique_ptr<eval::Device>> MakeDevice(const WorkbenchOptions& options,
                                                 codegen::Compiler& compiler) {
  if (options.device == "emulator") return MakeEmulator(options);
  if (options.device == "auto") {
    const auto gpus = cuda::ListGpus();
    return gpus && !gpus->empty() ? MakeGpu(0, compiler) : MakeEmulator(options);
  }
  auto ordinals = ParseCudaDevices(options.device);
  if (!ordinals) return UnknownDevice(options.device);
  if (ordinals->empty()) {
    auto gpus = cuda::ListGpus();
    if (!gpus) return Failure(std::move(gpus.error()));
    if (gpus->empty()) return Fail(ErrorCode::kUnavailable, "--device all: there is no GPU here");
    for (const cuda::DeviceFacts& gpu : *gpus) ordinals->push_back(gpu.ordinal);
  }
  if (ordinals->size() == 1) return MakeGpu(ordinals->front(), compiler);
  std::vector<std::unique_ptr<eval::Device>> members;
  for (const int ordinal : *ordinals) {
    auto gpu = MakeGpu(ordinal, compiler);
    if (!gpu) return gpu;
    members.push_back(std::move(*gpu));
  }
  auto group = eval::MakeDeviceGroup(std::move(members));
  if (!group) return Failure(std::move(group.error()));
  return std::unique_ptr<eval::Device>(std::move(*group));
}

}  // namespace

std::optional<int> ParseCudaDevice(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error != std::errc() || end != digits.data() + digits.size() || ordinal < 0) {
    return std::nullopt;
  }
  return ordinal;
}

std::optional<std::vector<int>> ParseCudaDevices(std::string_view name) {
  if (name == "all") return std::vector<int>();
  if (!name.starts_with("cuda")) return std::nullopt;
  std::vector<int> ordinals;
  while (true) {
    const std::string_view part = name.substr(0, name.find(','));
    // After the first, "1" is as good as "cuda:1".
    auto ordinal = ParseCudaDevice(part);
    if (!ordinal && !ordinals.empty()) ordinal = ParseCudaDevice("cuda:" + std::string(part));
    if (!ordinal || std::find(ordinals.begin(), ordinals.end(), *ordinal) != ordinals.end()) {
      return std::nullopt;
    }
    ordinals.push_back(*ordinal);
    if (part.size() == name.size()) return ordinals;
    name.remove_prefix(part.size() + 1);
  }
}

Result<std::unique_ptr<Workbench>> MakeWorkbench(const std::string& task,
                                                 const WorkbenchOptions& options) {
  auto bench = std::make_unique<Workbench>();
  auto loaded =
      seeds::LoadTask(options.tasks.empty() ? seeds::DefaultTasksFolder() : options.tasks, task);
  if (!loaded) return Failure(std::move(loaded.error()));
  auto selected = seeds::SelectCases(*loaded, options.suite, options.cases);
  if (!selected) return Failure(std::move(selected.error()));
  auto demanding = seeds::DemandClass(std::move(*selected), options.demanded);
  if (!demanding) return Failure(std::move(demanding.error()));
  bench->task = std::move(*demanding);
  if (!options.profile.empty()) {
    if (bench->task.checker == seeds::Checker::kReference) {
      return Fail(ErrorCode::kInvalidInput,
                  "task " + task +
                      " is checked against its reference; --profile is for tasks "
                      "with a checker of their own");
    }
    for (seeds::Case& c : bench->task.cases) {
      c.profile = options.profile == "competition" ? seeds::CheckerProfile::kCompetition
                                                   : seeds::CheckerProfile::kStrict;
    }
  }

  auto machine = MakeMachine(options);
  if (!machine) return Failure(std::move(machine.error()));
  bench->compiler = std::move(machine->compiler);
  bench->device = std::move(machine->device);

  // An emulator that runs everything itself screens nothing more.
  if (options.screen && !bench->device->gpus().empty()) {
    bench->screen = eval::MakeEmulatorDevice(bench->device->spec(), {});
  }
  eval::EvaluatorOptions evaluation;
  evaluation.screen = bench->screen.get();
  evaluation.seed = options.seed;
  evaluation.arch = bench->device->spec().arch;
  auto evaluator =
      eval::Evaluator::Create(bench->task, *bench->compiler, *bench->device, evaluation);
  if (!evaluator) return Failure(std::move(evaluator.error()));
  bench->evaluator = std::move(*evaluator);
  return bench;
}

Result<Machine> MakeMachine(const WorkbenchOptions& options) {
  Machine machine;
  // What is wrong with the names is said before any worker is started.
  if (options.device != "auto" && options.device != "emulator" &&
      !ParseCudaDevices(options.device)) {
    return UnknownDevice(options.device);
  }
  codegen::FarmOptions farm;
  farm.workers = options.jobs;
  farm.cache_folder = options.cache.empty() ? codegen::DefaultCacheFolder() : options.cache;
  auto compiler = codegen::MakeCompileFarm(farm);
  if (!compiler) return Failure(std::move(compiler.error()));
  machine.compiler = std::move(*compiler);

  auto device = MakeDevice(options, *machine.compiler);
  if (!device) return Failure(std::move(device.error()));
  machine.device = std::move(*device);
  return machine;
}

std::vector<results::EnvironmentRow> MachineRows(const Workbench& bench) {
  std::vector<results::EnvironmentRow> rows;
  for (const eval::GpuIdentity& gpu : bench.device->gpus()) {
    rows.push_back({"gpu " + gpu.uuid,
                    fmt::format("cuda:{} {}, driver {}", gpu.ordinal, gpu.name, gpu.driver)});
  }
  rows.push_back({"gpu", bench.device->spec().name});
  rows.push_back({"arch", bench.device->spec().arch});
  if (auto version = bench.compiler->Version()) rows.push_back({"compiler", *version});
  return rows;
}

}  // namespace grove::cli
