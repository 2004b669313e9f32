#include "cli/kernel_command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/emulator_device.h"
#include "eval/model/device_spec.h"
#include "seeds/safetensors.h"

namespace grove::cli {
namespace {

using codegen::ResolvedArg;
using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kMaxSource = std::uintmax_t{16} << 20;  // bytes

// A kernel ready for a case.
struct Ready {
  seeds::Case task_case;
  eval::Prepared program;
};

Result<codegen::KernelProgram> ReadProgram(const KernelCommandOptions& options) {
  auto source = ReadFile(options.source, kMaxSource);
  if (!source) return Failure(std::move(source.error()));
  std::filesystem::path plan = options.plan;
  if (plan.empty()) {
    std::filesystem::path beside = options.source;
    beside.replace_extension(".json");
    if (std::filesystem::exists(beside)) plan = beside;
  }
  std::string plan_text;
  if (!plan.empty()) {
    auto read = ReadFile(plan, kMaxSource);
    if (!read) return Failure(std::move(read.error()));
    plan_text = std::move(*read);
  }
  return codegen::MakeProgram(*source, plan_text);
}

Result<Ready> Prepare(const KernelCommandOptions& options, const Common& common) {
  auto task = seeds::LoadTask(
      common.bench.tasks.empty() ? seeds::DefaultTasksFolder() : common.bench.tasks, options.task);
  if (!task) return Failure(std::move(task.error()));
  const seeds::Case* found = task->FindCase(options.case_name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const seeds::Case& c : task->cases) names.push_back(c.name);
    return Fail(ErrorCode::kNotFound, fmt::format("task {}: {}", task->name,
                                                  UnknownName("case", options.case_name, names)));
  }
  const eval::DeviceSpec* gpu = eval::FindDevice(options.gpu);
  if (gpu == nullptr) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no GPU '{}' is known (grove devices)", options.gpu));
  }
  auto program = ReadProgram(options);
  if (!program) return Failure(std::move(program.error()));
  codegen::FarmOptions farm;
  farm.workers = 1;
  farm.cache_folder =
      common.bench.cache.empty() ? codegen::DefaultCacheFolder() : common.bench.cache;
  auto compiler = codegen::MakeCompileFarm(farm);
  if (!compiler) return Failure(std::move(compiler.error()));
  const auto limits = eval::MakeEmulatorDevice(*gpu, {})->limits();
  Ready ready;
  ready.task_case = *found;
  auto plan = codegen::ResolvePlan(program->plan, *found, limits);
  if (!plan) return Failure(std::move(plan.error()));
  codegen::CompileRequest request;
  request.source = codegen::Prelude(*found) + program->source;
  request.arch = gpu->arch;
  auto compiled = (*compiler)->Compile(request);
  if (!compiled) return Failure(std::move(compiled.error()));
  if (!(*compiled)->ok()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: {}", options.source.string(), (*compiled)->log));
  }
  if (auto valid = codegen::ValidatePlan(*plan, (*compiled)->entries, limits); !valid) {
    return Failure(std::move(valid.error()));
  }
  ready.program = eval::Prepared{*compiled, std::move(*plan)};
  return ready;
}

// The case with every input taken from the file, by name.
Status TakeInputs(const std::filesystem::path& file, seeds::Case& task_case) {
  auto header = seeds::ReadSafetensorsHeader(file);
  if (!header) return Failure(std::move(header.error()));
  for (seeds::Tensor& tensor : task_case.tensors) {
    if (tensor.role != seeds::TensorRole::kInput) continue;
    const seeds::StoredTensor* stored = header->Find(tensor.name);
    if (stored == nullptr || stored->dtype != tensor.dtype ||
        stored->bytes != tensor.bytes().value) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: case {} needs a tensor {} of {} elements in {}", file.string(),
                              task_case.name, tensor.name, tensor.elements(), Name(tensor.dtype)));
    }
    tensor.distribution.kind = seeds::Distribution::Kind::kFile;
    tensor.distribution.stored = {tensor.name, file.string(), stored->offset};
  }
  return {};
}

int EmulateCommand(const KernelCommandOptions& options, const Common& common) {
  auto ready = Prepare(options, common);
  if (!ready) return Complain(ready.error());
  if (auto taken = TakeInputs(options.inputs, ready->task_case); !taken) {
    return Complain(taken.error());
  }
  auto outputs = eval::EmulateProgram(ready->task_case, ready->program);
  if (!outputs) return Complain(outputs.error());
  std::vector<seeds::Tensor> tensors;
  for (const seeds::Tensor& tensor : ready->task_case.tensors) {
    if (tensor.role == seeds::TensorRole::kOutput) tensors.push_back(tensor);
  }
  if (auto written = seeds::WriteSafetensors(options.output, tensors, *outputs); !written) {
    return Complain(written.error());
  }
  return kExitDone;
}

