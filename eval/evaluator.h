// The evaluation of one candidate: stages in order, a verdict at the first failure, and for what
// passes them all a time per scored case and a score. Knows nothing of how kernels are executed
// (eval/device.h) or compiled (codegen/compiler.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "codegen/compiler.h"
#include "codegen/program.h"
#include "eval/device.h"
#include "eval/qr_check.h"
#include "eval/verdict.h"
#include "seeds/task.h"

namespace grove::eval {

// One stage on one case (case_name empty: all cases).
struct StageRecord {
  Stage stage = Stage::kParse;
  std::string case_name;
  bool passed = false;
  Milliseconds duration{0};
  double error = 0;  // worst relative L2 of a row, where values were compared
  double tolerance = 0;
  // The stage could not tell, for this reason, and the candidate went on (kScreen only).
  std::optional<VerdictKind> undecided;
};

struct CaseTime {
  std::string case_name;
  Nanoseconds time{0};
  bool modelled = false;
  Nanoseconds impossible_floor{0};
  Nanoseconds class_floor{0};
  double checked_share = 0;  // of the outputs, rechecked after timing
  std::string note;
  std::vector<LaunchReport> launches;
  // When measured: the interval of the median, the samples of the cold mode, the other modes, and
  // what the measurement went through.
  Nanoseconds min{0}, q3{0};
  std::vector<Nanoseconds> samples;
  std::vector<ModeTime> modes;
  int throttled = 0;            // samples dropped
  double mean_clock_ghz = 0;    // 0 = not known
  Nanoseconds empty_kernel{0};  // measured the same way; 0 = not measured
  std::string gpu_uuid;         // of the physical GPU that measured; empty when modelled
};

// Two programs measured interleaved on one scored case, on one physical GPU.
struct CasePair {
  std::string case_name;
  PairOutcome outcome;
};

// Resources of one kernel that the plan launches in one scored case; kernels of other variants are
// not among them.
struct KernelRecord {
  std::string case_name;
  codegen::EntryPoint entry;
  std::int64_t dynamic_shared = 0;  // bytes per block, of its largest launch
};

struct Evaluation {
  Verdict verdict;
  std::vector<StageRecord> stages;
  std::vector<CaseTime> times;  // one per scored case, when timed
  std::vector<KernelRecord> kernels;
  std::vector<GateRecord> gates;  // of every case checked, when the task has a checker
  std::optional<seeds::PrecisionClass> measured_class;  // by worst_error
  double worst_error = 0;            // relative L2, over the ordinary cases of the task's class
  std::optional<Nanoseconds> score;  // geometric mean over the scored cases; only with kPass
  bool modelled = false;             // the score is a modelled time
};

struct EvaluatorOptions {
  std::uint64_t seed = 1;       // of every input; the verdict's payload names the draw
  std::string arch = "sm_90a";  // compilation target
  // Names of the scored cases to time; empty = all of them.
  std::vector<std::string> cases;
  int determinism_runs = 3;
  // An emulator that runs every candidate on the task's smallest check case before `device` sees
  // it, for what a GPU does not show: races, uninitialised shared memory, divergent barriers, any
  // access out of bounds. What it cannot execute or finish passes unscreened, and its stage says
  // so. Values are judged on the device alone. Borrowed; nullptr = no screening.
  Device* screen = nullptr;
};

// Thread-safe: many candidates may be evaluated at once. The task, compiler and device are borrowed
// and must outlive the evaluator.
class Evaluator {
 public:
  // Compiles the reference for every case. kInvalidInput when the reference itself does not fit the
  // task; kNotFound for an unknown case name in `options`.
  static Result<std::unique_ptr<Evaluator>> Create(const seeds::Task& task,
                                                   codegen::Compiler& compiler, Device& device,
                                                   EvaluatorOptions options);

  // A candidate's failure is data; an Error is ours (no compiler, no device).
  Result<Evaluation> Evaluate(const codegen::KernelProgram& program) const;

  // Measures `challenger` beside `incumbent` on every case that Evaluate times, on inputs of their
  // own. Ends at the first case where one of them does not get through (its outcome has a fault).
  // kUnavailable on a device that does not measure.
  Result<std::vector<CasePair>> ComparePair(const codegen::KernelProgram& incumbent,
                                            const codegen::KernelProgram& challenger) const;

  // The same in three steps, so that the steps of different programs overlap: a machine that times
  // one can compile the next. One thread at a time; the evaluator must outlive it.
  class Steps {
   public:
    Steps(Steps&&) noexcept;
    Steps& operator=(Steps&&) noexcept;
    ~Steps();
    // REQUIRES: called in this order, the next only after false. true: the verdict is reached.
    // Errors as of Evaluate.
    Result<bool>
    Compile();  // for the first check case; the others are compiled as they are checked
    Result<bool> Check();
    Status Time();
    Evaluation Take();  // once, at the end

   private:
    friend class Evaluator;
    struct Impl;
    explicit Steps(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  Steps Begin(codegen::KernelProgram program) const;
  // For those who look closer at one candidate than Evaluate does (a profiler). The names of the
  // cases that Evaluate times; the context of a case, nullptr for an unknown name; a program
  // compiled and resolved for it, kInvalidInput with the verdict's message when it does not fit.
  std::vector<std::string> timed_cases() const;
  const CaseContext* FindContext(std::string_view case_name) const;
  Result<Prepared> PrepareFor(const codegen::KernelProgram& program,
                              const CaseContext& context) const;

  // Verdict of text that did not become a program.
  static Evaluation ParseFailure(const Error& error);

 private:
  struct Run;  // the evaluation of one candidate, in progress
  Evaluator(const seeds::Task& task, codegen::Compiler& compiler, Device& device,
            EvaluatorOptions options);

  // Compiles and resolves `program` for the case; a verdict instead when it does not fit.
  struct PreparedOrVerdict {
    std::optional<Prepared> prepared;
    Verdict verdict;
    Milliseconds compile_time{0};
  };
  bool Timed(const seeds::Case& task_case) const;  // whether Evaluate times it
  Result<PreparedOrVerdict> Prepare(const codegen::KernelProgram& program,
                                    const seeds::Case& task_case) const;

  const seeds::Task& task_;
  codegen::Compiler& compiler_;
  Device& device_;
  EvaluatorOptions options_;
  std::vector<CaseContext> contexts_;  // one per case, references prepared
};

}  // namespace grove::eval
