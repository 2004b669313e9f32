// Turns a plan into plain launches for one case. Every size is checked here, so that nothing
// downstream multiplies or allocates an unchecked number.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/suggest.h"
#include "codegen/plan.h"
#include "codegen/plan_library.h"
#include "codegen/plan_names.h"

namespace grove::codegen {
namespace {

using seeds::Case;

constexpr std::int64_t kMaxBlockXY = 1024;
constexpr std::int64_t kMaxBlockZ = 64;
// All launches of a plan together: bounds the memory of a resolved plan.
constexpr std::size_t kMaxArgs = 2000000;
constexpr std::int64_t kTensorMapBytes = 128;
constexpr std::int64_t kMaxRepeatDepth = 4;

Failure Bad(std::string_view place, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", place, what));
}

std::string_view Axis(std::size_t i) { return std::string_view("xyz").substr(i, 1); }

// elements * size, or nullopt when that exceeds 63 bits.
std::optional<std::int64_t> Product(const std::vector<std::int64_t>& shape, std::int64_t size) {
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  }
  return size;
}

class Resolver {
 public:
  Resolver(const LaunchPlan& plan, const Case& task_case, const DeviceLimits& limits)
      : plan_(plan), case_(task_case), limits_(limits) {}

  Result<ResolvedPlan> Resolve() {
    for (std::size_t i = 0; i < plan_.variants.size(); ++i) {
      if (Status s = CheckNames(plan_.variants[i], Prefix(i)); !s)
        return Fail(std::move(s).error());
    }
    Result<std::size_t> chosen = Choose();
    if (!chosen) return Fail(std::move(chosen).error());
    variant_ = &plan_.variants[*chosen];
    const std::string prefix = Prefix(*chosen);
    if (Status s = ResolveWorkspaces(prefix); !s) return Fail(std::move(s).error());
    if (Status s = ResolveTensorMaps(prefix); !s) return Fail(std::move(s).error());
    if (Status s = ResolveSteps(variant_->steps, prefix + "launches"); !s) {
      return Fail(std::move(s).error());
    }
    if (result_.launches.empty()) {
      return Bad(prefix + "launches",
                 fmt::format("no launch at all for case '{}' (every repeat is empty)", case_.name));
    }
    return std::move(result_);
  }

 private:
  struct LoopVariable {
    std::string_view name;
    std::int64_t value;
  };

  std::string Prefix(std::size_t variant) const {
    return plan_.variants.size() > 1 ? fmt::format("variants[{}].", variant) : "";
  }

  // --- names ----------------------------------------------------------------------------------

  const seeds::Scalar* FindScalar(std::string_view name) const {
    const auto found = std::find_if(case_.scalars.begin(), case_.scalars.end(),
                                    [&](const seeds::Scalar& s) { return s.name == name; });
    return found == case_.scalars.end() ? nullptr : &*found;
  }

  template <typename T>
  static std::optional<std::size_t> IndexOf(const std::vector<T>& list, std::string_view name) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name == name) return i;
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> Find(std::string_view name) const {
    for (const LoopVariable& variable : loops_) {
      if (variable.name == name) return variable.value;
    }
    if (const auto i = IndexOf(case_.dims, name)) return case_.dims[*i].value;
    if (const seeds::Scalar* scalar = FindScalar(name);
        scalar != nullptr && !IsFloat(scalar->dtype)) {
      return static_cast<std::int64_t>(scalar->value);
    }
    return DeviceConstant(name, limits_);
  }

  // 1 when the case's first input has that dtype, 0 for another dtype's name.
  std::optional<std::int64_t> FindInCondition(std::string_view name) const {
    if (const auto value = Find(name)) return value;
    const std::optional<DType> dtype = DTypeFromName(name);
    if (!dtype) return std::nullopt;
    for (const seeds::Tensor& tensor : case_.tensors) {
      if (tensor.role == seeds::TensorRole::kInput) return tensor.dtype == *dtype ? 1 : 0;
    }
    return 0;
  }

  std::vector<std::string> KnownNames() const {
    std::vector<std::string> names;
    for (const LoopVariable& variable : loops_) names.emplace_back(variable.name);
    for (const seeds::Dim& dim : case_.dims) names.push_back(dim.name);
    for (const seeds::Scalar& scalar : case_.scalars) {
      if (!IsFloat(scalar.dtype)) names.push_back(scalar.name);
    }
    for (const char* constant : {"sm_count", "max_shared", "l2_bytes"})
      names.emplace_back(constant);
    return names;
  }

