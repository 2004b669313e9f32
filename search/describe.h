// How prompts put into words what the store knows of an evaluated kernel. Pure functions of rows.
#pragma once

#include <string>

#include "ideas/context.h"
#include "results/rows.h"

namespace grove::search {

// Time, floor, resources, error and the lines per case and per kernel.
void AddEvaluation(ideas::KernelFacts& facts, const results::EvaluationRow& evaluation);
// "r2.i1.b2, 812.3 us".
std::string NameAndTime(const results::CandidateRow& kernel);
// "r2.i1.b2, 812.3 us, 96 registers, 32 bytes spilled, 48 KB shared, 3 launches".
std::string DescribeBest(const results::CandidateRow& best);
// What takes the time of a plan of several launches: "mostly in update (71%)"; else the resource
// that limits it; empty = not known.
std::string WhereTheTimeIs(const results::EvaluationRow& evaluation);
// What a repair prompt says of a failed program beside its verdict: the checks that it passed and
// what its kernels take. Lines; may be empty.
std::string RepairReport(const results::EvaluationRow& evaluation);

}  // namespace grove::search
