// One kernel as a program, a module or a submission that runs without grove. The launch plan
// becomes host code (cu_unit.h); the formats differ in what stands around it.
//
//   cu           NAME.cu, with a main that draws inputs, checks against the task's reference and
//                times; nvcc compiles it
//   torch        NAME.py, PyTorch's load_inline: run(inputs...) -> outputs
//   torch-cpp    a folder with setup.py: an extension module NAME with run(list) -> list
//   kernelbench  NAME.py with class ModelNew
//   gpumode      NAME.py with custom_kernel(data)
//   cupy         NAME.py, CuPy's RawModule and the plan in Python
//
// Pure and thread-safe but for WriteExport.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/exports/cu_unit.h"

namespace grove::results {

enum class ExportFormat { kCu, kTorch, kTorchCpp, kKernelBench, kGpuMode, kCupy };
std::string_view Name(ExportFormat format);  // as above
std::optional<ExportFormat> ExportFormatFromName(std::string_view name);
std::vector<std::string> ExportFormatNames();

struct ExportedFile {
  std::string name;
  std::string content;
};

// The cases that a format serves, into task.cases: `names`, or without names the scored ones. For
// formats that choose by shape, cases that differ in their inputs' distribution only are one.
// kNotFound for an unknown case, with the nearest valid name.
Result<std::vector<std::size_t>> CasesToExport(const seeds::Task& task, ExportFormat format,
                                               const std::vector<std::string>& names);

// kInvalidInput when the plan does not resolve for a case, for a source that cannot be rewritten
// for nvcc, and for cupy by nvcc, which CuPy does not use.
Result<std::vector<ExportedFile>> RenderExport(const ExportedKernel& kernel, ExportFormat format);

// Writes a single file to `output` (into it, when that is a folder), several into the folder.
// Returns the paths. kResource for the disk.
Result<std::vector<std::filesystem::path>> WriteExport(const std::vector<ExportedFile>& files,
                                                       const std::filesystem::path& output);

}  // namespace grove::results
