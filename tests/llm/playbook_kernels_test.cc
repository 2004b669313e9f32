// The proof that the playbook's templates are right: generated programs go through the whole way of
// a candidate (reply parser's program check, prelude, NVRTC, plan) and run in the emulator with all
// of its checks; the output is compared with fp64 on the host.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/program.h"
#include "eval/emulator/emulator.h"
#include "tests/llm/playbook_fixture.h"

namespace grove::llm::playbook {
namespace {

using codegen::CompileOutcome;

// One seed for all inputs of a case; it stands in every failure message.
constexpr unsigned kSeed = 20240611;

enum class Input { kNormal, kLargeMean, kNearOverflow, kConstant };

struct Shape {
  std::vector<seeds::Dim> dims;
  Input input = Input::kNormal;
};

seeds::Tensor MakeTensor(std::string name, bool output, std::vector<std::int64_t> shape) {
  seeds::Tensor t;
  t.name = std::move(name);
  t.role = output ? seeds::TensorRole::kOutput : seeds::TensorRole::kInput;
  t.shape = std::move(shape);
  return t;
}

seeds::Case MakeCase(const std::string& op, const Shape& shape) {
  seeds::Case c;
  c.name = op;
  c.dims = shape.dims;
  std::vector<std::int64_t> d;
  for (const seeds::Dim& dim : shape.dims) d.push_back(dim.value);
  if (op == "softmax") {
    c.tensors = {MakeTensor("x", false, d), MakeTensor("y", true, d)};
  } else if (op == "layernorm") {
    const std::vector<std::int64_t> row(d.begin() + 1, d.end());
    c.tensors = {MakeTensor("x", false, d), MakeTensor("gamma", false, row),
                 MakeTensor("beta", false, row), MakeTensor("y", true, d)};
    c.scalars = {{"eps", DType::kF32, 1e-5}};
  } else {
    c.tensors = {MakeTensor("a", false, {d[0], d[2]}), MakeTensor("b", false, {d[2], d[1]}),
                 MakeTensor("c", true, {d[0], d[1]})};
  }
  return c;
}

std::int64_t Count(const seeds::Tensor& t) {
  std::int64_t n = 1;
  for (const std::int64_t s : t.shape) n *= s;
  return n;
}

using Buffer = std::vector<float>;

Buffer Draw(std::int64_t count, Input input, std::mt19937_64& random) {
  Buffer values(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> wide(-1e38f, 1e38f);
  for (float& v : values) {
    switch (input) {
      case Input::kNormal:
        v = normal(random);
        break;
      case Input::kLargeMean:
        v = 1000.0f + 0.1f * normal(random);
        break;
      case Input::kNearOverflow:
        v = wide(random);
        break;
      case Input::kConstant:
        v = 3.0f;
        break;
    }
  }
  return values;
}

// The expected output in fp64.
std::vector<double> Expected(const std::string& op, const seeds::Case& c,
                             const std::vector<Buffer>& in) {
  std::vector<double> out;
  const auto dim = [&](std::size_t i) { return static_cast<std::size_t>(c.dims[i].value); };
  if (op == "matmul") {
    const std::size_t m = dim(0), n = dim(1), k = dim(2);
    out.assign(m * n, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t l = 0; l < k; ++l) {
        const double a = in[0][i * k + l];
        for (std::size_t j = 0; j < n; ++j)
          out[i * n + j] += a * static_cast<double>(in[1][l * n + j]);
      }
    }
    return out;
  }
  const std::size_t rows = dim(0), cols = in[0].size() / rows;
  out.resize(in[0].size());
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = &in[0][r * cols];
    double* y = &out[r * cols];
    if (op == "softmax") {
      double top = x[0], sum = 0;
      for (std::size_t j = 0; j < cols; ++j) top = std::max(top, static_cast<double>(x[j]));
      for (std::size_t j = 0; j < cols; ++j)
        sum += y[j] = std::exp(static_cast<double>(x[j]) - top);
      for (std::size_t j = 0; j < cols; ++j) y[j] /= sum;
    } else {
      double mean = 0, m2 = 0;
      for (std::size_t j = 0; j < cols; ++j) mean += static_cast<double>(x[j]);
      mean /= static_cast<double>(cols);
      for (std::size_t j = 0; j < cols; ++j)
        m2 += (static_cast<double>(x[j]) - mean) * (static_cast<double>(x[j]) - mean);
      const double scale =
          1 / std::sqrt(m2 / static_cast<double>(cols) + static_cast<double>(1e-5f));
      for (std::size_t j = 0; j < cols; ++j) {
        y[j] = (static_cast<double>(x[j]) - mean) * scale * static_cast<double>(in[1][j]) +
               static_cast<double>(in[2][j]);
      }
    }
  }
  return out;
}

class PlaybookKernels : public PlaybookSuite {
 protected:
  // Worst relative L2 error of a row, or a message of what went wrong on the way.
  static tl::expected<double, std::string> Run(const Traits& traits, const Shape& shape) {
    const auto bad = [](std::string text) { return tl::unexpected<std::string>(std::move(text)); };
    const std::string& op = traits.at("op");
    const auto made = ProgramOf(traits);
    if (!made) return bad(made.error().message);
    const codegen::KernelProgram& program = made->program;
    const seeds::Case c = MakeCase(op, shape);
    const auto compiled = farm_->Compile({codegen::Prelude(c) + program.source, "sm_90", {}});
    if (!compiled) return bad(compiled.error().message);
    if (!(*compiled)->ok()) return bad("does not compile: " + (*compiled)->log);
    const auto plan = codegen::ResolvePlan(program.plan, c, {});
    if (!plan) return bad(plan.error().message);
    if (const auto valid = codegen::ValidatePlan(*plan, (*compiled)->entries, {}); !valid) {
      return bad(valid.error().message);
    }
    const auto module = emulator::LoadModule((*compiled)->ptx);
    if (!module) return bad(module.error().message);

    std::mt19937_64 random(kSeed);
    emulator::AddressSpace memory;
    std::vector<Buffer> tensors, workspaces;
    std::vector<std::uint64_t> tensor_at, workspace_at;
    const float poison = std::nanf("");
    const auto map = [&](const std::string& name, Buffer& buffer, bool writable) {
      return memory.Map({name, reinterpret_cast<std::byte*>(buffer.data()),
                         static_cast<std::int64_t>(buffer.size() * sizeof(float)), writable,
                         writable, 0});
    };
    for (const seeds::Tensor& t : c.tensors) {
      const bool output = t.role == seeds::TensorRole::kOutput;
      const bool main = &t == &c.tensors.front();
      tensors.push_back(
          output ? Buffer(static_cast<std::size_t>(Count(t)), poison)
                 : Draw(Count(t), main || op == "matmul" ? shape.input : Input::kNormal, random));
    }
    for (const auto& w : plan->workspaces) {
      workspaces.emplace_back(static_cast<std::size_t>(w.elements), w.zero ? 0.0f : poison);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensor_at.push_back(
          map(c.tensors[i].name, tensors[i], c.tensors[i].role == seeds::TensorRole::kOutput));
    }
    for (std::size_t i = 0; i < workspaces.size(); ++i) {
      workspace_at.push_back(map(plan->workspaces[i].name, workspaces[i], true));
    }
    for (const codegen::ResolvedLaunch& launch : plan->launches) {
      emulator::LaunchConfig config;
      config.kernel = launch.kernel;
      config.grid = launch.grid;
      config.block = launch.block;
      config.shared_bytes = launch.shared_bytes;
      for (const codegen::ResolvedArg& arg : launch.args) {
        std::vector<std::byte> bytes(arg.size);
        const std::uint64_t address =
            arg.kind == codegen::ResolvedArg::Kind::kTensor      ? tensor_at[arg.index]
            : arg.kind == codegen::ResolvedArg::Kind::kWorkspace ? workspace_at[arg.index]
                                                                 : 0;
        if (arg.kind == codegen::ResolvedArg::Kind::kScalar) {
          std::memcpy(bytes.data(), arg.bytes.data(), arg.size);
        } else {
          std::memcpy(bytes.data(), &address, sizeof(address));
        }
        config.params.push_back(std::move(bytes));
      }
      emulator::LaunchOptions options;
      options.detect_races = true;
      options.detect_uninitialised = true;
      const auto outcome = emulator::Run(**module, config, memory, options);
      if (outcome.fault) {
        return bad(fmt::format("{}: {} [{}]", emulator::Name(outcome.fault->kind),
                               outcome.fault->message, outcome.fault->instruction));
      }
    }
    std::vector<Buffer> inputs(tensors.begin(), tensors.end() - 1);
    const std::vector<double> expected = Expected(op, c, inputs);
    // Rows as the tasks score them: a whole normalised row, or a row of C (all of it when short).
    const std::size_t rows =
        op == "matmul" && c.dims[1].value < 32 ? 1 : static_cast<std::size_t>(c.dims[0].value);
    const std::size_t cols = expected.size() / rows;
    double worst = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      double error = 0, scale = 0;
      for (std::size_t j = r * cols; j < (r + 1) * cols; ++j) {
        const double d = static_cast<double>(tensors.back()[j]) - expected[j];
        error += d * d;
        scale += expected[j] * expected[j];
      }
      const double relative = std::sqrt(error / scale);
      if (!(relative <= worst)) worst = relative;  // NaN stays
      if (std::isnan(relative)) return bad(fmt::format("row {} holds NaN or was not written", r));
    }
    return worst;
  }

