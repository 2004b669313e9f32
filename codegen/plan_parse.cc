// Reads the launch plan as written. The format is docs/plan.md.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/suggest.h"
#include "codegen/plan.h"
#include "codegen/plan_json.h"
#include "codegen/plan_names.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

using Kind = JsonValue::Kind;

// Limits of a plan as written: far above any honest plan, low enough that no plan costs much.
constexpr std::size_t kMaxVariants = 64;
constexpr std::size_t kMaxBuffers = 64;  // workspaces or tensor maps of one variant
constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kMaxTensorMapRank = 5;
constexpr std::size_t kMaxSteps = 4096;  // of one variant, repeats counted once
constexpr std::size_t kMaxArgs = 128;
constexpr std::size_t kMaxRepeatDepth = 4;

std::vector<std::string> Strings(std::initializer_list<std::string_view> names) {
  return {names.begin(), names.end()};
}

Failure Bad(std::string_view place, std::string_view what) {
  return Fail(ErrorCode::kInvalidInput,
              place.empty() ? std::string(what) : fmt::format("{}: {}", place, what));
}

Failure Expected(std::string_view place, std::string_view what, const JsonValue& found) {
  return Bad(place, fmt::format("expected {}, found {}", what, found.Describe()));
}

std::string Join(std::string_view place, std::string_view field) {
  return place.empty() ? std::string(field) : fmt::format("{}.{}", place, field);
}

Status CheckFields(const JsonValue& object, std::string_view place,
                   std::initializer_list<std::string_view> valid) {
  for (const std::string& name : object.keys) {
    if (std::find(valid.begin(), valid.end(), name) != valid.end()) continue;
    const std::string quoted = Quoted(name);
    return Bad(place, UnknownName("field", std::string_view(quoted).substr(1, quoted.size() - 2),
                                  Strings(valid)));
  }
  return {};
}

Result<Expr> ReadExpr(const JsonValue& value, std::string_view place) {
  if (value.kind == Kind::kInteger) return Expr::Constant(value.integer);
  if (value.kind != Kind::kString) {
    return Expected(place, "an integer or an expression in a string", value);
  }
  Result<Expr> parsed = Expr::Parse(value.string);
  // "launches[1].grid[0], column 5: ...": the column belongs to the place.
  if (!parsed)
    return Fail(parsed.error().code, fmt::format("{}, {}", place, parsed.error().message));
  return parsed;
}

Result<std::vector<Expr>> ReadExprs(const JsonValue& value, const std::string& place,
                                    std::size_t least, std::size_t most) {
  std::vector<Expr> result;
  if (value.kind != Kind::kArray) {
    Result<Expr> single = ReadExpr(value, place);
    if (!single) return Fail(std::move(single).error());
    result.push_back(*std::move(single));
    return result;
  }
  if (value.items.size() < least || value.items.size() > most) {
    return Expected(place, fmt::format("{} to {} entries", least, most), value);
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    Result<Expr> item = ReadExpr(value.items[i], fmt::format("{}[{}]", place, i));
    if (!item) return Fail(std::move(item).error());
    result.push_back(*std::move(item));
  }
  return result;
}

Result<std::array<Expr, 3>> ReadExtent(const JsonValue& value, const std::string& place) {
  Result<std::vector<Expr>> list = ReadExprs(value, place, 1, 3);
  if (!list) return Fail(std::move(list).error());
  std::array<Expr, 3> extent{Expr::Constant(1), Expr::Constant(1), Expr::Constant(1)};
  std::move(list->begin(), list->end(), extent.begin());
  return extent;
}

Result<std::string> ReadName(const JsonValue& object, std::string_view field,
                             std::string_view place) {
  const JsonValue* value = object.Find(field);
  if (value == nullptr) return Bad(place, fmt::format("'{}' is missing", field));
  if (value->kind != Kind::kString || !IsIdentifier(value->string)) {
    return Expected(Join(place, field), "a name (letters, digits, '_'; at most 128)", *value);
  }
  return value->string;
}

Result<std::string> ReadChoice(const JsonValue& object, std::string_view field,
                               std::string_view place, std::span<const std::string_view> choices) {
  const JsonValue* value = object.Find(field);
  if (value == nullptr) return std::string(choices.front());
  if (value->kind == Kind::kString) {
    if (std::find(choices.begin(), choices.end(), value->string) != choices.end()) {
      return value->string;
    }
  }
  return Expected(Join(place, field), fmt::format("one of {}", fmt::join(choices, ", ")), *value);
}

