#include "cli/known_baselines.h"

#include "codegen/compile_farm.h"
#include "eval/baselines.h"
#include "eval/cuda/vendor_library.h"

namespace grove::cli {

std::filesystem::path CacheFolder(const Common& common) {
  return common.bench.cache.empty() ? codegen::DefaultCacheFolder() : common.bench.cache;
}

results::BaselineRow RowOf(const eval::StoredBaseline& known, const eval::GpuIdentity& gpu) {
  results::BaselineRow row;
  row.case_name = known.case_name;
  row.name = known.name;
  row.gpu_uuid = gpu.uuid;
  row.gpu = gpu.name;
  row.driver = known.driver;
  row.version = known.library;
  row.time = known.time;
  row.low = known.low;
  row.high = known.high;
  row.measured = known.measured;
  return row;
}

std::vector<eval::StoredBaseline> CurrentBaselines(const eval::GpuIdentity& gpu,
                                                   const seeds::Task& task, const Common& common) {
  const auto present = [](const std::string& product) -> std::string {
    if (product == "grove") return "grove " GROVE_VERSION;  // the seed's
    return cuda::InstalledVersion(product);
  };
  return eval::FindBaselines(CacheFolder(common), gpu, task, present);
}

std::vector<results::BaselineRow> KnownBaselines(const Workbench& bench, const Common& common) {
  std::vector<results::BaselineRow> rows;
  for (const eval::GpuIdentity& gpu : bench.device->gpus()) {
    for (const auto& known : CurrentBaselines(gpu, bench.task, common)) {
      rows.push_back(RowOf(known, gpu));
    }
  }
  return rows;
}

}  // namespace grove::cli
