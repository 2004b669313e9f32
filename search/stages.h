// The evaluator as a pipeline: compiling, checking and timing of different programs overlap, each
// with its own limit, in a oneTBB flow graph with an arena of its own. A program moves on as soon
// as its step is done; no step waits for another program. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "codegen/program.h"
#include "eval/evaluator.h"

namespace grove::search {

// Programs at once in each step.
struct StageLimits {
  int compile = 1;
  int check = 1;
  int time = 1;
  int all = 0;  // of all steps together; 0 = as many as each of them may have
};
// For this machine: the cores for compiling and checking; one timing per GPU where it measures.
// Where there is no GPU to wait for, every step has a core at work, so all together have the cores.
StageLimits LimitsFor(const eval::Device& device);

class Elsewhere;

class Stages {
 public:
  // Called once per program, on a thread of the arena. Without a value: the program is awaited from
  // another machine. kCancelled when `stop` was requested before the program's last step began.
  using Done = std::function<void(Result<std::optional<eval::Evaluation>>)>;

  // The evaluator, and `elsewhere` where there is one, must outlive it. With `elsewhere` a program
  // is compiled here, checked here when `screen` says so (by the evaluator's device, an emulator;
  // what that cannot execute or finish passes), and what is good so far is looked up there.
  Stages(const eval::Evaluator& evaluator, const StageLimits& limits, std::stop_token stop,
         Elsewhere* elsewhere = nullptr, bool screen = false);
  // Waits for everything that was submitted.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  // `name` is the candidate's, for messages.
  void Submit(std::string name, codegen::KernelProgram program, Done done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::search
