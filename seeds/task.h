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

// A tensor in the safetensors file beside a task.toml (seeds/safetensors.h).
struct Stored {
  std::string key;          // empty = none
  std::string file;         // path; set by LoadTask
  std::int64_t offset = 0;  // of its first byte, from the beginning of the file
};

// How an input's contents are drawn. Values come from a counter-based generator, so element i of
// tensor t in draw s is the same on every device (eval/inputs.h).
struct Distribution {
  enum class Kind {
    kNormal,    // mean a, standard deviation b
    kUniform,   // in [a, b); integers: whole numbers in [a, b)
    kConstant,  // every element a
    kMixed,     // normal times a scale drawn per element from {a, b} (mixed scale: 1e3 and 1e-3)
    kTail,      // zero but for the last 1% (at least 1) of the innermost dim, normal(a, b) there
    kMatrix,    // square matrices of a structure, a decimal orders between columns or rows
    kFile,      // the contents of `stored`, the same in every draw (parameters of a module)
  };
  // Of kMatrix, over the two innermost dims (eval/inputs.h gives the formulas).
  enum class Structure {
    kDense,
    kUpper,
    kRankDeficient,
    kNearRank,
    kClustered,
    kBand,
    kRowScale,
    kNearCollinear,
    kMixed,  // each matrix of a batch has one of the others, half of them kDense
    kDiagonal,
  };
  Kind kind = Kind::kNormal;
  double a = 0;
  double b = 1;
  Structure structure = Structure::kDense;
  Stored stored;
};
std::string_view Name(Distribution::Kind kind);            // "normal", "uniform", ...
std::string_view Name(Distribution::Structure structure);  // "dense", "rankdef", ...
inline constexpr int kStructureCount = 10;

struct Tensor {
  std::string name;
  TensorRole role = TensorRole::kInput;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  Distribution distribution;        // inputs only

  std::int64_t elements() const;
  Bytes bytes() const;
};

// Named classes of accuracy, from the measured error against fp64 (docs/trust.md), best first.
enum class PrecisionClass { kFp64, kFp32, kTf32, kFp16, kBf16, kFp8 };
std::string_view Name(PrecisionClass c);
std::optional<PrecisionClass> PrecisionClassFromName(std::string_view name);
// The best class that values of a type can show; fp32 for integers.
PrecisionClass ClassOf(DType dtype);

// What a case is for. Scored cases make a task's time; extra ones are further sizes that are timed
// only when somebody names them (SelectCases); all the others are checks.
enum class CaseRole { kSmoke, kSweep, kStability, kEdge, kScored, kExtra };
std::string_view Name(CaseRole role);

// What decides whether outputs are right: the task's reference, or a checker of ours for results of
// which many are right (eval/qr_check.h).
enum class Checker { kReference, kHouseholderQr };
std::string_view Name(Checker checker);  // "reference", "householder_qr"
// How strictly: kStrict looks at every column by itself, kCompetition applies the published gates.
enum class CheckerProfile { kStrict, kCompetition };
std::string_view Name(CheckerProfile profile);  // "strict", "competition"

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
  std::vector<Tensor> tensors;      // inputs and outputs in the task's order
  std::vector<std::string> suites;  // those of the task's that the case belongs to
  // The task's class, or that of the case's least precise output where this is less precise (an
  // fp16 case of an fp32 task); none = the task's.
  std::optional<PrecisionClass> demanded;
  double flops = 0;  // arithmetic the operation needs, in FLOP (an exact integer)
  Bytes min_bytes;   // each input read once, each output written once
  // Elements of an output that share one error scale (layernorm: a whole normalised row); 0 = the
  // innermost dim. See eval/check.h.
  std::int64_t row_elements = 0;
  // Allowed relative L2 error of a row where the conditioning of the inputs, not the class of the
  // arithmetic, sets it (docs/tasks.md); none = the threshold of the demanded class.
  std::optional<double> tolerance;
  Checker checker = Checker::kReference;
  CheckerProfile profile = CheckerProfile::kStrict;
  std::vector<std::string> library;  // library steps that a plan may use ("gemm")
  // The right outputs in f64, one per output in order, where another program computed them (every
  // input is kFile or kConstant then) or computes them when it is asked (seeds/live.h). Empty =
  // none.
  std::vector<Stored> golden;

  std::optional<std::int64_t> dim(std::string_view name) const;
  const Tensor* tensor(std::string_view name) const;
};

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
  std::optional<PrecisionClass> instead_of;  // the task's own, where the user demands another
  bool allow_nondeterminism = false;
  // Accumulation length of one output element (softmax: N): scales the tolerance. Per case below.
  std::vector<Case> cases;
  std::vector<std::int64_t> reduction;  // one entry per case
  ProgramText reference;                // accumulates in fp64; empty when a checker decides
  Checker checker = Checker::kReference;
  std::vector<std::string> library;    // library steps that candidates may use ("gemm")
  std::vector<std::string> baselines;  // vendor routines that the task is measured against, by name
  // Output elements that one block of the reference's single launch writes (contiguous, in block
  // order over the flattened grid), one entry per case; 0 = unknown. Lets a large case be checked
  // at the elements that a sample of the candidate's blocks wrote (eval/evaluator.h).
  std::vector<std::int64_t> reference_elements_per_block;
  ProgramText seed;
  std::vector<std::string> suites;  // "crfm", ...; the first is the default of a search

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
// (with file, line and column), a missing or oversized program file (with its path), or a
// data.safetensors that lacks a tensor that the task names or has it in another type or size.
Result<Task> LoadTask(const std::filesystem::path& folder, std::string_view name);

// The part of a task that one evaluation or search is about: the checks of one suite, and its
// scored cases, or those of its scored and extra cases that `cases` names (they are scored in the
// result). An empty `suite` means the first that has all of `cases`, so without `cases` the task's
// first. The result demands the class of its least precise scored case. A task without suites is
// one suite. kNotFound for an unknown suite or case, with the nearest valid name.
Result<Task> SelectCases(const Task& task, std::string_view suite,
                         const std::vector<std::string>& cases);

// The task with another class demanded of every case, but never a better one than a case's least
// precise output can show. Every report says so (Task::instead_of). An empty name or the task's own
// class changes nothing. kNotFound for an unknown class; kInvalidInput for a task with a checker,
// whose gates decide.
Result<Task> DemandClass(Task task, std::string_view name);
// "class tf32 is demanded, not the task's fp32"; empty when it is the task's own.
std::string DescribeDemand(const Task& task);

}  // namespace grove::seeds
