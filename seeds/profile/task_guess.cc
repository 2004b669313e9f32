#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "seeds/profile/ranking.h"

namespace grove::profile {
namespace {

using Shape = std::vector<std::int64_t>;

// "[[4096, 512], [], [512, 512]]"; empty when it is something else or absurdly large.
std::vector<Shape> ParseShapes(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<Shape> shapes;
  if (!json.is_array()) return shapes;
  for (const auto& entry : json) {
    Shape shape;
    if (entry.is_array()) {
      for (const auto& extent : entry) {
        if (!extent.is_number_integer()) {
          shape.clear();  // a list of tensors
          break;
        }
        const auto value = extent.get<std::int64_t>();
        if (value < 0 || value > (std::int64_t{1} << 40)) return {};
        shape.push_back(value);
      }
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::string TypeOf(const std::string& types) {
  const auto json = nlohmann::json::parse(types, nullptr, false);
  if (!json.is_array()) return {};
  for (const auto& entry : json) {
    if (!entry.is_string()) continue;
    const auto& name = entry.get_ref<const std::string&>();
    if (name == "c10::Half") return "fp16";
    if (name == "c10::BFloat16") return "bf16";
    if (name == "float") return "fp32";
    if (name == "double") return "fp64";
  }
  return {};
}

double BytesOf(std::string_view type) {
  return type == "fp16" || type == "bf16" ? 2 : type == "fp64" ? 8 : 4;
}

double Product(const Shape& shape, std::size_t from, std::size_t to) {
  double product = 1;
  for (std::size_t i = from; i < to && i < shape.size(); ++i) {
    product *= static_cast<double>(shape[i]);
  }
  return product;
}

// rows x columns with the last `inner` dims as the row.
TaskGuess Rows(const char* task, const Shape& shape, std::size_t inner, double passes,
               const std::string& type, double work) {
  TaskGuess guess;
  guess.task = task;
  guess.type = type;
  if (shape.empty()) return guess;
  inner = std::min(inner, shape.size());
  const double rows = Product(shape, 0, shape.size() - inner);
  const double columns = Product(shape, shape.size() - inner, shape.size());
  guess.dims = fmt::format("rows={:.0f}, columns={:.0f}", rows, columns);
  guess.flops = work * rows * columns;
  guess.bytes = passes * rows * columns * BytesOf(type);
  return guess;
}

TaskGuess Gemm(double batch, double m, double n, double k, const std::string& type) {
  TaskGuess guess;
  guess.task = "matmul";
  guess.type = type;
  guess.dims = fmt::format("M={:.0f}, N={:.0f}, K={:.0f}", m, n, k);
  if (batch > 1) guess.dims = fmt::format("batch={:.0f}, ", batch) + guess.dims;
  guess.flops = 2 * batch * m * n * k;
  guess.bytes = batch * (m * k + k * n + m * n) * BytesOf(type);
  return guess;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// By the names that libraries give their kernels.
std::optional<TaskGuess> GuessByKernel(std::string_view kernel) {
  struct Entry {
    std::string_view part, task;
  };
  // In order: a flash kernel's name may hold "gemm", a fused norm's "reduce".
  static constexpr std::array<Entry, 20> kEntries = {{{"flash_fwd", "flash_attention"},
                                                      {"fmha", "flash_attention"},
                                                      {"attention", "flash_attention"},
                                                      {"RMSNorm", "rmsnorm"},
                                                      {"rms_norm", "rmsnorm"},
                                                      {"rmsnorm", "rmsnorm"},
                                                      {"layer_norm", "layernorm"},
                                                      {"LayerNorm", "layernorm"},
                                                      {"nll_loss", "cross_entropy"},
                                                      {"cross_entropy", "cross_entropy"},
                                                      {"log_softmax", "cross_entropy"},
                                                      {"softmax", "softmax"},
                                                      {"SoftMax", "softmax"},
                                                      {"rotary", "rotary_embedding"},
                                                      {"conv", "conv2d"},
                                                      {"gemm", "matmul"},
                                                      {"Gemm", "matmul"},
                                                      {"cutlass", "matmul"},
                                                      {"gemv", "matmul"},
                                                      {"reduce_kernel", "reduce"}}};
  for (const Entry& entry : kEntries) {
    if (!Has(kernel, entry.part)) continue;
    TaskGuess guess;
    guess.task = entry.task;
    return guess;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TaskGuess> GuessTask(const Operation& operation, std::string_view kernel) {
  const std::string_view name = operation.name;
  if (name.empty()) return GuessByKernel(kernel);
  const auto shapes = ParseShapes(operation.shapes);
  const std::string type = TypeOf(operation.types);
  const auto at = [&](std::size_t i) { return i < shapes.size() ? shapes[i] : Shape(); };
  const auto gemm = [&](const Shape& a, const Shape& b, bool linear) -> std::optional<TaskGuess> {
    if (a.size() < 2 || b.size() < 2) {
      TaskGuess guess;
      guess.task = "matmul";
      guess.type = type;
      return guess;
    }
    const double k = static_cast<double>(a.back());
    const double n = static_cast<double>(linear ? b[b.size() - 2] : b.back());
    if (b.size() > 2 && !linear) {
      return Gemm(Product(a, 0, a.size() - 2), static_cast<double>(a[a.size() - 2]), n, k, type);
    }
    return Gemm(1, Product(a, 0, a.size() - 1), n, k, type);
  };
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::matmul") {
    return gemm(at(0), at(1), false);
  }
  if (name == "aten::addmm" || name == "aten::baddbmm") return gemm(at(1), at(2), false);
  if (name == "aten::linear") return gemm(at(0), at(1), true);
  if (name == "aten::native_layer_norm" || name == "aten::layer_norm") {
    // The normalised shape is a list that profiles do not record; the weight has it.
    return Rows("layernorm", at(0), std::max<std::size_t>(at(2).size(), 1), 2, type, 7);
  }
  if (Has(name, "rms_norm") || Has(name, "RMSNorm")) return Rows("rmsnorm", at(0), 1, 2, type, 4);
  if (name == "aten::_log_softmax" || name == "aten::nll_loss_forward" ||
      Has(name, "cross_entropy")) {
    return Rows("cross_entropy", at(0), 1, 1, type, 4);
  }
  if (name == "aten::_softmax" || name == "aten::softmax") {
    return Rows("softmax", at(0), 1, 2, type, 5);
  }
  if (Has(name, "attention") && !Has(name, "backward")) {
    TaskGuess guess;
    guess.task = "flash_attention";
    guess.type = type;
    const Shape q = at(0), k = at(1);
    if (q.size() == 4 && k.size() == 4) {
      const double d = static_cast<double>(q[3]);
      // (batch, heads, length, dim), or (batch, length, heads, dim) of flash kernels: the product
      // of the middle two is the same but for which of them meets which.
      const bool flash = Has(name, "_flash_attention_forward");
      const double b = static_cast<double>(q[0]);
      const double h = static_cast<double>(flash ? q[2] : q[1]);
      const double lq = static_cast<double>(flash ? q[1] : q[2]);
      const double lk = static_cast<double>(flash ? k[1] : k[2]);
      guess.dims = fmt::format("B={:.0f}, H={:.0f}, L={:.0f}, D={:.0f}", b, h, lq, d);
      guess.flops = 4 * b * h * lq * lk * d;
      guess.bytes = 2 * b * h * (lq + lk) * d * BytesOf(type);
    }
    return guess;
  }
  if (Has(name, "rotary")) return Rows("rotary_embedding", at(0), 1, 2, type, 3);
  if (Has(name, "convolution") || Has(name, "conv2d")) {
    TaskGuess guess;
    guess.task = "conv2d";
    guess.type = type;
    const Shape x = at(0), w = at(1);
    if (x.size() == 4 && w.size() == 4) {
      guess.dims = fmt::format("N={}, C={}, H={}, W={}, filters={} of {}x{}", x[0], x[1], x[2],
                               x[3], w[0], w[2], w[3]);
    }
    return guess;
  }
  if (name == "aten::sum" || name == "aten::mean") return Rows("reduce", at(0), 1, 1, type, 1);
  return std::nullopt;
}

}  // namespace grove::profile
