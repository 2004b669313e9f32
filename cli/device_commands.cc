// `grove devices` and `grove doctor`: what this machine has and how fast it is.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/report_json.h"
#include "codegen/compile_farm.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/doctor.h"
#include "results/format.h"

namespace grove::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::unique_ptr<codegen::Compiler>> MakeCompiler(const Common& common) {
  codegen::FarmOptions farm;
  farm.workers = common.bench.jobs;
  farm.cache_folder =
      common.bench.cache.empty() ? codegen::DefaultCacheFolder() : common.bench.cache;
  auto compiler = codegen::MakeCompileFarm(farm);
  if (!compiler) return Failure(std::move(compiler.error()));
  return std::unique_ptr<codegen::Compiler>(std::move(*compiler));
}

// One line of the doctor's report, kept for both forms of it.
struct Finding {
  std::string what;
  std::string state;  // "ok", "missing", "note"
  std::string detail;
};

// Names of keys are shown, their values never.
Finding KeyFinding(const char* variable) {
  const char* value = std::getenv(variable);
  const bool set = value != nullptr && *value != '\0';
  return {variable, set ? "ok" : "note", set ? "set" : "not set"};
}

Finding DiskFinding(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path existing = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(existing, error) && existing.has_parent_path() &&
         existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  const auto space = std::filesystem::space(existing, error);
  if (error) return {"disk", "missing", existing.string() + ": " + error.message()};
  const bool little = space.available < (std::uintmax_t{1} << 30);
  return {"disk", little ? "missing" : "ok",
          fmt::format("{} free for {}",
                      results::FormatBytes(Bytes(static_cast<std::int64_t>(space.available))),
                      folder.string())};
}

}  // namespace

