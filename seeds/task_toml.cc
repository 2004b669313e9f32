// The only translation unit that knows TOML.

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"
#include "base/toml.h"
#include "seeds/task_text.h"

namespace grove::seeds {
namespace {

using Names = std::vector<std::string>;

// Names that the prelude or a plan gives another meaning: C++ and CUDA words, and what plan
// expressions know besides dims.
constexpr std::string_view kReserved[] = {
    "alignas",   "alignof",  "and",       "asm",        "auto",      "bitand",   "bitor",
    "bool",      "break",    "case",      "catch",      "char",      "class",    "compl",
    "concept",   "const",    "consteval", "constexpr",  "constinit", "continue", "decltype",
    "default",   "delete",   "do",        "double",     "else",      "enum",     "explicit",
    "export",    "extern",   "false",     "float",      "for",       "friend",   "goto",
    "half",      "if",       "inline",    "int",        "long",      "mutable",  "namespace",
    "new",       "noexcept", "not",       "nullptr",    "operator",  "or",       "private",
    "protected", "public",   "register",  "requires",   "return",    "short",    "signed",
    "sizeof",    "static",   "struct",    "switch",     "template",  "this",     "throw",
    "true",      "try",      "typedef",   "typeid",     "typename",  "union",    "unsigned",
    "using",     "virtual",  "void",      "volatile",   "while",     "xor",      "min",
    "max",       "ceil_div", "sm_count",  "max_shared", "l2_bytes",
};

bool IsIdentifier(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (!letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Whether a name may stand for a dim, tensor or scalar in kernels and plans.
bool IsUsable(std::string_view name) {
  const bool reserved =
      std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved) ||
      DTypeFromName(name).has_value();
  return IsIdentifier(name) && !reserved && name.find("__") == std::string_view::npos;
}

// Case and task names stand in file names, tables and command lines.
bool IsLabel(std::string_view text) {
  if (text.empty() || text.size() > 64 || text[0] == '-' || text[0] == '.') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

Place PlaceOf(const toml::source_region& region) {
  return {static_cast<std::int64_t>(region.begin.line),
          static_cast<std::int64_t>(region.begin.column)};
}
Place PlaceOf(const toml::node& node) { return PlaceOf(node.source()); }

std::string TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

// Reads typed values out of the parsed file. A fault is remembered and reading goes on with a
// default, because TOML tables are sorted by key: the fault reported is the first in the file.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  void Fault(Place place, std::string_view message) { Remember(place, message, 0); }
  // Something missing: often the consequence of another fault (a misspelt key), so it comes second.
  void Lack(Place place, std::string_view message) { Remember(place, message, 1); }
  const std::optional<Error>& error() const { return error_; }

  void KnownKeys(const toml::table& table, std::string_view where, const Names& valid) {
    for (auto&& [key, value] : table) {
      if (std::find(valid.begin(), valid.end(), key.str()) == valid.end()) {
        Fault(PlaceOf(key.source()),
              fmt::format("{} of {}", UnknownName("key", key.str(), valid), where));
      }
    }
  }

  // The node of a required key, or nullptr after a fault at the table.
  const toml::node* Require(const toml::table& table, std::string_view key,
                            std::string_view where) {
    const toml::node* node = table.get(key);
    if (node == nullptr) Lack(PlaceOf(table), fmt::format("{} lacks the key '{}'", where, key));
    return node;
  }

  void Expected(const toml::node& node, std::string_view key, std::string_view what) {
    Fault(PlaceOf(node), fmt::format("'{}' is {}; expected {}", key, TypeName(node), what));
  }

  Placed<std::string> String(const toml::node* node, std::string_view key) {
    if (node == nullptr) return {};
    const auto* text = node->as_string();
    if (text == nullptr) {
      Expected(*node, key, "a string");
      return {};
    }
    return {text->get(), PlaceOf(*node)};
  }

  Placed<std::string> Identifier(const toml::node* node, std::string_view key) {
    auto name = String(node, key);
    if (node == nullptr || !node->is_string()) return name;
    if (!IsUsable(name.value)) BadName(name.place, name.value);
    return name;
  }

  void BadName(Place place, std::string_view name) {
    Fault(place, fmt::format("'{}' cannot be a name: expected letters, digits and single '_', at "
                             "most 64, not a word of C++ or of launch plans",
                             name));
  }

  Placed<std::string> Label(const toml::node* node, std::string_view key) {
    auto name = String(node, key);
    if (node != nullptr && node->is_string() && !IsLabel(name.value)) {
      Fault(name.place, fmt::format("'{}' cannot be a name: expected letters, digits, '_', '-' and "
                                    "'.', at most 64",
                                    name.value));
    }
    return name;
  }

  bool Boolean(const toml::node* node, std::string_view key) {
    if (node == nullptr) return false;
    const auto* value = node->as_boolean();
    if (value == nullptr) Expected(*node, key, "true or false");
    return value != nullptr && value->get();
  }

  double Number(const toml::node* node, std::string_view key) {
    if (node == nullptr) return 0;
    double value = 0;
    if (const auto* integer = node->as_integer()) {
      value = static_cast<double>(integer->get());
    } else if (const auto* floating = node->as_floating_point()) {
      value = floating->get();
    } else {
      Expected(*node, key, "a number");
    }
    if (!std::isfinite(value)) Fault(PlaceOf(*node), fmt::format("'{}' is not finite", key));
    return value;
  }

  Placed<Expr> Expression(const toml::node* node, std::string_view key) {
    if (node == nullptr) return {};
    if (const auto* integer = node->as_integer()) {
      return {Expr::Constant(integer->get()), PlaceOf(*node)};
    }
    const auto* text = node->as_string();
    if (text == nullptr) {
      Expected(*node, key, "an integer or an expression over dims in a string");
      return {};
    }
    auto parsed = Expr::Parse(text->get());
    if (!parsed) {
      Fault(PlaceOf(*node),
            fmt::format("in expression '{}': {}", text->get(), parsed.error().message));
      return {};
    }
    return {std::move(*parsed), PlaceOf(*node)};
  }

  const toml::table* Table(const toml::node* node, std::string_view key) {
    if (node == nullptr) return nullptr;
    const auto* table = node->as_table();
    if (table == nullptr) Expected(*node, key, "a table");
    return table;
  }

  const toml::array* Array(const toml::node* node, std::string_view key, std::size_t limit) {
    if (node == nullptr) return nullptr;
    const auto* array = node->as_array();
    if (array == nullptr) {
      Expected(*node, key, "an array");
    } else if (array->size() > limit) {
      Fault(PlaceOf(*node),
            fmt::format("'{}' has {} entries; at most {} are allowed", key, array->size(), limit));
      return nullptr;
    }
    return array;
  }

  Placed<DType> Type(const toml::node* node, std::string_view key) {
    const auto name = String(node, key);
    if (node == nullptr || !node->is_string()) return {};
    const auto dtype = DTypeFromName(name.value);
    if (!dtype) {
      Fault(name.place,
            UnknownName("dtype", name.value,
                        Names{"f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"}));
      return {};
    }
    return {*dtype, name.place};
  }

  // The index of a string among `valid`, or 0 after a fault.
  std::size_t OneOf(const toml::node* node, std::string_view key, const Names& valid) {
    const auto name = String(node, key);
    if (node == nullptr || !node->is_string()) return 0;
    const auto found = std::find(valid.begin(), valid.end(), name.value);
    if (found == valid.end()) {
      Fault(name.place, UnknownName(key, name.value, valid));
      return 0;
    }
    return static_cast<std::size_t>(found - valid.begin());
  }

 private:
  void Remember(Place place, std::string_view message, int rank) {
    const auto key = std::tuple(rank, place.line, place.column);
    if (error_ && key >= first_) return;
    error_ = ErrorAt(file_, place, message);
    first_ = key;
  }

  std::string_view file_;
  std::optional<Error> error_;
  std::tuple<int, std::int64_t, std::int64_t> first_;
};

Distribution ReadDistribution(Reader& reader, const toml::table& table) {
  Distribution d;
  d.kind = static_cast<Distribution::Kind>(
      reader.OneOf(reader.Require(table, "kind", "the distribution"), "kind",
                   Names{"normal", "uniform", "constant", "mixed", "tail", "matrix", "file"}));
  const auto number = [&](std::string_view key, double fallback) {
    const toml::node* node = table.get(key);
    return node == nullptr ? fallback : reader.Number(node, key);
  };
  const std::string where = fmt::format("a {} distribution", Name(d.kind));
  switch (d.kind) {
    case Distribution::Kind::kNormal:
    case Distribution::Kind::kTail:
      reader.KnownKeys(table, where, {"kind", "mean", "std"});
      d.a = number("mean", 0);
      d.b = number("std", 1);
      if (d.b < 0) reader.Fault(PlaceOf(*table.get("std")), "'std' is negative");
      break;
    case Distribution::Kind::kUniform:
      reader.KnownKeys(table, where, {"kind", "low", "high"});
      d.a = number("low", 0);
      d.b = number("high", 1);
      if (d.a >= d.b) reader.Fault(PlaceOf(table), "'low' is not below 'high'");
      break;
    case Distribution::Kind::kConstant:
      reader.KnownKeys(table, where, {"kind", "value"});
      d.a = reader.Number(reader.Require(table, "value", where), "value");
      d.b = 0;
      break;
    case Distribution::Kind::kMixed: {
      reader.KnownKeys(table, where, {"kind", "scales"});
      const toml::array* scales = reader.Array(reader.Require(table, "scales", where), "scales", 2);
      if (scales == nullptr) break;
      if (scales->size() != 2) {
        reader.Fault(PlaceOf(*scales), "'scales' needs two numbers");
        break;
      }
      d.a = reader.Number(scales->get(0), "scales");
      d.b = reader.Number(scales->get(1), "scales");
      break;
    }
    case Distribution::Kind::kFile: {
      reader.KnownKeys(table, where, {"kind", "key"});
      const auto key = reader.String(reader.Require(table, "key", where), "key");
      if (key.value.empty() && table.get("key") != nullptr) {
        reader.Fault(PlaceOf(table), "'key' is empty; expected a tensor of data.safetensors");
      }
      d.stored.key = key.value;
      d.a = d.b = 0;
      break;
    }
    case Distribution::Kind::kMatrix: {
      reader.KnownKeys(table, where, {"kind", "structure", "cond"});
      Names names;
      for (int i = 0; i < kStructureCount; ++i) {
        names.emplace_back(Name(static_cast<Distribution::Structure>(i)));
      }
      d.structure = static_cast<Distribution::Structure>(
          reader.OneOf(reader.Require(table, "structure", where), "structure", names));
      d.a = number("cond", 0);
      if (d.a < 0 || d.a > 30) {
        reader.Fault(PlaceOf(*table.get("cond")), "'cond' is in decimal orders; expected 0 to 30");
      }
      break;
    }
  }
  return d;
}

std::vector<Scalar> ReadScalars(Reader& reader, const toml::node* node) {
  std::vector<Scalar> scalars;
  const toml::table* table = reader.Table(node, "scalars");
  if (table == nullptr) return scalars;
  for (auto&& [key, value] : *table) {
    Scalar scalar;
    scalar.name = key.str();
    if (!IsUsable(scalar.name)) reader.BadName(PlaceOf(key.source()), scalar.name);
    if (const toml::table* detail = value.as_table()) {
      reader.KnownKeys(*detail, "the scalar", {"dtype", "value"});
      const auto dtype = reader.Type(reader.Require(*detail, "dtype", "the scalar"), "dtype");
      scalar.dtype = dtype.value;
      scalar.value = reader.Number(reader.Require(*detail, "value", "the scalar"), "value");
      const bool integer = scalar.dtype == DType::kI32 || scalar.dtype == DType::kI64;
      if (!integer && scalar.dtype != DType::kF32 && scalar.dtype != DType::kF64) {
        reader.Fault(dtype.place, "a scalar is f32, f64, i32 or i64");
      }
      // Beyond 2^53 a double no longer holds every integer.
      const double limit = scalar.dtype == DType::kI32 ? 2147483647.0 : 9007199254740992.0;
      if (integer &&
          (scalar.value != std::trunc(scalar.value) || std::fabs(scalar.value) > limit)) {
        reader.Fault(PlaceOf(value),
                     fmt::format("'{}' is not an integer of its dtype", scalar.name));
      }
    } else {
      scalar.value = reader.Number(&value, scalar.name);
    }
    scalars.push_back(std::move(scalar));
  }
  return scalars;
}

TensorText ReadTensor(Reader& reader, const toml::table& table) {
  const std::string where = "[[tensor]]";
  reader.KnownKeys(table, where, {"name", "role", "dtype", "shape", "input"});
  TensorText tensor;
  tensor.name = reader.Identifier(reader.Require(table, "name", where), "name");
  tensor.role = static_cast<TensorRole>(
      reader.OneOf(reader.Require(table, "role", where), "role", Names{"input", "output"}));
  tensor.dtype = reader.String(reader.Require(table, "dtype", where), "dtype");
  if (const toml::array* shape =
          reader.Array(reader.Require(table, "shape", where), "shape", kMaxRank)) {
    if (shape->empty()) reader.Fault(PlaceOf(*shape), "'shape' is empty; expected 1 to 8 extents");
    for (const toml::node& extent : *shape) {
      tensor.shape.push_back(reader.Expression(&extent, "shape"));
    }
  }
  if (const toml::node* input = table.get("input")) {
    if (tensor.role == TensorRole::kOutput) {
      reader.Fault(PlaceOf(*input), "an output has no 'input' distribution");
    } else if (const toml::table* distribution = reader.Table(input, "input")) {
      tensor.distribution = ReadDistribution(reader, *distribution);
    }
  }
  return tensor;
}

// One case, or one for each type where `dtypes` lists several for a symbol.
std::vector<CaseText> ReadCases(Reader& reader, const toml::table& table) {
  const std::string where = "[[case]]";
  reader.KnownKeys(table, where,
                   {"name", "role", "suites", "dims", "dtypes", "inputs", "tolerance", "flops",
                    "reduction", "golden"});
  CaseText result;
  std::string listed;  // the symbol with several types
  std::vector<Placed<DType>> types;
  result.name = reader.Label(reader.Require(table, "name", where), "name");
  result.role = static_cast<CaseRole>(
      reader.OneOf(reader.Require(table, "role", where), "role",
                   Names{"smoke", "sweep", "stability", "edge", "scored", "extra"}));
  if (const toml::array* suites = reader.Array(table.get("suites"), "suites", 16)) {
    if (suites->empty()) reader.Fault(PlaceOf(*suites), "'suites' is empty; leave it out for all");
    for (const toml::node& suite : *suites) result.suites.push_back(reader.Label(&suite, "suites"));
  }
  if (const toml::table* dims = reader.Table(reader.Require(table, "dims", where), "dims")) {
    for (auto&& [key, value] : *dims) {
      const auto* integer = value.as_integer();
      if (integer == nullptr) {
        reader.Expected(value, key.str(), "an integer");
        continue;
      }
      if (integer->get() < 1 || integer->get() > kMaxDimValue) {
        reader.Fault(PlaceOf(value), fmt::format("dim {} is {}; expected 1 to {}", key.str(),
                                                 integer->get(), kMaxDimValue));
      }
      result.dims[std::string(key.str())] = {integer->get(), PlaceOf(key.source())};
    }
  }
  if (const toml::table* dtypes = reader.Table(table.get("dtypes"), "dtypes")) {
    for (auto&& [key, value] : *dtypes) {
      const Place place = PlaceOf(key.source());
      if (value.is_array()) {
        if (!listed.empty()) {
          reader.Fault(place, "only one dtype symbol of a case may have a list");
          continue;
        }
        listed = key.str();
        const toml::array* list = reader.Array(&value, key.str(), 16);
        if (list == nullptr) continue;
        if (list->empty()) reader.Fault(place, fmt::format("'{}' lists no dtype", key.str()));
        for (const toml::node& type : *list) {
          types.push_back({reader.Type(&type, key.str()).value, place});
        }
        continue;
      }
      result.dtypes[std::string(key.str())] = {reader.Type(&value, key.str()).value, place};
    }
  }
  if (const toml::table* inputs = reader.Table(table.get("inputs"), "inputs")) {
    for (auto&& [key, value] : *inputs) {
      const toml::table* distribution = reader.Table(&value, key.str());
      if (distribution == nullptr) continue;
      result.inputs[std::string(key.str())] = {ReadDistribution(reader, *distribution),
                                               PlaceOf(key.source())};
    }
  }
  if (const toml::node* tolerance = table.get("tolerance")) {
    result.tolerance = reader.Number(tolerance, "tolerance");
    if (*result.tolerance <= 0 || *result.tolerance >= 0.5) {
      reader.Fault(PlaceOf(*tolerance),
                   "'tolerance' is a relative error; expected above 0 and below 0.5");
    }
  }
  if (const toml::node* flops = table.get("flops")) {
    result.flops = reader.Expression(flops, "flops");
  }
  if (const toml::node* reduction = table.get("reduction")) {
    result.reduction = reader.Expression(reduction, "reduction");
  }
  if (const toml::table* golden = reader.Table(table.get("golden"), "golden")) {
    for (auto&& [key, value] : *golden) {
      const auto text = reader.String(&value, key.str());
      result.golden[std::string(key.str())] = {text.value, PlaceOf(key.source())};
    }
  }
  if (types.empty()) return {std::move(result)};
  std::vector<CaseText> results;
  for (const auto& type : types) {
    CaseText one = result;
    one.name.value += fmt::format("_{}", Name(type.value));
    one.dtypes[listed] = type;
    results.push_back(std::move(one));
  }
  return results;
}

void ReadCost(Reader& reader, const toml::table& root, TaskText& task) {
  // Not needed where every case says what it costs itself.
  const auto says = [](const auto& key) {
    return [key](const CaseText& c) { return (c.*key).has_value(); };
  };
  const bool all_flops = std::all_of(task.cases.begin(), task.cases.end(), says(&CaseText::flops));
  const bool all_reductions =
      std::all_of(task.cases.begin(), task.cases.end(), says(&CaseText::reduction));
  const bool own = all_flops && all_reductions && !task.cases.empty();
  if (own && root.get("cost") == nullptr) return;
  const toml::table* cost = reader.Table(reader.Require(root, "cost", "the task"), "cost");
  if (cost == nullptr) return;
  reader.KnownKeys(*cost, "[cost]",
                   {"flops", "bytes", "reduction", "row_elements", "reference_elements_per_block"});
  const auto given = [&](std::string_view key, bool by_cases, Placed<Expr>& target) {
    const toml::node* node = by_cases ? cost->get(key) : reader.Require(*cost, key, "[cost]");
    if (node != nullptr) target = reader.Expression(node, key);
  };
  given("flops", own && all_flops, task.flops);
  given("reduction", own && all_reductions, task.reduction);
  const std::pair<const char*, std::optional<Placed<Expr>>*> optional[] = {
      {"bytes", &task.bytes},
      {"row_elements", &task.row_elements},
      {"reference_elements_per_block", &task.reference_elements_per_block},
  };
  for (const auto& [key, target] : optional) {
    if (const toml::node* node = cost->get(key)) *target = reader.Expression(node, key);
  }
}

void ReadHead(Reader& reader, const toml::table& root, TaskText& task) {
  const std::string where = "the task";
  task.name = reader.Label(reader.Require(root, "name", where), "name");
  task.title = reader.String(reader.Require(root, "title", where), "title").value;
  task.family = reader.String(reader.Require(root, "family", where), "family").value;
  task.contract = reader.String(reader.Require(root, "contract", where), "contract").value;
  if (const toml::node* demanded = root.get("demanded")) {
    task.demanded = static_cast<PrecisionClass>(
        reader.OneOf(demanded, "demanded", Names{"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"}));
  }
  task.allow_nondeterminism =
      reader.Boolean(root.get("allow_nondeterminism"), "allow_nondeterminism");
  if (const toml::node* checker = root.get("checker")) {
    task.checker.place = PlaceOf(*checker);
    reader.OneOf(checker, "checker", Names{"householder_qr"});
    task.checker.value = Checker::kHouseholderQr;
  }
  if (const toml::node* reference = root.get("reference")) {
    if (reader.OneOf(reference, "reference", Names{"kernels", "live"}) == 1) {
      task.live = PlaceOf(*reference);
    }
    if (root.get("checker") != nullptr) {
      reader.Fault(PlaceOf(*reference), "a task with a 'checker' has no 'reference'");
    }
  }
  if (const toml::node* profile = root.get("profile")) {
    if (root.get("checker") == nullptr) {
      reader.Fault(PlaceOf(*profile), "'profile' is that of a 'checker', and there is none");
    }
    task.profile = static_cast<CheckerProfile>(
        reader.OneOf(profile, "profile", Names{"strict", "competition"}));
  }
  if (const toml::array* library = reader.Array(root.get("library"), "library", 16)) {
    for (const toml::node& step : *library) {
      reader.OneOf(&step, "library", Names{"gemm"});
      task.library.emplace_back("gemm");
    }
  }
  if (const toml::array* names = reader.Array(root.get("baselines"), "baselines", 16)) {
    for (const toml::node& name : *names) {
      task.baselines.push_back(reader.Label(&name, "baselines").value);
    }
  }
  if (const toml::array* suites = reader.Array(root.get("suites"), "suites", 16)) {
    for (const toml::node& suite : *suites) {
      task.suites.push_back(reader.Label(&suite, "suites"));
    }
  }
  if (const toml::array* dims =
          reader.Array(reader.Require(root, "dims", where), "dims", kMaxDims)) {
    for (const toml::node& dim : *dims) task.dims.push_back(reader.Identifier(&dim, "dims"));
  }
  task.scalars = ReadScalars(reader, root.get("scalars"));
  if (const toml::table* dtypes = reader.Table(root.get("dtypes"), "dtypes")) {
    for (auto&& [key, value] : *dtypes) {
      if (!IsIdentifier(key.str()) || DTypeFromName(key.str())) {
        reader.Fault(PlaceOf(key.source()), fmt::format("'{}' cannot be a symbol", key.str()));
      }
      task.dtypes[std::string(key.str())] = reader.Type(&value, key.str());
    }
  }
}

// The tables of an array of tables, each given to `read`.
template <typename Read>
void EachTable(Reader& reader, const toml::table& root, std::string_view key, std::size_t limit,
               Read read) {
  const toml::array* tables = reader.Array(reader.Require(root, key, "the task"), key, limit);
  if (tables == nullptr) return;
  if (tables->empty()) reader.Fault(PlaceOf(*tables), fmt::format("'{}' is empty", key));
  for (const toml::node& node : *tables) {
    if (const toml::table* table = reader.Table(&node, key)) read(*table);
  }
}

void CheckNames(Reader& reader, const toml::table& root, const TaskText& task) {
  // Plans and preludes put dims, scalars and tensors side by side: one name means one thing.
  std::set<std::string> names;
  const auto once = [&](const std::string& name, Place place, std::string_view kind) {
    if (!name.empty() && !names.insert(name).second) {
      reader.Fault(place, fmt::format("the name '{}' of this {} is taken", name, kind));
    }
  };
  for (const auto& dim : task.dims) once(dim.value, dim.place, "dim");
  for (const TensorText& tensor : task.tensors)
    once(tensor.name.value, tensor.name.place, "tensor");
  for (const Scalar& scalar : task.scalars) {
    once(scalar.name, PlaceOf(*root["scalars"][scalar.name].node()), "scalar");
  }
  Names suites;
  std::set<std::string> suites_scored;
  for (const auto& suite : task.suites) suites.push_back(suite.value);
  std::set<std::string> cases;
  bool scored = false;
  for (const CaseText& c : task.cases) {
    if (!c.name.value.empty() && !cases.insert(c.name.value).second) {
      reader.Fault(c.name.place, fmt::format("the case name '{}' is taken", c.name.value));
    }
    scored = scored || c.role == CaseRole::kScored;
    for (const auto& suite : c.suites) {
      if (std::find(suites.begin(), suites.end(), suite.value) == suites.end()) {
        reader.Fault(suite.place, UnknownName("suite", suite.value, suites));
      }
    }
    if (c.role != CaseRole::kScored) continue;
    for (const auto& suite : c.suites.empty() ? task.suites : c.suites) {
      suites_scored.insert(suite.value);
    }
  }
  for (const auto& suite : task.suites) {
    if (scored && suites_scored.count(suite.value) == 0) {
      reader.Lack(suite.place,
                  fmt::format("no case of suite '{}' has the role 'scored'", suite.value));
    }
  }
  const bool output =
      std::any_of(task.tensors.begin(), task.tensors.end(),
                  [](const TensorText& t) { return t.role == TensorRole::kOutput; });
  if (!task.cases.empty() && !scored) {
    reader.Lack(PlaceOf(*root.get("case")), "no case has the role 'scored'");
  }
  if (!task.tensors.empty() && !output) {
    reader.Lack(PlaceOf(*root.get("tensor")), "no tensor has the role 'output'");
  }
}

}  // namespace

Result<TaskText> ParseTaskText(std::string_view text, std::string_view file) {
  if (text.size() > kMaxTaskBytes) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: larger than {} bytes", file, kMaxTaskBytes));
  }
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Failure(ErrorAt(file, PlaceOf(error.source()), error.description()));
  }
  const toml::table& root = parsed.table();
  Reader reader(file);
  TaskText task;
  reader.KnownKeys(root, "the task",
                   {"name", "title", "family", "contract", "demanded", "allow_nondeterminism",
                    "checker", "reference", "profile", "library", "baselines", "suites", "dims",
                    "scalars", "dtypes", "tensor", "case", "cost"});
  ReadHead(reader, root, task);
  EachTable(reader, root, "tensor", kMaxTensors,
            [&](const toml::table& t) { task.tensors.push_back(ReadTensor(reader, t)); });
  EachTable(reader, root, "case", kMaxCases, [&](const toml::table& t) {
    for (CaseText& c : ReadCases(reader, t)) task.cases.push_back(std::move(c));
  });
  if (task.cases.size() > kMaxCases) {
    reader.Fault(PlaceOf(*root.get("case")),
                 fmt::format("{} cases; at most {} are allowed", task.cases.size(), kMaxCases));
  }
  ReadCost(reader, root, task);
  CheckNames(reader, root, task);
  if (reader.error()) return Failure(*reader.error());
  return task;
}

}  // namespace grove::seeds