Result<bool> ReadBool(const JsonValue& object, std::string_view field, std::string_view place) {
  const JsonValue* value = object.Find(field);
  if (value == nullptr) return false;
  if (value->kind != Kind::kBool) return Expected(Join(place, field), "true or false", *value);
  return value->boolean;
}

const JsonValue* FindOr(const JsonValue& object, std::string_view field, const JsonValue& other) {
  const JsonValue* value = object.Find(field);
  return value == nullptr ? &other : value;
}

// One variant and the names it declares.
class VariantReader {
 public:
  VariantReader(const JsonValue& object, std::string place)
      : object_(object), place_(std::move(place)) {}

  Result<Variant> Read() {
    if (const JsonValue* when = object_.Find("when")) {
      Result<Expr> condition = ReadExpr(*when, Join(place_, "when"));
      if (!condition) return Fail(std::move(condition).error());
      variant_.when = *std::move(condition);
    }
    if (Status status = ReadList("workspace", kMaxBuffers, &VariantReader::ReadWorkspace);
        !status) {
      return Fail(std::move(status).error());
    }
    if (Status status = ReadList("tensor_maps", kMaxBuffers, &VariantReader::ReadTensorMap);
        !status) {
      return Fail(std::move(status).error());
    }
    Result<std::vector<Step>> steps = ReadSteps(object_, place_);
    if (!steps) return Fail(std::move(steps).error());
    variant_.steps = *std::move(steps);
    return std::move(variant_);
  }

