#include "eval/tile_edges.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>

#include "codegen/plan_names.h"

namespace grove::eval {
namespace {

constexpr std::int64_t kMostTile = 1024;
constexpr std::int64_t kMostThreads = 1024;

// A value of the plan as a function of one dim; nullopt where it has none (overflow, a name that
// only a loop knows).
using Function = std::function<std::optional<std::int64_t>(std::int64_t)>;

// What the plan says about one dim.
class Prober {
 public:
  Prober(const seeds::Case& task_case, const codegen::DeviceLimits& limits, std::string_view dim)
      : case_(task_case), limits_(limits), dim_(dim) {}

  void Variant(const codegen::Variant& variant) {
    for (const codegen::Workspace& workspace : variant.workspaces) {
      for (const Expr& extent : workspace.shape) Probe(extent);
    }
    Steps(variant.steps);
  }
  std::int64_t tile() const { return tile_; }
  bool known() const { return known_; }  // some expression depends on the dim
  std::int64_t threads() const { return threads_; }

 private:
  std::optional<std::int64_t> Value(const Expr& expression, std::int64_t size) const {
    const auto value =
        expression.Evaluate([&](std::string_view name) -> std::optional<std::int64_t> {
          if (name == dim_) return size;
          if (const auto other = case_.dim(name)) return other;
          for (const seeds::Scalar& scalar : case_.scalars) {
            if (scalar.name == name && !IsFloat(scalar.dtype)) {
              return static_cast<std::int64_t>(scalar.value);
            }
          }
          return codegen::DeviceConstant(name, limits_);
        });
    if (!value) return std::nullopt;
    return *value;
  }

  bool Depends(const Expr& expression) const {
    const auto names = expression.Names();
    return std::find(names.begin(), names.end(), dim_) != names.end();
  }

  void Probe(const Expr& expression) {
    if (Depends(expression)) Probe([&](std::int64_t size) { return Value(expression, size); });
  }

  // The first two changes of the function, a tile apart and the first at its end.
  void Probe(const Function& function) {
    known_ = true;
    std::int64_t first = 0;
    auto before = function(1);
    for (std::int64_t size = 1; size <= 2 * kMostTile; ++size) {
      const auto after = function(size + 1);
      const bool changed = before && after && *before != *after;
      before = after;
      if (!changed) continue;
      if (first == 0) {
        first = size;
        continue;
      }
      const std::int64_t tile = size - first;
      if (tile >= 2 && (first == tile || first == tile - 1)) tile_ = std::max(tile_, tile);
      return;
    }
  }

  void Steps(const std::vector<codegen::Step>& steps) {
    for (const codegen::Step& step : steps) {
      if (const auto* launch = std::get_if<codegen::Launch>(&step.action)) {
        for (const Expr& extent : launch->grid) Probe(extent);
        for (const codegen::Arg& arg : launch->args) {
          const bool integer =
              arg.type == codegen::ScalarType::kI32 || arg.type == codegen::ScalarType::kI64;
          if (arg.kind == codegen::Arg::Kind::kScalar && integer && !arg.real) {
            // A dim that is handed on as it is says nothing of how it is cut.
            if (arg.expression.text() != dim_) Probe(arg.expression);
          }
        }
        Threads(*launch);
      } else if (const auto* repeat = std::get_if<codegen::Repeat>(&step.action)) {
        if (Depends(repeat->from) || Depends(repeat->to) || Depends(repeat->step)) {
          Probe([&](std::int64_t size) -> std::optional<std::int64_t> {
            const auto from = Value(repeat->from, size);
            const auto to = Value(repeat->to, size);
            const auto by = Value(repeat->step, size);
            std::int64_t length = 0;
            if (!from || !to || !by || *by < 1) return std::nullopt;
            if (__builtin_sub_overflow(*to, *from, &length)) return std::nullopt;
            return length / *by + (length % *by > 0 ? 1 : 0);
          });
        }
        Steps(repeat->steps);
      }
    }
  }

  void Threads(const codegen::Launch& launch) {
    const std::int64_t size = case_.dim(dim_).value_or(1);
    std::int64_t product = 1;
    for (const Expr& extent : launch.block) {
      const auto value = Value(extent, size);
      if (!value || *value < 1 || *value > kMostThreads) return;
      product *= *value;
    }
    if (product <= kMostThreads) threads_ = std::max(threads_, product);
  }

  const seeds::Case& case_;
  const codegen::DeviceLimits& limits_;
  const std::string_view dim_;
  std::int64_t tile_ = 1;
  std::int64_t threads_ = 1;
  bool known_ = false;
};

}  // namespace

std::vector<DimTile> FindTiles(const codegen::LaunchPlan& plan, const seeds::Case& task_case,
                               const codegen::DeviceLimits& limits,
                               const std::vector<FreeDim>& free_dims) {
  std::vector<DimTile> tiles;
  for (const FreeDim& dim : free_dims) {
    Prober prober(task_case, limits, dim.name);
    for (const codegen::Variant& variant : plan.variants) prober.Variant(variant);
    const std::int64_t tile = prober.known() ? prober.tile() : prober.threads();
    if (tile >= 2 && tile < dim.most) tiles.push_back({dim.name, tile});
  }
  return tiles;
}

std::vector<std::vector<seeds::Dim>> EdgeDims(const std::vector<DimTile>& tiles,
                                              const std::vector<FreeDim>& free_dims) {
  std::vector<std::vector<seeds::Dim>> result;
  if (tiles.empty()) return result;
  for (const int side : {-1, 0, 1}) {
    std::vector<seeds::Dim> dims;
    for (const DimTile& tile : tiles) {
      const auto dim = std::find_if(free_dims.begin(), free_dims.end(),
                                    [&](const auto& d) { return d.name == tile.dim; });
      if (dim == free_dims.end()) continue;
      dims.push_back({tile.dim, std::clamp(tile.tile + side, dim->least, dim->most)});
    }
    const auto alike = [&](const std::vector<seeds::Dim>& other) {
      return std::equal(dims.begin(), dims.end(), other.begin(), other.end(),
                        [](const auto& a, const auto& b) { return a.value == b.value; });
    };
    if (std::none_of(result.begin(), result.end(), alike)) result.push_back(std::move(dims));
  }
  return result;
}

}  // namespace grove::eval
