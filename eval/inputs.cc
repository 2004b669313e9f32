#include "eval/inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include "seeds/safetensors.h"

namespace grove::eval {
namespace {

using seeds::Distribution;

constexpr std::int64_t kChunk = 2048;  // elements made at once: the buffers stay in the L1 cache

// One Philox block, written so that a loop over it vectorises.
inline void Block(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                  std::uint32_t k0, std::uint32_t k1, std::uint32_t* out) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

inline std::uint32_t Low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
inline std::uint32_t High(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

inline float Ln(float z) {
  const auto bits = std::bit_cast<std::int32_t>(z);
  const std::int32_t e = (bits - 0x3f3504f3) >> 23;
  const float f = std::bit_cast<float>(bits - e * (1 << 23)) - 1.0F;
  const float q = f / (2.0F + f);
  const float u = q * q;
  const float series = 2.0F + u * (0.6666667F + u * (0.4F + u * (0.2857143F + u * 0.22222222F)));
  return static_cast<float>(e) * 0.6931472F + q * series;
}

inline float Normal(std::uint32_t word) {
  const auto s = static_cast<std::int32_t>(word ^ 0x80000000U);
  const std::int32_t a = s ^ (s >> 31);
  const float x = (static_cast<float>(a) + 0.5F) * 0x1p-31F;
  const float t = (static_cast<float>(0x7fffffff - a) + 0.5F) * 0x1p-31F;
  const float w = -Ln(t * (2.0F - t));
  const float c = w - 2.5F;
  float central = 2.81022636e-08F;
  central = 3.43273939e-07F + central * c;
  central = -3.5233877e-06F + central * c;
  central = -4.39150654e-06F + central * c;
  central = 0.00021858087F + central * c;
  central = -0.00125372503F + central * c;
  central = -0.00417768164F + central * c;
  central = 0.246640727F + central * c;
  central = 1.50140941F + central * c;
  const float d = std::sqrt(std::max(w, 0.0F)) - 3.0F;
  float tail = -0.000200214257F;
  tail = 0.000100950558F + tail * d;
  tail = 0.00134934322F + tail * d;
  tail = -0.00367342844F + tail * d;
  tail = 0.00573950773F + tail * d;
  tail = -0.0076224613F + tail * d;
  tail = 0.00943887047F + tail * d;
  tail = 1.00167406F + tail * d;
  tail = 2.83297682F + tail * d;
  const float p = w < 5.0F ? central : tail;
  const float n = p * x * 1.41421356F;
  return s < 0 ? -n : n;
}

double MaxFinite(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(std::numeric_limits<float>::max());
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<double>::max();
  }
}

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  StoreElement(dtype, bytes, 0, value);
  return LoadElement(dtype, bytes, 0);
}

using Structure = Distribution::Structure;

double PowerOfTen(double x) {
  const double y = x * 3.321928094887362;
  const double k = std::floor(y + 0.5);
  const double f = (y - k) * 0.6931471805599453;
  double sum = 1;
  for (int i = 13; i >= 1; --i) sum = 1 + sum * f / i;
  const auto bits = static_cast<std::uint64_t>(1023 + static_cast<std::int64_t>(k)) << 52;
  return sum * std::bit_cast<double>(bits);
}

// From 1 down to 10^-orders over `count` rows or columns.
std::vector<double> Decay(double orders, std::int64_t count) {
  std::vector<double> scale(static_cast<std::size_t>(count), 1.0);
  if (count == 1 || orders == 0) return scale;
  for (std::int64_t i = 0; i < count; ++i) {
    scale[static_cast<std::size_t>(i)] =
        PowerOfTen(-(orders * static_cast<double>(i)) / static_cast<double>(count - 1));
  }
  return scale;
}

// Everything about a tensor that every element needs.
struct Recipe {
  Distribution::Kind kind;
  DType dtype;
  bool integer;
  double a, b;
  double limit;       // largest magnitude
  double low, count;  // uniform integers
  std::int64_t inner, tail;
  // Matrices.
  Structure structure;
  std::int64_t rows, matrices, elements;
  std::vector<double> column_scale, row_scale;

