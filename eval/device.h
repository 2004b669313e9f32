// What executes kernels. A device checks and times one candidate on one case; the order of the
// stages and the verdicts are the evaluator's business (eval/evaluator.h). Two implementations: the
// emulator (eval/emulator_device.h) and a GPU (eval/cuda/).
//
// Data a candidate could abuse stays on the device's side: inputs are drawn by the device from
// (case, seed), the reference runs there first, and its output is never in memory that the
// candidate can address.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/units.h"
#include "codegen/compiler.h"
#include "codegen/plan.h"
#include "eval/check.h"
#include "eval/model/cost_model.h"
#include "eval/qr_check.h"
#include "eval/verdict.h"
#include "seeds/task.h"

namespace grove::eval {

// A kernel program compiled and resolved for one case: everything an execution needs.
struct Prepared {
  std::shared_ptr<const codegen::CompileOutcome> compiled;  // ok()
  codegen::ResolvedPlan plan;                               // validated against `compiled`
};

// A failure while executing, before any value is compared.
struct ExecutionFault {
  VerdictKind kind = VerdictKind::kTrap;
  std::string message;
};

// Where a case stands: the task's, with the reference compiled for it. The reference's plan is
// resolved against the same case with every output tensor in f64. Empty when the case has a
// checker.
struct CaseContext {
  const seeds::Task* task = nullptr;
  std::size_t case_index = 0;
  Prepared reference;
  const seeds::Case& task_case() const { return task->cases[case_index]; }
};

struct CheckRequest {
  const CaseContext* context = nullptr;
  const Prepared* candidate = nullptr;
  std::uint64_t seed = 0;  // of the inputs
  // Also look for shared-memory races and reads of memory nobody wrote, where the device can.
  bool detect = false;
  // Executions on the same inputs; their outputs must agree bitwise.
  int runs = 1;
};

struct CheckOutcome {
  std::optional<ExecutionFault> fault;
  bool deterministic = true;        // all runs agreed bitwise
  std::vector<ErrorReport> errors;  // one per output tensor, in the task's order
  std::vector<Gate> gates;          // instead of errors, when the case has a checker
  // An output element that kept its poison under both poisons.
  std::optional<std::size_t> unwritten_tensor;  // index into Case::tensors
  std::int64_t unwritten_element = -1;
};

struct TimeRequest {
  const CaseContext* context = nullptr;
  const Prepared* candidate = nullptr;
  std::uint64_t seed = 0;
  Nanoseconds floor{0};  // impossible-floor, to size the measurement
};

// What is known of one launch of the plan beside its time.
struct LaunchReport {
  std::string kernel;
  Nanoseconds time{0};
  Occupancy occupancy;
  std::string bound;  // "memory", "fp32", ... (modelled), empty when measured
  double dram_bytes = 0;
};

// One way of measuring the same execution: "cold" (L2 flushed, launch latency hidden; the one that
// counts), "hot" (back to back on the same data), "graph" (replay of a captured graph, L2 flushed),
// "host" (L2 flushed, from the first launch call to the end of the wait).
struct ModeTime {
  std::string mode;
  std::vector<Nanoseconds> samples;  // all that were kept
  Nanoseconds min{0}, median{0}, q3{0};
  double relative_stderr = 0;  // of the mean
  std::string stopped;         // why it ended: "precise", "noise stable", "wall limit", ...
  std::string note;            // why the mode is absent, empty otherwise
};

struct TimeOutcome {
  std::optional<ExecutionFault> fault;
  Nanoseconds time{0};        // of one execution of the plan, median; the cold one when measured
  Nanoseconds min{0}, q3{0};  // the interval around it, when measured
  bool modelled = false;
  std::vector<Nanoseconds> samples;  // all of them, when measured
  std::vector<ModeTime> modes;       // when measured
  int throttled = 0;            // samples dropped because the clock was below 75% of the default
  double mean_clock_ghz = 0;    // SM clock over the kept samples; 0 = not known
  Nanoseconds empty_kernel{0};  // an empty kernel measured the same way; 0 = not measured
  std::vector<LaunchReport> launches;
  // Recheck of what the timed execution wrote: errors over the elements covered.
  std::vector<ErrorReport> errors;
  std::vector<Gate> gates;   // instead of errors, when the case has a checker
  double checked_share = 0;  // of the output elements; 0 = this plan could not be rechecked
  std::string note;          // why not, or how
  std::string gpu_uuid;      // of the physical GPU that measured; empty when modelled
};

// A challenger measured beside its base, samples interleaved on the same inputs.
struct PairRequest {
  const CaseContext* context = nullptr;
  const Prepared* base = nullptr;        // the parent
  const Prepared* challenger = nullptr;  // the winner to confirm
  std::uint64_t seed = 0;
};
struct PairOutcome {
  std::optional<ExecutionFault> fault;
  std::vector<Nanoseconds> base, challenger;  // sample i of both was taken side by side
  double ratio = 1;                           // challenger / base, of the medians
  double median_delta = 0;                    // median of (challenger - base) / base
  double delta_stderr = 0;                    // its standard error
  enum class Result { kFaster, kSlower, kTie } result = Result::kTie;  // inside the noise is a tie
  std::string gpu_uuid;  // of the physical GPU that measured both
};

// A physical GPU. What was measured on it belongs to it and to no other of its model.
struct GpuIdentity {
  std::string uuid;    // "GPU-8-4-4-4-12" hex digits
  std::string name;    // "NVIDIA H200"
  std::string driver;  // version of the driver, "580.159.04"
  int ordinal = 0;     // as the driver counts them now
};

// Thread-safe: many candidates may be checked at once. Time may serialise.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;        // "emulator", "cuda:0"
  virtual const DeviceSpec& spec() const = 0;  // what it is, or what it models
  virtual codegen::DeviceLimits limits() const = 0;
  // The GPUs that measure; empty when times are modelled.
  virtual std::vector<GpuIdentity> gpus() const { return {}; }
  // An Error is our own failure (no memory on the host, worker gone for good), never the
  // candidate's.
  virtual Result<CheckOutcome> Check(const CheckRequest& request) = 0;
  virtual Result<TimeOutcome> Time(const TimeRequest& request) = 0;
  // kUnavailable on devices that do not measure.
  virtual grove::Result<PairOutcome> TimePair(const PairRequest&) {
    return Fail(ErrorCode::kUnavailable, name() + " does not measure, so it compares nothing");
  }
};

}  // namespace grove::eval
