// A profile of a whole model: which GPU kernels ran, for how long, and for which operations. Two
// formats are read: the Chrome trace of torch.profiler (.json, .json.gz; an object with
// "traceEvents" or a bare array) and the SQLite export of nsys. Both are foreign text: sizes are
// bounded, what is not known is counted and passed over, what is broken is one clear error.
//
// A trace is streamed: memory grows with the number of kernels (about 40 bytes each), not with the
// file, so that a trace of gigabytes fits into a fraction of one.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::profile {

// An operation of the framework that launched kernels, with what it was given.
struct Operation {
  std::string name;    // "aten::mm"; empty when the profile does not say
  std::string shapes;  // as written: "[[4096, 512], [512, 512]]"; empty when not recorded
  std::string types;   // as written: ["float", "c10::Half"]; empty when not recorded
  friend auto operator<=>(const Operation&, const Operation&) = default;
};

struct LaunchShape {
  std::array<std::int64_t, 3> grid{0, 0, 0};
  std::array<std::int64_t, 3> block{0, 0, 0};
  friend auto operator<=>(const LaunchShape&, const LaunchShape&) = default;
};

// One kernel, copy or fill on a device. Times are from the profile's own origin.
struct Event {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::uint32_t kernel = 0;     // index into Profile::kernels
  std::uint32_t operation = 0;  // index into Profile::operations
  std::int32_t device = 0;
};

struct Kernel {
  std::string name;
  LaunchShape shape;
  enum class Kind { kKernel, kCopy, kFill } kind = Kind::kKernel;
  friend auto operator<=>(const Kernel&, const Kernel&) = default;
};

struct Profile {
  std::vector<Kernel> kernels;
  std::vector<Operation> operations;  // [0] is the unknown one
  std::vector<Event> events;          // in the file's order
  // Steps of the training or inference loop as marked in the profile: start times, ascending.
  std::vector<std::int64_t> steps_ns;
  std::string gpu;                              // name, when the profile says
  bool on_cpu = false;                          // the events are operations (Counted)
  std::map<std::string, std::int64_t> unknown;  // events of categories that are not counted
};

// What the events of a profile are. kOperations, for a profile that was made without a GPU: the
// outermost operations of the framework, by the time that each took on the CPU; each is its own
// kernel.
enum class Counted { kKernels, kOperations };

// By the file's content, not its name. kNotFound: no such file; kInvalidInput: neither format, cut
// off, a table or column missing, nothing ran on a GPU, or (kOperations) something did; the message
// names file and place.
Result<Profile> ReadProfile(const std::filesystem::path& file, Counted counted = Counted::kKernels);

// The two readers. `LooksLikeSqlite` reads the first bytes.
bool LooksLikeSqlite(const std::filesystem::path& file);
Result<Profile> ReadChromeTrace(const std::filesystem::path& file, Counted counted);
Result<Profile> ReadNsysExport(const std::filesystem::path& file);

}  // namespace grove::profile
