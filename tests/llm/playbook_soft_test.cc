// The playbook's Hopper programs in the emulator, with TMA and wgmma as plain loops
// (soft_hopper.h): rings and phases, tile orders, tails, descriptors, swizzles, fragments and
// stores give the right results, without races, for shapes with whole and with ragged tiles.
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/dtype.h"
#include "codegen/program.h"
#include "eval/emulator/emulator.h"
#include "tests/llm/playbook_fixture.h"
#include "tests/llm/soft_hopper.h"

namespace grove::llm::playbook {
namespace {

constexpr unsigned kSeed = 20241121;

using Values = std::vector<double>;

struct Problem {
  std::string op;
  std::vector<seeds::Dim> dims;
  DType dtype = DType::kF16;
  bool maps = true;  // whether TMA can serve the shape
  // What the standard normal value of element (row, column) of input 0, 1 ... is multiplied by.
  double (*scale)(std::size_t input, std::size_t row, std::size_t column) = nullptr;
};

seeds::Tensor MakeTensor(std::string name, DType dtype, bool output,
                         std::vector<std::int64_t> shape) {
  seeds::Tensor t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.role = output ? seeds::TensorRole::kOutput : seeds::TensorRole::kInput;
  t.shape = std::move(shape);
  return t;
}

seeds::Case MakeCase(const Problem& p) {
  seeds::Case c;
  c.name = p.op;
  c.dims = p.dims;
  const auto d = [&](std::size_t i) { return p.dims[i].value; };
  const auto add = [&](const char* name, bool output, std::vector<std::int64_t> shape) {
    c.tensors.push_back(MakeTensor(name, p.dtype, output, std::move(shape)));
  };
  if (p.op == "matmul") {
    add("a", false, {d(0), d(2)}), add("b", false, {d(2), d(1)}), add("c", true, {d(0), d(1)});
  } else if (p.op == "fused_mlp") {
    add("x", false, {d(0), d(1)}), add("gate", false, {d(2), d(1)});
    add("up", false, {d(2), d(1)}), add("down", false, {d(1), d(2)}), add("y", true, {d(0), d(1)});
  } else if (p.op.starts_with("conv2d")) {  // B C H W F R S P
    const std::int64_t high = (d(2) + 2 * d(7) - d(5)) / d(6) + 1;
    const std::int64_t wide = (d(3) + 2 * d(7) - d(5)) / d(6) + 1;
    add("x", false, {d(0), d(1), d(2), d(3)}), add("w", false, {d(4), d(1), d(5), d(5)});
    add("bias", false, {d(4)});
    if (p.op == "conv2d") {
      add("y", true, {d(0), d(4), high, wide});
    } else {
      add("y", true, {d(0), d(4), (high - 3) / 2 + 1, (wide - 3) / 2 + 1});
    }
  } else {
    for (const char* name : {"q", "k", "v", "o"}) add(name, *name == 'o', {d(0), d(1), d(2), d(3)});
  }
  return c;
}

// x (m x k) times w (n x k) transposed.
Values TimesTransposed(const Values& x, const Values& w, std::size_t m, std::size_t n,
                       std::size_t k) {
  Values out(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) out[i * n + j] += x[i * k + l] * w[j * k + l];
    }
  }
  return out;
}

Values Attention(const std::vector<Values>& in, const Problem& p, bool causal) {
  const auto d = [&](std::size_t i) { return static_cast<std::size_t>(p.dims[i].value); };
  const std::size_t heads = d(0) * d(1), length = d(2), width = d(3);
  Values out(heads * length * width, 0.0);
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t base = h * length * width;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t seen = causal ? i + 1 : length;
      Values weight(seen, 0.0);
      double top = -INFINITY, total = 0;
      for (std::size_t j = 0; j < seen; ++j) {
        for (std::size_t e = 0; e < width; ++e) {
          weight[j] += in[0][base + i * width + e] * in[1][base + j * width + e];
        }
        weight[j] /= std::sqrt(static_cast<double>(width));
        top = std::max(top, weight[j]);
      }
      for (double& w : weight) total += w = std::exp(w - top);
      for (std::size_t j = 0; j < seen; ++j) {
        for (std::size_t e = 0; e < width; ++e) {
          out[base + i * width + e] += weight[j] / total * in[2][base + j * width + e];
        }
      }
    }
  }
  return out;
}