  // Every combination of traits over every shape stays below `tolerance`.
  static void Check(const std::vector<Traits>& combinations, const std::vector<Shape>& shapes,
                    double tolerance) {
    for (const Traits& traits : combinations) {
      const auto complete = catalogue_->Complete(traits);
      ASSERT_TRUE(complete) << complete.error().message;
      for (const Shape& shape : shapes) {
        std::string dims;
        for (const seeds::Dim& d : shape.dims) dims += fmt::format(" {}={}", d.name, d.value);
        const auto error = Run(*complete, shape);
        ASSERT_TRUE(error) << TraitsLine(*complete) << dims << " seed " << kSeed << "\n"
                           << error.error();
        EXPECT_LE(*error, tolerance) << TraitsLine(*complete) << dims << " seed " << kSeed;
      }
    }
  }
};

Traits Of(std::string_view line) { return TraitsOf(fmt::format("// traits: {}\n", line), ""); }

Shape Rows(std::int64_t m, std::int64_t n, Input input = Input::kNormal) {
  return {{{"M", m}, {"N", n}}, input};
}
Shape Layer(std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w,
            Input input = Input::kNormal) {
  return {{{"B", b}, {"C", c}, {"H", h}, {"W", w}}, input};
}
Shape Product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{{"M", m}, {"N", n}, {"K", k}}, Input::kNormal};
}

