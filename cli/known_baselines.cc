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

std::vector<results::BaselineRow> KnownBaselines(const Workbench& bench, const Common& common) {
  std::vector<results::BaselineRow> rows;
  const auto present = [](const std::string& product) -> std::string {
    if (product == "grove") return "grove " GROVE_VERSION;  // the seed's
    return cuda::InstalledVersion(product);
  };
  for (const eval::GpuIdentity& gpu : bench.device->gpus()) {
    for (const auto& known : eval::FindBaselines(CacheFolder(common), gpu, bench.task, present)) {
      rows.push_back(RowOf(known, gpu));
    }
  }
  return rows;
}

}  // namespace grove::cli