std::string Hex(const ResolvedArg& arg) {
  std::string hex;
  for (std::size_t i = 0; i < arg.size && i < arg.bytes.size(); ++i) {
    hex += fmt::format("{:02x}", std::to_integer<unsigned>(arg.bytes[i]));
  }
  return hex;
}

// What launches the kernel: sizes and bytes, nothing left to evaluate.
Result<Json> LaunchJson(const Ready& ready, const KernelCommandOptions& options) {
  const codegen::ResolvedPlan& plan = ready.program.plan;
  if (!plan.tensor_maps.empty() || codegen::HasLibrarySteps(plan)) {
    return Fail(ErrorCode::kUnavailable,
                "a plan with tensor maps or library steps cannot be written as JSON; grove export "
                "makes a PyTorch extension of it");
  }
  Json json = {{"task", options.task}, {"case", options.case_name}, {"gpu", options.gpu}};
  json["cubin"] = options.output.filename().replace_extension(".cubin").string();
  for (const seeds::Tensor& tensor : ready.task_case.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name},
         {"role", tensor.role == seeds::TensorRole::kInput ? "input" : "output"},
         {"dtype", Name(tensor.dtype)},
         {"shape", tensor.shape}});
  }
  json["workspaces"] = Json::array();
  for (const codegen::ResolvedWorkspace& workspace : plan.workspaces) {
    json["workspaces"].push_back({{"bytes", workspace.bytes().value}, {"zero", workspace.zero}});
  }
  for (const codegen::ResolvedLaunch& launch : plan.launches) {
    Json one = {{"kernel", launch.kernel},
                {"grid", launch.grid},
                {"block", launch.block},
                {"shared_bytes", launch.shared_bytes},
                {"cooperative", launch.cooperative},
                {"args", Json::array()}};
    if (launch.cluster) one["cluster"] = *launch.cluster;
    for (const ResolvedArg& arg : launch.args) {
      if (arg.kind == ResolvedArg::Kind::kScalar) {
        one["args"].push_back({{"bytes", Hex(arg)}});
      } else {
        const bool tensor = arg.kind == ResolvedArg::Kind::kTensor;
        one["args"].push_back({{tensor ? "tensor" : "workspace", arg.index}});
      }
    }
    json["launches"].push_back(std::move(one));
  }
  return json;
}

int CompileCommand(const KernelCommandOptions& options, const Common& common) {
  auto ready = Prepare(options, common);
  if (!ready) return Complain(ready.error());
  auto json = LaunchJson(*ready, options);
  if (!json) return Complain(json.error());
  std::filesystem::path cubin = options.output;
  cubin.replace_extension(".cubin");
  if (auto written = WriteFileAtomic(cubin, ready->program.compiled->cubin); !written) {
    return Complain(written.error());
  }
  if (auto written = WriteFileAtomic(options.output, json->dump(1) + "\n"); !written) {
    return Complain(written.error());
  }
  return kExitDone;
}

void AddCommon(CLI::App& command, KernelCommandOptions& o) {
  command.add_option("task", o.task, "the task it is for")->required();
  command.add_option("case", o.case_name, "a case of the task")->required();
  command.add_option("source", o.source, "CUDA C++ file")->required();
  command.add_option("plan", o.plan, "launch plan (default: SOURCE with .json)");
  command.add_option("--gpu", o.gpu, "which it is compiled for")->capture_default_str();
}

}  // namespace

KernelApp::KernelApp(CLI::App& app) : options_(std::make_shared<KernelCommandOptions>()) {
  KernelCommandOptions& o = *options_;
  emulate_ = app.add_subcommand("emulate", "run one kernel in the emulator on tensors of a file");
  AddCommon(*emulate_, o);
  emulate_->add_option("--inputs", o.inputs, "safetensors with the case's inputs, by name")
      ->required();
  emulate_->add_option("--output", o.output, "safetensors to write the outputs to")->required();
  compile_ = app.add_subcommand(
      "compile", "write a kernel's cubin and launches for one case, as JSON (docs/import.md)");
  AddCommon(*compile_, o);
  compile_->add_option("--output", o.output, "JSON to write; the cubin goes beside it")->required();
}

std::optional<int> KernelApp::Run(const Common& common) const {
  if (emulate_->parsed()) return EmulateCommand(*options_, common);
  if (compile_->parsed()) return CompileCommand(*options_, common);
  return std::nullopt;
}

}  // namespace grove::cli