Values Convolution(const std::vector<Values>& in, const Problem& p) {
  const auto d = [&](std::size_t i) { return static_cast<std::int64_t>(p.dims[i].value); };
  const std::int64_t high = (d(2) + 2 * d(7) - d(5)) / d(6) + 1;
  const std::int64_t wide = (d(3) + 2 * d(7) - d(5)) / d(6) + 1;
  Values out;
  for (std::int64_t plane = 0; plane < d(0) * d(4); ++plane) {
    const std::int64_t filter = plane % d(4);
    for (std::int64_t place = 0; place < high * wide; ++place) {
      double sum = in[2][static_cast<std::size_t>(filter)];
      for (std::int64_t term = 0; term < d(1) * d(5) * d(5); ++term) {
        const std::int64_t c = term / (d(5) * d(5));
        const std::int64_t row = place / wide * d(6) - d(7) + term / d(5) % d(5);
        const std::int64_t column = place % wide * d(6) - d(7) + term % d(5);
        if (row < 0 || row >= d(2) || column < 0 || column >= d(3)) continue;
        const std::int64_t at = ((plane / d(4) * d(1) + c) * d(2) + row) * d(3) + column;
        sum += in[0][static_cast<std::size_t>(at)] *
               in[1][static_cast<std::size_t>(filter * d(1) * d(5) * d(5) + term)];
      }
      out.push_back(sum);
    }
  }
  if (p.op == "conv2d") return out;
  const std::int64_t down = (high - 3) / 2 + 1, across = (wide - 3) / 2 + 1;
  Values pooled;
  for (std::int64_t i = 0; i < d(0) * d(4) * down * across; ++i) {
    const std::int64_t corner =
        i / (down * across) * high * wide + i / across % down * 2 * wide + i % across * 2;
    double largest = 0;
    for (std::int64_t u = 0; u < 9; ++u) {
      largest = std::max(largest, out[static_cast<std::size_t>(corner + u / 3 * wide + u % 3)]);
    }
    pooled.push_back(largest);
  }
  return pooled;
}

Values Expected(const Problem& p, const std::vector<Values>& in) {
  const auto d = [&](std::size_t i) { return static_cast<std::size_t>(p.dims[i].value); };
  if (p.op == "attention" || p.op == "flash_attention") {
    return Attention(in, p, p.op == "flash_attention");
  }
  if (p.op.starts_with("conv2d")) return Convolution(in, p);
  if (p.op == "fused_mlp") {
    const std::size_t rows = d(0), width = d(1), hidden = d(2);
    Values h = TimesTransposed(in[0], in[1], rows, hidden, width);
    const Values up = TimesTransposed(in[0], in[2], rows, hidden, width);
    for (std::size_t i = 0; i < h.size(); ++i) h[i] = h[i] / (1 + std::exp(-h[i])) * up[i];
    return TimesTransposed(h, in[3], rows, width, hidden);
  }
  const std::size_t m = d(0), n = d(1), k = d(2);
  Values transposed(n * k);
  for (std::size_t l = 0; l < k; ++l) {
    for (std::size_t j = 0; j < n; ++j) transposed[j * k + l] = in[1][l * n + j];
  }
  return TimesTransposed(in[0], transposed, m, n, k);
}

class PlaybookSoft : public PlaybookSuite {
 protected:
  // Relative L2 error of the worst row (of the output's last dim), or what went wrong.
  static tl::expected<double, std::string> Run(const std::string& traits_text, const Problem& p,
                                               std::int64_t sm_count, bool races);
  static void Check(const std::string& traits, const std::vector<Problem>& problems,
                    double tolerance, std::int64_t sm_count = 3, bool races = true) {
    for (const Problem& p : problems) {
      std::string dims;
      for (const seeds::Dim& d : p.dims) dims += fmt::format(" {}={}", d.name, d.value);
      const auto error = Run(traits, p, sm_count, races);
      ASSERT_TRUE(error) << traits << ":" << dims << "\n" << error.error();
      EXPECT_LE(*error, tolerance) << traits << ":" << dims;
    }
  }
};

struct Memory {
  std::vector<std::byte> bytes;
  std::uint64_t address = 0;
};

