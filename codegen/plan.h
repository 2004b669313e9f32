// The launch plan: the declarative host side of a kernel program (JSON, "version": 1), its parsed
// form, and its resolution for one case into plain launches. Nothing here touches a device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

// How a library product computes. Of f32 data: kFp32 on CUDA cores, the others on tensor cores with
// operands rounded to that type (kBf16x9: split into three bf16 parts each, about as accurate as
// fp32), sums in fp32. Of f16 and bf16 data: kFp32 (sums in fp32). Of f64 data: kFp64.
enum class GemmCompute { kFp32, kTf32, kFp16, kBf16, kBf16x9, kFp64 };
std::string_view Name(GemmCompute compute);  // "fp32", "tf32", ...

// One operand of a library product: row-major matrices inside a tensor or workspace.
struct MatrixText {
  std::string buffer;
  Expr offset;             // of the first element, elements
  Expr ld;                 // elements from one row to the next, as stored
  Expr stride;             // elements from one batch entry to the next
  bool transpose = false;  // a and b: stored as k x m, n x k
};

// A step that the task must permit (library = ["gemm"]): a strided batch of matrix products,
// c = alpha * a * b + beta * c with a m x k, b k x n, c m x n.
struct Gemm {
  Expr m, n, k, batch;
  double alpha = 1;
  double beta = 0;
  std::optional<GemmCompute> compute;  // none = kFp64 for f64 data, else kFp32
  MatrixText a, b, c;
};

struct Step;
// `for (var = from; var < to; var += step)` around further steps.
struct Repeat {
  std::string var;
  Expr from, to, step;
  std::vector<Step> steps;
};
struct Step {
  std::variant<Launch, Repeat, Gemm> action;
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

// One operand of a library product, proven to lie inside its buffer.
struct ResolvedMatrix {
  ResolvedArg::Kind kind = ResolvedArg::Kind::kTensor;  // or kWorkspace
  std::size_t index = 0;                                // into Case::tensors or workspaces
  DType dtype = DType::kF32;
  std::int64_t offset = 0, ld = 0, stride = 0;  // elements
  bool transpose = false;
};

struct ResolvedGemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 0;  // all at least 1
  double alpha = 1, beta = 0;
  GemmCompute compute = GemmCompute::kFp32;
  ResolvedMatrix a, b, c;  // c shares no element with a, b or another entry of c
};

// The kernel's name of a library step in reports.
inline constexpr std::string_view kGemmStep = "library gemm";

// A launch, or a library step when `gemm` is set (then only kernel and place have a meaning).
struct ResolvedLaunch {
  std::string kernel;
  std::shared_ptr<const ResolvedGemm> gemm;
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
// the first input). Refuses 10^12 iterations without looping. Library steps must be permitted by
// the case's task and stay inside their buffers; empty ones (m, n or batch 0) are dropped.
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

// Whether the plan has a library step, which only a device with that library can execute.
bool HasLibrarySteps(const ResolvedPlan& plan);

// Checks every launch against the compiled kernels: the entry point exists, number and byte size of
// parameters match, threads within max_threads, static + dynamic shared memory within the device's,
// registers x threads within a 64 K register file.
Status ValidatePlan(const ResolvedPlan& plan, const std::vector<EntryPoint>& entries,
                    const DeviceLimits& limits);

}  // namespace grove::codegen