 private:
  Status ReadList(std::string_view field, std::size_t most,
                  Status (VariantReader::*read)(const JsonValue&, const std::string&)) {
    const JsonValue* list = object_.Find(field);
    if (list == nullptr) return {};
    const std::string place = Join(place_, field);
    if (list->kind != Kind::kArray) return Expected(place, "a list", *list);
    if (list->items.size() > most) {
      return Expected(place, fmt::format("at most {} entries", most), *list);
    }
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const std::string item = fmt::format("{}[{}]", place, i);
      if (list->items[i].kind != Kind::kObject) {
        return Expected(item, "an object", list->items[i]);
      }
      if (Status status = (this->*read)(list->items[i], item); !status) return status;
    }
    return {};
  }

  // Declares a name of this variant; everything in a plan shares one space of names.
  Result<std::string> Declare(const JsonValue& object, std::string_view field,
                              const std::string& place) {
    Result<std::string> name = ReadName(object, field, place);
    if (!name) return name;
    if (IsWorkspace(*name) || IsTensorMap(*name) || IsLoopVariable(*name)) {
      return Bad(Join(place, field), fmt::format("the name '{}' is already taken", *name));
    }
    if (IsReservedName(*name)) {
      return Bad(Join(place, field),
                 fmt::format("the name '{}' is reserved for {}", *name, ReservedMeaning(*name)));
    }
    return name;
  }

  bool IsWorkspace(std::string_view name) const {
    return std::any_of(variant_.workspaces.begin(), variant_.workspaces.end(),
                       [&](const Workspace& w) { return w.name == name; });
  }
  bool IsTensorMap(std::string_view name) const {
    return std::any_of(variant_.tensor_maps.begin(), variant_.tensor_maps.end(),
                       [&](const TensorMap& m) { return m.name == name; });
  }
  bool IsLoopVariable(std::string_view name) const {
    return std::find(loop_variables_.begin(), loop_variables_.end(), name) != loop_variables_.end();
  }

  Status ReadWorkspace(const JsonValue& object, const std::string& place) {
    if (Status s = CheckFields(object, place, {"name", "dtype", "shape", "init"}); !s) return s;
    Workspace workspace;
    Result<std::string> name = Declare(object, "name", place);
    if (!name) return Fail(std::move(name).error());
    workspace.name = *std::move(name);
    const JsonValue* dtype = object.Find("dtype");
    if (dtype == nullptr) return Bad(place, "'dtype' is missing");
    if (dtype->kind != Kind::kString) return Expected(Join(place, "dtype"), "a dtype", *dtype);
    const std::optional<DType> known = DTypeFromName(dtype->string);
    if (!known) {
      const std::string quoted = Quoted(dtype->string);
      return Bad(Join(place, "dtype"),
                 UnknownName("dtype", std::string_view(quoted).substr(1, quoted.size() - 2),
                             DTypeNames()));
    }
    workspace.dtype = *known;
    const JsonValue* shape = object.Find("shape");
    if (shape == nullptr) return Bad(place, "'shape' is missing");
    Result<std::vector<Expr>> sizes = ReadExprs(*shape, Join(place, "shape"), 1, kMaxRank);
    if (!sizes) return Fail(std::move(sizes).error());
    workspace.shape = *std::move(sizes);
    static constexpr std::array<std::string_view, 2> kInits = {"none", "zero"};
    Result<std::string> init = ReadChoice(object, "init", place, kInits);
    if (!init) return Fail(std::move(init).error());
    workspace.zero = *init == "zero";
    variant_.workspaces.push_back(std::move(workspace));
    return {};
  }

  Status ReadTensorMap(const JsonValue& object, const std::string& place) {
    if (Status s = CheckFields(
            object, place,
            {"name", "tensor", "box", "element_strides", "swizzle", "interleave", "l2_promotion"});
        !s) {
      return s;
    }
    TensorMap map;
    Result<std::string> name = Declare(object, "name", place);
    if (!name) return Fail(std::move(name).error());
    map.name = *std::move(name);
    Result<std::string> tensor = ReadName(object, "tensor", place);
    if (!tensor) return Fail(std::move(tensor).error());
    map.tensor = *std::move(tensor);
    const JsonValue* box = object.Find("box");
    if (box == nullptr) return Bad(place, "'box' is missing");
    Result<std::vector<Expr>> sizes = ReadExprs(*box, Join(place, "box"), 1, kMaxTensorMapRank);
    if (!sizes) return Fail(std::move(sizes).error());
    map.box = *std::move(sizes);
    if (const JsonValue* strides = object.Find("element_strides")) {
      const std::string at = Join(place, "element_strides");
      Result<std::vector<Expr>> list = ReadExprs(*strides, at, 1, kMaxTensorMapRank);
      if (!list) return Fail(std::move(list).error());
      if (list->size() != map.box.size()) {
        return Bad(at, fmt::format("expected {} entries like 'box', found {}", map.box.size(),
                                   list->size()));
      }
      map.element_strides = *std::move(list);
    }
    static constexpr std::array<std::string_view, 4> kSwizzles = {"none", "32B", "64B", "128B"};
    static constexpr std::array<std::string_view, 3> kInterleaves = {"none", "16B", "32B"};
    static constexpr std::array<std::string_view, 4> kPromotions = {"none", "64B", "128B", "256B"};
    struct Choice {
      std::string_view field;
      std::string* target;
      std::span<const std::string_view> choices;
    };
    for (const Choice& choice : {Choice{"swizzle", &map.swizzle, kSwizzles},
                                 Choice{"interleave", &map.interleave, kInterleaves},
                                 Choice{"l2_promotion", &map.l2_promotion, kPromotions}}) {
      Result<std::string> chosen = ReadChoice(object, choice.field, place, choice.choices);
      if (!chosen) return Fail(std::move(chosen).error());
      *choice.target = *std::move(chosen);
    }
    variant_.tensor_maps.push_back(std::move(map));
    return {};
  }

  Result<std::vector<Step>> ReadSteps(const JsonValue& object, const std::string& place) {
    const JsonValue* list = object.Find("launches");
    if (list == nullptr) return Bad(place, "'launches' is missing");
    const std::string at = Join(place, "launches");
    if (list->kind != Kind::kArray) return Expected(at, "a list of launches", *list);
    if (list->items.empty()) return Bad(at, "expected at least one launch, found an empty list");
    std::vector<Step> steps;
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const std::string item = fmt::format("{}[{}]", at, i);
      if (++step_count_ > kMaxSteps) return Bad(item, fmt::format("more than {} steps", kMaxSteps));
      if (list->items[i].kind != Kind::kObject) {
        return Expected(item, "a launch or a repeat (an object)", list->items[i]);
      }
      Step step;
      if (list->items[i].Find("library") != nullptr) {
        Result<Gemm> gemm = ReadGemm(list->items[i], item);
        if (!gemm) return Fail(std::move(gemm).error());
        step.action = *std::move(gemm);
      } else if (list->items[i].Find("repeat") != nullptr) {
        Result<Repeat> repeat = ReadRepeat(list->items[i], item);
        if (!repeat) return Fail(std::move(repeat).error());
        step.action = *std::move(repeat);
      } else {
        Result<Launch> launch = ReadLaunch(list->items[i], item);
        if (!launch) return Fail(std::move(launch).error());
        step.action = *std::move(launch);
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

  Result<Repeat> ReadRepeat(const JsonValue& step, const std::string& step_place) {
    if (Status s = CheckFields(step, step_place, {"repeat"}); !s) return Fail(std::move(s).error());
    const JsonValue& object = *step.Find("repeat");
    const std::string place = Join(step_place, "repeat");
    if (object.kind != Kind::kObject) return Expected(place, "an object", object);
    if (Status s = CheckFields(object, place, {"var", "from", "to", "step", "launches"}); !s) {
      return Fail(std::move(s).error());
    }
    if (loop_variables_.size() >= kMaxRepeatDepth) {
      return Bad(place, fmt::format("repeats nested deeper than {}", kMaxRepeatDepth));
    }
    Repeat repeat;
    Result<std::string> var = Declare(object, "var", place);
    if (!var) return Fail(std::move(var).error());
    repeat.var = *std::move(var);
    if (object.Find("to") == nullptr) return Bad(place, "'to' is missing");
    JsonValue zero, one;
    zero.kind = one.kind = Kind::kInteger;
    one.integer = 1;
    for (const auto& [field, target, fallback] :
         {std::tuple{"from", &repeat.from, &zero}, std::tuple{"to", &repeat.to, &zero},
          std::tuple{"step", &repeat.step, &one}}) {
      Result<Expr> value = ReadExpr(*FindOr(object, field, *fallback), Join(place, field));
      if (!value) return Fail(std::move(value).error());
      *target = *std::move(value);
    }
    loop_variables_.push_back(repeat.var);
    Result<std::vector<Step>> steps = ReadSteps(object, place);
    loop_variables_.pop_back();
    if (!steps) return Fail(std::move(steps).error());
    repeat.steps = *std::move(steps);
    return repeat;
  }

  Result<MatrixText> ReadMatrix(const JsonValue& step, std::string_view field,
                                const std::string& step_place) {
    const JsonValue* object = step.Find(field);
    if (object == nullptr) return Bad(step_place, fmt::format("'{}' is missing", field));
    const std::string place = Join(step_place, field);
    if (object->kind != Kind::kObject) {
      return Expected(place, "an object with \"buffer\" and \"ld\"", *object);
    }
    if (Status s = CheckFields(*object, place, {"buffer", "offset", "ld", "stride", "transpose"});
        !s) {
      return Fail(std::move(s).error());
    }
    MatrixText matrix;
    Result<std::string> buffer = ReadName(*object, "buffer", place);
    if (!buffer) return Fail(std::move(buffer).error());
    matrix.buffer = *std::move(buffer);
    if (object->Find("ld") == nullptr) return Bad(place, "'ld' is missing");
    for (const auto& [name, target] :
         {std::pair{"offset", &matrix.offset}, std::pair{"ld", &matrix.ld},
          std::pair{"stride", &matrix.stride}}) {
      const JsonValue* value = object->Find(name);
      if (value == nullptr) continue;
      Result<Expr> expression = ReadExpr(*value, Join(place, name));
      if (!expression) return Fail(std::move(expression).error());
      *target = *std::move(expression);
    }
    Result<bool> transpose = ReadBool(*object, "transpose", place);
    if (!transpose) return Fail(std::move(transpose).error());
    matrix.transpose = *transpose;
    if (matrix.transpose && field == "c") {
      return Bad(Join(place, "transpose"), "c cannot be transposed; swap a and b instead");
    }
    return matrix;
  }

  Result<Gemm> ReadGemm(const JsonValue& object, const std::string& place) {
    static constexpr std::array<std::string_view, 1> kLibraries = {"gemm"};
    if (Result<std::string> name = ReadChoice(object, "library", place, kLibraries); !name) {
      return Fail(std::move(name).error());
    }
    if (Status s = CheckFields(
            object, place,
            {"library", "m", "n", "k", "batch", "alpha", "beta", "compute", "a", "b", "c"});
        !s) {
      return Fail(std::move(s).error());
    }
    Gemm gemm;
    gemm.batch = Expr::Constant(1);
    for (const auto& [field, target] : {std::pair{"m", &gemm.m}, std::pair{"n", &gemm.n},
                                        std::pair{"k", &gemm.k}, std::pair{"batch", &gemm.batch}}) {
      const JsonValue* value = object.Find(field);
      if (value == nullptr && target == &gemm.batch) continue;
      if (value == nullptr) return Bad(place, fmt::format("'{}' is missing", field));
      Result<Expr> size = ReadExpr(*value, Join(place, field));
      if (!size) return Fail(std::move(size).error());
      *target = *std::move(size);
    }
    for (const auto& [field, target] :
         {std::pair{"alpha", &gemm.alpha}, std::pair{"beta", &gemm.beta}}) {
      const JsonValue* value = object.Find(field);
      if (value == nullptr) continue;
      if ((value->kind != Kind::kReal && value->kind != Kind::kInteger) ||
          std::isinf(static_cast<float>(value->real))) {
        return Expected(Join(place, field), "a number that fits f32", *value);
      }
      *target = value->real;
    }
    if (object.Find("compute") != nullptr) {
      static constexpr std::array kComputes = {GemmCompute::kFp32,   GemmCompute::kTf32,
                                               GemmCompute::kFp16,   GemmCompute::kBf16,
                                               GemmCompute::kBf16x9, GemmCompute::kFp64};
      std::array<std::string_view, kComputes.size()> names;
      std::transform(kComputes.begin(), kComputes.end(), names.begin(),
                     [](GemmCompute compute) { return Name(compute); });
      Result<std::string> name = ReadChoice(object, "compute", place, names);
      if (!name) return Fail(std::move(name).error());
      gemm.compute = *std::find_if(kComputes.begin(), kComputes.end(),
                                   [&](GemmCompute compute) { return Name(compute) == *name; });
    }
    for (const auto& [field, target] :
         {std::pair{"a", &gemm.a}, std::pair{"b", &gemm.b}, std::pair{"c", &gemm.c}}) {
      Result<MatrixText> matrix = ReadMatrix(object, field, place);
      if (!matrix) return Fail(std::move(matrix).error());
      *target = *std::move(matrix);
    }
    return gemm;
  }

  Result<Launch> ReadLaunch(const JsonValue& object, const std::string& place) {
    if (Status s = CheckFields(
            object, place,
            {"kernel", "grid", "block", "shared", "cluster", "cooperative", "dependent", "args"});
        !s) {
      return Fail(std::move(s).error());
    }
    Launch launch;
    Result<std::string> kernel = ReadName(object, "kernel", place);
    if (!kernel) return Fail(std::move(kernel).error());
    launch.kernel = *std::move(kernel);
    for (const auto& [field, target] :
         {std::pair{"grid", &launch.grid}, std::pair{"block", &launch.block}}) {
      const JsonValue* value = object.Find(field);
      if (value == nullptr) return Bad(place, fmt::format("'{}' is missing", field));
      Result<std::array<Expr, 3>> extent = ReadExtent(*value, Join(place, field));
      if (!extent) return Fail(std::move(extent).error());
      *target = *std::move(extent);
    }
    if (const JsonValue* shared = object.Find("shared")) {
      Result<Expr> bytes = ReadExpr(*shared, Join(place, "shared"));
      if (!bytes) return Fail(std::move(bytes).error());
      launch.shared_bytes = *std::move(bytes);
    }
    if (const JsonValue* cluster = object.Find("cluster")) {
      Result<std::array<Expr, 3>> extent = ReadExtent(*cluster, Join(place, "cluster"));
      if (!extent) return Fail(std::move(extent).error());
      launch.cluster = *std::move(extent);
    }
    for (const auto& [field, target] : {std::pair{"cooperative", &launch.cooperative},
                                        std::pair{"dependent", &launch.dependent}}) {
      Result<bool> flag = ReadBool(object, field, place);
      if (!flag) return Fail(std::move(flag).error());
      *target = *flag;
    }
    if (const JsonValue* args = object.Find("args")) {
      const std::string at = Join(place, "args");
      if (args->kind != Kind::kArray) return Expected(at, "a list", *args);
      if (args->items.size() > kMaxArgs) {
        return Expected(at, fmt::format("at most {} entries", kMaxArgs), *args);
      }
      for (std::size_t i = 0; i < args->items.size(); ++i) {
        Result<Arg> arg = ReadArg(args->items[i], fmt::format("{}[{}]", at, i));
        if (!arg) return Fail(std::move(arg).error());
        launch.args.push_back(*std::move(arg));
      }
    }
    return launch;
  }

  Result<Arg> ReadArg(const JsonValue& value, const std::string& place) {
    if (value.kind == Kind::kString && IsIdentifier(value.string) &&
        !IsLoopVariable(value.string) && !IsReservedName(value.string)) {
      Arg arg;
      arg.kind = IsTensorMap(value.string) ? Arg::Kind::kTensorMap : Arg::Kind::kBuffer;
      arg.name = value.string;
      return arg;
    }
    Arg arg;
    arg.kind = Arg::Kind::kScalar;
    if (value.kind == Kind::kString || value.kind == Kind::kInteger) {
      Result<Expr> expression = ReadExpr(value, place);
      if (!expression) return Fail(std::move(expression).error());
      arg.expression = *std::move(expression);
      return arg;
    }
    if (value.kind != Kind::kObject) {
      return Expected(place, "a name, an expression or {\"i32\"|\"i64\"|\"f32\"|\"f64\": value}",
                      value);
    }
    if (Status s = CheckFields(value, place, {"i32", "i64", "f32", "f64"}); !s) {
      return Fail(std::move(s).error());
    }
    if (value.items.size() != 1) {
      return Bad(place, fmt::format("expected exactly one of i32, i64, f32, f64, found {}",
                                    value.items.size()));
    }
    const std::string& type = value.keys[0];
    const JsonValue& inner = value.items[0];
    const std::string at = Join(place, type);
    arg.type = *ScalarTypeFromName(type);
    const bool real = arg.type == ScalarType::kF32 || arg.type == ScalarType::kF64;
    if (real && (inner.kind == Kind::kReal || inner.kind == Kind::kInteger)) {
      if (arg.type == ScalarType::kF32 && std::isinf(static_cast<float>(inner.real))) {
        return Bad(at, fmt::format("{} does not fit f32", inner.real));
      }
      arg.real = inner.real;
      return arg;
    }
    Result<Expr> expression = ReadExpr(inner, at);
    if (!expression) {
      if (real) {
        expression.error().message +=
            " (f32 and f64 take a number, an integer expression or a scalar of the task)";
      }
      return Fail(std::move(expression).error());
    }
    arg.expression = *std::move(expression);
    return arg;
  }

  const JsonValue& object_;
  const std::string place_;
  Variant variant_;
  std::vector<std::string> loop_variables_;
  std::size_t step_count_ = 0;
};

}  // namespace