tl::expected<double, std::string> PlaybookSoft::Run(const std::string& traits_text,
                                                    const Problem& p, std::int64_t sm_count,
                                                    bool races) {
  const auto bad = [](std::string text) { return tl::unexpected<std::string>(std::move(text)); };
  const auto asked = ProgramOf(traits_text);
  if (!asked) return bad(asked.error().message);
  const codegen::KernelProgram& program = asked->program;
  const seeds::Case c = MakeCase(p);
  const bool hopper = traits_text.find("strategy=wgmma") != std::string::npos;
  const std::string soft = hopper ? Soften(program.source) : program.source;
  if (soft.empty()) return bad("the source has no part of TMA and wgmma");
  const auto compiled = farm_->Compile({codegen::Prelude(c) + soft, "sm_90a", {}});
  if (!compiled) return bad(compiled.error().message);
  if (!(*compiled)->ok()) return bad("does not compile: " + (*compiled)->log);
  codegen::DeviceLimits limits;
  limits.sm_count = sm_count;
  const auto plan = codegen::ResolvePlan(program.plan, c, limits);
  if (!plan) return bad(plan.error().message);
  if (plan->tensor_maps.empty() == p.maps) return bad("the plan takes the other path");
  const auto module = emulator::LoadModule((*compiled)->ptx);
  if (!module) return bad(module.error().message);

  std::mt19937_64 random(kSeed);
  emulator::AddressSpace memory;
  std::vector<Memory> tensors, workspaces;
  std::vector<Values> inputs;
  const std::size_t size = SizeOf(p.dtype);
  for (const seeds::Tensor& t : c.tensors) {
    std::size_t count = 1;
    for (const std::int64_t extent : t.shape) count *= static_cast<std::size_t>(extent);
    tensors.push_back({std::vector<std::byte>(count * size, std::byte{0xff}), 0});  // NaN
    if (t.role == seeds::TensorRole::kOutput) continue;
    const bool weights = p.op == "fused_mlp" && t.name != "x";
    std::normal_distribution<double> normal(0.0, weights ? 0.1 : 1.0);
    const std::size_t input = inputs.size(), row = static_cast<std::size_t>(t.shape.back());
    Values& values = inputs.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double scale = p.scale == nullptr ? 1.0 : p.scale(input, i / row, i % row);
      StoreElement(p.dtype, tensors.back().bytes.data(), static_cast<std::int64_t>(i),
                   normal(random) * scale);
      values[i] = LoadElement(p.dtype, tensors.back().bytes.data(), static_cast<std::int64_t>(i));
    }
  }
  for (const auto& w : plan->workspaces) {
    workspaces.push_back(
        {std::vector<std::byte>(static_cast<std::size_t>(w.elements) * SizeOf(w.dtype),
                                std::byte{w.zero ? std::uint8_t{0} : std::uint8_t{0xff}}),
         0});
  }
  const auto map = [&](const std::string& name, Memory& m, bool writable, bool unwritten) {
    m.address = memory.Map(
        {name, m.bytes.data(), static_cast<std::int64_t>(m.bytes.size()), writable, unwritten, 0});
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool output = c.tensors[i].role == seeds::TensorRole::kOutput;
    map(c.tensors[i].name, tensors[i], output, output);
  }
  for (std::size_t i = 0; i < workspaces.size(); ++i) {
    map(plan->workspaces[i].name, workspaces[i], true, !plan->workspaces[i].zero);
  }
  const auto soft_map = [&](const codegen::ResolvedTensorMap& m) {
    SoftMap made;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      if (c.tensors[i].name == m.tensor) made.address = tensors[i].address;
    }
    for (std::size_t i = 0; i < workspaces.size(); ++i) {
      if (plan->workspaces[i].name == m.tensor) made.address = workspaces[i].address;
    }
    for (std::size_t i = 0; i < m.shape.size(); ++i) {
      made.extent[i] = static_cast<std::int32_t>(m.shape[m.shape.size() - 1 - i]);
      made.box[i] = static_cast<std::int32_t>(m.box[m.shape.size() - 1 - i]);
    }
    return made;
  };
  for (const codegen::ResolvedLaunch& launch : plan->launches) {
    emulator::LaunchConfig config;
    config.kernel = launch.kernel;
    config.grid = launch.grid;
    config.block = launch.block;
    config.shared_bytes = launch.shared_bytes;
    for (const codegen::ResolvedArg& arg : launch.args) {
      std::vector<std::byte> bytes(arg.size);
      if (arg.kind == codegen::ResolvedArg::Kind::kTensorMap) {
        const SoftMap made = soft_map(plan->tensor_maps[arg.index]);
        if (plan->tensor_maps[arg.index].swizzle != "128B") return bad("a map without swizzle");
        std::memcpy(bytes.data(), &made, sizeof made);
      } else if (arg.kind == codegen::ResolvedArg::Kind::kScalar) {
        std::memcpy(bytes.data(), arg.bytes.data(), arg.size);
      } else {
        const Memory& m = arg.kind == codegen::ResolvedArg::Kind::kTensor ? tensors[arg.index]
                                                                          : workspaces[arg.index];
        std::memcpy(bytes.data(), &m.address, sizeof m.address);
      }
      config.params.push_back(std::move(bytes));
    }
    emulator::LaunchOptions options;
    options.detect_races = races;
    options.detect_uninitialised = races;
    const auto outcome = emulator::Run(**module, config, memory, options);
    if (outcome.fault) {
      return bad(fmt::format("{}: {} [{}]", emulator::Name(outcome.fault->kind),
                             outcome.fault->message, outcome.fault->instruction));
    }
  }
  const Values expected = Expected(p, inputs);
  const auto cols = static_cast<std::size_t>(c.tensors.back().shape.back());
  double worst = 0;
  for (std::size_t r = 0; r < expected.size() / cols; ++r) {
    double error = 0, scale = 0;
    for (std::size_t j = r * cols; j < (r + 1) * cols; ++j) {
      const double got =
          LoadElement(p.dtype, tensors.back().bytes.data(), static_cast<std::int64_t>(j));
      error += (got - expected[j]) * (got - expected[j]);
      scale += expected[j] * expected[j];
    }
    const double relative = error == 0 && scale == 0 ? 0.0 : std::sqrt(error / scale);
    if (std::isnan(relative)) return bad(fmt::format("row {} holds NaN or was not written", r));
    worst = std::max(worst, relative);
  }
  return worst;
}