  // What to do about a name that is not an integer here.
  std::string Advice(std::string_view name) const {
    if (IndexOf(case_.tensors, name) || IndexOf(variant_->workspaces, name) ||
        IndexOf(variant_->tensor_maps, name)) {
      return "; it names a buffer, expected an integer";
    }
    if (const seeds::Scalar* scalar = FindScalar(name)) {
      return fmt::format("; it is a scalar of the task, pass it as {{\"{}\": \"{}\"}}",
                         grove::Name(scalar->dtype), name);
    }
    if (DTypeFromName(name)) return "; dtype tests are known in \"when\" only";
    std::string advice;
    const std::vector<std::string> known = KnownNames();
    if (const std::string near = Nearest(name.substr(0, 64), known); !near.empty()) {
      advice = fmt::format("; did you mean '{}'?", near);
    }
    return advice + fmt::format(" (valid: {})", fmt::join(known, ", "));
  }

  Status Clash(std::string_view place, std::string_view name) const {
    std::string_view what;
    if (IndexOf(case_.tensors, name)) what = "tensor";
    if (IndexOf(case_.dims, name)) what = "dim";
    if (FindScalar(name) != nullptr) what = "scalar";
    if (what.empty()) return {};
    return Bad(place, fmt::format("the name '{}' is already that of a {} of the task", name, what));
  }

  Status CheckNames(const Variant& variant, const std::string& prefix) const {
    for (std::size_t i = 0; i < variant.workspaces.size(); ++i) {
      Status s = Clash(fmt::format("{}workspace[{}].name", prefix, i), variant.workspaces[i].name);
      if (!s) return s;
    }
    for (std::size_t i = 0; i < variant.tensor_maps.size(); ++i) {
      Status s =
          Clash(fmt::format("{}tensor_maps[{}].name", prefix, i), variant.tensor_maps[i].name);
      if (!s) return s;
    }
    return CheckLoopNames(variant.steps, prefix + "launches");
  }

