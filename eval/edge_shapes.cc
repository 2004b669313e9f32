#include "eval/edge_shapes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace grove::eval {
namespace {

using seeds::Case;
using seeds::CaseRole;
using seeds::Dim;
using seeds::Tensor;
using seeds::TensorRole;

constexpr std::size_t kLeastValues = 3;
constexpr std::size_t kMostFactors = 4;

bool IsCheck(const Case& c) { return c.role != CaseRole::kScored && c.role != CaseRole::kExtra; }

std::vector<const Case*> Checks(const seeds::Task& task) {
  std::vector<const Case*> checks;
  for (const Case& c : task.cases) {
    if (IsCheck(c)) checks.push_back(&c);
  }
  return checks;
}

std::int64_t ValueOf(const Case& c, std::size_t dim) { return c.dims[dim].value; }

bool Constant(const std::vector<const Case*>& checks, std::size_t dim) {
  return std::all_of(checks.begin(), checks.end(), [&](const Case* c) {
    return ValueOf(*c, dim) == ValueOf(*checks.front(), dim);
  });
}

// Whether one of two dims divides the other in every check.
bool Coupled(const std::vector<const Case*>& checks, std::size_t a, std::size_t b) {
  bool a_by_b = true;
  bool b_by_a = true;
  for (const Case* c : checks) {
    a_by_b = a_by_b && ValueOf(*c, a) % ValueOf(*c, b) == 0;
    b_by_a = b_by_a && ValueOf(*c, b) % ValueOf(*c, a) == 0;
  }
  return a_by_b || b_by_a;
}

// A value of every case as a constant times a product of dims.
class Product {
 public:
  // nullopt when there is none of up to kMostFactors different dims. The one of the fewest factors.
  static std::optional<Product> Find(const std::vector<Case>& cases,
                                     const std::function<std::int64_t(std::size_t)>& value) {
    const std::size_t dims = cases.front().dims.size();
    for (std::size_t factors = 0; factors <= std::min(dims, kMostFactors); ++factors) {
      Product product;
      if (product.Try(cases, value, factors, 0)) return product;
    }
    return std::nullopt;
  }

  // `value` of a case with dims `before`, at dims `after`; nullopt when that is no whole number.
  std::optional<std::int64_t> Scale(std::int64_t value, const std::vector<Dim>& before,
                                    const std::vector<Dim>& after) const {
    std::int64_t above = value;
    std::int64_t below = 1;
    for (const std::size_t dim : dims_) {
      if (__builtin_mul_overflow(above, after[dim].value, &above) ||
          __builtin_mul_overflow(below, before[dim].value, &below)) {
        return std::nullopt;
      }
    }
    if (above % below != 0) return std::nullopt;
    return above / below;
  }

 private:
  bool Try(const std::vector<Case>& cases, const std::function<std::int64_t(std::size_t)>& value,
           std::size_t factors, std::size_t from) {
    if (factors == 0) {
      for (std::size_t i = 1; i < cases.size(); ++i) {
        if (Scale(value(0), cases[0].dims, cases[i].dims) != value(i)) return false;
      }
      return true;
    }
    for (std::size_t dim = from; dim < cases.front().dims.size(); ++dim) {
      dims_.push_back(dim);
      if (Try(cases, value, factors - 1, dim + 1)) return true;
      dims_.pop_back();
    }
    return false;
  }

  std::vector<std::size_t> dims_;
};

// The dims of `shape` in an order of sizes that some check has, for every two that vary.
bool Ordered(const std::vector<const Case*>& checks, const std::vector<Dim>& shape) {
  for (std::size_t a = 0; a < shape.size(); ++a) {
    for (std::size_t b = 0; b < shape.size(); ++b) {
      if (a == b || shape[a].value <= shape[b].value) continue;
      const bool seen = std::any_of(checks.begin(), checks.end(),
                                    [&](const Case* c) { return ValueOf(*c, a) > ValueOf(*c, b); });
      if (!seen) return false;
    }
  }
  return true;
}

// What the tensors have in all cases: the same dims, tensors and ranks.
bool Uniform(const seeds::Task& task) {
  const Case& first = task.cases.front();
  return std::all_of(task.cases.begin(), task.cases.end(), [&](const Case& c) {
    return c.dims.size() == first.dims.size() &&
           std::equal(
               c.tensors.begin(), c.tensors.end(), first.tensors.begin(), first.tensors.end(),
               [](const Tensor& a, const Tensor& b) { return a.shape.size() == b.shape.size(); });
  });
}

}  // namespace