Problem Product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::kF16) {
  return {"matmul", {{"M", m}, {"N", n}, {"K", k}}, dtype};
}
Problem Layer(std::int64_t b, std::int64_t d, std::int64_t h, DType dtype = DType::kF16) {
  return {"fused_mlp", {{"B", b}, {"D", d}, {"H", h}}, dtype};
}

constexpr double kHalf = 1e-3, kBfloat = 6e-3;

Problem Heads(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d, bool causal,
              DType dtype = DType::kF16) {
  return {
      causal ? "flash_attention" : "attention", {{"B", b}, {"H", h}, {"S", s}, {"D", d}}, dtype};
}

TEST_F(PlaybookSoft, AProductOfRaggedTilesIsRight) {
  // Two blocks for four tiles of three steps: the ring is passed more than once.
  Check("op=matmul strategy=wgmma persistent=1 bn=128 stages=4", {Product(136, 200, 136)}, kHalf,
        2);
  Check("op=matmul strategy=wgmma bm=256 bn=128 stages=2", {Product(40, 136, 72, DType::kBF16)},
        kBfloat, 2, false);
  Check("op=matmul strategy=wgmma bn=256 stages=3 group=1", {Product(264, 272, 64)}, kHalf, 2,
        false);
}

// The threshold of class fp32 (docs/trust.md).
double Single(const Problem& p) {
  return 0x1.0p-24 * (16 + std::sqrt(static_cast<double>(p.dims[2].value)));
}

TEST_F(PlaybookSoft, AProductOfSplitOperandsIsOfClassFp32) {
  // One block for two tiles of six steps in four stages, and an odd number of columns.
  const Problem whole = Product(130, 67, 136, DType::kF32);
  Check("op=matmul strategy=wgmma_split stages=4", {whole}, Single(whole), 1);
  // Rows of A and B that are no multiple of 16 bytes.
  const Problem dot = Product(1, 1, 1, DType::kF32);
  Check("op=matmul strategy=wgmma_split stages=3 persistent=0 dependent=1",
        {dot, Product(3, 130, 67, DType::kF32)}, Single(dot), 2, false);
}

// Each row of A and column of B has a range of its own, from subnormal numbers to near the largest.
TEST_F(PlaybookSoft, SplitOperandsKeepRowsAndColumnsOfAnyScale) {
  Problem p = Product(40, 24, 72, DType::kF32);
  p.scale = [](std::size_t input, std::size_t row, std::size_t column) {
    constexpr int kRows[5] = {-132, -40, 0, 60, 110}, kColumns[3] = {12, 0, -9};
    if (input == 0 && row == 7) return 0.0;
    return std::ldexp(1.0, input == 0 ? kRows[row % 5] : kColumns[column % 3]);
  };
  Check("op=matmul strategy=wgmma_split", {p}, Single(p), 2, false);
}

