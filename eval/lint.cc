#include "eval/lint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>

#include "codegen/program.h"
#include "eval/check.h"
#include "eval/emulator_device.h"
#include "eval/evaluator.h"
#include "eval/live_reference.h"
#include "eval/model/device_spec.h"
#include "seeds/live.h"
#include "seeds/safetensors.h"

namespace grove::eval {
namespace {

using seeds::Case;
using seeds::CaseRole;
using seeds::Tensor;
using seeds::TensorRole;
using Outputs = std::vector<std::vector<double>>;

constexpr std::size_t kLeastContract = 80;  // characters; less says no shapes
constexpr double kMostTolerance = 0.1;      // beyond it hardly anything is refused

bool IsCheck(const Case& c) { return c.role != CaseRole::kScored && c.role != CaseRole::kExtra; }
// Where ordinary inputs are drawn: an answer that reads nothing must be refused.
bool IsOrdinary(const Case& c) { return c.role == CaseRole::kSmoke || c.role == CaseRole::kSweep; }

// Whether `word` stands in `text` by itself.
bool Names(std::string_view text, std::string_view word) {
  const auto letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !letter(text[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
    case DType::kF32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

std::vector<const Tensor*> OutputsOf(const Case& c) {
  std::vector<const Tensor*> outputs;
  for (const Tensor& tensor : c.tensors) {
    if (tensor.role == TensorRole::kOutput) outputs.push_back(&tensor);
  }
  return outputs;
}

// The check cases of a suite, as a task of its own.
seeds::Task ChecksOf(const seeds::Task& suite, bool small) {
  std::map<CaseRole, std::size_t> cheapest;
  for (std::size_t i = 0; i < suite.cases.size(); ++i) {
    const auto [at, first] = cheapest.emplace(suite.cases[i].role, i);
    // Edge cases of one element say little: the cheapest that has some.
    const double flops = suite.cases[i].flops, best = suite.cases[at->second].flops;
    if (!first && flops >= 256 && (flops < best || best < 256)) at->second = i;
  }
  seeds::Task checks = suite;
  for (std::size_t i = checks.cases.size(); i-- > 0;) {
    const Case& c = checks.cases[i];
    const bool kept =
        IsCheck(c) && (!small || c.role == CaseRole::kSmoke || cheapest.at(c.role) == i);
    if (kept) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    checks.cases.erase(checks.cases.begin() + at);
    checks.reduction.erase(checks.reduction.begin() + at);
    checks.reference_elements_per_block.erase(checks.reference_elements_per_block.begin() + at);
  }
  return checks;
}

seeds::Task OnlyCase(const seeds::Task& task, std::size_t index) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  seeds::Task single = task;
  single.cases = {task.cases[index]};
  single.reduction = {*(task.reduction.begin() + at)};
  single.reference_elements_per_block = {*(task.reference_elements_per_block.begin() + at)};
  return single;
}

// A program that writes zeros to every output and reads nothing.
Result<codegen::KernelProgram> ZerosOf(const Case& c) {
  std::string parameters, body, args;
  for (const Tensor* output : OutputsOf(c)) {
    const char* comma = args.empty() ? "" : ", ";
    parameters += fmt::format("{}tensor::{}* {}_out", comma, output->name, output->name);
    args += fmt::format("{}\"{}\"", comma, output->name);
    body += fmt::format("  for (long long i = first; i < {}LL; i += stride) {}_out[i] = 0;\n",
                        output->elements(), output->name);
  }
  const std::string source = fmt::format(
      "extern \"C\" __global__ void zeros({}) {{\n"
      "  const long long first = 1LL * blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  const long long stride = 1LL * gridDim.x * blockDim.x;\n{}}}\n",
      parameters, body);
  return codegen::MakeProgram(
      source, fmt::format(R"({{"launches": [{{"kernel": "zeros", "grid": 16, "block": 256, )"
                          R"("args": [{}]}}]}})",
                          args));
}

// Whether an answer would be taken for right.
bool Passes(const seeds::Task& task, std::size_t index, const Outputs& answer,
            const Outputs& right) {
  const Case& c = task.cases[index];
  const auto outputs = OutputsOf(c);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Tensor& tensor = *outputs[o];
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().value));
    for (std::size_t i = 0; i < answer[o].size(); ++i) {
      StoreElement(tensor.dtype, bytes.data(), static_cast<std::int64_t>(i), answer[o][i]);
    }
    const ErrorReport report = Compare(tensor, bytes, right[o], c.row_elements);
    if (!Within(report, ToleranceFor(task, index, tensor))) return false;
  }
  return true;
}

class Linter {
 public:
  Linter(const seeds::Task& task, codegen::Compiler& compiler, const LintOptions& options)
      : task_(task), compiler_(compiler), options_(options) {}

