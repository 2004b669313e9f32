#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"
#include "seeds/live.h"
#include "seeds/task_text.h"

namespace grove::seeds {
namespace {

// Evaluates the expressions of one task for one case after the other.
class Resolver {
 public:
  Resolver(const TaskText& text, std::string_view file) : text_(text), file_(file) {
    for (const auto& dim : text_.dims) dim_names_.push_back(dim.value);
  }

  Result<Task> Resolve() {
    Task task;
    task.name = text_.name.value;
    task.title = text_.title;
    task.family = text_.family;
    task.contract = text_.contract;
    task.allow_nondeterminism = text_.allow_nondeterminism;
    task.checker = text_.checker.value;
    task.library = text_.library;
    task.baselines = text_.baselines;
    for (const auto& suite : text_.suites) task.suites.push_back(suite.value);
    if (auto checked = CheckNames(); !checked) return Fail(std::move(checked).error());
    for (const CaseText& written : text_.cases) {
      auto resolved = ResolveCase(written, task);
      if (!resolved) {
        return Fail(std::move(resolved).error());
      }
      task.cases.push_back(std::move(*resolved));
    }
    task.demanded = text_.demanded.value_or(DefaultClass(task));
    return task;
  }

 private:
  Failure FailAt(Place place, std::string_view message) const {
    return Failure(ErrorAt(file_, place, message));
  }

  // Names in expressions must be declared dims, also where no case happens to evaluate them.
  Status CheckNames() const {
    std::vector<const Placed<Expr>*> expressions = {&text_.flops, &text_.reduction};
    for (const auto* optional :
         {&text_.bytes, &text_.row_elements, &text_.reference_elements_per_block}) {
      if (*optional) expressions.push_back(&**optional);
    }
    for (const TensorText& tensor : text_.tensors) {
      for (const auto& extent : tensor.shape) expressions.push_back(&extent);
    }
    for (const CaseText& written : text_.cases) {
      if (written.flops) expressions.push_back(&*written.flops);
      if (written.reduction) expressions.push_back(&*written.reduction);
    }
    for (const auto* expression : expressions) {
      for (const std::string& name : expression->value.Names()) {
        if (std::find(dim_names_.begin(), dim_names_.end(), name) != dim_names_.end()) continue;
        return FailAt(expression->place,
                      fmt::format("in expression '{}': {}", expression->value.text(),
                                  UnknownName("dim", name, dim_names_)));
      }
    }
    return {};
  }

  Result<std::int64_t> Evaluate(const Placed<Expr>& expression, const Case& resolved,
                                std::string_view what, std::int64_t least) const {
    const auto value =
        expression.value.Evaluate([&](std::string_view name) { return resolved.dim(name); });
    if (!value) {
      return FailAt(expression.place,
                    fmt::format("{} '{}' in case {}: {}", what, expression.value.text(),
                                resolved.name, value.error().message));
    }
    if (*value < least) {
      return FailAt(expression.place,
                    fmt::format("{} '{}' is {} in case {}; expected at least {}", what,
                                expression.value.text(), *value, resolved.name, least));
    }
    return *value;
  }

  Result<DType> ResolveDType(const TensorText& tensor, const CaseText& written) const {
    if (const auto concrete = DTypeFromName(tensor.dtype.value)) return *concrete;
    for (const auto* symbols : {&written.dtypes, &text_.dtypes}) {
      const auto found = symbols->find(tensor.dtype.value);
      if (found != symbols->end()) return found->second.value;
    }
    return FailAt(
        tensor.dtype.place,
        fmt::format("dtype '{}' of tensor {} is neither a type (f32, f16, ...) nor set by "
                    "[dtypes] or by dtypes of case {}",
                    tensor.dtype.value, tensor.name.value, written.name.value));
  }