// As the task's case mixed_scale: beyond fp16 and its subnormal numbers within a row.
TEST_F(PlaybookSoft, SplitOperandsKeepMixedScales) {
  Problem p = Product(64, 96, 80, DType::kF32);
  p.scale = [](std::size_t input, std::size_t row, std::size_t column) {
    return (row * 2654435761u + column * 40503u + input) >> 3 & 1 ? 1e5 : 1e-5;
  };
  Check("op=matmul strategy=wgmma_split", {p}, Single(p), 2, false);
}

// --- why the sums are short: the emulator rounds where tensor cores cut, so cut sums are imitated
// ---

double AsHalf(double v) {
  std::byte half[2];
  StoreElement(DType::kF16, half, 0, v);
  return LoadElement(DType::kF16, half, 0);
}
// The sum as fp32, its last bits cut off.
float CutSum(float sum, double term) {
  const double exact = sum + term;
  const auto nearest = static_cast<float>(exact);
  return std::abs(static_cast<double>(nearest)) > std::abs(exact) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}
// Relative L2 error of a row of `columns` normal products over k terms, three products of fp16
// parts, 16 terms at a time, in cut sums over `length` terms that are added by rounded additions.
double ErrorOfCutSums(std::size_t k, std::size_t length, std::size_t columns) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  constexpr double kUp = 0x1.0p12;  // the largest values are below 2^3
  Values a(k), high(k), low(k);
  for (std::size_t i = 0; i < k; ++i) {
    a[i] = normal(random) * kUp;
    high[i] = AsHalf(a[i]), low[i] = AsHalf(a[i] - high[i]);
  }
  double error = 0, scale = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    double exact = 0;
    Values small(k), large(k);  // products with a rest, and of the high parts
    for (std::size_t i = 0; i < k; ++i) {
      const double b = normal(random) * kUp, b_high = AsHalf(b), b_low = AsHalf(b - b_high);
      exact += a[i] * b;
      small[i] = low[i] * b_high + high[i] * b_low, large[i] = high[i] * b_high;
    }
    float sum = 0;
    for (std::size_t begin = 0; begin < k; begin += length) {
      float part = 0;
      for (const Values* terms : {&small, &large}) {
        for (std::size_t i = begin; i < begin + length; i += 16) {
          double of_16 = 0;
          for (std::size_t t = i; t < i + 16; ++t) of_16 += (*terms)[t];
          part = CutSum(part, of_16);
        }
      }
      sum += part;
    }
    error += (sum - exact) * (sum - exact), scale += exact * exact;
  }
  return std::sqrt(error / scale);
}

TEST(PlaybookSums, CutSumsOf32TermsAreOfClassFp32AndOneLongSumIsNot) {
  for (const std::size_t k : {4096, 16384}) {
    const double allowed = 0x1.0p-24 * (16 + std::sqrt(static_cast<double>(k)));
    const double brief = ErrorOfCutSums(k, 32, 64), whole = ErrorOfCutSums(k, k, 64);
    EXPECT_LT(brief, allowed / 4) << "K = " << k;
    EXPECT_GT(whole, allowed) << "K = " << k;
    RecordProperty(fmt::format("short_{}", k), fmt::format("{:.2e}", brief));
    RecordProperty(fmt::format("long_{}", k), fmt::format("{:.2e}", whole));
  }
}

Problem Planes(std::string op, const std::vector<std::int64_t>& sizes) {
  Problem p{std::move(op), {}, DType::kF32};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    p.dims.push_back({std::string(1, "BCHWFRSP"[i]), sizes[i]});
  }
  return p;
}
double SingleOf(const Problem& p) {
  const double terms = static_cast<double>(p.dims[1].value * p.dims[5].value * p.dims[5].value);
  return 0x1.0p-24 * (16 + std::sqrt(terms));
}

TEST_F(PlaybookSoft, AConvolutionOfSplitOperandsIsOfClassFp32) {
  // Two images, two tiles of pixels; then the kernel of the scored shape, twelve steps.
  for (const Problem& p :
       {Planes("conv2d", {2, 3, 9, 27, 10, 5, 2, 2}), Planes("conv2d", {1, 3, 19, 18, 5, 11, 4, 2}),
        Planes("conv2d_relu_maxpool", {1, 8, 7, 9, 3, 3, 1, 1})}) {
    Check("op=" + p.op + " strategy=wgmma_split dependent=1", {p}, SingleOf(p), 1,
          p.op != "conv2d");
  }
}