Result<LaunchPlan> ParsePlan(std::string_view json) {
  if (Trimmed(json).empty()) return Bad("", "the launch plan is empty");
  Result<JsonValue> document = ReadJson(json);
  if (!document) return Fail(std::move(document).error());
  if (document->kind != Kind::kObject) {
    return Expected("", "a launch plan (an object with \"launches\")", *document);
  }
  if (const JsonValue* version = document->Find("version")) {
    if (version->kind != Kind::kInteger || version->integer != 1) {
      return Expected("version", "1 (the only version there is)", *version);
    }
  }
  LaunchPlan plan;
  const JsonValue* variants = document->Find("variants");
  if (variants == nullptr) {
    if (Status s = CheckFields(
            *document, "", {"version", "when", "workspace", "tensor_maps", "launches", "variants"});
        !s) {
      return Fail(std::move(s).error());
    }
    Result<Variant> only = VariantReader(*document, "").Read();
    if (!only) return Fail(std::move(only).error());
    plan.variants.push_back(*std::move(only));
    return plan;
  }
  if (document->Find("launches") != nullptr) {
    return Bad("launches", "stands beside \"variants\"; write it inside each variant");
  }
  if (Status s = CheckFields(*document, "", {"version", "variants"}); !s) {
    return Fail(std::move(s).error());
  }
  if (variants->kind != Kind::kArray || variants->items.empty() ||
      variants->items.size() > kMaxVariants) {
    return Expected("variants", fmt::format("a list of 1 to {} variants", kMaxVariants), *variants);
  }
  for (std::size_t i = 0; i < variants->items.size(); ++i) {
    const std::string place = fmt::format("variants[{}]", i);
    const JsonValue& object = variants->items[i];
    if (object.kind != Kind::kObject) return Expected(place, "an object", object);
    if (Status s = CheckFields(object, place, {"when", "workspace", "tensor_maps", "launches"});
        !s) {
      return Fail(std::move(s).error());
    }
    Result<Variant> variant = VariantReader(object, place).Read();
    if (!variant) return Fail(std::move(variant).error());
    plan.variants.push_back(*std::move(variant));
  }
  return plan;
}

}  // namespace grove::codegen
