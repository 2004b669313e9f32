#include "results/exports/cu_unit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/host_code.h"
#include "codegen/nvcc_source.h"
#include "eval/check.h"
#include "eval/cuda/support_source.h"
#include "results/exports/kernel_text.h"
#include "results/exports/templates.h"
#include "results/format.h"

namespace grove::results {
namespace {

using codegen::HostLanguage;
using seeds::Case;
using seeds::Tensor;
using seeds::TensorRole;

constexpr std::int64_t kMinRow = 16;  // as eval/check.cc: shorter rows are joined

struct PreludeParts {
  std::vector<std::string> includes;  // with delimiters
  std::vector<std::string> macros;    // names
  std::string defines, body;
};

PreludeParts SplitPrelude(const Case& c) {
  PreludeParts parts;
  const std::string text = codegen::Prelude(c);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("#include ")) {
      parts.includes.push_back(line.substr(9));
    } else if (line.starts_with("#define ")) {
      parts.defines += line + "\n";
      parts.macros.push_back(line.substr(8, line.find(' ', 8) - 8));
    } else if (!line.starts_with("#line")) {
      parts.body += line + "\n";
    }
  }
  return parts;
}

// One program for all cases: what stands in the second reading of the file.
struct Section {
  std::string text;
  std::vector<std::string> includes;
};

void Merge(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const std::string& item : more) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }
}

Result<Section> MakeSection(const ExportedKernel& kernel, const codegen::KernelProgram& program,
                            const std::vector<std::string>& kernels, std::string_view name_space,
                            bool widened) {
  Section section;
  auto source = codegen::ForNvcc(program.source);
  if (!source) return Fail(std::move(source).error());
  std::vector<std::string> macros;
  for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
    const Case& c = kernel.task.cases[kernel.cases[i]];
    const PreludeParts parts = SplitPrelude(widened ? Widened(c) : c);
    Merge(section.includes, parts.includes);
    Merge(macros, parts.macros);
    section.text +=
        fmt::format("#{} GROVE_CASE == {}\n{}namespace {}_{} {{\n{}", i == 0 ? "if" : "elif", i,
                    parts.defines, name_space, i, parts.body);
  }
  section.text += "#endif\n" + source->text;
  if (!section.text.ends_with('\n')) section.text += '\n';
  Merge(section.includes, source->includes);
  Merge(macros, source->macros);
  // Not inline: what is static in an inline function is one object for all modules of a process,
  // and the second module would launch the first one's kernels.
  section.text += "\nstatic const void* const* Kernels() {\n  static const void* const list[] = {";
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    section.text +=
        fmt::format("{}reinterpret_cast<const void*>(&{})", i > 0 ? ", " : "", kernels[i]);
  }
  section.text += "};\n  return list;\n}\n}  // namespace\n";
  for (const std::string& macro : macros) section.text += fmt::format("#undef {}\n", macro);
  return section;
}

std::string Shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("{{{}}}", fmt::join(shape, ", "));
}

std::string FirstInputType(const Case& c) {
  for (const Tensor& t : c.tensors) {
    if (t.role == TensorRole::kInput) return codegen::TypeConstant(t.dtype, HostLanguage::kCpp);
  }
  return codegen::TypeConstant(DType::kF32, HostLanguage::kCpp);
}

std::string ScalarText(const seeds::Scalar& s) {
  if (!IsFloat(s.dtype)) return fmt::format("{}LL", static_cast<std::int64_t>(s.value));
  if (std::isnan(s.value)) return "NAN";
  if (std::isinf(s.value)) return s.value < 0 ? "-INFINITY" : "INFINITY";
  return fmt::format("{:.17g}", s.value);
}

// {"name", type, {dims}, {scalars}, {tensors}, kernels}
std::string CaseRow(const Case& c, const std::string& kernels) {
  std::vector<std::string> dims, scalars, tensors;
  for (const seeds::Dim& d : c.dims) dims.push_back(fmt::format("{}LL", d.value));
  for (const seeds::Scalar& s : c.scalars) scalars.push_back(ScalarText(s));
  for (const Tensor& t : c.tensors) {
    tensors.push_back(fmt::format("{{\"{}\", {}, {}, {}}}", t.name,
                                  codegen::TypeConstant(t.dtype, HostLanguage::kCpp),
                                  t.role == TensorRole::kOutput, Shape(t.shape)));
  }
  return fmt::format("      {{\"{}\", {}, {{{}}}, {{{}}},\n       {{{}}}, {}}},\n", c.name,
                     FirstInputType(c), fmt::join(dims, ", "), fmt::join(scalars, ", "),
                     fmt::join(tensors, ", "), kernels);
}