  Result<Tensor> ResolveTensor(const TensorText& written_tensor, const CaseText& written,
                               const Case& resolved) const {
    Tensor tensor;
    tensor.name = written_tensor.name.value;
    tensor.role = written_tensor.role;
    tensor.distribution = written_tensor.distribution;
    const auto dtype = ResolveDType(written_tensor, written);
    if (!dtype) return Fail(dtype.error());
    tensor.dtype = *dtype;
    std::int64_t elements = 1;
    for (const auto& extent : written_tensor.shape) {
      const auto value = Evaluate(extent, resolved, "extent", 1);
      if (!value) return Fail(value.error());
      if (*value > kMaxElements / elements) {
        return FailAt(extent.place, fmt::format("tensor {} has more than {} elements in case {}",
                                                tensor.name, kMaxElements, resolved.name));
      }
      elements *= *value;
      tensor.shape.push_back(*value);
    }
    const auto inputs = written.inputs.find(tensor.name);
    if (inputs != written.inputs.end()) tensor.distribution = inputs->second.value;
    return tensor;
  }

  Status CheckCaseKeys(const CaseText& written) const {
    for (const auto& [name, value] : written.dims) {
      if (std::find(dim_names_.begin(), dim_names_.end(), name) == dim_names_.end()) {
        return FailAt(value.place, UnknownName("dim", name, dim_names_));
      }
    }
    std::vector<std::string> inputs, outputs;
    std::set<std::string> symbols;
    for (const TensorText& tensor : text_.tensors) {
      (tensor.role == TensorRole::kInput ? inputs : outputs).push_back(tensor.name.value);
      if (!DTypeFromName(tensor.dtype.value)) symbols.insert(tensor.dtype.value);
    }
    for (const auto& [name, value] : written.inputs) {
      if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) {
        return FailAt(value.place, UnknownName("input", name, inputs));
      }
    }
    for (const auto& [name, value] : written.golden) {
      if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) {
        return FailAt(value.place, UnknownName("output", name, outputs));
      }
    }
    for (const auto& [name, value] : written.dtypes) {
      if (symbols.count(name) == 0) {
        return FailAt(value.place,
                      UnknownName("dtype symbol", name,
                                  std::vector<std::string>(symbols.begin(), symbols.end())));
      }
    }
    return {};
  }

  Result<Case> ResolveCase(const CaseText& written, Task& task) const {
    if (auto checked = CheckCaseKeys(written); !checked) return Fail(std::move(checked).error());
    Case resolved;
    resolved.name = written.name.value;
    resolved.role = written.role;
    resolved.tolerance = written.tolerance;
    resolved.scalars = text_.scalars;
    resolved.checker = text_.checker.value;
    resolved.profile = text_.profile;
    resolved.library = text_.library;
    for (const auto& suite : written.suites.empty() ? text_.suites : written.suites) {
      resolved.suites.push_back(suite.value);
    }
    for (const auto& dim : text_.dims) {
      const auto found = written.dims.find(dim.value);
      if (found == written.dims.end()) {
        return FailAt(written.name.place,
                      fmt::format("case {} gives no value for dim {}", resolved.name, dim.value));
      }
      resolved.dims.push_back({dim.value, found->second.value});
    }
    Bytes traffic;
    for (const TensorText& tensor : text_.tensors) {
      auto value = ResolveTensor(tensor, written, resolved);
      if (!value) return Fail(std::move(value).error());
      traffic = traffic + value->bytes();
      if (value->role == TensorRole::kOutput) {
        resolved.demanded =
            std::max(resolved.demanded.value_or(PrecisionClass::kFp64), ClassOf(value->dtype));
      }
      resolved.tensors.push_back(std::move(*value));
    }
    if (text_.demanded) {
      resolved.demanded = std::max(resolved.demanded.value_or(*text_.demanded), *text_.demanded);
    }
    if (resolved.checker == Checker::kHouseholderQr) {
      if (auto checked = CheckQrTensors(resolved); !checked) return Fail(checked.error());
    }
    if (auto golden = ResolveGolden(written, resolved); !golden) {
      return Fail(std::move(golden).error());
    }
    const auto flops = Evaluate(written.flops ? *written.flops : text_.flops, resolved, "flops", 0);
    if (!flops) return Fail(flops.error());
    resolved.flops = static_cast<double>(*flops);
    resolved.min_bytes = traffic;
    if (text_.bytes) {
      const auto bytes = Evaluate(*text_.bytes, resolved, "bytes", 1);
      if (!bytes) return Fail(bytes.error());
      resolved.min_bytes = Bytes(*bytes);
    }
    if (text_.row_elements) {
      const auto row = Evaluate(*text_.row_elements, resolved, "row_elements", 1);
      if (!row) return Fail(row.error());
      resolved.row_elements = *row;
    }
    const auto reduction = Evaluate(written.reduction ? *written.reduction : text_.reduction,
                                    resolved, "reduction", 1);
    if (!reduction) return Fail(reduction.error());
    task.reduction.push_back(*reduction);
    std::int64_t per_block = 0;
    if (text_.reference_elements_per_block) {
      const auto value = Evaluate(*text_.reference_elements_per_block, resolved,
                                  "reference_elements_per_block", 1);
      if (!value) return Fail(value.error());
      per_block = *value;
    }
    task.reference_elements_per_block.push_back(per_block);
    return resolved;
  }

