// The evaluator as a pipeline: compiling, checking and timing of different programs overlap, each
// with its own limit, in a oneTBB flow graph with an arena of its own. A program moves on as soon
// as its step is done; no step waits for another program. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "base/result.h"
#include "codegen/program.h"
#include "eval/evaluator.h"

namespace grove::search {

// Programs at once in each step.
struct StageLimits {
  int compile = 1;
  int check = 1;
  int time = 1;
};
// For this machine: the cores for compiling and checking; one timing per GPU where it measures.
StageLimits LimitsFor(const eval::Device& device);

class Stages {
 public:
  // Called once per program, on a thread of the arena. kCancelled when `stop` was requested before
  // the program's last step began.
  using Done = std::function<void(Result<eval::Evaluation>)>;

  // The evaluator must outlive it.
  Stages(const eval::Evaluator& evaluator, const StageLimits& limits, std::stop_token stop);
  // Waits for everything that was submitted.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  void Submit(codegen::KernelProgram program, Done done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::search
