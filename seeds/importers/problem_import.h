// Imports problems that are written for PyTorch as tasks: modules in KernelBench's form (a file
// with class Model, get_inputs() and get_init_inputs()), GPU MODE task folders (task.yml,
// reference.py) and flashinfer-bench definitions with their workloads. The work is done by
// torch/import_problem.py in processes of its own, under an interpreter that has torch; foreign
// text never runs in this one. Contained: no network, no other programs, files read only where
// Python lives, memory, output and time bounded. docs/import.md says what can become a task and
// what is refused. Thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::importers {

enum class ProblemFormat { kKernelBench, kGpuMode, kFlashInfer };

struct ProblemImport {
  ProblemFormat format = ProblemFormat::kKernelBench;
  std::vector<std::filesystem::path> files;  // problems; folders of kGpuMode
  std::filesystem::path workloads;           // of one kFlashInfer definition; empty = none
  std::filesystem::path tasks = "tasks";     // where the folders go
  std::string name;                          // for one file; empty = the file's
  std::string python;                        // empty = found by FindTorchPython (torch_python.h)
  bool live = false;                         // reference = "live" (eval/live_reference.h)
  int scale = 1;                             // the sizes of the scored case are divided by it
  std::chrono::seconds deadline{300};        // for each problem
  Bytes memory{0};                           // address space of each process; 0 = by the machine
  int jobs = 1;                              // problems at a time
  bool replace = false;                      // folders of these names
};

enum class ImportStatus {
  kImported,
  kRefused,      // cannot be a fair task
  kUnsupported,  // an operation that we cannot write as a kernel
  kBroken,       // it does not run
};
std::string_view Name(ImportStatus status);  // "imported", "refused", ...

struct ImportOutcome {
  std::filesystem::path file;
  std::string name;  // of the task
  ImportStatus status = ImportStatus::kBroken;
  std::string reason;              // unless imported
  std::vector<std::string> notes;  // what a user should know of the task
  std::vector<std::string> cases;
  std::filesystem::path folder;  // of the task, when imported
};

// One outcome per file, in their order. An Error is about the machine (no torch, no space), not
// about a problem.
Result<std::vector<ImportOutcome>> ImportProblems(const ProblemImport& options);

// The .py files below a folder, sorted; the file itself when it is one. kNotFound.
Result<std::vector<std::filesystem::path>> ProblemFiles(const std::filesystem::path& path);

}  // namespace grove::importers