  Result<LintReport> Run() {
    report_.findings = LintText(task_);
    report_.smallest_scale = std::numeric_limits<double>::infinity();
    std::vector<std::string> suites = task_.suites;
    if (suites.empty()) suites.emplace_back();
    for (const std::string& suite : suites) {
      suite_ = suite;
      auto selected = seeds::SelectCases(task_, suite, {});
      if (!selected) return Failure(std::move(selected.error()));
      checks_ = ChecksOf(*selected, options_.small);
      if (checks_.cases.empty()) continue;
      if (auto done = RunSuite(); !done) return Failure(std::move(done.error()));
    }
    if (!std::isfinite(report_.smallest_scale)) report_.smallest_scale = 0;
    return std::move(report_);
  }

 private:
  void Find(std::string check, std::string case_name, std::string message) {
    report_.findings.push_back(
        {std::move(check), suite_, std::move(case_name), std::move(message)});
  }

  Status RunSuite() {
    const auto device = MakeEmulatorDevice(*FindDevice("H200"), {});
    EvaluatorOptions options;
    options.seed = options_.seed;
    options.arch = device->spec().arch;
    options.determinism_runs = 2;
    auto evaluator = Evaluator::Create(checks_, compiler_, *device, options);
    if (!evaluator) {
      if (evaluator.error().code != ErrorCode::kInvalidInput) {
        return Failure(std::move(evaluator.error()));
      }
      Find("reference", "", evaluator.error().message);
      return {};
    }
    report_.cases += static_cast<int>(checks_.cases.size());
    // A task whose results a checker of ours judges has no reference.
    if (!checks_.reference.source.empty()) {
      for (std::size_t i = 0; i < checks_.cases.size(); ++i) {
        auto context = PrepareReference(checks_, i, compiler_, device->spec().arch);
        if (!context) return Failure(std::move(context.error()));
        if (auto done = TryReference(*context); !done) return done;
      }
    }
    if (checks_.checker != seeds::Checker::kReference) {
      for (std::size_t i = 0; i < checks_.cases.size(); ++i) {
        if (!IsOrdinary(checks_.cases[i]) || !zeroed_.insert(checks_.cases[i].name).second)
          continue;
        if (auto done = TryZeros(i, *device, options); !done) return done;
      }
    }
    const auto seed = codegen::MakeProgram(checks_.seed.source, checks_.seed.plan);
    if (!seed) {
      Find("seed", "", seed.error().message);
      return {};
    }
    auto evaluation = (*evaluator)->Evaluate(*seed);
    if (!evaluation) return Failure(std::move(evaluation.error()));
    if (!evaluation->verdict.passed()) {
      Find("seed", evaluation->verdict.case_name,
           fmt::format("the seed does not pass: {}: {}", Name(evaluation->verdict.kind),
                       evaluation->verdict.message));
    }
    return {};
  }

