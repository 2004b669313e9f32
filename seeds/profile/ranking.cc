#include "seeds/profile/ranking.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace grove::profile {
namespace {

// Total length of the union of half-open intervals. Reorders them.
std::int64_t UnionLength(std::vector<std::pair<std::int64_t, std::int64_t>>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t total = 0, end = std::numeric_limits<std::int64_t>::min();
  for (const auto& [from, to] : intervals) {
    if (to <= end) continue;
    total += to - std::max(from, end);
    end = to;
  }
  return total;
}

std::string Describe(const LaunchShape& shape) {
  return fmt::format("grid {}x{}x{}, block {}x{}x{}", shape.grid[0], shape.grid[1], shape.grid[2],
                     shape.block[0], shape.block[1], shape.block[2]);
}

struct Key {
  std::string name, shapes;
  auto operator<=>(const Key&) const = default;
};

struct Bucket {
  std::vector<float> times_ns;
  std::map<std::uint32_t, double> kernels;  // of one profile: kernel -> time
  double total = 0;
  std::string longest;
  double longest_time = 0;
  std::optional<TaskGuess> task;
  bool guessed = false;
};

void Finish(Group& group, Bucket& bucket, double whole, bool on_cpu, const RankOptions& options) {
  auto& times = bucket.times_ns;
  group.count = static_cast<std::int64_t>(times.size());
  group.total = Nanoseconds(bucket.total);
  group.mean = group.total / static_cast<double>(group.count);
  group.min = Nanoseconds(*std::min_element(times.begin(), times.end()));
  const auto at = static_cast<std::size_t>(0.95 * static_cast<double>(times.size() - 1) + 0.5);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(at), times.end());
  group.p95 = Nanoseconds(times[at]);
  group.share = whole > 0 ? bucket.total / whole : 0;
  // Concurrent streams can make the sum larger than the window.
  const double p = std::min(group.share, 0.999999);
  group.limit = 1 / (1 - p);
  group.gain = 1 / (1 - p + p / options.speedup);
  group.stable = group.count >= 3;
  group.example = bucket.longest;
  group.task = std::move(bucket.task);
  if (!on_cpu && group.task && group.task->flops > 0 && group.task->bytes > 0) {
    const bool narrow = group.task->type == "fp16" || group.task->type == "bf16";
    const double compute =
        group.task->flops / (narrow ? options.peak_flops : options.peak_fp32_flops);
    const double memory = group.task->bytes / options.peak_bytes;
    group.bound = memory >= compute ? "memory" : "compute";
    group.floor = std::min(1.0, std::max(memory, compute) * 1e9 / group.mean.count());
  }
}

}  // namespace

Result<Ranking> Rank(const std::vector<Profile>& profiles, const RankOptions& options) {
  Ranking ranking;
  std::map<Key, Bucket> buckets;
  std::map<std::string, std::int64_t> unknown;
  double whole = 0;
  for (const Profile& profile : profiles) {
    if (ranking.gpu.empty()) ranking.gpu = profile.gpu;
    ranking.on_cpu = ranking.on_cpu || profile.on_cpu;
    for (const auto& [category, count] : profile.unknown) unknown[category] += count;
    const std::int64_t begin = profile.steps_ns.size() >= 2
                                   ? profile.steps_ns[1]
                                   : std::numeric_limits<std::int64_t>::min();
    std::map<std::int32_t, std::vector<std::pair<std::int64_t, std::int64_t>>> intervals;
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    // Numbers of kernels are those of one profile.
    for (auto& [key, bucket] : buckets) bucket.kernels.clear();
    for (const Event& event : profile.events) {
      if (event.start_ns < begin) {
        ++ranking.warmup;
        continue;
      }
      ++ranking.events;
      const std::int64_t end = event.start_ns + event.duration_ns;
      first = std::min(first, event.start_ns);
      last = std::max(last, end);
      intervals[event.device].emplace_back(event.start_ns, end);
      const Kernel& kernel = profile.kernels[event.kernel];
      const Operation& operation = profile.operations[event.operation];
      const bool by_operation = options.by_operation && !operation.name.empty();
      Key key{by_operation ? operation.name : kernel.name, by_operation ? operation.shapes
                                                           : kernel.kind == Kernel::Kind::kKernel
                                                               ? Describe(kernel.shape)
                                                               : ""};
      Bucket& bucket = buckets[std::move(key)];
      const auto time = static_cast<double>(event.duration_ns);
      bucket.times_ns.push_back(static_cast<float>(time));
      bucket.total += time;
      double& of_kernel = bucket.kernels[event.kernel];
      of_kernel += time;
      if (of_kernel > bucket.longest_time) {
        bucket.longest_time = of_kernel;
        bucket.longest = kernel.name;
      }
      if (!bucket.guessed && kernel.kind == Kernel::Kind::kKernel) {
        bucket.guessed = true;
        bucket.task = GuessTask(by_operation ? operation : Operation(), kernel.name);
      }
    }
    if (intervals.empty()) continue;
    const auto window = static_cast<double>(last - first);
    ranking.window += Nanoseconds(window);
    ranking.devices = std::max(ranking.devices, static_cast<int>(intervals.size()));
    whole += window * static_cast<double>(intervals.size());
    for (auto& [device, list] : intervals) {
      ranking.busy += Nanoseconds(static_cast<double>(UnionLength(list)));
    }
  }
  if (ranking.events == 0) {
    return Fail(
        ErrorCode::kInvalidInput,
        ranking.warmup > 0
            ? "all of the profile is in its first step, which is warm-up; record more steps"
        : ranking.on_cpu
            ? "the profile holds no operation"
            : "the profile holds no kernel: was it recorded with the GPU's activity? (--cpu ranks "
              "operations by their time on the CPU)");
  }
  ranking.idle_share = whole > 0 ? std::max(0.0, 1 - ranking.busy.count() / whole) : 0;
  ranking.idle_limit = 1 / (1 - std::min(ranking.idle_share, 0.999999));
  for (auto& [key, bucket] : buckets) {
    Group group;
    group.name = key.name;
    group.shapes = key.shapes;
    Finish(group, bucket, whole, ranking.on_cpu, options);
    ranking.groups.push_back(std::move(group));
  }
  std::stable_sort(ranking.groups.begin(), ranking.groups.end(),
                   [](const Group& a, const Group& b) { return a.total > b.total; });
  if (ranking.groups.size() > options.limit) ranking.groups.resize(options.limit);
  ranking.unknown.assign(unknown.begin(), unknown.end());
  return ranking;
}

}  // namespace grove::profile
