// From what eval/ returns to what results/ stores.
#pragma once

#include "eval/evaluator.h"
#include "results/rows.h"

namespace grove::search {

results::EvaluationRow ToRow(const eval::Evaluation& evaluation);

}  // namespace grove::search
