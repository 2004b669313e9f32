// What is worth making fast: kernels of a profile grouped and ranked by their share of the wall
// time, with what a faster one would gain at most, and the task that fits.
//
// Definitions. The window is from the start of the first counted event to the end of the last, over
// all devices. Busy is the union of intervals per device, since streams overlap; the idle share is
// 1 - busy / (window * devices). A group's share p is the sum of its times over window * devices.
// By Amdahl's law a group that gets s times as fast makes the whole 1 / (1 - p + p / s) as fast, at
// most 1 / (1 - p).
// Events before the second marked step are warm-up and left out when there are two steps or more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "seeds/profile/profile.h"

namespace grove::profile {

// A task that computes what an operation did, with the dims that it had there.
struct TaskGuess {
  std::string task;  // "matmul"
  std::string dims;  // "M=4096, N=1024, K=512"; empty when the shapes are not known
  std::string type;  // "fp16"; empty when not known
  // FLOP and least bytes of one call by the shapes; 0 = not known.
  double flops = 0;
  double bytes = 0;
};

// `operation` may be unknown (then the kernel's name decides). nullopt: no task of ours fits.
std::optional<TaskGuess> GuessTask(const Operation& operation, std::string_view kernel);

struct Group {
  std::string name;     // kernel, or operation
  std::string shapes;   // launch shape, or input shapes
  std::string example;  // the group's longest kernel, when it is an operation
  std::int64_t count = 0;
  Nanoseconds total{0}, mean{0}, min{0}, p95{0};
  double share = 0;             // of window * devices
  double limit = 1;             // Amdahl limit
  double gain = 1;              // of the whole, with RankOptions::speedup
  bool stable = false;          // three equal launches or more: the mean means something
  std::string bound;            // "memory" or "compute" by the shapes; empty when not known
  std::optional<double> floor;  // share of the roofline's time that it reaches, 0 to 1
  std::optional<TaskGuess> task;
};

struct RankOptions {
  double speedup = 2;          // assumed, for Group::gain
  bool by_operation = true;    // where the profile knows operations
  std::size_t limit = 30;      // groups kept
  double peak_flops = 989e12;  // of the unit that the types would use: fp16 tensor cores, dense
  double peak_fp32_flops = 67e12;
  double peak_bytes = 4.8e12;  // per second
};

struct Ranking {
  std::string gpu;
  bool on_cpu = false;  // of operations on the CPU: no group has a bound
  int devices = 0;
  std::int64_t events = 0, warmup = 0;  // counted; left out as warm-up
  Nanoseconds window{0}, busy{0};       // busy over all devices
  double idle_share = 0;
  double idle_limit = 1;  // Amdahl limit of removing every gap
  std::vector<Group> groups;
  std::vector<std::pair<std::string, std::int64_t>> unknown;  // categories and their events
};

// kInvalidInput when nothing ran on a GPU. Profiles of several files add up: their windows are
// added, since they are runs one after the other.
Result<Ranking> Rank(const std::vector<Profile>& profiles, const RankOptions& options);

}  // namespace grove::profile
