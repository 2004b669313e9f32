// What measured errors say of a candidate: pass, a verdict, or a lower class of accuracy than the
// task demands. Part of the evaluator (evaluator.h); plain functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/check.h"
#include "eval/qr_check.h"
#include "eval/verdict.h"
#include "seeds/task.h"

namespace grove::eval {

Stage StageOf(seeds::CaseRole role);

// A failing verdict on a case, without a payload.
Verdict Failed(VerdictKind kind, Stage stage, const seeds::Case& task_case, std::string message);

// What a comparison says about a candidate.
struct Judgement {
  std::optional<Verdict> verdict;  // when it failed, or is of a lower class
  // With a verdict of kLowerClass: the class that it is of.
  std::optional<seeds::PrecisionClass> achieved;
  double error = 0;
  double tolerance = 0;
  bool failed() const { return verdict && !achieved; }
};

// Judges the errors of every output tensor of one case against the demanded class, or against
// `granted` where an earlier case has shown that the kernel is of a lower one.
Judgement Judge(const seeds::Task& task, std::size_t case_index, Stage stage,
                const std::vector<ErrorReport>& errors, const std::vector<Gate>& gates,
                std::optional<seeds::PrecisionClass> granted);

}  // namespace grove::eval
