#include "codegen/host_code.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/plan_names.h"

namespace grove::codegen {
namespace {

template <typename T>
std::optional<std::size_t> IndexOf(const std::vector<T>& list, std::string_view name) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return i;
  }
  return std::nullopt;
}

int Mode(std::string_view text, std::initializer_list<std::string_view> names) {
  return static_cast<int>(std::find(names.begin(), names.end(), text) - names.begin());
}

class Emitter {
 public:
  Emitter(const seeds::Case& names, HostLanguage language)
      : case_(names), language_(language), python_(language == HostLanguage::kPython) {}

  HostCode Emit(const LaunchPlan& plan) {
    for (std::size_t t = 0; t < case_.tensors.size(); ++t) {
      const std::string& name = case_.tensors[t].name;
      if (python_) {
        Line(fmt::format("t_{} = run.tensor({})", name, t));
      } else {
        Line(fmt::format("[[maybe_unused]] void* const t_{} = run.Tensor({});", name, t));
      }
    }
    bool always = false;
    for (std::size_t v = 0; v < plan.variants.size() && !always; ++v) {
      always = EmitVariant(plan.variants[v], v, plan.variants.size() > 1);
    }
    if (!always) {
      Line(python_ ? R"(raise ValueError(f"no variant of the launch plan holds for {it.name}"))"
                   : "run.NoVariant(it.name);");
    }
    return std::move(code_);
  }

 private:
  void Line(const std::string& text) {
    code_.body += std::string(static_cast<std::size_t>(level_ * (python_ ? 4 : 2)), ' ');
    code_.body += text + "\n";
  }
  void Open(const std::string& head) {
    Line(head + (python_ ? ":" : " {"));
    ++level_;
  }
  void Close() {
    --level_;
    if (!python_) Line("}");
  }

  // The text in the language at hand.
  template <typename... Args>
  std::string Either(std::string_view python, std::string_view cpp, const Args&... args) const {
    return fmt::vformat(python_ ? python : cpp, fmt::make_format_args(args...));
  }

  // --- expressions ----------------------------------------------------------------------------

  std::string Named(std::string_view name) const {
    if (std::find(loops_.begin(), loops_.end(), name) != loops_.end()) {
      return fmt::format("at_{}", name);
    }
    if (IndexOf(case_.dims, name)) return fmt::format("it.dim.{}", name);
    if (IndexOf(case_.scalars, name)) return fmt::format("it.scalar.{}", name);
    if (DeviceConstant(name, DeviceLimits{})) {
      return Either("run.device(\"{}\")", "run.Device(\"{}\")", name);
    }
    if (const auto dtype = DTypeFromName(name)) {
      return Either("int(it.type == {})", "(it.type == {})", TypeConstant(*dtype, language_));
    }
    return std::string(name);
  }

  std::string Text(const Expr& expression) const {
    return ExpressionText(expression, language_,
                          [this](std::string_view name) { return Named(name); });
  }

  std::string List(const std::vector<Expr>& list) const {
    std::vector<std::string> texts;
    for (const Expr& e : list) texts.push_back(Text(e));
    return Either("[{}]", "{{{}}}", fmt::join(texts, ", "));
  }
  std::string Three(const std::array<Expr, 3>& list) const {
    return Either("({}, {}, {})", "{{{}, {}, {}}}", Text(list[0]), Text(list[1]), Text(list[2]));
  }
  std::string Bool(bool value) const {
    return python_ ? (value ? "True" : "False") : (value ? "true" : "false");
  }

  // --- parts ----------------------------------------------------------------------------------

