// A task.toml as written: syntax and types checked, expressions parsed, nothing evaluated. The step
// between the file (task_toml.cc, the only place that knows TOML) and a Task (task_resolve.cc).
// Internal to seeds/; the format is documented in docs/tasks.md. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expr.h"
#include "base/result.h"
#include "seeds/task.h"

namespace grove::seeds {

// Limits on hostile text. A dim is an `int` in the prelude; the element limit keeps every byte
// count of a case, at 8 bytes an element and kMaxTensors tensors, far inside 64 bits.
inline constexpr std::uintmax_t kMaxTaskBytes = std::uintmax_t{1} << 20;  // of any one task file
inline constexpr std::size_t kMaxCases = 1000;
inline constexpr std::size_t kMaxTensors = 64;
inline constexpr std::size_t kMaxDims = 32;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::int64_t kMaxDimValue = 2147483647;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of one tensor

inline constexpr std::int64_t kMaxQrSize = 16384;  // of a matrix that householder_qr checks

// Where something stands in the file, 1-based.
struct Place {
  std::int64_t line = 0;
  std::int64_t column = 0;
};

template <typename T>
struct Placed {
  T value{};
  Place place;
};

struct TensorText {
  Placed<std::string> name;
  TensorRole role = TensorRole::kInput;
  Placed<std::string> dtype;  // a concrete name, or a symbol that the case or [dtypes] sets
  std::vector<Placed<Expr>> shape;
  Distribution distribution;
};

struct CaseText {
  Placed<std::string> name;
  CaseRole role = CaseRole::kSweep;
  std::map<std::string, Placed<std::int64_t>> dims;
  std::map<std::string, Placed<DType>> dtypes;
  std::map<std::string, Placed<Distribution>> inputs;
  std::vector<Placed<std::string>> suites;  // empty = all of the task's
  std::optional<double> tolerance;
  std::optional<Placed<Expr>> flops, reduction;       // instead of those of [cost]
  std::map<std::string, Placed<std::string>> golden;  // output -> key
};

struct TaskText {
  Placed<std::string> name;
  std::string title, family, contract;
  std::optional<PrecisionClass> demanded;
  bool allow_nondeterminism = false;
  std::optional<Place> live;  // of reference = "live"
  Placed<Checker> checker;
  CheckerProfile profile = CheckerProfile::kStrict;
  std::vector<std::string> library, baselines;
  std::vector<Placed<std::string>> suites;
  std::vector<Placed<std::string>> dims;  // in the order of the file
  std::vector<Scalar> scalars;
  std::map<std::string, Placed<DType>> dtypes;  // defaults of the dtype symbols
  std::vector<TensorText> tensors;
  std::vector<CaseText> cases;
  Placed<Expr> flops = {Expr::Constant(0), {}}, reduction = {Expr::Constant(1), {}};
  std::optional<Placed<Expr>> bytes, row_elements, reference_elements_per_block;
};

// kInvalidInput with "file:line:column: ..." on the first fault in the order of the file.
Result<TaskText> ParseTaskText(std::string_view toml, std::string_view file);

// Evaluates every expression for every case. kInvalidInput likewise.
Result<Task> ResolveTask(const TaskText& text, std::string_view file);

// The error at a place, and "line:column" text in one form for both steps.
Error ErrorAt(std::string_view file, Place place, std::string_view message);

}  // namespace grove::seeds