  // Where a checker decides there is no right answer to compare with: a program that writes zeros
  // goes the way of any other.
  Status TryZeros(std::size_t index, Device& device, const EvaluatorOptions& options) {
    const seeds::Task single = OnlyCase(checks_, index);
    const auto zeros = ZerosOf(single.cases.front());
    if (!zeros) return Failure(zeros.error());
    auto evaluator = Evaluator::Create(single, compiler_, device, options);
    if (!evaluator) return Failure(std::move(evaluator.error()));
    auto evaluation = (*evaluator)->Evaluate(*zeros);
    if (!evaluation) return Failure(std::move(evaluation.error()));
    const Verdict& verdict = evaluation->verdict;
    if (verdict.passed()) {
      Find("answers", single.cases.front().name,
           "zeros would pass; have the checker refuse them, or draw other inputs");
    } else if (verdict.kind != VerdictKind::kWrongResult) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("zeros for case {} of task {}: {}: {}", single.cases.front().name,
                              task_.name, Name(verdict.kind), verdict.message));
    }
    return {};
  }

  // kInternal, a fault of the reference, is a finding; anything else is ours.
  Result<std::optional<Outputs>> Reference(const CaseContext& context,
                                           const std::vector<std::uint64_t>& seeds) {
    auto outputs = EmulateReference(context, seeds);
    if (outputs) return std::optional<Outputs>(std::move(*outputs));
    if (outputs.error().code != ErrorCode::kInternal) return Failure(std::move(outputs.error()));
    Find("reference", context.task_case().name, outputs.error().message);
    return std::optional<Outputs>();
  }

  Status TryReference(const CaseContext& context) {
    const Case& c = context.task_case();
    const std::vector<std::uint64_t> seeds(c.tensors.size(), options_.seed);
    const std::vector<std::uint64_t> others(c.tensors.size(), options_.seed + 1000003);
    auto made = Reference(context, seeds);
    if (!made) return Failure(std::move(made.error()));
    if (!*made) return {};
    const Outputs& right = **made;

    const auto outputs = OutputsOf(c);
    double scale = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      double squares = 0;
      for (std::size_t i = 0; i < right[o].size(); ++i) {
        const double value = right[o][i];
        if (!(std::abs(value) <= LargestOf(outputs[o]->dtype))) {
          Find("reference", c.name,
               fmt::format("{}[{}] is {}, which {} cannot hold; choose inputs whose exact result "
                           "is finite",
                           outputs[o]->name, i, value, Name(outputs[o]->dtype)));
          return {};
        }
        squares += value * value;
      }
      scale = std::sqrt(squares / std::max<double>(1, static_cast<double>(right[o].size())));
      if (!IsOrdinary(c)) continue;
      report_.smallest_scale = std::min(report_.smallest_scale, scale);
      report_.largest_scale = std::max(report_.largest_scale, scale);
      if (scale == 0) {
        Find("reference", c.name,
             fmt::format("{} is all zero; zeros would pass", outputs[o]->name));
      }
    }
    if (!IsOrdinary(c)) return {};

    Outputs zeros = right, means = right;
    for (std::size_t o = 0; o < right.size(); ++o) {
      double sum = 0;
      for (const double value : right[o]) sum += value;
      std::fill(zeros[o].begin(), zeros[o].end(), 0.0);
      std::fill(means[o].begin(), means[o].end(),
                sum / std::max<double>(1, static_cast<double>(right[o].size())));
    }
    const bool single = std::all_of(right.begin(), right.end(),
                                    [](const auto& values) { return values.size() == 1; });
    Refuse(context, "zeros", zeros, right);
    // The mean of one number is that number.
    if (!single) Refuse(context, "the mean of the right answer everywhere", means, right);
    if (seeds::IsLive(c)) {
      auto answer = live_.Outputs(c, options_.seed);
      if (!answer) return Failure(std::move(answer.error()));
      if (auto done = TryGolden(context, right, *answer, "module's outputs"); !done) return done;
    } else if (!c.golden.empty()) {
      return TryGolden(context, right, c.golden, "golden outputs");
    }
    const auto drawn = [](const Tensor& tensor) {
      return tensor.role == TensorRole::kInput &&
             tensor.distribution.kind != seeds::Distribution::Kind::kConstant &&
             tensor.distribution.kind != seeds::Distribution::Kind::kFile;
    };
    // Where every input is kept in a file there are no others.
    if (std::any_of(c.tensors.begin(), c.tensors.end(), drawn)) {
      auto other = Reference(context, others);
      if (!other) return Failure(std::move(other.error()));
      if (*other) Refuse(context, "the right answer for other inputs", **other, right);
    }

    for (std::size_t t = 0; t < c.tensors.size(); ++t) {
      const Tensor& tensor = c.tensors[t];
      if (tensor.role != TensorRole::kInput ||
          tensor.distribution.kind == seeds::Distribution::Kind::kConstant ||
          tensor.distribution.kind == seeds::Distribution::Kind::kFile) {
        continue;
      }
      std::vector<std::uint64_t> changed = seeds;
      changed[t] = others[t];
      auto moved = Reference(context, changed);
      if (!moved) return Failure(std::move(moved.error()));
      if (*moved && **moved == right) {
        Find(
            "reference", c.name,
            fmt::format("the outputs do not depend on {}; a kernel need not read it", tensor.name));
      }
    }
    return {};
  }

  // The reference must agree with the outputs that another program computed.
  Status TryGolden(const CaseContext& context, const Outputs& mine,
                   const std::vector<seeds::Stored>& stored, std::string_view whose) {
    const Case& c = context.task_case();
    Outputs golden;
    for (const Tensor* tensor : OutputsOf(c)) {
      std::vector<double> values(static_cast<std::size_t>(tensor->elements()));
      auto read =
          seeds::ReadStored(stored[golden.size()], 0, std::as_writable_bytes(std::span(values)));
      if (!read) return read;
      golden.push_back(std::move(values));
    }
    if (!Passes(checks_, context.case_index, mine, golden)) {
      Find("reference", c.name,
           fmt::format("the reference differs from the {} of this case", whose));
    }
    return {};
  }

  void Refuse(const CaseContext& context, std::string_view what, const Outputs& answer,
              const Outputs& right) {
    if (!Passes(checks_, context.case_index, answer, right)) return;
    Find("answers", context.task_case().name,
         fmt::format("{} would pass; tighten the tolerance, or draw inputs whose results differ "
                     "more",
                     what));
  }

  const seeds::Task& task_;
  codegen::Compiler& compiler_;
  const LintOptions options_;
  LiveReference live_{{}};
  std::string suite_;
  std::set<std::string> zeroed_;  // cases, which may be those of several suites
  seeds::Task checks_;            // the check cases of the suite
  LintReport report_;
};

}  // namespace