TEST_F(PlaybookKernels, SoftmaxBlockPerRow) {
  Check({Of("op=softmax strategy=block"), Of("op=softmax strategy=block passes=2 vec=4 unroll=4"),
         Of("op=softmax strategy=block passes=3 vec=4 unroll=2 fastexp=1 stream=1 threads=128"),
         Of("op=softmax strategy=block passes=2 fastexp=1 threads=512 unroll=8 stream=1")},
        {Rows(3, 1023), Rows(2, 4096), Rows(5, 1), Rows(3, 1023, Input::kNearOverflow)}, 1e-6);
}

TEST_F(PlaybookKernels, SoftmaxResident) {
  // 9001 floats over 128 threads with 16 held: most of the row lies in shared memory.
  Check({Of("op=softmax strategy=resident threads=1024"),
         Of("op=softmax strategy=resident threads=128 held=16 vec=4"),
         Of("op=softmax strategy=resident threads=256 held=8 vec=4 async=1 fastexp=1 stream=1")},
        {Rows(2, 9001), Rows(2, 8192), Rows(2, 2050), Rows(3, 1),
         Rows(2, 4099, Input::kNearOverflow)},
        1e-6);
}

TEST_F(PlaybookKernels, SoftmaxWarpPerRow) {
  Check({Of("op=softmax strategy=warp"),
         Of("op=softmax strategy=warp threads=128 vec=4 fastexp=1 stream=1")},
        {Rows(7, 1000), Rows(5, 77), Rows(257, 1), Rows(3, 1024, Input::kLargeMean)}, 1e-6);
}

TEST_F(PlaybookKernels, SoftmaxSplitRows) {
  Check({Of("op=softmax strategy=split threads=128 chunks=32"),
         Of("op=softmax strategy=split threads=256 chunks=66 vec=4 unroll=4 fastexp=1 stream=1 "
            "reverse=1")},
        {Rows(2, 20001), Rows(3, 16384), Rows(1, 5)}, 1e-6);
}

TEST_F(PlaybookKernels, LayerNormBlockPerRow) {
  Check(
      {Of("op=layernorm strategy=block"), Of("op=layernorm strategy=block passes=2 vec=4 unroll=4"),
       Of("op=layernorm strategy=block passes=2 threads=512 unroll=2 stream=1"),
       Of("op=layernorm strategy=block passes=3 vec=4 unroll=8 threads=128 stream=1")},
      {Layer(3, 5, 7, 11), Layer(2, 16, 16, 16), Layer(2, 3, 1, 1023), Layer(1, 1, 1, 1)}, 2e-6);
}