  explicit Recipe(const seeds::Tensor& tensor)
      : kind(tensor.distribution.kind),
        dtype(tensor.dtype),
        integer(!IsFloat(tensor.dtype)),
        a(tensor.distribution.a),
        b(tensor.distribution.b),
        limit(MaxFinite(tensor.dtype)),
        low(std::ceil(a)),
        count(std::max(std::ceil(b) - low, 1.0)),
        inner(tensor.shape.empty() ? 1 : tensor.shape.back()),
        tail(std::max<std::int64_t>(1, inner / 100)),
        structure(tensor.distribution.structure),
        rows(tensor.shape.size() < 2 ? 1 : tensor.shape[tensor.shape.size() - 2]),
        matrices(tensor.elements() / std::max<std::int64_t>(rows * inner, 1)),
        elements(tensor.elements()) {
    if (kind != Distribution::Kind::kMatrix) return;
    column_scale = Decay(a, inner);
    row_scale = Decay(std::max(a, 4.0), rows);
  }

  double Limit(double value) const { return std::clamp(value, -limit, limit); }

  double UniformInteger(std::uint32_t word) const {
    return low + std::floor(count * (static_cast<double>(word) * 0x1p-32));
  }
  // In [a, b] by rounding; the caller replaces what its type rounds to b.
  double UniformReal(std::uint32_t word) const {
    return std::clamp(
        a + (b - a) * (static_cast<double>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24), -limit,
        limit);
  }
};

void MakeWords(std::uint64_t seed, std::uint64_t tensor_index, std::uint64_t block,
               std::int64_t blocks, std::uint32_t* words) {
  for (std::int64_t j = 0; j < blocks; ++j) {
    const std::uint64_t counter = block + static_cast<std::uint64_t>(j);
    Block(Low(counter), High(counter), Low(tensor_index), High(tensor_index), Low(seed), High(seed),
          words + 4 * j);
  }
}

// Word `index` of the tensor's stream.
std::uint32_t WordAt(std::uint64_t seed, std::uint64_t tensor_index, std::int64_t index) {
  std::uint32_t words[4];
  MakeWords(seed, tensor_index, static_cast<std::uint64_t>(index / 4), 1, words);
  return words[index % 4];
}

// The matrices of one tensor, element by element in ascending order.
class MatrixMaker {
 public:
  MatrixMaker(const Recipe& recipe, std::uint64_t seed, std::uint64_t tensor_index)
      : recipe_(recipe), seed_(seed), tensor_index_(tensor_index) {}

  double Element(std::uint32_t word, std::int64_t i) {
    const std::int64_t columns = recipe_.inner;
    const std::int64_t c = i % columns;
    const std::int64_t r = i / columns % recipe_.rows;
    const std::int64_t b = i / (columns * recipe_.rows);
    if (b != matrix_) {
      matrix_ = b;
      structure_ = StructureOf(b);
    }
    const double scale = recipe_.column_scale[static_cast<std::size_t>(c)];
    const auto own = static_cast<double>(Normal(word));
    switch (structure_) {
      case Structure::kUpper:
        return r > c ? 0 : (own + Boost(r, c, 0.25)) * scale;
      case Structure::kRankDeficient:
        return c >= 3 * columns / 4 ? 0 : own * scale;
      case Structure::kNearRank:
        if (c < 3 * columns / 4) return own * scale;
        return (At(i - 3 * columns / 4) + 1e-5 * own) * scale;
      case Structure::kClustered: {
        constexpr double kEps = 0x1p-23;
        constexpr double kRootEps = 3.4526698300124393e-4;
        const std::int64_t half = columns / 2;
        if (c >= half - 2 && c < half + 2) return own * kRootEps * scale;
        return c >= half ? own * (4 * kEps) * scale : own * scale;
      }
      case Structure::kBand: {
        const std::int64_t width =
            std::max<std::int64_t>(2, std::min<std::int64_t>(32, columns / 32));
        if (r - c > width || c - r > width) return 0;
        return (own + Boost(r, c, 0.5)) * scale;
      }
      case Structure::kRowScale:
        return own * recipe_.row_scale[static_cast<std::size_t>(r)];
      case Structure::kNearCollinear:
        return (At(recipe_.elements + recipe_.matrices + b * recipe_.rows + r) + 1e-4 * own) *
               scale;
      case Structure::kDiagonal:
        return r == c ? own * scale : 0;
      case Structure::kDense:
      case Structure::kMixed:
        break;
    }
    return own * scale;
  }

 private:
  double At(std::int64_t index) const {
    return static_cast<double>(Normal(WordAt(seed_, tensor_index_, index)));
  }

  // On the diagonal: from 1 in the first row to `last` in the last.
  double Boost(std::int64_t r, std::int64_t c, double last) const {
    if (r != c) return 0;
    if (recipe_.rows == 1) return 1;
    return 1 + (last - 1) * static_cast<double>(r) / static_cast<double>(recipe_.rows - 1);
  }

