// Between the plain structs of eval/ and ideas/ and the rows of results/.
#pragma once

#include "eval/evaluator.h"
#include "eval/promotion.h"
#include "ideas/idea.h"
#include "results/rows.h"

namespace grove::search {

results::EvaluationRow ToRow(const eval::Evaluation& evaluation);

results::PromotionRow ToRow(const eval::Promotion& promotion, CandidateId challenger,
                            CandidateId incumbent);

// The idea that a row holds.
ideas::Idea IdeaOf(const results::IdeaRow& row);

}  // namespace grove::search