  // Golden outputs belong to inputs that are the same in every draw, unless a module gives them.
  Status ResolveGolden(const CaseText& written, Case& resolved) const {
    if (written.golden.empty() && text_.live) {
      for (const Tensor& tensor : resolved.tensors) {
        if (tensor.role != TensorRole::kOutput) continue;
        resolved.golden.push_back({tensor.name, "", kLiveOffset});
      }
    }
    if (written.golden.empty()) return {};
    const Place place = written.golden.begin()->second.place;
    if (resolved.checker != Checker::kReference) {
      return FailAt(place, "a task with a checker has no golden outputs");
    }
    for (const Tensor& tensor : resolved.tensors) {
      if (tensor.role == TensorRole::kInput) {
        const auto kind = tensor.distribution.kind;
        if (kind == Distribution::Kind::kFile || kind == Distribution::Kind::kConstant) continue;
        return FailAt(place,
                      fmt::format("case {} has golden outputs, so its input {} must be a file or a "
                                  "constant",
                                  resolved.name, tensor.name));
      }
      const auto found = written.golden.find(tensor.name);
      if (found == written.golden.end()) {
        return FailAt(place, fmt::format("case {} has golden outputs, but none for {}",
                                         resolved.name, tensor.name));
      }
      resolved.golden.push_back({found->second.value, "", 0});
    }
    return {};
  }

  // What the checker takes for granted: A, H and tau in fp32.
  Status CheckQrTensors(const Case& resolved) const {
    const auto& t = resolved.tensors;
    const auto shaped = [&](std::size_t i, TensorRole role, std::size_t rank) {
      return t[i].role == role && t[i].dtype == DType::kF32 && t[i].shape.size() == rank;
    };
    if (t.size() == 3 && shaped(0, TensorRole::kInput, 3) && shaped(1, TensorRole::kOutput, 3) &&
        shaped(2, TensorRole::kOutput, 2) && t[0].shape == t[1].shape &&
        t[0].shape[0] == t[2].shape[0] && t[0].shape[1] == t[2].shape[1] &&
        t[0].shape[1] == t[0].shape[2] && t[0].shape[1] <= kMaxQrSize) {
      return {};
    }
    return FailAt(text_.checker.place,
                  fmt::format("checker householder_qr needs three f32 tensors: an input (batch, n, "
                              "n), then the outputs (batch, n, n) and (batch, n), n at most {}",
                              kMaxQrSize));
  }

  // The class of the least precise output of the scored cases.
  static PrecisionClass DefaultClass(const Task& task) {
    PrecisionClass worst = PrecisionClass::kFp64;
    for (const Case& resolved : task.cases) {
      if (resolved.role != CaseRole::kScored) continue;
      for (const Tensor& tensor : resolved.tensors) {
        if (tensor.role == TensorRole::kOutput) worst = std::max(worst, ClassOf(tensor.dtype));
      }
    }
    return worst;
  }

  const TaskText& text_;
  std::string_view file_;
  std::vector<std::string> dim_names_;
};

}  // namespace

Result<Task> ResolveTask(const TaskText& text, std::string_view file) {
  return Resolver(text, file).Resolve();
}

Error ErrorAt(std::string_view file, Place place, std::string_view message) {
  return Error{ErrorCode::kInvalidInput,
               fmt::format("{}:{}:{}: {}", file, place.line, place.column, message)};
}

}  // namespace grove::seeds
