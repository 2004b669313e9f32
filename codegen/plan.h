// The launch plan: the declarative host side of a kernel program (JSON, "version": 1), its parsed
// form, and its resolution for one case into plain launches. Nothing here touches a device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/expr.h"
#include "base/result.h"
#include "seeds/task.h"

namespace grove::codegen {

// --- as written -------------------------------------------------------------------------------

struct Workspace {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  bool zero = false;  // init "zero": cleared before every execution; "none": contents undefined
};

// A TMA descriptor over a tensor or workspace (parsed and checked; only a GPU can execute it).
struct TensorMap {
  std::string name;
  std::string tensor;
  std::vector<Expr> box;              // elements, innermost last like the tensor's shape
  std::vector<Expr> element_strides;  // empty = all 1
  std::string swizzle = "none";       // none, 32B, 64B, 128B
  std::string interleave = "none";    // none, 16B, 32B
  std::string l2_promotion = "none";  // none, 64B, 128B, 256B
};

enum class ScalarType { kI32, kI64, kF32, kF64 };

struct Arg {
  // Only the case knows the tensors: a plain name in a parsed plan is kBuffer, and becomes an i32
  // when it is resolved if no buffer but a dim has that name.
  enum class Kind { kBuffer, kTensorMap, kScalar };
  Kind kind = Kind::kBuffer;
  std::string name;  // kBuffer, kTensorMap: tensor, workspace or tensor map
  ScalarType type = ScalarType::kI32;
  Expr expression;             // integers; f32/f64 scalars: integer expression or a scalar's name
  std::optional<double> real;  // f32/f64 scalars written as a number
};

struct Launch {
  std::string kernel;
  std::array<Expr, 3> grid;   // x, y, z; blocks
  std::array<Expr, 3> block;  // x, y, z; threads
  Expr shared_bytes;          // dynamic shared memory, bytes
  std::optional<std::array<Expr, 3>> cluster;
  bool cooperative = false;
  bool dependent = false;  // programmatic dependent launch
  std::vector<Arg> args;
};

struct Step;
// `for (var = from; var < to; var += step)` around further steps.
struct Repeat {
  std::string var;
  Expr from, to, step;
  std::vector<Step> steps;
};
struct Step {
  std::variant<Launch, Repeat> action;
};

struct Variant {
  std::optional<Expr>
      when;  // over dims, device constants and dtype names (1 when it is the case's)
  std::vector<Workspace> workspaces;
  std::vector<TensorMap> tensor_maps;
  std::vector<Step> steps;
};

struct LaunchPlan {
  std::vector<Variant> variants;  // the first whose `when` holds is used
};

// The format is docs/plan.md. kInvalidInput with the place ("launches[1].grid[0], column 5: ...";
// line and column where it is not JSON) and what was expected. Unknown fields and duplicate names
// are errors; names that clash with the task's are errors of ResolvePlan.
Result<LaunchPlan> ParsePlan(std::string_view json);

// The plan as canonical JSON (stable key order): the identity of a plan, whatever its formatting.
std::string CanonicalJson(const LaunchPlan& plan);

// --- resolved for one case --------------------------------------------------------------------

// What a plan's expressions and limits may ask of a device.
struct DeviceLimits {
  std::int64_t sm_count = 132;
  std::int64_t max_shared = 232448;  // dynamic shared memory of one block, bytes (227 KB)
  std::int64_t l2_bytes = 52428800;
  std::int64_t max_threads_per_block = 1024;
  std::int64_t max_grid_x = 2147483647;
  std::int64_t max_grid_yz = 65535;
  std::int64_t max_blocks = 2147483647;  // of one launch: a larger grid is a plan gone wrong
  std::int64_t max_cluster = 16;
  std::int64_t memory_bytes = std::int64_t{140} << 30;
  std::int64_t max_launches = 100000;  // after unrolling every repeat; also bounds all iterations
};

struct ResolvedWorkspace {
  std::string name;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;
  bool zero = false;
  Bytes bytes() const { return Bytes(elements * static_cast<std::int64_t>(SizeOf(dtype))); }
};

struct ResolvedTensorMap {
  std::string name;
  std::string tensor;  // tensor or workspace name
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // outermost first
  std::vector<std::int64_t> box;
  std::vector<std::int64_t> element_strides;
  std::string swizzle, interleave, l2_promotion;
};

// One kernel parameter, ready to be laid out.
struct ResolvedArg {
  enum class Kind { kTensor, kWorkspace, kTensorMap, kScalar };
  Kind kind = Kind::kScalar;
  std::size_t index = 0;             // into Case::tensors, workspaces or tensor_maps
  std::array<std::byte, 8> bytes{};  // scalar, little-endian
  std::size_t size = 8;              // bytes: 8 for pointers, 128 for tensor maps, 4 or 8 scalars
};

struct ResolvedLaunch {
  std::string kernel;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::array<std::int64_t, 3> block{1, 1, 1};
  std::int64_t shared_bytes = 0;
  std::optional<std::array<std::int64_t, 3>> cluster;
  bool cooperative = false;
  bool dependent = false;
  std::vector<ResolvedArg> args;
  std::string place;  // where in the plan, for messages: "launches[2]"

  std::int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
  std::int64_t threads() const { return block[0] * block[1] * block[2]; }
};

struct ResolvedPlan {
  std::vector<ResolvedWorkspace> workspaces;
  std::vector<ResolvedTensorMap> tensor_maps;
  std::vector<ResolvedLaunch> launches;  // in execution order
};

// Evaluates the plan for a case. kInvalidInput on no matching variant, an empty launch list,
// unknown names, names that clash with the task's tensors, dims or scalars, overflow, sizes beyond
// the device's limits (each with the place). Expressions see dims, loop variables, the task's
// integer scalars, sm_count, max_shared and l2_bytes; `when` also dtype names (1 for the dtype of
// the first input). Refuses 10^12 iterations without looping.
Result<ResolvedPlan> ResolvePlan(const LaunchPlan& plan, const seeds::Case& task_case,
                                 const DeviceLimits& limits);

// A compiled entry point, as far as a launch must agree with it.
struct EntryPoint {
  std::string name;
  std::vector<std::size_t> param_sizes;  // bytes, in order
  std::int64_t registers = 0;            // per thread; 0 = not known
  std::int64_t spill_stores = 0;         // bytes
  std::int64_t spill_loads = 0;          // bytes
  std::int64_t stack_bytes = 0;          // local memory per thread
  std::int64_t static_shared = 0;        // bytes
  std::int64_t max_threads = 1024;       // __launch_bounds__, else 1024
};

// Checks every launch against the compiled kernels: the entry point exists, number and byte size of
// parameters match, threads within max_threads, static + dynamic shared memory within the device's,
// registers x threads within a 64 K register file.
Status ValidatePlan(const ResolvedPlan& plan, const std::vector<EntryPoint>& entries,
                    const DeviceLimits& limits);

}  // namespace grove::codegen