std::vector<LintFinding> LintText(const seeds::Task& task) {
  std::vector<LintFinding> findings;
  const auto find = [&](std::string suite, std::string case_name, std::string message) {
    findings.push_back({"text", std::move(suite), std::move(case_name), std::move(message)});
  };
  if (task.title.empty()) find("", "", "title is empty; say in one line what it computes");
  if (task.family.empty()) find("", "", "family is empty; it chooses the playbook's advice");
  if (task.contract.size() < kLeastContract) {
    find("", "", "the contract is too short to write a kernel from: formula, layouts, accuracy");
  }
  if (!task.cases.empty()) {
    for (const Tensor& tensor : task.cases.front().tensors) {
      if (!Names(task.contract, tensor.name)) {
        find("", "", fmt::format("the contract does not say what {} is", tensor.name));
      }
    }
  }
  if (task.baselines.empty()) {
    find("", "", "no baselines; name what it is measured against (torch_eager, cublas, ...)");
  }
  for (const Case& c : task.cases) {
    std::int64_t inputs_and_outputs = 0;
    for (const Tensor& tensor : c.tensors) inputs_and_outputs += tensor.bytes().value;
    if (!(c.flops > 0)) find("", c.name, "cost.flops is not positive");
    if (c.min_bytes.value <= 0 || c.min_bytes.value > inputs_and_outputs) {
      find("", c.name,
           fmt::format("cost.bytes is {}; expected 1 to {}, the size of all tensors",
                       c.min_bytes.value, inputs_and_outputs));
    }
    if (c.tolerance && *c.tolerance > kMostTolerance) {
      find("", c.name, fmt::format("a tolerance of {} refuses next to nothing", *c.tolerance));
    }
  }
  std::vector<std::string> suites = task.suites;
  if (suites.empty()) suites.emplace_back();
  // An imported task has the sizes at which the foreign module runs, and no more.
  std::vector<CaseRole> roles = {CaseRole::kSweep};
  if (task.family != "imported") {
    roles = {CaseRole::kSmoke, CaseRole::kSweep, CaseRole::kStability, CaseRole::kEdge};
  }
  for (const std::string& suite : suites) {
    for (const CaseRole role : roles) {
      const bool has = std::any_of(task.cases.begin(), task.cases.end(), [&](const Case& c) {
        return c.role == role && (suite.empty() || std::find(c.suites.begin(), c.suites.end(),
                                                             suite) != c.suites.end());
      });
      if (!has) find(suite, "", fmt::format("no case of role {}", seeds::Name(role)));
    }
  }
  return findings;
}

Result<CaseContext> PrepareReference(const seeds::Task& task, std::size_t case_index,
                                     codegen::Compiler& compiler, const std::string& arch) {
  const std::string name =
      fmt::format("reference of task {}, case {}", task.name, task.cases[case_index].name);
  auto program = codegen::MakeProgram(task.reference.source, task.reference.plan);
  if (!program) return Fail(std::move(program.error()), name);
  // Against the case with every output in f64.
  Case promoted = task.cases[case_index];
  for (Tensor& tensor : promoted.tensors) {
    if (tensor.role == TensorRole::kOutput) tensor.dtype = DType::kF64;
  }
  auto plan = codegen::ResolvePlan(program->plan, promoted, {});
  if (!plan) return Fail(std::move(plan.error()), name);
  codegen::CompileRequest request;
  request.source = codegen::Prelude(promoted) + program->source;
  request.arch = arch;
  auto compiled = compiler.Compile(request);
  if (!compiled) return Fail(std::move(compiled.error()), name);
  if (!(*compiled)->ok()) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", name, (*compiled)->log));
  }
  CaseContext context;
  context.task = &task;
  context.case_index = case_index;
  context.reference = Prepared{*compiled, std::move(*plan)};
  return context;
}

Result<LintReport> Lint(const seeds::Task& task, codegen::Compiler& compiler,
                        const LintOptions& options) {
  return Linter(task, compiler, options).Run();
}

}  // namespace grove::eval
