// What evaluating kernels needs, put together from the command line: a task, a compile farm, a
// device and an evaluator over them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "eval/device.h"
#include "eval/evaluator.h"
#include "results/rows.h"
#include "seeds/task.h"

namespace grove::cli {

struct WorkbenchOptions {
  std::string device = "auto";     // auto, emulator, cuda, cuda:N, cuda:N,M,..., all
  std::string gpu = "H200";        // which GPU the emulator models
  std::filesystem::path tasks;     // empty = seeds::DefaultTasksFolder()
  std::filesystem::path cache;     // empty = codegen::DefaultCacheFolder()
  int jobs = 0;                    // compile workers; 0 = number of cores
  std::uint64_t seed = 1;          // of the inputs
  std::string suite;               // empty = the first that has all of `cases`
  std::vector<std::string> cases;  // scored or extra cases; empty = the scored ones
  // Thread-instructions of one launch in the emulator, where cases are known to be small: a kernel
  // that never ends is found out sooner. 0 = the emulator's own limits.
  std::int64_t small_budget = 0;
  // How strict the task's checker is, where it has one: strict, competition; empty = the task's
  // own.
  std::string profile;
  std::string demanded;  // class of accuracy (seeds::DemandClass); empty = the task's own
  bool screen = false;   // every candidate passes the emulator before it reaches a GPU
};

struct Workbench {
  seeds::Task task;  // the chosen suite and cases of it (seeds::SelectCases)
  std::unique_ptr<codegen::Compiler> compiler;
  std::unique_ptr<eval::Device> device;  // a eval::DeviceGroup when several GPUs are used
  std::unique_ptr<eval::Device> screen;  // the emulator of options.screen; may be empty
  std::unique_ptr<eval::Evaluator> evaluator;
};

// What a run's environment says of the machine that evaluates: its GPUs, architecture and compiler.
std::vector<results::EnvironmentRow> MachineRows(const Workbench& bench);

// The ordinal of "cuda" (0) or "cuda:N"; nullopt for anything else.
std::optional<int> ParseCudaDevice(std::string_view name);

// The compiler and the device of a workbench, without a task. kNotFound likewise.
struct Machine {
  std::unique_ptr<codegen::Compiler> compiler;
  std::unique_ptr<eval::Device> device;
};
Result<Machine> MakeMachine(const WorkbenchOptions& options);
// The ordinals that a device's name asks for: {} for "all" (whatever there is), one for "cuda" and
// "cuda:N", several, in the order given, for "cuda:N,M" and "cuda:N,cuda:M"; nullopt for anything
// else, also for an ordinal that is named twice.
std::optional<std::vector<int>> ParseCudaDevices(std::string_view name);

// kNotFound for an unknown task, suite, case, device or GPU, with the nearest valid name.
Result<std::unique_ptr<Workbench>> MakeWorkbench(const std::string& task,
                                                 const WorkbenchOptions& options);

}  // namespace grove::cli