std::string CaseStruct(const Case& c, std::string_view kernels) {
  std::string dims, scalars;
  for (const seeds::Dim& d : c.dims) dims += fmt::format(" long long {};", d.name);
  for (const seeds::Scalar& s : c.scalars) {
    scalars += fmt::format(" {} {};", IsFloat(s.dtype) ? "double" : "long long", s.name);
  }
  return fmt::format(
      "// A case that the kernel is compiled for.\n"
      "struct Case {{\n  const char* name;\n  int type;  // of the first input\n"
      "  struct {{{} }} dim;\n  struct {{{} }} scalar;\n"
      "  std::vector<grove_plan::Tensor> tensors;\n  {} kernels;\n}};\n\n",
      dims, scalars, kernels);
}

std::string CaseTable(const ExportedKernel& kernel, std::string_view function,
                      std::string_view kernels, bool widened) {
  std::string text = fmt::format(
      "static const std::vector<Case>& {}() {{\n  static const std::vector<Case> cases = {{\n",
      function);
  for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
    const Case& c = kernel.task.cases[kernel.cases[i]];
    text += CaseRow(widened ? Widened(c) : c, fmt::format(fmt::runtime(kernels), i));
  }
  return text + "  };\n  return cases;\n}\n\n";
}

std::string PlanFunction(const codegen::HostCode& code, std::string_view function) {
  return fmt::format(
      "// The launch plan: what is launched for a case, in order.\n"
      "template <class Execution>\nvoid {}(const Case& it, Execution& run) {{\n{}}}\n\n",
      function, code.body);
}

codegen::HostCode HostCodeOf(const ExportedKernel& kernel, const codegen::LaunchPlan& plan) {
  return codegen::EmitHostCode(plan, kernel.task.cases[kernel.cases.front()], HostLanguage::kCpp);
}

double LargestFinite(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF64:
      return std::numeric_limits<double>::max();
    default:
      return static_cast<double>(std::numeric_limits<float>::max());
  }
}

double SmallestNormal(DType dtype) {
  if (dtype == DType::kF16) return 0x1p-14;
  return dtype == DType::kF64 ? std::numeric_limits<double>::min()
                              : static_cast<double>(std::numeric_limits<float>::min());
}

}  // namespace

Case Widened(Case c) {
  for (Tensor& t : c.tensors) {
    if (t.role == TensorRole::kOutput) t.dtype = DType::kF64;
  }
  return c;
}

seeds::Distribution DrawnDistribution(const Tensor& t) {
  if (t.distribution.kind != seeds::Distribution::Kind::kFile) return t.distribution;
  seeds::Distribution drawn;
  drawn.kind =
      IsFloat(t.dtype) ? seeds::Distribution::Kind::kNormal : seeds::Distribution::Kind::kConstant;
  drawn.a = 0;
  drawn.b = 0.1;
  return drawn;
}

