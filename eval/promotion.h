// Promotion: whether a would-be winner takes the incumbent's place. Two times that were measured at
// different moments differ by more than a small gain; here both programs are measured interleaved
// on the same inputs and the same physical GPU (Evaluator::ComparePair), and a difference inside
// the noise is a tie. A tie goes to the simpler program: the one with less to read.
//
// A modelled time has no noise and needs no second look: two modelled scores are compared as they
// are, and only equal ones tie.
// Thread-safety: plain values and pure functions; Promote as Evaluator.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "codegen/program.h"
#include "eval/evaluator.h"
#include "eval/verdict.h"

namespace grove::eval {

// Differences below this share are ties, however well they are known.
inline constexpr double kLeastGain = 0.005;

// One side of a contest: a program that passed, with the score it got.
struct Contender {
  std::string name;                                 // "r2.i3.b1", for the explanation
  const codegen::KernelProgram* program = nullptr;  // borrowed
  Nanoseconds score{0};                             // geometric mean over the scored cases
  bool modelled = false;                            // the score is
};

// What one scored case says.
struct PromotionCase {
  std::string case_name;
  Nanoseconds incumbent{0}, challenger{0};  // medians
  // Challenger's time over the incumbent's: median over the pairs, and two standard errors to each
  // side of it. Below 1 = faster.
  double ratio = 1, low = 1, high = 1;
  std::vector<Nanoseconds> incumbent_samples,
      challenger_samples;  // i and i were taken side by side
};

struct Promotion {
  Contest outcome = Contest::kTie;
  bool promoted = false;  // faster, or a tie that the simpler challenger wins
  bool modelled = false;
  // Over all cases: geometric mean and its interval (two standard errors). Equal when modelled.
  double ratio = 1, low = 1, high = 1;
  std::vector<PromotionCase> cases;  // empty when modelled
  std::string gpu_uuid;              // that measured; empty when modelled
  std::string why;                   // one line for people
};

// The decision from measured pairs, without the rule of the simpler program: the challenger is
// faster (slower) when the geometric mean over the cases differs from 1 by more than kLeastGain and
// by more than two standard errors. A single case must besides be no tie by itself (PairOutcome).
// kFault with `why` when a pair has a fault or there is none.
Promotion Decide(std::span<const CasePair> pairs);

// Two programs measured side by side on every scored case, as Evaluator::ComparePair does.
using ComparePrograms = std::function<Result<std::vector<CasePair>>(
    const codegen::KernelProgram& incumbent, const codegen::KernelProgram& challenger)>;

// Measures, or compares modelled scores, and decides. kInvalidInput when one score is modelled and
// the other is not; the device's errors otherwise.
Result<Promotion> Promote(const Evaluator& evaluator, const Contender& incumbent,
                          const Contender& challenger);
Result<Promotion> Promote(const ComparePrograms& compare, const Contender& incumbent,
                          const Contender& challenger);

}  // namespace grove::eval