  Status CheckLoopNames(const std::vector<Step>& steps, const std::string& place) const {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto* repeat = std::get_if<Repeat>(&steps[i].action);
      if (repeat == nullptr) continue;
      const std::string at = fmt::format("{}[{}].repeat", place, i);
      if (Status s = Clash(at + ".var", repeat->var); !s) return s;
      if (Status s = CheckLoopNames(repeat->steps, at + ".launches"); !s) return s;
    }
    return {};
  }

  // --- expressions ----------------------------------------------------------------------------

  // The column belongs to the place: "launches[1].grid[0], column 5: ...".
  Failure Explain(const Error& error, std::string_view place, const Expr& expression) const {
    std::string message = fmt::format("{}, {}", place, error.message);
    if (error.message.find("unknown name") != std::string::npos) {
      for (const std::string& name : expression.Names()) {
        if (Find(name) || error.message.find("'" + name + "'") == std::string::npos) continue;
        message += Advice(name);
        break;
      }
    }
    return Fail(error.code, std::move(message));
  }

  // Where an expression stands; put into words only for a message, since a plan may have 10^5
  // launches.
  struct Where {
    std::string_view place, field;
    std::optional<std::size_t> index;

    std::string Text() const {
      std::string text(place);
      if (!field.empty()) text += fmt::format("{}{}", text.empty() ? "" : ".", field);
      if (index) text += fmt::format("[{}]", *index);
      return text;
    }
  };

  Result<std::int64_t> Evaluate(const Expr& expression, const Where& where) const {
    Result<std::int64_t> value =
        expression.Evaluate([this](std::string_view name) { return Find(name); });
    if (!value) return Explain(value.error(), where.Text(), expression);
    return value;
  }

  // A size within [least, most].
  Result<std::int64_t> Size(const Expr& expression, const Where& where, std::int64_t least,
                            std::int64_t most) const {
    Result<std::int64_t> value = Evaluate(expression, where);
    if (value && (*value < least || *value > most)) {
      return Bad(where.Text(), fmt::format("{} is {}, expected {} to {}", expression.text(), *value,
                                           least, most));
    }
    return value;
  }

  // --- parts of the plan ----------------------------------------------------------------------

  Result<std::size_t> Choose() {
    for (std::size_t i = 0; i < plan_.variants.size(); ++i) {
      variant_ = &plan_.variants[i];
      if (!variant_->when) return i;
      const Result<std::int64_t> holds =
          variant_->when->Evaluate([this](std::string_view name) { return FindInCondition(name); });
      if (!holds) return Explain(holds.error(), Prefix(i) + "when", *variant_->when);
      if (*holds != 0) return i;
    }
    return Bad("variants", fmt::format("no \"when\" holds for case '{}'", case_.name));
  }

  Status ResolveWorkspaces(const std::string& prefix) {
    std::int64_t total = 0;
    for (const seeds::Tensor& tensor : case_.tensors) {
      const auto bytes = Product(tensor.shape, static_cast<std::int64_t>(SizeOf(tensor.dtype)));
      if (!bytes || __builtin_add_overflow(total, *bytes, &total)) {
        return Bad(tensor.name, "the tensor's size does not fit 64 bits");
      }
    }
    for (std::size_t i = 0; i < variant_->workspaces.size(); ++i) {
      const Workspace& workspace = variant_->workspaces[i];
      const std::string place = fmt::format("{}workspace[{}].shape", prefix, i);
      std::vector<std::int64_t> shape;
      for (std::size_t k = 0; k < workspace.shape.size(); ++k) {
        Result<std::int64_t> extent =
            Size(workspace.shape[k], {place, {}, k}, 1, std::numeric_limits<std::int64_t>::max());
        if (!extent) return Fail(std::move(extent).error());
        shape.push_back(*extent);
      }
      const auto bytes = Product(shape, static_cast<std::int64_t>(SizeOf(workspace.dtype)));
      if (!bytes || __builtin_add_overflow(total, *bytes, &total) || total > limits_.memory_bytes) {
        return Bad(place, fmt::format("workspace '{}' ({}) does not fit the device's {} bytes of "
                                      "memory beside tensors and other workspaces",
                                      workspace.name,
                                      bytes ? fmt::format("{} bytes", *bytes) : "over 2^63 bytes",
                                      limits_.memory_bytes));
      }
      ResolvedWorkspace resolved;
      resolved.name = workspace.name;
      resolved.dtype = workspace.dtype;
      resolved.elements = *bytes / static_cast<std::int64_t>(SizeOf(workspace.dtype));
      resolved.zero = workspace.zero;
      result_.workspaces.push_back(std::move(resolved));
      workspace_shapes_.push_back(std::move(shape));
    }
    return {};
  }

  // The rules of cuTensorMapEncodeTiled (CUDA driver API).
  Status ResolveTensorMaps(const std::string& prefix) {
    for (std::size_t i = 0; i < variant_->tensor_maps.size(); ++i) {
      const TensorMap& map = variant_->tensor_maps[i];
      const std::string place = fmt::format("{}tensor_maps[{}]", prefix, i);
      ResolvedTensorMap resolved;
      resolved.name = map.name;
      resolved.tensor = map.tensor;
      resolved.swizzle = map.swizzle;
      resolved.interleave = map.interleave;
      resolved.l2_promotion = map.l2_promotion;
      if (const auto t = IndexOf(case_.tensors, map.tensor)) {
        resolved.dtype = case_.tensors[*t].dtype;
        resolved.shape = case_.tensors[*t].shape;
      } else if (const auto w = IndexOf(variant_->workspaces, map.tensor)) {
        resolved.dtype = variant_->workspaces[*w].dtype;
        resolved.shape = workspace_shapes_[*w];
      } else {
        return Bad(place + ".tensor",
                   UnknownName("tensor or workspace", map.tensor, BufferNames()));
      }
      if (Status s = CheckTensorMap(map, place, resolved); !s) return s;
      result_.tensor_maps.push_back(std::move(resolved));
    }
    return {};
  }

  Status CheckTensorMap(const TensorMap& map, const std::string& place,
                        ResolvedTensorMap& resolved) const {
    const std::size_t rank = resolved.shape.size();
    if (rank < 1 || rank > 5) {
      return Bad(place + ".tensor",
                 fmt::format("'{}' has {} dimensions, expected 1 to 5", map.tensor, rank));
    }
    if (map.box.size() != rank) {
      return Bad(place + ".box", fmt::format("expected {} entries like the shape of '{}', found {}",
                                             rank, map.tensor, map.box.size()));
    }
    for (std::size_t k = 0; k < rank; ++k) {
      Result<std::int64_t> box = Size(map.box[k], {place, "box", k}, 1, 256);
      if (!box) return Fail(std::move(box).error());
      resolved.box.push_back(*box);
      std::int64_t stride = 1;
      if (!map.element_strides.empty()) {
        Result<std::int64_t> value =
            Size(map.element_strides[k], {place, "element_strides", k}, 1, 8);
        if (!value) return Fail(std::move(value).error());
        stride = *value;
      }
      resolved.element_strides.push_back(stride);
      if (resolved.shape[k] < 1 || resolved.shape[k] > (std::int64_t{1} << 32)) {
        return Bad(place + ".tensor", fmt::format("extent {} of '{}' is outside 1 to 2^32",
                                                  resolved.shape[k], map.tensor));
      }
    }
    const auto element = static_cast<std::int64_t>(SizeOf(resolved.dtype));
    const std::int64_t row = resolved.box.back() * element;
    if (map.interleave == "none" && row % 16 != 0) {
      return Bad(place + ".box", fmt::format("the innermost box is {} bytes, expected a multiple "
                                             "of 16",
                                             row));
    }
    if (rank > 1 && resolved.shape.back() * element % 16 != 0) {
      return Bad(place + ".tensor", fmt::format("rows of '{}' are {} bytes, expected a multiple "
                                                "of 16",
                                                map.tensor, resolved.shape.back() * element));
    }
    if (map.swizzle != "none") {
      const std::int64_t span = std::stoll(map.swizzle);  // "128B"
      if (map.interleave == "none" && row > span) {
        return Bad(place + ".box", fmt::format("the innermost box is {} bytes, more than the "
                                               "swizzle {}",
                                               row, map.swizzle));
      }
    }
    if (map.interleave != "none" && rank < 3) {
      return Bad(place + ".interleave", "needs a tensor of at least 3 dimensions");
    }
    if (map.interleave == "32B" && map.swizzle != "32B") {
      return Bad(place + ".swizzle", "interleave 32B needs swizzle 32B");
    }
    return {};
  }

  std::vector<std::string> BufferNames() const {
    std::vector<std::string> names;
    for (const seeds::Tensor& tensor : case_.tensors) names.push_back(tensor.name);
    for (const Workspace& workspace : variant_->workspaces) names.push_back(workspace.name);
    return names;
  }

  Status ResolveSteps(const std::vector<Step>& steps, const std::string& place) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", place, i);
      Status status;
      if (const auto* repeat = std::get_if<Repeat>(&steps[i].action)) {
        status = ResolveRepeat(*repeat, at + ".repeat");
      } else if (const auto* gemm = std::get_if<Gemm>(&steps[i].action)) {
        status = ResolveGemm(*gemm, at);
      } else {
        status = ResolveLaunch(std::get<Launch>(steps[i].action), at);
      }
      if (!status) return status;
    }
    return {};
  }

  Status ResolveRepeat(const Repeat& repeat, const std::string& place) {
    const Result<std::int64_t> from = Evaluate(repeat.from, {place, "from", {}});
    if (!from) return Fail(from.error());
    const Result<std::int64_t> to = Evaluate(repeat.to, {place, "to", {}});
    if (!to) return Fail(to.error());
    const Result<std::int64_t> step = Evaluate(repeat.step, {place, "step", {}});
    if (!step) return Fail(step.error());
    if (*step <= 0) {
      return Bad(place + ".step", fmt::format("the step is {}, expected at least 1", *step));
    }
    if (*from >= *to) return {};
    std::int64_t span = 0;
    if (__builtin_sub_overflow(*to, *from, &span)) {
      return Bad(place, fmt::format("from {} to {} exceeds 64 bits", *from, *to));
    }
    // Counted before the first iteration, so 10^12 of them are refused at once. Empty iterations
    // (an inner repeat that does nothing) count as well, or nested ones could run for ever.
    const std::int64_t count = (span - 1) / *step + 1;
    if (count > limits_.max_launches ||
        count > kMaxRepeatDepth * limits_.max_launches - iterations_) {
      return Bad(place, fmt::format("{} iterations; the launches of a plan are at most {}", count,
                                    limits_.max_launches));
    }
    iterations_ += count;
    loops_.push_back({repeat.var, *from});
    Status status;
    for (std::int64_t i = 0; i < count && status; ++i) {
      loops_.back().value = *from + i * *step;
      status = ResolveSteps(repeat.steps, place + ".launches");
    }
    loops_.pop_back();
    return status;
  }

  Result<std::array<std::int64_t, 3>> Extent(const std::array<Expr, 3>& extent,
                                             std::string_view place, std::string_view field,
                                             const std::array<std::int64_t, 3>& most) const {
    std::array<std::int64_t, 3> values{};
    for (std::size_t i = 0; i < 3; ++i) {
      Result<std::int64_t> value = Size(extent[i], {place, field, i}, 1, most[i]);
      if (!value) return Fail(std::move(value).error());
      values[i] = *value;
    }
    return values;
  }

  // The place of a step, with the values of the loop variables around it.
  std::string PlaceInLoops(std::string place) const {
    if (loops_.empty()) return place;
    std::string values;
    for (const LoopVariable& variable : loops_) {
      values += fmt::format("{}{}={}", values.empty() ? "" : ", ", variable.name, variable.value);
    }
    return place + fmt::format(" ({})", values);
  }

  Status CountLaunch(const std::string& place) const {
    if (static_cast<std::int64_t>(result_.launches.size()) < limits_.max_launches) return {};
    return Bad(place, fmt::format("more than {} launches", limits_.max_launches));
  }

  // The buffer, its number of elements, and the matrix's numbers; bounds are CheckGemm's.
  Result<GemmOperand> ResolveMatrix(const MatrixText& matrix, const std::string& place) const {
    GemmOperand operand;
    operand.name = matrix.buffer;
    operand.matrix.transpose = matrix.transpose;
    if (const auto t = IndexOf(case_.tensors, matrix.buffer)) {
      operand.matrix.kind = ResolvedArg::Kind::kTensor;
      operand.matrix.index = *t;
      operand.matrix.dtype = case_.tensors[*t].dtype;
      operand.elements = case_.tensors[*t].elements();
      operand.writable = case_.tensors[*t].role == seeds::TensorRole::kOutput;
    } else if (const auto w = IndexOf(variant_->workspaces, matrix.buffer)) {
      operand.matrix.kind = ResolvedArg::Kind::kWorkspace;
      operand.matrix.index = *w;
      operand.matrix.dtype = variant_->workspaces[*w].dtype;
      operand.elements = result_.workspaces[*w].elements;
      operand.writable = true;
    } else {
      return Bad(place + ".buffer",
                 UnknownName("tensor or workspace", matrix.buffer, BufferNames()));
    }
    for (const auto& [expression, field, target] :
         {std::tuple{&matrix.offset, "offset", &operand.matrix.offset},
          std::tuple{&matrix.ld, "ld", &operand.matrix.ld},
          std::tuple{&matrix.stride, "stride", &operand.matrix.stride}}) {
      Result<std::int64_t> value = Evaluate(*expression, {place, field, {}});
      if (!value) return Fail(std::move(value).error());
      *target = *value;
    }
    return operand;
  }

  Status ResolveGemm(const Gemm& gemm, const std::string& written_place) {
    const std::string place = PlaceInLoops(written_place);
    if (std::find(case_.library.begin(), case_.library.end(), "gemm") == case_.library.end()) {
      return Bad(place,
                 "this task permits no library step 'gemm' (library in its task.toml); write the "
                 "product as a kernel");
    }
    if (Status s = CountLaunch(place); !s) return s;
    auto resolved = std::make_shared<ResolvedGemm>();
    resolved->alpha = gemm.alpha;
    resolved->beta = gemm.beta;
    for (const auto& [expression, field, target] :
         {std::tuple{&gemm.m, "m", &resolved->m}, std::tuple{&gemm.n, "n", &resolved->n},
          std::tuple{&gemm.k, "k", &resolved->k},
          std::tuple{&gemm.batch, "batch", &resolved->batch}}) {
      Result<std::int64_t> value = Size(*expression, {place, field, {}}, 0, kMaxGemmSize);
      if (!value) return Fail(std::move(value).error());
      *target = *value;
    }
    if (resolved->m == 0 || resolved->n == 0 || resolved->batch == 0) return {};
    std::array<GemmOperand, 3> operands;
    for (const auto& [text, field, target] :
         {std::tuple{&gemm.a, "a", &operands[0]}, std::tuple{&gemm.b, "b", &operands[1]},
          std::tuple{&gemm.c, "c", &operands[2]}}) {
      Result<GemmOperand> operand = ResolveMatrix(*text, fmt::format("{}.{}", place, field));
      if (!operand) return Fail(std::move(operand).error());
      *target = *std::move(operand);
    }
    if (Status s = CheckGemm(place, gemm.compute, operands, *resolved); !s) return s;
    ResolvedLaunch step;
    step.kernel = kGemmStep;
    step.gemm = std::move(resolved);
    step.place = place;
    result_.launches.push_back(std::move(step));
    return {};
  }

  Status ResolveLaunch(const Launch& launch, const std::string& written_place) {
    std::string place = PlaceInLoops(written_place);
    if (Status s = CountLaunch(place); !s) return s;
    args_ += launch.args.size();
    if (args_ > kMaxArgs) {
      return Bad(place, fmt::format("more than {} arguments in all launches", kMaxArgs));
    }
    ResolvedLaunch resolved;
    resolved.kernel = launch.kernel;
    resolved.cooperative = launch.cooperative;
    resolved.dependent = launch.dependent;
    Result<std::array<std::int64_t, 3>> grid = Extent(
        launch.grid, place, "grid", {limits_.max_grid_x, limits_.max_grid_yz, limits_.max_grid_yz});
    if (!grid) return Fail(std::move(grid).error());
    resolved.grid = *grid;
    // No overflow even at the limits: (2^31 - 1) * 65535 * 65535 < 2^63.
    if (resolved.blocks() > limits_.max_blocks) {
      return Bad(place + ".grid",
                 fmt::format("{} x {} x {} blocks, more than {}", resolved.grid[0],
                             resolved.grid[1], resolved.grid[2], limits_.max_blocks));
    }
    Result<std::array<std::int64_t, 3>> block =
        Extent(launch.block, place, "block", {kMaxBlockXY, kMaxBlockXY, kMaxBlockZ});
    if (!block) return Fail(std::move(block).error());
    resolved.block = *block;
    if (resolved.threads() > limits_.max_threads_per_block) {
      return Bad(place + ".block", fmt::format("{} threads, more than {}", resolved.threads(),
                                               limits_.max_threads_per_block));
    }
    Result<std::int64_t> shared =
        Size(launch.shared_bytes, {place, "shared", {}}, 0, limits_.max_shared);
    if (!shared) return Fail(std::move(shared).error());
    resolved.shared_bytes = *shared;
    if (launch.cluster) {
      if (Status s = ResolveCluster(*launch.cluster, place + ".cluster", resolved); !s) return s;
    }
    for (std::size_t i = 0; i < launch.args.size(); ++i) {
      Result<ResolvedArg> arg = ResolveArg(launch.args[i], {place, "args", i});
      if (!arg) return Fail(std::move(arg).error());
      resolved.args.push_back(*arg);
    }
    resolved.place = std::move(place);
    result_.launches.push_back(std::move(resolved));
    return {};
  }

  Status ResolveCluster(const std::array<Expr, 3>& extent, const std::string& place,
                        ResolvedLaunch& launch) const {
    Result<std::array<std::int64_t, 3>> cluster =
        Extent(extent, place, {}, {limits_.max_cluster, limits_.max_cluster, limits_.max_cluster});
    if (!cluster) return Fail(std::move(cluster).error());
    const std::int64_t blocks = (*cluster)[0] * (*cluster)[1] * (*cluster)[2];
    if (blocks > limits_.max_cluster) {
      return Bad(place, fmt::format("{} blocks, more than {}", blocks, limits_.max_cluster));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (launch.grid[i] % (*cluster)[i] != 0) {
        return Bad(place, fmt::format("grid.{} is {}, expected a multiple of the cluster's {}",
                                      Axis(i), launch.grid[i], (*cluster)[i]));
      }
    }
    launch.cluster = *cluster;
    return {};
  }

  // --- arguments ------------------------------------------------------------------------------

  template <typename T>
  static ResolvedArg ScalarArg(T value) {
    ResolvedArg arg;
    arg.kind = ResolvedArg::Kind::kScalar;
    arg.size = sizeof(T);
    std::memcpy(arg.bytes.data(), &value, sizeof(T));
    return arg;
  }

  static Result<ResolvedArg> IntegerArg(ScalarType type, std::int64_t value, const Where& where) {
    if (type == ScalarType::kI64) return ScalarArg(value);
    if (value < std::numeric_limits<std::int32_t>::min() ||
        value > std::numeric_limits<std::int32_t>::max()) {
      return Bad(where.Text(),
                 fmt::format("{} does not fit i32; pass it as {{\"i64\": ...}}", value));
    }
    return ScalarArg(static_cast<std::int32_t>(value));
  }

  static Result<ResolvedArg> RealArg(ScalarType type, double value, const Where& where) {
    if (type == ScalarType::kF64) return ScalarArg(value);
    const auto narrow = static_cast<float>(value);
    if (std::isinf(narrow) && !std::isinf(value)) {
      return Bad(where.Text(), fmt::format("{} does not fit f32", value));
    }
    return ScalarArg(narrow);
  }

  Result<ResolvedArg> ResolveArg(const Arg& arg, const Where& where) const {
    switch (arg.kind) {
      case Arg::Kind::kBuffer:
        return ResolveName(arg.name, where);
      case Arg::Kind::kTensorMap: {
        const auto index = IndexOf(variant_->tensor_maps, arg.name);
        if (!index) return Bad(where.Text(), fmt::format("unknown tensor map '{}'", arg.name));
        ResolvedArg resolved;
        resolved.kind = ResolvedArg::Kind::kTensorMap;
        resolved.index = *index;
        resolved.size = kTensorMapBytes;
        return resolved;
      }
      case Arg::Kind::kScalar:
        break;
    }
    if (arg.type == ScalarType::kI32 || arg.type == ScalarType::kI64) {
      const Result<std::int64_t> value = Evaluate(arg.expression, where);
      if (!value) return Fail(value.error());
      return IntegerArg(arg.type, *value, where);
    }
    if (arg.real) return RealArg(arg.type, *arg.real, where);
    if (const seeds::Scalar* scalar = FindScalar(arg.expression.text())) {
      return RealArg(arg.type, scalar->value, where);
    }
    const Result<std::int64_t> value = Evaluate(arg.expression, where);
    if (!value) return Fail(value.error());
    return RealArg(arg.type, static_cast<double>(*value), where);
  }

  // A plain name: a buffer if there is one of that name, else an i32.
  Result<ResolvedArg> ResolveName(const std::string& name, const Where& where) const {
    ResolvedArg resolved;
    if (const auto tensor = IndexOf(case_.tensors, name)) {
      resolved.kind = ResolvedArg::Kind::kTensor;
      resolved.index = *tensor;
      return resolved;
    }
    if (const auto workspace = IndexOf(variant_->workspaces, name)) {
      resolved.kind = ResolvedArg::Kind::kWorkspace;
      resolved.index = *workspace;
      return resolved;
    }
    if (const auto value = Find(name)) return IntegerArg(ScalarType::kI32, *value, where);
    if (FindScalar(name) != nullptr) {
      return Bad(where.Text(), fmt::format("'{}' is not an integer{}", name, Advice(name)));
    }
    std::vector<std::string> known = BufferNames();
    for (std::string& other : KnownNames()) known.push_back(std::move(other));
    return Bad(where.Text(), UnknownName("name", name, known));
  }

  const LaunchPlan& plan_;
  const Case& case_;
  const DeviceLimits& limits_;
  const Variant* variant_ = nullptr;
  std::vector<std::vector<std::int64_t>> workspace_shapes_;
  std::vector<LoopVariable> loops_;
  std::int64_t iterations_ = 0;
  std::size_t args_ = 0;
  ResolvedPlan result_;
};

}  // namespace

Result<ResolvedPlan> ResolvePlan(const LaunchPlan& plan, const Case& task_case,
                                 const DeviceLimits& limits) {
  if (plan.variants.empty()) {
    return Fail(ErrorCode::kInvalidInput, "the launch plan has no variant");
  }
  return Resolver(plan, task_case, limits).Resolve();
}

}  // namespace grove::codegen
