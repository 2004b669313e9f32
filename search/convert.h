// From what eval/ returns to what results/ stores.
#pragma once

#include "eval/evaluator.h"
#include "eval/promotion.h"
#include "results/rows.h"

namespace grove::search {

results::EvaluationRow ToRow(const eval::Evaluation& evaluation);

results::PromotionRow ToRow(const eval::Promotion& promotion, CandidateId challenger,
                            CandidateId incumbent);

}  // namespace grove::search
