#include "eval/judgement.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::eval {

using seeds::Case;
using seeds::CaseRole;

Stage StageOf(CaseRole role) {
  switch (role) {
    case CaseRole::kSmoke:
      return Stage::kSmoke;
    case CaseRole::kSweep:
      return Stage::kSweep;
    case CaseRole::kStability:
      return Stage::kStability;
    case CaseRole::kEdge:
      return Stage::kEdge;
    case CaseRole::kScored:
      return Stage::kTiming;
    case CaseRole::kExtra:
      return Stage::kTiming;
  }
  return Stage::kSweep;
}

Verdict Failed(VerdictKind kind, Stage stage, const Case& task_case, std::string message) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.stage = stage;
  verdict.case_name = task_case.name;
  verdict.message = std::move(message);
  return verdict;
}

namespace {

// What a checker's gates decide. The error is that of A = QR in the worst column.
struct GateJudgement {
  std::optional<Verdict> verdict;
  double error = 0;
  double tolerance = 0;
};

GateJudgement JudgeGates(const Case& task_case, Stage stage, const std::vector<Gate>& gates) {
  GateJudgement judgement;
  for (const Gate& gate : gates) {
    if (gate.name == "A=QR") {
      judgement.error = gate.value;
      judgement.tolerance = gate.limit;
    }
    if (gate.passed() || judgement.verdict) continue;
    const VerdictKind kind =
        stage == Stage::kStability ? VerdictKind::kUnstable : VerdictKind::kWrongResult;
    Verdict verdict = Failed(kind, stage, task_case, Describe(gate));
    verdict.error = gate.value;
    verdict.tolerance = gate.limit;
    // A place that payloads can name: the first element of the column.
    const seeds::Tensor* output = nullptr;
    for (const seeds::Tensor& tensor : task_case.tensors) {
      if (tensor.role == seeds::TensorRole::kOutput && output == nullptr) output = &tensor;
    }
    if (output != nullptr && gate.column >= 0 && output->shape.size() == 3) {
      verdict.tensor = output->name;
      verdict.element = gate.matrix * output->shape[1] * output->shape[2] + gate.column;
    }
    judgement.verdict = std::move(verdict);
  }
  return judgement;
}

// ToleranceFor, widened to a class that the kernel was granted on an earlier case. Where the
// inputs' conditioning sets the tolerance, the class changes nothing but what is above it.
Tolerance Widened(const seeds::Task& task, std::size_t case_index, const seeds::Tensor& tensor,
                  std::optional<seeds::PrecisionClass> granted) {
  const Tolerance tolerance = ToleranceFor(task, case_index, tensor);
  if (!granted || !(tolerance.row_l2 > 0)) return tolerance;
  return ToleranceOf(
      std::max(tolerance.row_l2, ClassThreshold(*granted, task.reduction[case_index])));
}

// The best class below the demanded one in whose tolerance the errors are.
std::optional<seeds::PrecisionClass> AchievedClass(const seeds::Task& task, std::size_t case_index,
                                                   const seeds::Tensor& tensor,
                                                   const ErrorReport& report) {
  if (!IsFloat(tensor.dtype) || task.cases[case_index].tolerance) return std::nullopt;
  const auto demanded = task.cases[case_index].demanded.value_or(task.demanded);
  for (int c = static_cast<int>(demanded) + 1; c <= static_cast<int>(seeds::PrecisionClass::kFp8);
       ++c) {
    const auto candidate = static_cast<seeds::PrecisionClass>(c);
    if (Within(report, Widened(task, case_index, tensor, candidate))) return candidate;
  }
  return std::nullopt;
}

// "y[3, 57]": a flattened element by its indices.
std::string Place(const seeds::Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> index(tensor.shape.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(1, tensor.shape[d]);
    index[d] = element % size;
    element /= size;
  }
  return fmt::format("{}[{}]", tensor.name, fmt::join(index, ", "));
}

// The difference at its worst element, in words, and whether it is one row's or all rows'.
std::string Difference(const seeds::Tensor& tensor, const ErrorReport& report,
                       const Tolerance& tolerance) {
  if (report.non_finite_mismatch()) {
    return fmt::format(
        "{} is {} where the reference is {} (the first of {} such among {} elements)",
        Place(tensor, report.worst_element), report.got, report.expected,
        report.non_finite_mismatches, report.elements);
  }
  return fmt::format(
      "{}: relative L2 error {:.3g} in row {} (allowed {:.3g}; the median of {} rows has {:.2g}), "
      "largest scaled error {:.3g} (allowed {:.3g}) at {}: expected {:.9g}, got {:.9g}",
      tensor.name, report.worst_row_l2, report.worst_row, tolerance.row_l2, report.rows,
      report.median_row_l2, report.scaled_max, tolerance.scaled_max,
      Place(tensor, report.worst_element), report.expected, report.got);
}

}  // namespace

Judgement Judge(const seeds::Task& task, std::size_t case_index, Stage stage,
                const std::vector<ErrorReport>& errors, const std::vector<Gate>& gates,
                std::optional<seeds::PrecisionClass> granted) {
  const Case& task_case = task.cases[case_index];
  Judgement judgement;
  if (!gates.empty()) {
    GateJudgement by_gates = JudgeGates(task_case, stage, gates);
    judgement.verdict = std::move(by_gates.verdict);
    judgement.error = by_gates.error;
    judgement.tolerance = by_gates.tolerance;
    return judgement;
  }
  std::size_t output = 0;
  for (const seeds::Tensor& tensor : task_case.tensors) {
    if (tensor.role != seeds::TensorRole::kOutput) continue;
    const ErrorReport& report = errors[output++];
    const Tolerance tolerance = Widened(task, case_index, tensor, granted);
    judgement.tolerance = tolerance.row_l2;
    judgement.error = std::max(judgement.error, report.worst_row_l2);
    if (Within(report, tolerance)) continue;
    // Adversarial inputs, and those whose conditioning sets the tolerance, say nothing of a class.
    std::optional<seeds::PrecisionClass> achieved;
    if (stage != Stage::kStability) achieved = AchievedClass(task, case_index, tensor, report);
    const VerdictKind kind = stage == Stage::kStability ? VerdictKind::kUnstable
                             : achieved                 ? VerdictKind::kLowerClass
                                                        : VerdictKind::kWrongResult;
    std::string message = Difference(tensor, report, tolerance);
    if (achieved) {
      message += fmt::format("; class {} where {} is demanded", seeds::Name(*achieved),
                             seeds::Name(task_case.demanded.value_or(task.demanded)));
    }
    Verdict verdict = Failed(kind, stage, task_case, std::move(message));
    verdict.tensor = tensor.name;
    verdict.element = report.worst_element;
    verdict.expected = report.expected;
    verdict.got = report.got;
    // What failed, in its own measure.
    const bool row = !(report.worst_row_l2 <= tolerance.row_l2);
    verdict.error = row ? report.worst_row_l2 : report.scaled_max;
    verdict.tolerance = row ? tolerance.row_l2 : tolerance.scaled_max;
    if (!achieved) {
      judgement.verdict = std::move(verdict);
      judgement.achieved.reset();
      return judgement;
    }
    if (!judgement.achieved || *achieved > *judgement.achieved) {
      judgement.achieved = achieved;
      judgement.verdict = std::move(verdict);
    }
  }
  return judgement;
}

}  // namespace grove::eval
