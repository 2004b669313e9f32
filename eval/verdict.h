// The outcome of evaluating a candidate: an enum value with a payload, never an exception.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace grove::eval {

// The stages in order, cheapest first; a candidate stops at its first failure.
enum class Stage {
  kParse,
  kCompile,
  kSmoke,
  kSweep,
  kStability,
  kDeterminism,
  kEdge,
  kIntegrity,
  kTiming,
  kRecheck,
  // Runs before kSmoke where asked for (EvaluatorOptions::screen); last here so that the numbers of
  // the others, which seed the inputs, stay.
  kScreen,
};
std::string_view Name(Stage stage);

enum class VerdictKind {
  kPass,        // correct in the demanded class, and timed
  kParseError,  // no usable source or plan in the reply, or the source is refused
  kPlanError,   // the plan does not fit the task, the compiled kernel or the device
  kCompileError,
  kCompileTimeout,
  kCompileMemory,
  kWrongResult,  // error against fp64 too large on ordinary inputs
  kUnstable,     // correct on ordinary inputs, wrong on adversarial ones
  kNondeterministic,
  kUnwritten,  // an output element kept its poison
  kInputModified,
  kOutOfBounds,  // access outside every tensor, workspace and shared array, or a guard zone hit
  kMisaligned,
  kUninitialised,      // a result depends on memory nobody wrote
  kRace,               // two threads of a block touch shared memory without a barrier between
  kBarrierDivergence,  // a barrier that not all threads of the block reach
  kTrap,               // trap or assertion
  kTimeout,            // instruction budget or deadline exceeded
  kUnsupported,        // needs something this device cannot execute (names it)
  kLowerClass,         // correct, but in a lower precision class than demanded
  kImpossible,         // faster than the device's floor
  kDuplicate,          // the same program was evaluated before
  kOutOfMemory,        // needs more memory than the device has
  kInfrastructure,     // our fault: says what failed; the candidate is not to blame
};
std::string_view Name(VerdictKind kind);
std::optional<VerdictKind> VerdictKindFromName(std::string_view name);
// Every kind, for lists and filters.
std::string_view Describe(VerdictKind kind);

// What a measurement of a challenger beside an incumbent says of the challenger.
enum class Contest {
  kFaster,
  kSlower,
  kTie,    // inside the noise
  kFault,  // one of the two did not get through the measurement
};
std::string_view Name(Contest contest);

struct Verdict {
  VerdictKind kind = VerdictKind::kInfrastructure;
  Stage stage = Stage::kParse;
  std::string case_name;   // empty when it belongs to no case
  std::string message;     // what happened and where; carries no host path
  std::uint64_t seed = 0;  // of the inputs
  // The worst element, for errors of value.
  std::string tensor;
  std::int64_t element = -1;  // flattened index; -1 = none
  double expected = 0;
  double got = 0;
  double error = 0;  // relative L2 of the worst row, or scaled maximum, whichever failed
  double tolerance = 0;

  bool passed() const { return kind == VerdictKind::kPass; }
};

}  // namespace grove::eval
