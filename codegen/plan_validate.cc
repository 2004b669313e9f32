// Checks resolved launches against the compiled kernels.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/suggest.h"
#include "codegen/plan.h"

namespace grove::codegen {
namespace {

// Of one multiprocessor, the same from sm_75 to sm_120 (CUDA programming guide, table of technical
// specifications): 64 K registers, given to a warp in units of 256.
constexpr std::int64_t kRegisters = 65536;
constexpr std::int64_t kRegisterUnit = 256;
constexpr std::int64_t kWarp = 32;
// The most any of these chips can hold; an upper bound for cooperative launches.
constexpr std::int64_t kThreadsPerSm = 2048;
constexpr std::int64_t kBlocksPerSm = 32;

Failure Bad(std::string_view place, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", place, what));
}

std::int64_t RegistersOfBlock(const EntryPoint& entry, std::int64_t threads) {
  const std::int64_t warps = (threads + kWarp - 1) / kWarp;
  const std::int64_t per_warp =
      (entry.registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  return warps * per_warp;
}

std::string_view Describe(ResolvedArg::Kind kind) {
  switch (kind) {
    case ResolvedArg::Kind::kTensor:
      return "a tensor's pointer";
    case ResolvedArg::Kind::kWorkspace:
      return "a workspace's pointer";
    case ResolvedArg::Kind::kTensorMap:
      return "a tensor map";
    case ResolvedArg::Kind::kScalar:
      return "a scalar";
  }
  return "";
}

Status CheckArgs(const ResolvedLaunch& launch, const EntryPoint& entry) {
  if (launch.args.size() != entry.param_sizes.size()) {
    return Bad(launch.place + ".args",
               fmt::format("kernel '{}' takes {} parameters, the plan passes {}", launch.kernel,
                           entry.param_sizes.size(), launch.args.size()));
  }
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    if (launch.args[i].size == entry.param_sizes[i]) continue;
    return Bad(fmt::format("{}.args[{}]", launch.place, i),
               fmt::format("parameter {} of kernel '{}' has {} bytes, the plan passes {} of {}",
                           i + 1, launch.kernel, entry.param_sizes[i],
                           Describe(launch.args[i].kind), launch.args[i].size));
  }
  return {};
}

Status CheckResources(const ResolvedLaunch& launch, const EntryPoint& entry,
                      const DeviceLimits& limits) {
  const std::int64_t threads = launch.threads();
  if (threads > entry.max_threads) {
    return Bad(launch.place + ".block",
               fmt::format("{} threads; kernel '{}' is compiled for at most {} "
                           "(__launch_bounds__)",
                           threads, launch.kernel, entry.max_threads));
  }
  const std::int64_t shared = launch.shared_bytes + entry.static_shared;
  if (shared > limits.max_shared) {
    return Bad(launch.place + ".shared",
               fmt::format("{} static + {} dynamic bytes of shared memory, more than {}",
                           entry.static_shared, launch.shared_bytes, limits.max_shared));
  }
  const std::int64_t registers = RegistersOfBlock(entry, threads);
  if (registers > kRegisters) {
    return Bad(launch.place + ".block",
               fmt::format("{} threads x {} registers need {} of {} registers; use fewer threads "
                           "or __launch_bounds__({})",
                           threads, entry.registers, registers, kRegisters, threads));
  }
  if (!launch.cooperative) return {};
  // All blocks must be resident at once. An upper bound: the device may still hold fewer.
  std::int64_t resident =
      std::min(kBlocksPerSm, std::max<std::int64_t>(kThreadsPerSm / threads, 1));
  if (registers > 0) resident = std::min(resident, kRegisters / registers);
  if (shared > 0)
    resident = std::min(resident, std::max<std::int64_t>(limits.max_shared / shared, 1));
  if (launch.blocks() > resident * limits.sm_count) {
    return Bad(launch.place + ".grid",
               fmt::format("{} blocks of a cooperative launch; at most {} fit on {} "
                           "multiprocessors at once",
                           launch.blocks(), resident * limits.sm_count, limits.sm_count));
  }
  return {};
}

}  // namespace

Status ValidatePlan(const ResolvedPlan& plan, const std::vector<EntryPoint>& entries,
                    const DeviceLimits& limits) {
  std::unordered_map<std::string_view, const EntryPoint*> by_name;
  for (const EntryPoint& entry : entries) by_name.emplace(entry.name, &entry);
  for (const ResolvedLaunch& launch : plan.launches) {
    if (launch.gemm) continue;  // proven by ResolvePlan
    const auto found = by_name.find(launch.kernel);
    if (found == by_name.end()) {
      std::vector<std::string> names;
      for (const EntryPoint& entry : entries) names.push_back(entry.name);
      return Bad(launch.place + ".kernel",
                 UnknownName("kernel", launch.kernel, names) +
                     (names.empty() ? "; the source has no extern \"C\" __global__ function" : ""));
    }
    if (Status s = CheckArgs(launch, *found->second); !s) return s;
    if (Status s = CheckResources(launch, *found->second, limits); !s) return s;
  }
  return {};
}

}  // namespace grove::codegen