  Structure StructureOf(std::int64_t b) const {
    if (recipe_.structure != Structure::kMixed) return recipe_.structure;
    static constexpr Structure kOthers[] = {Structure::kRankDeficient, Structure::kNearRank,
                                            Structure::kClustered,     Structure::kBand,
                                            Structure::kRowScale,      Structure::kNearCollinear};
    const std::int64_t count = recipe_.matrices;
    const std::uint32_t word = WordAt(seed_, tensor_index_, recipe_.elements + b);
    if (count >= 2) {
      const std::int64_t behind = recipe_.elements + count + count * recipe_.rows;
      const std::int64_t dense = WordAt(seed_, tensor_index_, behind) % count;
      const std::int64_t other =
          (dense + 1 + WordAt(seed_, tensor_index_, behind + 1) % (count - 1)) % count;
      if (b == dense) return Structure::kDense;
      if (b == other && word % 12 < 6) return kOthers[word / 12 % 6];
    }
    return word % 12 < 6 ? Structure::kDense : kOthers[word % 12 - 6];
  }

  const Recipe& recipe_;
  const std::uint64_t seed_;
  const std::uint64_t tensor_index_;
  std::int64_t matrix_ = -1;
  Structure structure_ = Structure::kDense;
};

void MakeUniform(const Recipe& recipe, const std::uint32_t* words, std::int64_t count,
                 double* values) {
  if (recipe.integer) {
    for (std::int64_t j = 0; j < count; ++j) values[j] = recipe.UniformInteger(words[j]);
    return;
  }
  const double least = recipe.Limit(recipe.a);
  const double end = recipe.b;
  for (std::int64_t j = 0; j < count; ++j) values[j] = recipe.UniformReal(words[j]);
  if (recipe.dtype == DType::kF32) {  // the same as below, in a loop that vectorises
    for (std::int64_t j = 0; j < count; ++j) {
      values[j] = static_cast<double>(static_cast<float>(values[j])) < end ? values[j] : least;
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    if (Rounded(recipe.dtype, values[j]) >= end) values[j] = least;
  }
}

// Values of the elements from `first` on, before rounding to the element type.
void MakeValues(const Recipe& recipe, const std::uint32_t* words, std::int64_t first,
                std::int64_t count, double* values) {
  switch (recipe.kind) {
    case Distribution::Kind::kConstant:
      std::fill_n(values, count, recipe.Limit(recipe.a));
      return;
    case Distribution::Kind::kUniform:
      MakeUniform(recipe, words, count, values);
      return;
    case Distribution::Kind::kNormal:
    case Distribution::Kind::kTail:
    case Distribution::Kind::kMixed:
    case Distribution::Kind::kMatrix:  // made in FillChunk
    case Distribution::Kind::kFile:    // read in MakeInput
      break;
  }
  float normal[kChunk];
  for (std::int64_t j = 0; j < count; ++j) normal[j] = Normal(words[j]);
  const double a = recipe.a;
  const double b = recipe.b;
  const double limit = recipe.limit;
  if (recipe.kind == Distribution::Kind::kMixed) {
    for (std::int64_t j = 0; j < count; ++j) {
      const double scale = (words[j] & 1U) != 0 ? b : a;
      values[j] = std::clamp(static_cast<double>(normal[j]) * scale, -limit, limit);
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    values[j] = std::clamp(a + b * static_cast<double>(normal[j]), -limit, limit);
  }
  if (recipe.kind == Distribution::Kind::kTail) {
    for (std::int64_t j = 0; j < count; ++j) {
      if ((first + j) % recipe.inner < recipe.inner - recipe.tail) values[j] = 0;
    }
  }
}

void FillChunk(const Recipe& recipe, std::uint64_t seed, std::uint64_t tensor_index,
               std::int64_t first, std::int64_t count, std::byte* out) {
  alignas(64) std::uint32_t words[kChunk + 8];
  alignas(64) double values[kChunk];
  const std::int64_t block = first / 4;
  MakeWords(seed, tensor_index, static_cast<std::uint64_t>(block), (first + count + 3) / 4 - block,
            words);
  if (recipe.kind == Distribution::Kind::kMatrix) {
    MatrixMaker maker(recipe, seed, tensor_index);
    for (std::int64_t j = 0; j < count; ++j) {
      values[j] = recipe.Limit(maker.Element(words[first % 4 + j], first + j));
    }
  } else {
    MakeValues(recipe, words + first % 4, first, count, values);
  }
  if (recipe.dtype == DType::kF32) {
    float rounded[kChunk];
    for (std::int64_t j = 0; j < count; ++j) rounded[j] = static_cast<float>(values[j]);
    std::memcpy(out, rounded, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) StoreElement(recipe.dtype, out, j, values[j]);
}

// The poison in its low bytes.
std::uint64_t Poison(DType dtype, int which) {
  switch (dtype) {
    case DType::kF64:
      return which == 0 ? 0x7ff8badc0ffee000U : 0xc2d5f3a1b7c94e6dU;
    case DType::kF32:
      return which == 0 ? 0x7fc0ba5eU : 0xcb1d6f4bU;
    case DType::kF16:
      return which == 0 ? 0x7e5aU : 0xf1a5U;
    case DType::kBF16:
      return which == 0 ? 0x7fd5U : 0xcb1dU;
    default:
      return which == 0 ? 0xa5a5a5a5a5a5a5a5U : 0x5a5a5a5a5a5a5a5aU;
  }
}

// Calls `action` with an unsigned integer of the type's size.
template <typename Action>
auto WithWord(DType dtype, Action action) {
  switch (SizeOf(dtype)) {
    case 8:
      return action(std::uint64_t{});
    case 4:
      return action(std::uint32_t{});
    case 2:
      return action(std::uint16_t{});
    default:
      return action(std::uint8_t{});
  }
}

template <typename Word>
Word LoadWord(const std::byte* data, std::size_t index) {
  Word word;
  std::memcpy(&word, data + index * sizeof(Word), sizeof(Word));
  return word;
}

}  // namespace

std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  std::array<std::uint32_t, 4> words;
  Block(counter[0], counter[1], counter[2], counter[3], key[0], key[1], words.data());
  return words;
}

float StandardNormal(std::uint32_t word) { return Normal(word); }

void FillInput(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
               std::span<std::byte> out, std::int64_t first) {
  const Recipe recipe(tensor);
  const auto size = static_cast<std::int64_t>(SizeOf(tensor.dtype));
  const std::int64_t count = static_cast<std::int64_t>(out.size()) / size;
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, chunks, 16), [&](const auto& range) {
    for (std::int64_t chunk = range.begin(); chunk < range.end(); ++chunk) {
      const std::int64_t begin = chunk * kChunk;
      FillChunk(recipe, seed, tensor_index, first + begin, std::min(kChunk, count - begin),
                out.data() + begin * size);
    }
  });
}