TEST_F(PlaybookKernels, LayerNormResident) {
  Check({Of("op=layernorm strategy=resident threads=1024"),
         Of("op=layernorm strategy=resident threads=128 held=16 vec=4"),
         Of("op=layernorm strategy=resident threads=256 held=8 vec=4 async=1 stream=1")},
        {Layer(3, 5, 7, 11), Layer(2, 16, 16, 32), Layer(2, 9, 1, 1001)}, 2e-6);
}

TEST_F(PlaybookKernels, LayerNormWarpPerRow) {
  Check({Of("op=layernorm strategy=warp"),
         Of("op=layernorm strategy=warp threads=256 vec=4 stream=1")},
        {Layer(9, 1, 1, 67), Layer(130, 2, 5, 13), Layer(4, 4, 8, 32)}, 2e-6);
}

TEST_F(PlaybookKernels, LayerNormSplitRows) {
  Check(
      {Of("op=layernorm strategy=split threads=256 chunks=64"),
       Of("op=layernorm strategy=split threads=128 chunks=66 vec=4 unroll=4 stream=1 reverse=1"),
       Of("op=layernorm strategy=split threads=256 chunks=32 vec=4 unroll=2 share=1 share_rows=4"),
       Of("op=layernorm strategy=split threads=128 chunks=132 vec=4 share=1 share_packs=2 "
          "reverse=1 stream=1")},
      {Layer(3, 7, 33, 65), Layer(2, 16, 32, 32), Layer(5, 1, 1, 67), Layer(130, 2, 5, 13)}, 2e-6);
}

// What sum of squares minus square of the sum gets wrong by 40% and more.
TEST_F(PlaybookKernels, LayerNormKeepsItsAccuracyBesideALargeMean) {
  Check(
      {Of("op=layernorm strategy=block"), Of("op=layernorm strategy=block passes=2 vec=4 unroll=4"),
       Of("op=layernorm strategy=resident threads=256 held=8 vec=4"),
       Of("op=layernorm strategy=warp"), Of("op=layernorm strategy=split chunks=64 vec=4 unroll=4"),
       Of("op=layernorm strategy=split chunks=32 share=1")},
      {Layer(2, 4, 16, 16, Input::kLargeMean), Layer(2, 5, 7, 11, Input::kLargeMean),
       Layer(2, 3, 17, 19, Input::kConstant)},
      5e-6);
}

TEST_F(PlaybookKernels, MatmulTiles) {
  Check({Of("op=matmul strategy=tile"), Of("op=matmul strategy=tile bm=16 bn=16 bk=16 vec=4"),
         Of("op=matmul strategy=tile bm=128 bn=128 bk=8 tm=8 tn=8"),
         Of("op=matmul strategy=tile bm=128 bn=64 bk=16 tm=8 tn=4 vec=4 at=1 pad=4 buffers=2"),
         Of("op=matmul strategy=tile bm=64 bn=64 bk=8 tm=8 tn=8 vec=4 quads=1 swizzle=1 group=2"),
         Of("op=matmul strategy=tile bm=128 bn=128 bk=16 tm=8 tn=8 vec=4 at=1 pad=4 quads=1 "
            "buffers=2 swizzle=1"),
         Of("op=matmul strategy=tile bm=256 bn=64 bk=16 tm=8 tn=8 at=1 buffers=2")},
        {Product(129, 127, 31), Product(128, 256, 72), Product(1, 257, 63), Product(65, 129, 1)},
        2e-6);
}

TEST_F(PlaybookKernels, MatmulOnTensorCoresStaysInTheClassOfFp32) {
  Check({Of("op=matmul strategy=wmma"), Of("op=matmul strategy=wmma bm=64 bn=64 wm=32 wn=32 pad=4"),
         Of("op=matmul strategy=wmma bm=128 bn=64 bk=32 wm=32 wn=32 pad=4 async=1 stages=3 "
            "swizzle=1 group=4"),
         Of("op=matmul strategy=wmma bm=64 bn=128 wm=32 wn=32 pad=8 async=1 stages=2 promote=0")},
        {Product(129, 127, 31), Product(128, 256, 72), Product(1, 257, 63), Product(65, 129, 1)},
        2e-6);
}

}  // namespace
}  // namespace grove::llm::playbook
