#include "eval/verdict.h"

#include <array>

namespace grove::eval {
namespace {

struct Row {
  VerdictKind kind;
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array kRows = {
    Row{VerdictKind::kPass, "pass", "correct in the demanded class, and timed"},
    Row{VerdictKind::kParseError, "parse_error", "no usable source or plan in the reply"},
    Row{VerdictKind::kPlanError, "plan_error", "the plan does not fit the task, kernel or device"},
    Row{VerdictKind::kCompileError, "compile_error", "the compiler refused the source"},
    Row{VerdictKind::kCompileTimeout, "compile_timeout", "the compiler ran past its deadline"},
    Row{VerdictKind::kCompileMemory, "compile_memory", "the compiler ran out of memory"},
    Row{VerdictKind::kWrongResult, "wrong_result", "error against fp64 too large"},
    Row{VerdictKind::kUnstable, "unstable", "wrong on adversarial inputs only"},
    Row{VerdictKind::kNondeterministic, "nondeterministic", "runs differ bitwise"},
    Row{VerdictKind::kUnwritten, "unwritten", "an output element was never written"},
    Row{VerdictKind::kInputModified, "input_modified", "an input was written to"},
    Row{VerdictKind::kOutOfBounds, "out_of_bounds", "access outside every buffer"},
    Row{VerdictKind::kMisaligned, "misaligned", "access not aligned to its size"},
    Row{VerdictKind::kUninitialised, "uninitialised", "read of memory nobody wrote"},
    Row{VerdictKind::kRace, "race", "unordered accesses to shared memory"},
    Row{VerdictKind::kBarrierDivergence, "barrier_divergence", "a barrier not all threads reach"},
    Row{VerdictKind::kTrap, "trap", "trap or assertion"},
    Row{VerdictKind::kTimeout, "timeout", "instruction budget or deadline exceeded"},
    Row{VerdictKind::kUnsupported, "unsupported", "needs what this device cannot execute"},
    Row{VerdictKind::kLowerClass, "lower_class", "correct in a lower precision class only"},
    Row{VerdictKind::kImpossible, "impossible", "faster than the device's floor"},
    Row{VerdictKind::kDuplicate, "duplicate", "the same program was evaluated before"},
    Row{VerdictKind::kOutOfMemory, "out_of_memory", "needs more memory than the device has"},
    Row{VerdictKind::kInfrastructure, "infrastructure", "our fault, not the candidate's"},
};

}  // namespace

std::string_view Name(Stage stage) {
  switch (stage) {
    case Stage::kParse:
      return "parse";
    case Stage::kCompile:
      return "compile";
    case Stage::kSmoke:
      return "smoke";
    case Stage::kSweep:
      return "sweep";
    case Stage::kStability:
      return "stability";
    case Stage::kDeterminism:
      return "determinism";
    case Stage::kEdge:
      return "edge";
    case Stage::kIntegrity:
      return "integrity";
    case Stage::kTiming:
      return "timing";
    case Stage::kScreen:
      return "screen";
    case Stage::kRecheck:
      return "recheck";
  }
  return "unknown";
}

std::string_view Name(VerdictKind kind) { return kRows[static_cast<std::size_t>(kind)].name; }

std::optional<VerdictKind> VerdictKindFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::string_view Describe(VerdictKind kind) {
  return kRows[static_cast<std::size_t>(kind)].meaning;
}

std::string_view Name(Contest contest) {
  switch (contest) {
    case Contest::kFaster:
      return "faster";
    case Contest::kSlower:
      return "slower";
    case Contest::kTie:
      return "tie";
    case Contest::kFault:
      return "fault";
  }
  return "unknown";
}

}  // namespace grove::eval