Status MakeInput(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
                 std::span<std::byte> out, std::int64_t first) {
  if (tensor.distribution.kind == Distribution::Kind::kFile) {
    const auto size = static_cast<std::int64_t>(SizeOf(tensor.dtype));
    return seeds::ReadStored(tensor.distribution.stored, first * size, out);
  }
  FillInput(tensor, seed, tensor_index, out, first);
  return {};
}

double InputElement(const seeds::Tensor& tensor, std::uint64_t seed, std::uint64_t tensor_index,
                    std::int64_t index) {
  std::byte bytes[8];
  FillChunk(Recipe(tensor), seed, tensor_index, index, 1, bytes);
  return LoadElement(tensor.dtype, bytes, 0);
}

void FillPoison(std::span<std::byte> out, DType dtype, int which) {
  WithWord(dtype, [&]<typename Word>(Word) {
    const auto poison = static_cast<Word>(Poison(dtype, which));
    for (std::size_t i = 0; i < out.size() / sizeof(Word); ++i) {
      std::memcpy(out.data() + i * sizeof(Word), &poison, sizeof(Word));
    }
  });
}

std::int64_t FirstPoison(std::span<const std::byte> run0, std::span<const std::byte> run1,
                         DType dtype, std::int64_t first) {
  return WithWord(dtype, [&]<typename Word>(Word) -> std::int64_t {
    const auto poison0 = static_cast<Word>(Poison(dtype, 0));
    const auto poison1 = static_cast<Word>(Poison(dtype, 1));
    for (std::size_t i = 0; i < run0.size() / sizeof(Word); ++i) {
      if (LoadWord<Word>(run0.data(), i) == poison0 && LoadWord<Word>(run1.data(), i) == poison1) {
        return first + static_cast<std::int64_t>(i);
      }
    }
    return -1;
  });
}

}  // namespace grove::eval
