#include "cli/workbench.h"

#include "base/suggest.h"
#include "codegen/compile_farm.h"
#include "eval/emulator_device.h"
#include "eval/model/device_spec.h"

namespace grove::cli {
namespace {

Result<std::unique_ptr<eval::Device>> MakeDevice(const WorkbenchOptions& options) {
  static const std::vector<std::string> kDevices = {"auto", "emulator"};
  if (options.device != "auto" && options.device != "emulator") {
    return Fail(ErrorCode::kNotFound, UnknownName("device", options.device, kDevices));
  }
  const eval::DeviceSpec* spec = eval::FindDevice(options.gpu);
  if (spec == nullptr) {
    std::vector<std::string> names;
    for (const eval::DeviceSpec& known : eval::DeviceTable()) names.push_back(known.name);
    return Fail(ErrorCode::kNotFound, UnknownName("GPU", options.gpu, names));
  }
  return eval::MakeEmulatorDevice(*spec, {});
}

}  // namespace

Result<std::unique_ptr<Workbench>> MakeWorkbench(const std::string& task,
                                                 const WorkbenchOptions& options) {
  auto bench = std::make_unique<Workbench>();
  auto loaded = seeds::LoadTask(
      options.tasks.empty() ? seeds::DefaultTasksFolder() : options.tasks, task);
  if (!loaded) return Failure(std::move(loaded.error()));
  auto selected = seeds::SelectCases(*loaded, options.suite, options.cases);
  if (!selected) return Failure(std::move(selected.error()));
  bench->task = std::move(*selected);

  auto device = MakeDevice(options);
  if (!device) return Failure(std::move(device.error()));
  bench->device = std::move(*device);

  codegen::FarmOptions farm;
  farm.workers = options.jobs;
  farm.cache_folder = options.cache.empty() ? codegen::DefaultCacheFolder() : options.cache;
  auto compiler = codegen::MakeCompileFarm(farm);
  if (!compiler) return Failure(std::move(compiler.error()));
  bench->compiler = std::move(*compiler);

  eval::EvaluatorOptions evaluation;
  evaluation.seed = options.seed;
  evaluation.arch = bench->device->spec().arch;
  auto evaluator =
      eval::Evaluator::Create(bench->task, *bench->compiler, *bench->device, evaluation);
  if (!evaluator) return Failure(std::move(evaluator.error()));
  bench->evaluator = std::move(*evaluator);
  return bench;
}

}  // namespace grove::cli
