#include "results/exports/kernel_export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/suggest.h"
#include "codegen/host_code.h"
#include "results/exports/kernel_text.h"
#include "results/exports/templates.h"

namespace grove::results {
namespace {

using seeds::Case;
using seeds::CaseRole;
using seeds::Tensor;
using seeds::TensorRole;

constexpr std::array<std::pair<ExportFormat, std::string_view>, 6> kFormats = {
    {{ExportFormat::kCu, "cu"},
     {ExportFormat::kTorch, "torch"},
     {ExportFormat::kTorchCpp, "torch-cpp"},
     {ExportFormat::kKernelBench, "kernelbench"},
     {ExportFormat::kGpuMode, "gpumode"},
     {ExportFormat::kCupy, "cupy"}}};

// Many cases are compiled in one file; beyond this nvcc takes too long.
constexpr std::size_t kMaxCases = 64;

bool SameConstants(const Case& a, const Case& b) {
  const auto same_dims =
      std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                 [](const auto& x, const auto& y) { return x.value == y.value; });
  const auto same_tensors = std::equal(
      a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
      [](const Tensor& x, const Tensor& y) { return x.dtype == y.dtype && x.shape == y.shape; });
  return same_dims && same_tensors;
}

std::string Names(const Case& c, TensorRole role) {
  std::vector<std::string> names;
  for (const Tensor& t : c.tensors) {
    if (t.role == role) names.push_back(t.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// A Python literal of any text: raw where it can be, so that people can read it.
std::string PythonText(std::string_view text) {
  if (text.find("'''") == text.npos && !text.ends_with('\\') && !text.ends_with('\'')) {
    return fmt::format("r'''{}'''", text);
  }
  std::string out = "'''";
  for (const char c : text) {
    if (c == '\\' || c == '\'') out += '\\';
    out += c;
  }
  return out + "'''";
}

const Case& FirstCase(const ExportedKernel& kernel) {
  return kernel.task.cases[kernel.cases.front()];
}

std::string Signature(const ExportedKernel& kernel) {
  const Case& c = FirstCase(kernel);
  return fmt::format("run({}) -> {}", Names(c, TensorRole::kInput), Names(c, TensorRole::kOutput));
}

std::string BlasMacro(bool blas) { return blas ? "#define GROVE_BLAS 1\n" : ""; }

Result<std::string> TorchFile(const ExportedKernel& kernel, std::string_view tail) {
  auto unit = CuUnit(kernel, {.self = "cuda.cu"});
  if (!unit) return Fail(std::move(unit).error());
  const bool blas = NeedsBlas(kernel);
  const bool nvcc = kernel.compiler == KernelCompiler::kNvcc;
  // PyTorch keeps what it compiled by name and source; the name tells kernels apart in its folder.
  const std::string name =
      fmt::format("grove_{}_{}", kernel.name, HashText(*unit).Hex().substr(0, 8));
  const std::string build =
      FillTemplate(nvcc ? asset::kExportTorchBuildNvcc : asset::kExportTorchBuildNvrtc,
                   {{"NAME", name},
                    {"NVCC_FLAGS", kernel.cases.size() > 3 ? ", \"--split-compile=0\"" : ""},
                    {"LIBRARIES", !blas  ? ""
                                  : nvcc ? "\"-lcublas\""
                                         : ", \"-lcublas\""}});
  const std::string api(asset::kExportTorchApi);
  const Case& c = FirstCase(kernel);
  return FillTemplate(
      asset::kExportTorchInline,
      {{"HEADER", CommentLines(kernel, "#")},
       {"API", PythonText(api)},
       {"BINDING", PythonText(BlasMacro(blas) + std::string(asset::kExportTorchBinding))},
       {"UNIT", fmt::format("{} = {}", nvcc ? "CUDA" : "HOST", PythonText(*unit))},
       {"BUILD", build},
       {"SIGNATURE", Signature(kernel)},
       {"TAIL", FillTemplate(tail, {{"INPUTS", Names(c, TensorRole::kInput)},
                                    {"OUTPUTS", Names(c, TensorRole::kOutput)}})}});
}

Result<std::vector<ExportedFile>> TorchFolder(const ExportedKernel& kernel) {
  const bool nvcc = kernel.compiler == KernelCompiler::kNvcc;
  const std::string unit = kernel.name + (nvcc ? ".cu" : ".cpp");
  auto text = CuUnit(kernel, {.self = unit});
  if (!text) return Fail(std::move(text).error());
  const bool blas = NeedsBlas(kernel);
  std::vector<ExportedFile> files;
  files.push_back(
      {"setup.py", FillTemplate(nvcc ? asset::kExportSetupNvcc : asset::kExportSetupNvrtc,
                                {{"HEADER", CommentLines(kernel, "#")},
                                 {"NAME", kernel.name},
                                 {"LIBRARIES", !blas  ? ""
                                               : nvcc ? "\"cublas\""
                                                      : ", \"cublas\""}})});
  files.push_back({kernel.name + "_api.h", std::string(asset::kExportTorchApi)});
  files.push_back(
      {kernel.name + "_binding.cpp",
       fmt::format("{}#include \"{}_api.h\"\n\n{}{}", BlasMacro(blas), kernel.name,
                   asset::kExportTorchBinding,
                   FillTemplate(asset::kExportModuleTail, {{"SIGNATURE", Signature(kernel)}}))});
  files.push_back({unit, fmt::format("#include \"{}_api.h\"\n{}", kernel.name, *text)});
  return files;
}

// --- CuPy
// -----------------------------------------------------------------------------------------

std::string PythonList(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

std::string PythonNumber(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  return fmt::format("{:.17g}", value);
}

std::string PythonCase(const Case& c) {
  constexpr auto kPython = codegen::HostLanguage::kPython;
  std::vector<std::string> dims, scalars, tensors;
  for (const seeds::Dim& d : c.dims) dims.push_back(fmt::format("{}={}", d.name, d.value));
  for (const seeds::Scalar& s : c.scalars) {
    scalars.push_back(fmt::format("{}={}", s.name,
                                  IsFloat(s.dtype)
                                      ? PythonNumber(s.value)
                                      : std::to_string(static_cast<std::int64_t>(s.value))));
  }
  std::string type = codegen::TypeConstant(DType::kF32, kPython);
  bool first = true;
  for (const Tensor& t : c.tensors) {
    const bool output = t.role == TensorRole::kOutput;
    if (!output && std::exchange(first, false)) type = codegen::TypeConstant(t.dtype, kPython);
    tensors.push_back(
        fmt::format("_tensor(\"{}\", {}, {}, {}, (\"{}\", {}, {}))", t.name,
                    codegen::TypeConstant(t.dtype, kPython), output ? "True" : "False",
                    PythonList(t.shape), seeds::Name(DrawnDistribution(t).kind),
                    PythonNumber(DrawnDistribution(t).a), PythonNumber(DrawnDistribution(t).b)));
  }
  return fmt::format(
      "    SimpleNamespace(\n        name=\"{}\", type={}, "
      "dim=SimpleNamespace({}), scalar=SimpleNamespace({}),\n"
      "        tensors=[{}],\n        prelude=",
      c.name, type, fmt::join(dims, ", "), fmt::join(scalars, ", "),
      fmt::join(tensors, ",\n                 "));
}

Result<std::string> CupyFile(const ExportedKernel& kernel) {
  if (kernel.compiler == KernelCompiler::kNvcc) {
    return Fail(ErrorCode::kInvalidInput, "CuPy compiles by NVRTC, not by nvcc");
  }
  std::string cases, headers;
  for (const std::size_t index : kernel.cases) {
    const Case& c = kernel.task.cases[index];
    if (auto resolved = codegen::ResolvePlan(kernel.program.plan, c, {}); !resolved) {
      return Fail(std::move(resolved).error(), "case " + c.name);
    }
    cases += PythonCase(c) + PythonText(codegen::Prelude(c)) + "),\n";
  }
  for (const auto& [name, text] : HeadersOf(kernel, kernel.program)) {
    headers += fmt::format("\n    \"{}\": {},", name, PythonText(text));
  }
  const codegen::HostCode code =
      codegen::EmitHostCode(kernel.program.plan, FirstCase(kernel), codegen::HostLanguage::kPython);
  return FillTemplate(asset::kExportCupy,
                      {{"HEADER", CommentLines(kernel, "#")},
                       {"SOURCE", PythonText(kernel.program.source)},
                       {"HEADERS", headers.empty() ? "" : headers + "\n"},
                       {"OPTIONS", OptionList()},
                       {"CASES", cases},
                       {"PLAN", code.body},
                       {"KERNELS", fmt::format("[\"{}\"]", fmt::join(code.kernels, "\", \""))}});
}

}  // namespace

std::string_view Name(ExportFormat format) {
  return kFormats[static_cast<std::size_t>(format)].second;
}

std::optional<ExportFormat> ExportFormatFromName(std::string_view name) {
  for (const auto& [format, text] : kFormats) {
    if (text == name) return format;
  }
  return std::nullopt;
}

std::vector<std::string> ExportFormatNames() {
  std::vector<std::string> names;
  for (const auto& [format, text] : kFormats) names.emplace_back(text);
  return names;
}

Result<std::vector<std::size_t>> CasesToExport(const seeds::Task& task, ExportFormat format,
                                               const std::vector<std::string>& names) {
  std::vector<std::size_t> cases;
  const auto add = [&](std::size_t index) {
    const bool known = std::any_of(cases.begin(), cases.end(), [&](std::size_t other) {
      if (format == ExportFormat::kCu) return other == index;
      return SameConstants(task.cases[other], task.cases[index]);
    });
    if (!known) cases.push_back(index);
  };
  for (std::size_t i = 0; i < task.cases.size() && names.empty(); ++i) {
    const Case& c = task.cases[i];
    if (c.role == CaseRole::kScored) add(i);
  }
  for (const std::string& name : names) {
    const auto found = std::find_if(task.cases.begin(), task.cases.end(),
                                    [&](const Case& c) { return c.name == name; });
    if (found == task.cases.end()) {
      std::vector<std::string> known;
      for (const Case& c : task.cases) known.push_back(c.name);
      return Fail(ErrorCode::kNotFound, UnknownName("case", name, known));
    }
    add(static_cast<std::size_t>(found - task.cases.begin()));
  }
  if (cases.empty()) return Fail(ErrorCode::kInvalidInput, "the task has no scored case; name one");
  if (cases.size() > kMaxCases) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} cases in one file, at most {}", cases.size(), kMaxCases));
  }
  return cases;
}

Result<std::vector<ExportedFile>> RenderExport(const ExportedKernel& kernel, ExportFormat format) {
  const auto one = [](std::string name,
                      Result<std::string> text) -> Result<std::vector<ExportedFile>> {
    if (!text) return Fail(std::move(text).error());
    return std::vector<ExportedFile>{{std::move(name), *std::move(text)}};
  };
  switch (format) {
    case ExportFormat::kCu:
      return one(kernel.name + ".cu",
                 CuUnit(kernel, {.self = kernel.name + ".cu", .with_main = true}));
    case ExportFormat::kTorch:
      return one(kernel.name + ".py", TorchFile(kernel, ""));
    case ExportFormat::kTorchCpp:
      return TorchFolder(kernel);
    case ExportFormat::kKernelBench:
      return one(kernel.name + ".py", TorchFile(kernel, asset::kExportKernelBenchTail));
    case ExportFormat::kGpuMode:
      return one(kernel.name + ".py", TorchFile(kernel, asset::kExportGpuModeTail));
    case ExportFormat::kCupy:
      return one(kernel.name + ".py", CupyFile(kernel));
  }
  return Fail(ErrorCode::kInternal, "no such format");
}

Result<std::vector<std::filesystem::path>> WriteExport(const std::vector<ExportedFile>& files,
                                                       const std::filesystem::path& output) {
  std::error_code error;
  const bool folder = files.size() > 1 || std::filesystem::is_directory(output, error);
  const std::filesystem::path parent = folder ? output : output.parent_path();
  if (!parent.empty()) {
    std::filesystem::create_directories(parent, error);
    if (error) {
      return Fail(ErrorCode::kResource,
                  fmt::format("cannot make {}: {}", parent.string(), error.message()));
    }
  }
  std::vector<std::filesystem::path> paths;
  for (const ExportedFile& file : files) {
    const std::filesystem::path path = folder ? output / file.name : output;
    if (Status s = WriteFileAtomic(path, file.content); !s) return Fail(s.error());
    paths.push_back(path);
  }
  return paths;
}

}  // namespace grove::results