int DevicesCommand(const Common& common) {
  const auto gpus = cuda::ListGpus();
  if (common.json) {
    Json json;
    json["here"] = Json::array();
    if (gpus) {
      for (const cuda::DeviceFacts& gpu : *gpus) {
        json["here"].push_back({{"device", fmt::format("cuda:{}", gpu.ordinal)},
                                {"name", gpu.name},
                                {"uuid", gpu.uuid},
                                {"arch", gpu.arch()},
                                {"sm_count", gpu.sm_count},
                                {"memory_bytes", gpu.memory_bytes}});
      }
    } else {
      json["problem"] = gpus.error().message;
    }
    json["modelled"] = Json::parse(DevicesJson(eval::DeviceTable()));
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  if (gpus) {
    for (const cuda::DeviceFacts& gpu : *gpus) {
      fmt::print("cuda:{}  {}  {}  {} SMs  {}  {}\n", gpu.ordinal, gpu.name, gpu.arch(),
                 gpu.sm_count, results::FormatBytes(Bytes(gpu.memory_bytes)), gpu.uuid);
    }
    if (gpus->empty()) fmt::print("no GPU here: kernels run in the emulator\n");
  } else {
    fmt::print("no GPU here ({}): kernels run in the emulator\n", gpus.error().message);
  }
  fmt::print("\nmodelled by the emulator (--gpu NAME):\n");
  fmt::print("{:<12} {:<7} {:>4} {:>9} {:>9} {:>12} {:>12} {:>12}\n", "name", "arch", "SMs", "GB/s",
             "copy GB/s", "fp32 TFLOP/s", "tf32 TFLOP/s", "fp16 TFLOP/s");
  for (const eval::DeviceSpec& device : eval::DeviceTable()) {
    fmt::print("{:<12} {:<7} {:>4} {:>9.0f} {:>9.0f} {:>12.1f} {:>12.0f} {:>12.0f}\n", device.name,
               device.arch, device.sm_count, device.memory_gbs, device.copy_gbs, device.fp32_tflops,
               device.tf32_tflops, device.fp16_tflops);
  }
  return kExitDone;
}

int DoctorCommand(const Common& common) {
  std::vector<Finding> findings;
  bool usable = true;
  const auto toolkit = codegen::FindToolkit();
  auto compiler = MakeCompiler(common);
  if (!toolkit) {
    findings.push_back({"NVRTC", "missing", toolkit.error().message});
    usable = false;
  } else if (!compiler) {
    findings.push_back({"NVRTC", "missing", compiler.error().message});
    usable = false;
  } else {
    const auto version = (*compiler)->Version();
    findings.push_back({"NVRTC", version ? "ok" : "missing",
                        version ? fmt::format("{} ({})", *version, toolkit->nvrtc_library.string())
                                : version.error().message});
    usable = version.has_value();
  }
  findings.push_back(DiskFinding(common.runs));
  for (const char* variable : {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}) {
    findings.push_back(KeyFinding(variable));
  }

  const auto gpus = cuda::ListGpus();
  Json rates = Json::array();
  if (!gpus || gpus->empty()) {
    findings.push_back({"GPU", "note",
                        fmt::format("none{}; kernels run in the emulator, times are modelled",
                                    gpus ? "" : " (" + gpus.error().message + ")")});
  } else if (usable) {
    for (const cuda::DeviceFacts& gpu : *gpus) {
      if (gpus->size() == 1) break;
      findings.push_back(
          {"GPU", "ok",
           fmt::format("cuda:{} {} {} {}", gpu.ordinal, gpu.name, gpu.arch(), gpu.uuid)});
    }
    const int ordinal = ParseCudaDevice(common.bench.device).value_or(0);
    auto report = cuda::Diagnose(ordinal, **compiler);
    if (!report) {
      findings.push_back({"GPU", "missing", report.error().message});
      usable = false;
    } else {
      const cuda::DeviceFacts& gpu = report->facts;
      findings.push_back({"GPU", "ok",
                          fmt::format("cuda:{} {} {}, driver {} (CUDA {}.{}), {} free", gpu.ordinal,
                                      gpu.name, gpu.uuid, cuda::DriverText(gpu),
                                      gpu.driver_version / 1000, gpu.driver_version % 1000 / 10,
                                      results::FormatBytes(Bytes(report->free_bytes)))});
      for (const cuda::LibraryFinding& library : report->libraries) {
        findings.push_back({library.product, library.found ? "ok" : "note", library.words});
      }
      findings.push_back({"counters", "note", report->counters});
      for (const cuda::Rate& rate : report->rates) {
        const double share = rate.table > 0 ? rate.measured / rate.table : 0;
        findings.push_back(
            {rate.name, share > 0 && share < 0.6 ? "note" : "ok",
             fmt::format("{:.1f} {}{}", rate.measured, rate.unit,
                         rate.table > 0 ? fmt::format(", {:.0f}% of the table's {:.1f}",
                                                      100 * share, rate.table)
                                        : "")});
        rates.push_back({{"name", rate.name},
                         {"measured", rate.measured},
                         {"table", rate.table},
                         {"unit", rate.unit}});
      }
      // The timer drops samples below 75% of the default clock (eval/cuda/timer.h).
      const double share = gpu.clock_khz > 0 ? report->clock_ghz / (gpu.clock_khz * 1e-6) : 0;
      findings.push_back(
          {"clock", report->clock_ghz > 0 && share < 0.75 ? "note" : "ok",
           fmt::format("{:.2f} of {:.2f} GHz under an fp16 product{}, empty kernel {}",
                       report->clock_ghz, gpu.clock_khz * 1e-6,
                       report->clock_ghz > 0 && share < 0.75 ? " (throttled)" : "",
                       results::FormatTime(report->empty_kernel))});
    }
  }

  if (common.json) {
    Json json;
    json["usable"] = usable;
    json["findings"] = Json::array();
    for (const Finding& finding : findings) {
      json["findings"].push_back(
          {{"what", finding.what}, {"state", finding.state}, {"detail", finding.detail}});
    }
    json["rates"] = std::move(rates);
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const Finding& finding : findings) {
      fmt::print("{:<8} {:<18} {}\n", finding.state, finding.what, finding.detail);
    }
  }
  return usable ? kExitDone : kExitMachine;
}

}  // namespace grove::cli