namespace {

// What eval/cuda/kernels/support.cu wants to know of a distribution, in its order.
std::string Recipe(const Tensor& t) {
  const seeds::Distribution d = DrawnDistribution(t);
  const bool floating = IsFloat(t.dtype);
  const double limit = floating ? LargestFinite(t.dtype) : std::numeric_limits<double>::max();
  const double low = std::ceil(d.a);
  const std::int64_t inner = t.shape.empty() ? 1 : t.shape.back();
  const std::int64_t rows = t.shape.size() < 2 ? 1 : t.shape[t.shape.size() - 2];
  const bool plain = d.kind == seeds::Distribution::Kind::kNormal && t.dtype == DType::kF32 &&
                     d.a == 0 && d.b == 1;
  return fmt::format(
      "{{{}, {}, {}, {}, {:.17g}, {:.17g}, {:.17g}, {:.17g}, {:.17g}, {}, {}, {}, "
      "{}, {}}}",
      static_cast<int>(d.kind), static_cast<int>(t.dtype), floating ? 0 : 1, plain ? 1 : 0, d.a,
      d.b, limit, low, std::max(std::ceil(d.b) - low, 1.0), inner,
      std::max<std::int64_t>(1, inner / 100), t.elements(), rows, static_cast<int>(d.structure));
}

std::string CheckTable(const ExportedKernel& kernel) {
  std::string text =
      "struct OutputCheck {\n  long long row;  // elements that share one error scale\n"
      "  double error;   // relative L2 error of a row that is allowed\n"
      "  double largest, tiny;\n};\n"
      "struct CaseCheck {\n  std::vector<grove_inputs::Recipe> inputs;\n"
      "  std::vector<OutputCheck> outputs;\n};\n"
      "static const std::vector<CaseCheck>& Checks() {\n"
      "  static const std::vector<CaseCheck> checks = {\n";
  for (const std::size_t index : kernel.cases) {
    const Case& c = kernel.task.cases[index];
    std::vector<std::string> inputs, outputs;
    for (const Tensor& t : c.tensors) {
      if (t.role == TensorRole::kInput) {
        inputs.push_back(Recipe(t));
        continue;
      }
      std::int64_t row = c.row_elements > 0 ? c.row_elements : t.shape.empty() ? 1 : t.shape.back();
      if (row < kMinRow) row *= (kMinRow + row - 1) / row;
      outputs.push_back(fmt::format("{{{}, {:.17g}, {:.17g}, {:.17g}}}", row,
                                    eval::ToleranceFor(kernel.task, index, t).row_l2,
                                    LargestFinite(t.dtype), SmallestNormal(t.dtype)));
    }
    text += fmt::format("      {{{{{}}}, {{{}}}}},\n", fmt::join(inputs, ", "),
                        fmt::join(outputs, ", "));
  }
  return text + "  };\n  return checks;\n}\n\n";
}

std::string Generator() {
  const std::string_view all = cuda::kInputsSource;
  return std::string(all.substr(all.find("typedef unsigned char")));
}

Status CheckPlans(const ExportedKernel& kernel, const codegen::LaunchPlan& plan, bool widened) {
  for (const std::size_t index : kernel.cases) {
    const Case& c = kernel.task.cases[index];
    auto resolved = codegen::ResolvePlan(plan, widened ? Widened(c) : c, {});
    if (!resolved) return Fail(std::move(resolved).error(), "case " + c.name);
  }
  return {};
}

}  // namespace

std::string FillTemplate(std::string_view text,
                         const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find("@@", at);
    const std::size_t close = open == text.npos ? text.npos : text.find("@@", open + 2);
    if (close == text.npos) return out += text.substr(at);
    out += text.substr(at, open - at);
    const std::string_view key = text.substr(open + 2, close - open - 2);
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& pair) { return pair.first == key; });
    if (found != values.end()) out += found->second;
    at = close + 2;
  }
}

std::string CommentLines(const ExportedKernel& kernel, std::string_view prefix) {
  std::string text;
  for (const std::string& line : kernel.about) {
    std::string shown;
    for (const char c : line) shown += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
    shown = Visible(shown);
    while (shown.ends_with(' ')) shown.pop_back();
    if (shown.ends_with('\\') || shown.ends_with("?\?/")) shown += '.';  // would continue the line
    text += shown.empty() ? fmt::format("{}\n", prefix) : fmt::format("{} {}\n", prefix, shown);
  }
  for (const std::size_t index : kernel.cases) {
    const Case& c = kernel.task.cases[index];
    text += fmt::format("{} case {}:", prefix, c.name);
    for (const Tensor& t : c.tensors) {
      text += fmt::format(" {}{} {} {}", t.role == TensorRole::kOutput ? "-> " : "", t.name,
                          Name(t.dtype), Shape(t.shape));
    }
    text += "\n";
  }
  return text;
}

bool NeedsBlas(const ExportedKernel& kernel) {
  return HostCodeOf(kernel, kernel.program.plan).gemm;
}

std::string HostRuntime(KernelCompiler compiler) {
  const bool nvcc = compiler == KernelCompiler::kNvcc;
  std::string text = FillTemplate(
      asset::kExportRuntime,
      {{"LAUNCH", std::string(nvcc ? asset::kExportLaunchNvcc : asset::kExportLaunchDriver)}});
  if (!nvcc) text += "\n" + FillTemplate(asset::kExportNvrtc, {{"OPTIONS", OptionList()}});
  return text;
}