std::vector<FreeDim> FreeDims(const seeds::Task& task) {
  std::vector<FreeDim> result;
  const auto checks = Checks(task);
  if (checks.empty() || !Uniform(task)) return result;
  for (const Case* c : checks) {
    if (!c->golden.empty()) return result;
    for (const Tensor& tensor : c->tensors) {
      if (tensor.role != TensorRole::kInput) continue;
      if (!IsFloat(tensor.dtype)) return result;
      if (tensor.distribution.kind == seeds::Distribution::Kind::kFile) return result;
    }
  }
  const std::vector<Dim>& dims = checks.front()->dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::set<std::int64_t> values;  // above 1, which has every divisor
    std::int64_t divisor = 0;
    FreeDim dim{dims[d].name, ValueOf(*checks.front(), d), ValueOf(*checks.front(), d)};
    for (const Case* c : checks) {
      const std::int64_t value = ValueOf(*c, d);
      dim.least = std::min(dim.least, value);
      dim.most = std::max(dim.most, value);
      if (value <= 1) continue;
      values.insert(value);
      divisor = std::gcd(divisor, value);
    }
    if (values.size() < kLeastValues || divisor != 1) continue;
    bool coupled = false;
    for (std::size_t e = 0; e < dims.size(); ++e) {
      coupled = coupled || (e != d && !Constant(checks, e) && Coupled(checks, d, e));
    }
    if (!coupled) result.push_back(std::move(dim));
  }
  return result;
}

std::optional<seeds::Task> Reshape(const seeds::Task& task, std::size_t like,
                                   const std::vector<Dim>& dims) {
  if (!Uniform(task)) return std::nullopt;
  const Case& model = task.cases[like];
  Case made = model;
  made.role = CaseRole::kEdge;
  made.name = "tile_edge";
  for (const Dim& dim : dims) {
    made.name += fmt::format("_{}{}", dim.name, dim.value);
    for (Dim& own : made.dims) {
      if (own.name != dim.name) continue;
      made.flops *= static_cast<double>(dim.value) / static_cast<double>(own.value);
      own.value = dim.value;
    }
  }
  if (!Ordered(Checks(task), made.dims)) return std::nullopt;
  // A value of the model at the new dims.
  const auto scaled =
      [&](const std::function<std::int64_t(std::size_t)>& value) -> std::optional<std::int64_t> {
    const auto product = Product::Find(task.cases, value);
    if (!product) return std::nullopt;
    return product->Scale(value(like), model.dims, made.dims);
  };
  made.min_bytes = Bytes(0);
  for (std::size_t t = 0; t < made.tensors.size(); ++t) {
    for (std::size_t axis = 0; axis < made.tensors[t].shape.size(); ++axis) {
      const auto extent =
          scaled([&](std::size_t i) { return task.cases[i].tensors[t].shape[axis]; });
      if (!extent || *extent < 1) return std::nullopt;
      made.tensors[t].shape[axis] = *extent;
    }
    made.min_bytes = made.min_bytes + made.tensors[t].bytes();
  }
  const auto row = scaled([&](std::size_t i) { return task.cases[i].row_elements; });
  const auto reduction = scaled([&](std::size_t i) { return task.reduction[i]; });
  if (!row || !reduction) return std::nullopt;
  made.row_elements = *row;
  seeds::Task result = task;
  result.name += "#" + made.name;  // devices keep inputs and references by a task's name
  result.cases = {std::move(made)};
  result.reduction = {*reduction};
  result.reference_elements_per_block = {0};
  return result;
}

}  // namespace grove::eval