  // Whether it holds for every case.
  bool EmitVariant(const Variant& variant, std::size_t index, bool several) {
    variant_ = &variant;
    if (several) Line(fmt::format("{} variants[{}]", python_ ? "#" : "//", index));
    if (variant.when) {
      Open(Either("if {}", "if ({})", Text(*variant.when)));
    } else if (several && !python_) {
      Line("{");
      ++level_;
    }
    for (const Workspace& w : variant.workspaces) EmitWorkspace(w);
    if (!python_) Line("if (run.measuring()) return;");
    for (const TensorMap& map : variant.tensor_maps) EmitTensorMap(map);
    EmitSteps(variant.steps);
    Line(python_ ? "return" : "return;");
    if (variant.when || (several && !python_)) Close();
    return !variant.when;
  }

  void EmitWorkspace(const Workspace& w) {
    std::string bytes = Either("{}", "{}LL", SizeOf(w.dtype));
    for (const Expr& extent : w.shape) bytes += " * " + Text(extent);
    Line(Either("w_{} = run.workspace(\"{}\", {}, {})",
                "[[maybe_unused]] void* const w_{} = run.Workspace(\"{}\", {}, {});", w.name,
                w.name, bytes, Bool(w.zero)));
  }

  void EmitTensorMap(const TensorMap& map) {
    code_.tensor_maps = true;
    const auto [address, type] = Buffer(map.tensor);
    std::string shape;
    if (const auto t = IndexOf(case_.tensors, map.tensor)) {
      shape = fmt::format("it.tensors[{}].shape", *t);
    } else if (const auto w = IndexOf(variant_->workspaces, map.tensor)) {
      shape = List(variant_->workspaces[*w].shape);
    }
    std::vector<Expr> strides = map.element_strides;
    if (strides.empty()) strides.assign(map.box.size(), Expr::Constant(1));
    Line(Either("m_{} = run.tensor_map(\"{}\", {}, {}, {}, {}, {}, {}, {}, {})",
                "[[maybe_unused]] const auto m_{} = run.TensorMap(\"{}\", {}, {}, {}, {}, {}, "
                "{}, {}, {});",
                map.name, map.name, type, address, shape, List(map.box), List(strides),
                Mode(map.swizzle, {"none", "32B", "64B", "128B"}),
                Mode(map.interleave, {"none", "16B", "32B"}),
                Mode(map.l2_promotion, {"none", "64B", "128B", "256B"})));
  }

  // Address and element type of a tensor or workspace.
  std::pair<std::string, std::string> Buffer(const std::string& name) const {
    if (const auto t = IndexOf(case_.tensors, name)) {
      return {"t_" + name, fmt::format("it.tensors[{}].type", *t)};
    }
    if (const auto w = IndexOf(variant_->workspaces, name)) {
      return {"w_" + name, TypeConstant(variant_->workspaces[*w].dtype, language_)};
    }
    return {name, name};
  }