TEST_F(PlaybookSoft, AConvolutionWhoseLinesDoNotFitIsRight) {
  for (const char* op : {"conv2d", "conv2d_relu_maxpool"}) {
    Problem p = Planes(op, {1, 200, 3, 50, 2, 3, 1, 1});
    p.maps = false;
    Check("op=" + p.op + " strategy=wgmma_split", {p}, SingleOf(p), 1);
  }
}

TEST_F(PlaybookSoft, AGatedLayerIsRight) {
  Check("op=fused_mlp strategy=wgmma persistent=1 dependent=1", {Layer(70, 72, 136)}, kHalf, 2,
        false);
}

TEST_F(PlaybookSoft, AttentionOfRaggedPiecesIsRight) {
  Check("op=attention strategy=wgmma", {Heads(2, 1, 150, 64, false)}, kHalf, 2, false);
  Check("op=attention strategy=wgmma", {Heads(1, 3, 33, 128, false, DType::kBF16)}, kBfloat, 2,
        false);
}

TEST_F(PlaybookSoft, AttentionOfHeadsThatTmaCannotServeIsRight) {
  Problem odd = Heads(1, 2, 37, 20, false);
  odd.maps = false;
  Check("op=attention strategy=wgmma", {odd}, kHalf, 2);
  Problem wide = Heads(1, 1, 19, 136, true, DType::kBF16);
  wide.maps = false;
  Check("op=flash_attention strategy=wgmma", {wide}, kBfloat, 2);
}

TEST_F(PlaybookSoft, AttentionOfWideHeadsIsRight) {
  // Two tiles of keys, so that the sums of the first are corrected; a block with two pieces.
  Check("op=attention strategy=wgmma_wide", {Heads(1, 1, 262, 136, false)}, kHalf, 2, false);
  Check("op=attention strategy=wgmma_wide span=128 ring=3",
        {Heads(1, 1, 150, 264, false, DType::kBF16)}, kBfloat, 1, false);
  // A block with two heads.
  Check("op=attention strategy=wgmma_wide hints=1", {Heads(1, 2, 40, 136, false)}, kHalf, 1, false);
  // Two stages for all steps: a race shows.
  Check("op=attention strategy=wgmma_wide span=128 ring=2", {Heads(1, 1, 33, 192, false)}, kHalf,
        1);
}

TEST_F(PlaybookSoft, CausalAttentionOfWideHeadsIsRight) {
  Check("op=flash_attention strategy=wgmma_wide span=128 ring=6", {Heads(1, 1, 290, 144, true)},
        kHalf, 3, false);
}

TEST_F(PlaybookSoft, WideHeadsThatTmaCannotServeAreRight) {
  Problem odd = Heads(1, 1, 19, 131, false);
  odd.maps = false;
  Problem narrow = Heads(1, 1, 21, 40, false, DType::kBF16);
  narrow.maps = false;
  Check("op=attention strategy=wgmma_wide", {odd}, kHalf, 2);
  Check("op=attention strategy=wgmma_wide", {narrow}, kBfloat, 2);
}

// Above 256 columns the mma.sync programs take another kernel, which no task's check cases reach.
TEST_F(PlaybookSoft, HeadsTooWideForAWarpAreRight) {
  Problem plain = Heads(1, 1, 70, 264, false);
  Problem odd = Heads(1, 2, 37, 259, false, DType::kBF16);
  Problem causal = Heads(1, 1, 69, 300, true);
  for (Problem* p : {&plain, &odd, &causal}) p->maps = false;
  Check("op=attention strategy=mma", {plain}, kHalf, 2);
  Check("op=attention strategy=mma", {odd}, kBfloat, 2);
  Check("op=flash_attention strategy=mma", {causal}, kHalf, 2);
}

TEST_F(PlaybookSoft, CausalAttentionIsRight) {
  Check("op=flash_attention strategy=wgmma span=64 ring=3 heavy=1", {Heads(1, 2, 200, 32, true)},
        kHalf, 2);
  Check("op=flash_attention strategy=wgmma heavy=1", {Heads(1, 3, 136, 72, true)}, kHalf, 2, false);
}

}  // namespace
}  // namespace grove::llm::playbook
