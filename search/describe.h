// How prompts put into words what the store knows of an evaluated kernel. Pure functions of rows.
#pragma once

#include <string>
#include <vector>

#include "ideas/context.h"
#include "results/rows.h"

namespace grove::search {

// Time, floor, resources, error and the lines per case and per kernel.
void AddEvaluation(ideas::KernelFacts& facts, const results::EvaluationRow& evaluation);
// "r2.i1.b2, 812.3 us".
std::string NameAndTime(const results::CandidateRow& kernel);
// "r2.i1.b2, 812.3 us, 96 registers, 32 bytes spilled, 48 KB shared, 3 launches".
std::string DescribeBest(const results::CandidateRow& best);
// "r2.i1.b2: 812.3 us, 0.84x its parent; registers 96, spills 32, shared 48000, occupancy 50%", or
// what became of it: "r2.i1.b2: wrong_result in smoke, 3e-2 of 1e-5". `parent` may be null. Empty
// without a verdict.
std::string DescribeImplementation(const results::CandidateRow& kernel,
                                   const results::CandidateRow* parent);
// How a kernel that is not a prompt's parent compares with it: "now 1.02x slower than the parent";
// empty when one has no time.
std::string BesideParent(const results::CandidateRow& kernel, const results::CandidateRow& parent);
// The entry points that the first timed case launches, most time first.
std::vector<std::string> LaunchedKernels(const results::EvaluationRow& evaluation);
// What takes the time of a plan of several launches: "mostly in update (71%)"; else the resource
// that limits it; empty = not known.
std::string WhereTheTimeIs(const results::EvaluationRow& evaluation);
// What a repair prompt says of a failed program beside its verdict: the checks that it passed and
// what its kernels take. Lines; may be empty.
std::string RepairReport(const results::EvaluationRow& evaluation);

}  // namespace grove::search