  void EmitSteps(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (const auto* launch = std::get_if<Launch>(&step.action)) {
        EmitLaunch(*launch);
      } else if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
        EmitRepeat(*repeat);
      } else {
        EmitGemm(std::get<Gemm>(step.action));
      }
    }
  }

  void EmitRepeat(const Repeat& repeat) {
    const std::string from = Text(repeat.from), to = Text(repeat.to), step = Text(repeat.step);
    if (python_) {
      Open(fmt::format("for at_{} in range({}, {}, {})", repeat.var, from, to, step));
    } else {
      Open(fmt::format(
          "for (long long at_{0} = {1}, to_{0} = {2}, step_{0} = {3}; at_{0} < to_{0}; at_{0} += "
          "step_{0})",
          repeat.var, from, to, step));
    }
    loops_.push_back(repeat.var);
    EmitSteps(repeat.steps);
    loops_.pop_back();
    Close();
  }

  std::size_t Kernel(const std::string& name) {
    const auto found = std::find(code_.kernels.begin(), code_.kernels.end(), name);
    const auto index = static_cast<std::size_t>(found - code_.kernels.begin());
    if (found == code_.kernels.end()) code_.kernels.push_back(name);
    return index;
  }

  void EmitLaunch(const Launch& launch) {
    const std::size_t kernel = Kernel(launch.kernel);
    std::string args;
    for (const Arg& arg : launch.args) args += ", " + Argument(arg);
    const std::string cluster =
        launch.cluster ? Three(*launch.cluster) : (python_ ? "(0, 0, 0)" : "{0, 0, 0}");
    Line(Either("run.launch(\"{1}\", {2}, {3}, {4}, {5}, {6}, {7}{8})",
                "run.Launch(it.kernels[{0}] /* {1} */, {2}, {3}, {4}, {5}, {6}, "
                "{7}{8});",
                kernel, launch.kernel, Three(launch.grid), Three(launch.block),
                Text(launch.shared_bytes), cluster, Bool(launch.cooperative),
                Bool(launch.dependent), args));
  }

  std::string Scalar(ScalarType type, const std::string& value) const {
    static constexpr std::array<std::string_view, 4> kCpp = {"int", "long long", "float", "double"};
    if (python_) return fmt::format("(\"{}\", {})", Name(type), value);
    return fmt::format("static_cast<{}>({})", kCpp[static_cast<std::size_t>(type)], value);
  }

  std::string Argument(const Arg& arg) const {
    if (arg.kind == Arg::Kind::kTensorMap) {
      return Either("(\"map\", m_{})", "m_{}", arg.name);
    }
    if (arg.kind == Arg::Kind::kBuffer) {
      if (IndexOf(case_.tensors, arg.name) || IndexOf(variant_->workspaces, arg.name)) {
        return Either("(\"ptr\", {})", "{}", Buffer(arg.name).first);
      }
      return Scalar(ScalarType::kI32, Named(arg.name));
    }
    if (!arg.real) return Scalar(arg.type, Text(arg.expression));
    // Decimal with 17 digits is exact; hexadecimal literals are C++17 but not Python.
    std::string real = fmt::format("{:.17g}", *arg.real);
    if (real.find_first_of(".en") == std::string::npos) real += ".0";
    return Scalar(arg.type, real);
  }

  std::string Matrix(const MatrixText& m) const {
    const auto [address, type] = Buffer(m.buffer);
    return Either("({}, {}, {}, {}, {}, {})", "grove_plan::Matrix{{{}, {}, {}, {}, {}, {}}}",
                  address, type, Text(m.offset), Text(m.ld), Text(m.stride), Bool(m.transpose));
  }

  void EmitGemm(const Gemm& gemm) {
    code_.gemm = true;
    const std::string type = Buffer(gemm.a.buffer).second;
    std::string compute;
    if (gemm.compute) {
      compute = fmt::format("\"{}\"", Name(*gemm.compute));
    } else if (python_) {
      compute = fmt::format("\"fp64\" if {} == F64 else \"fp32\"", type);
    } else {
      compute = fmt::format("{} == grove_plan::kF64 ? \"fp64\" : \"fp32\"", type);
    }
    Line(Either("run.gemm({}, {}, {}, {}, {:.17g}, {:.17g}, {}, {}, {}, {})",
                "run.Gemm({}, {}, {}, {}, {:.17g}, {:.17g}, {}, {}, {}, {});", Text(gemm.m),
                Text(gemm.n), Text(gemm.k), Text(gemm.batch), gemm.alpha, gemm.beta, compute,
                Matrix(gemm.a), Matrix(gemm.b), Matrix(gemm.c)));
  }

  const seeds::Case& case_;
  HostLanguage language_;
  bool python_;
  const Variant* variant_ = nullptr;
  std::vector<std::string> loops_;
  int level_ = 1;
  HostCode code_;
};

}  // namespace

std::string TypeConstant(DType dtype, HostLanguage language) {
  std::string name(Name(dtype));  // f32, bf16, bool
  if (language == HostLanguage::kPython) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name;
  }
  if (dtype == DType::kBF16) return "grove_plan::kBF16";
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "grove_plan::k" + name;
}

HostCode EmitHostCode(const LaunchPlan& plan, const seeds::Case& names, HostLanguage language) {
  return Emitter(names, language).Emit(plan);
}

}  // namespace grove::codegen