std::string HostUnit(const ExportedKernel& kernel, const KernelTable& kernels) {
  const codegen::HostCode code = HostCodeOf(kernel, kernel.program.plan);
  return CaseStruct(kernel.task.cases[kernel.cases.front()], kernels.type) +
         CaseTable(kernel, "Cases", kernels.value, false) + PlanFunction(code, "Plan");
}

namespace {

// The task's reference program, which an exported program compares with.
struct Reference {
  codegen::KernelProgram program;
  codegen::HostCode host;
};

Result<Reference> ReferenceOf(const ExportedKernel& kernel) {
  auto program = codegen::MakeProgram(kernel.task.reference.source, kernel.task.reference.plan);
  if (!program) return Fail(program.error(), "the task's reference");
  if (Status s = CheckPlans(kernel, program->plan, true); !s) {
    return Fail(s.error(), "the task's reference");
  }
  codegen::HostCode host = HostCodeOf(kernel, program->plan);
  return Reference{*std::move(program), std::move(host)};
}

std::string IncludeLines(KernelCompiler compiler, bool blas) {
  std::string text =
      "#include <algorithm>\n#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n";
  if (compiler == KernelCompiler::kNvrtc) {
    text += "#include <initializer_list>\n#include <map>\n#include <memory>\n#include <mutex>\n";
  }
  text += "#include <stdexcept>\n#include <string>\n";
  if (compiler == KernelCompiler::kNvrtc) text += "#include <utility>\n";
  text += "#include <vector>\n\n#include <cuda.h>\n#include <cuda_runtime.h>\n";
  if (compiler == KernelCompiler::kNvrtc) text += "#include <dlfcn.h>\n#include <unistd.h>\n";
  if (blas) text += "#include <cublas_v2.h>\n";
  return text;
}

// What stands behind the host unit: a main, or what the PyTorch side calls.
std::string Tail(const ExportedKernel& kernel, const CuUnitOptions& options) {
  if (!options.with_main) return std::string(asset::kExportTorchTail);
  const bool qr = kernel.task.checker == seeds::Checker::kHouseholderQr;
  std::string main = FillTemplate(
      asset::kExportMain,
      {{"GENERATOR", Generator()},
       {"COMPILER", kernel.compiler == KernelCompiler::kNvrtc
                        ? "  std::printf(\"compiled by %s\\n\", "
                          "grove_plan::Nvrtc::Get().Version().c_str());\n"
                        : ""},
       {"CHECK", std::string(qr ? asset::kExportCheckQr : asset::kExportCheckReference)}});
  // The checks' table uses what the generator declares.
  const std::string_view mark = "namespace grove_main {";
  main.insert(main.find(mark), CheckTable(kernel));
  return main;
}

std::string Usage(const ExportedKernel& kernel, const CuUnitOptions& options, bool blas) {
  if (!options.with_main) return "";
  return fmt::format(
      "//\n// nvcc -std=c++17 -O3 {}{} -o {}{}\n"
      "// ./{} [CASE] [--check] [--seed N]    checks every case and times it\n",
      // Not -arch=sm_90a, which compiles for plain compute_90 too: no wgmma, no setmaxnreg.
      kernel.compiler == KernelCompiler::kNvcc
          ? "-gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr "
          : "",
      options.self, kernel.name, blas ? " -lcublas" : "", kernel.name);
}

constexpr std::string_view kBlasMacro = "#ifndef GROVE_BLAS\n#define GROVE_BLAS 1\n#endif\n";

std::string NvrtcUnit(const ExportedKernel& kernel, const CuUnitOptions& options,
                      const codegen::HostCode& code, const std::optional<Reference>& reference) {
  std::string text = CommentLines(kernel, "//") + Usage(kernel, options, code.gemm);
  text +=
      "\n// --- the kernel "
      "-----------------------------------------------------------------------------------\n"
      "// NVRTC compiles it, a case's prelude in front, when the case is first used.\n" +
      TextConstants(kernel, kernel.program, "Kernel", false);
  std::vector<Header> headers = HeadersOf(kernel, kernel.program);
  if (reference) {
    text += "// The task's reference program, which says what is right.\n" +
            TextConstants(kernel, reference->program, "Reference", true);
    for (Header& header : HeadersOf(kernel, reference->program)) {
      if (std::find(headers.begin(), headers.end(), header) == headers.end()) {
        headers.push_back(std::move(header));
      }
    }
  }
  text += HeaderTable(headers);
  if (code.gemm) text += kBlasMacro;
  text += IncludeLines(kernel.compiler, code.gemm) + "\n" + HostRuntime(kernel.compiler) + "\n";
  text += TextFunction(code.kernels, "Kernel");
  text += HostUnit(kernel,
                   {"grove_plan::Kernels", "grove_plan::Kernels(Kernel(), KernelPreludes[{}])"});
  if (reference) {
    text += TextFunction(reference->host.kernels, "Reference") +
            CaseTable(kernel, "References",
                      "grove_plan::Kernels(Reference(), ReferencePreludes[{}])", true) +
            PlanFunction(reference->host, "ReferencePlan");
  }
  return text + Tail(kernel, options);
}

Result<std::string> NvccUnit(const ExportedKernel& kernel, const CuUnitOptions& options,
                             const codegen::HostCode& code,
                             const std::optional<Reference>& reference) {
  auto section = MakeSection(kernel, kernel.program, code.kernels, "case", false);
  if (!section) return Fail(std::move(section).error());
  std::string inner = section->text;
  std::vector<std::string> includes = section->includes;
  if (reference) {
    auto second =
        MakeSection(kernel, reference->program, reference->host.kernels, "reference", true);
    if (!second) return Fail(second.error(), "the task's reference");
    Merge(includes, second->includes);
    inner = "#ifndef GROVE_REFERENCE\n" + inner +
            "#else  // the task's reference program, which says what is right\n" + second->text +
            "#endif\n";
  }

  std::string text = CommentLines(kernel, "//") + Usage(kernel, options, code.gemm);
  text +=
      "\n#ifdef GROVE_CASE\n"
      "// --- second reading "
      "------------------------------------------------------------------------------\n"
      "// This file includes itself once per case: a kernel's dims are constants when it is "
      "compiled.\n" +
      inner + "#else\n" +
      "// --- first reading "
      "-------------------------------------------------------------------------------\n";
  text += fmt::format(
      "#ifndef GROVE_SELF\n#define GROVE_SELF \"{}\"  // the name of this file\n#endif\n",
      options.self);
  if (code.gemm) text += kBlasMacro;
  // PyTorch compiles with these, kernels count on the operators.
  for (const char* macro : {"__CUDA_NO_HALF_OPERATORS__", "__CUDA_NO_HALF_CONVERSIONS__",
                            "__CUDA_NO_HALF2_OPERATORS__", "__CUDA_NO_BFLOAT16_CONVERSIONS__",
                            "__CUDA_NO_BFLOAT16_OPERATORS__", "__CUDA_NO_BFLOAT162_OPERATORS__"}) {
    text += fmt::format("#undef {}\n", macro);
  }
  text += IncludeLines(kernel.compiler, code.gemm);
  for (const std::string& header : includes) text += fmt::format("#include {}\n", header);
  text += "\n";
  for (const char* part : {"", "#define GROVE_REFERENCE 1\n"}) {
    if (*part != '\0' && !reference) continue;
    text += part;
    for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
      text += fmt::format("#define GROVE_CASE {}\n#include GROVE_SELF\n#undef GROVE_CASE\n", i);
    }
  }
  text += fmt::format("\n{}\n", HostRuntime(kernel.compiler));
  text += HostUnit(kernel, {"const void* const*", "case_{}::Kernels()"});
  if (reference) {
    text += CaseTable(kernel, "References", "reference_{}::Kernels()", true) +
            PlanFunction(reference->host, "ReferencePlan");
  }
  return text + Tail(kernel, options) + "#endif  // GROVE_CASE\n";
}

}  // namespace

Result<std::string> CuUnit(const ExportedKernel& kernel, const CuUnitOptions& options) {
  if (Status s = CheckPlans(kernel, kernel.program.plan, false); !s) return Fail(s.error());
  const codegen::HostCode code = HostCodeOf(kernel, kernel.program.plan);
  std::optional<Reference> reference;
  if (options.with_main && kernel.task.checker != seeds::Checker::kHouseholderQr) {
    auto made = ReferenceOf(kernel);
    if (!made) return Fail(std::move(made).error());
    reference = *std::move(made);
  }
  if (kernel.compiler == KernelCompiler::kNvrtc) {
    return NvrtcUnit(kernel, options, code, reference);
  }
  return NvccUnit(kernel, options, code, reference);
}

}  // namespace grove::results
