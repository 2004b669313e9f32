// A task: an operation to make fast. Loaded from a folder NAME/ with task.toml, reference.cu,
// reference.json, seed.cu and seed.json; every expression is resolved per case at load, so nothing
// downstream evaluates task text again. Immutable after loading, safe to share between threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/units.h"

namespace grove::seeds {

enum class TensorRole { kInput, kOutput };

// How an input's contents are drawn. Values come from a counter-based generator, so element i of
// tensor t in draw s is the same on every device (eval/inputs.h).
struct Distribution {
  enum class Kind {
    kNormal,    // mean a, standard deviation b
    kUniform,   // in [a, b); integers: whole numbers in [a, b)
    kConstant,  // every element a
    kMixed,     // normal times a scale drawn per element from {a, b} (mixed scale: 1e3 and 1e-3)
    kTail,      // zero but for the last 1% (at least 1) of the innermost dim, normal(a, b) there
  };
  Kind kind = Kind::kNormal;
  double a = 0;
  double b = 1;
};
std::string_view Name(Distribution::Kind kind);  // "normal", "uniform", ...

struct Tensor {
  std::string name;
  TensorRole role = TensorRole::kInput;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  Distribution distribution;        // inputs only

  std::int64_t elements() const;
  Bytes bytes() const;
};

// What a case is for. Only scored cases count for a task's time; all the others are checks.
enum class CaseRole { kSmoke, kSweep, kStability, kEdge, kScored };
std::string_view Name(CaseRole role);

struct Dim {
  std::string name;
  std::int64_t value = 0;
};

// A constant of the task, `scalar::NAME` in the prelude.
struct Scalar {
  std::string name;
  DType dtype = DType::kF32;  // kF32, kF64, kI32 or kI64
  double value = 0;
};

struct Case {
  std::string name;
  CaseRole role = CaseRole::kSweep;
  std::vector<Dim> dims;
  std::vector<Scalar> scalars;
  std::vector<Tensor> tensors;  // inputs and outputs in the task's order
  double flops = 0;             // arithmetic the operation needs, in FLOP (an exact integer)
  Bytes min_bytes;              // each input read once, each output written once
  // Elements of an output that share one error scale (layernorm: a whole normalised row); 0 = the
  // innermost dim. See eval/check.h.
  std::int64_t row_elements = 0;
  // Allowed relative L2 error of a row where the conditioning of the inputs, not the class of the
  // arithmetic, sets it (docs/tasks.md); none = the threshold of the demanded class.
  std::optional<double> tolerance;

  std::optional<std::int64_t> dim(std::string_view name) const;
  const Tensor* tensor(std::string_view name) const;
};

// Named classes of accuracy, from the measured error against fp64 (docs/trust.md), best first.
enum class PrecisionClass { kFp64, kFp32, kTf32, kFp16, kBf16, kFp8 };
std::string_view Name(PrecisionClass c);
std::optional<PrecisionClass> PrecisionClassFromName(std::string_view name);

// Source text and launch plan text as written; codegen/ parses them.
struct ProgramText {
  std::string source;  // CUDA C++
  std::string plan;    // JSON
};

struct Task {
  std::string name;      // folder name
  std::string title;     // one line
  std::string family;    // "row_reduction", "gemm", ...: what kind of transformations apply
  std::string contract;  // the operation in words, for prompts and people
  PrecisionClass demanded = PrecisionClass::kFp32;
  bool allow_nondeterminism = false;
  // Accumulation length of one output element (softmax: N): scales the tolerance. Per case below.
  std::vector<Case> cases;
  std::vector<std::int64_t> reduction;  // one entry per case
  ProgramText reference;                // accumulates in fp64
  // Output elements that one block of the reference's single launch writes (contiguous, in block
  // order over the flattened grid), one entry per case; 0 = unknown. Lets a large case be checked
  // at the elements that a sample of the candidate's blocks wrote (eval/evaluator.h).
  std::vector<std::int64_t> reference_elements_per_block;
  ProgramText seed;
  std::vector<std::string> suites;  // "crfm", ...

  const Case* FindCase(std::string_view name) const;
};

// The folder with the tasks: $GROVE_TASKS, or share/grove/tasks beside the binary, or the source
// tree's seeds/tasks.
std::filesystem::path DefaultTasksFolder();

// Names of all tasks below `folder`, sorted.
Result<std::vector<std::string>> ListTasks(const std::filesystem::path& folder);

// The task without its programs, from the text of a task.toml; `file` stands in error messages,
// which read "file:line:column: what was expected". Names, sizes and counts are limited
// (docs/tasks.md), so that hostile text can neither overflow nor fill memory. kInvalidInput.
Result<Task> ParseTask(std::string_view toml, std::string_view file);

// kNotFound for an unknown name (with the nearest valid one); kInvalidInput for a broken task.toml
// (with file, line and column) or a missing or oversized program file (with its path).
Result<Task> LoadTask(const std::filesystem::path& folder, std::string_view name);

}  // namespace grove::seeds
