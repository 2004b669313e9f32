// Drawing inputs (the definition is in eval/inputs.h).

enum { kNormal, kUniform, kConstant, kMixed, kTail, kMatrix };
enum { kDense, kUpper, kRankDeficient, kNearRank, kClustered, kBand, kRowScale, kNearCollinear, kMixture, kDiagonal };

struct Recipe {
  int kind;
  int dtype;
  int integer;
  int plain;            // standard normal in fp32: the sample itself
  double a, b, limit;
  double low, count;    // uniform integers
  i64 inner, tail;
  i64 elements;
  i64 rows, structure;  // matrices
};

__device__ float Ln(float z) {
  const int bits = __float_as_int(z);
  const int e = (bits - 0x3f3504f3) >> 23;
  const float f = __int_as_float(bits - e * (1 << 23)) - 1.0f;
  const float q = f / (2.0f + f);
  const float u = q * q;
  const float series = 2.0f + u * (0.6666667f + u * (0.4f + u * (0.2857143f + u * 0.22222222f)));
  return static_cast<float>(e) * 0.6931472f + q * series;
}

__device__ float StandardNormal(u32 word) {
  const int s = static_cast<int>(word ^ 0x80000000u);
  const int a = s ^ (s >> 31);
  const float x = (static_cast<float>(a) + 0.5f) * 4.656612873077393e-10f;
  const float t = (static_cast<float>(0x7fffffff - a) + 0.5f) * 4.656612873077393e-10f;
  const float w = -Ln(t * (2.0f - t));
  float p;
  if (w < 5.0f) {
    const float c = w - 2.5f;
    p = 2.81022636e-08f;
    p = 3.43273939e-07f + p * c;
    p = -3.5233877e-06f + p * c;
    p = -4.39150654e-06f + p * c;
    p = 0.00021858087f + p * c;
    p = -0.00125372503f + p * c;
    p = -0.00417768164f + p * c;
    p = 0.246640727f + p * c;
    p = 1.50140941f + p * c;
  } else {
    const float d = sqrtf(w) - 3.0f;
    p = -0.000200214257f;
    p = 0.000100950558f + p * d;
    p = 0.00134934322f + p * d;
    p = -0.00367342844f + p * d;
    p = 0.00573950773f + p * d;
    p = -0.0076224613f + p * d;
    p = 0.00943887047f + p * d;
    p = 1.00167406f + p * d;
    p = 2.83297682f + p * d;
  }
  const float n = p * x * 1.41421356f;
  return s < 0 ? -n : n;
}

__device__ void Philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1, u32* out) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = static_cast<u64>(0xD2511F53u) * c0;
    const u64 p1 = static_cast<u64>(0xCD9E8D57u) * c2;
    c0 = static_cast<u32>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<u32>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<u32>(p1);
    c3 = static_cast<u32>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

__device__ double Limit(double v, double limit) { return v < -limit ? -limit : v > limit ? limit : v; }

// `v` as the element type holds it.
__device__ double Rounded(int dtype, double v) {
  u64 bytes = 0;
  Store(dtype, reinterpret_cast<u8*>(&bytes), 0, v);
  return Load(dtype, reinterpret_cast<const u8*>(&bytes), 0);
}

__device__ double Value(const Recipe& r, u32 word, i64 i) {
  switch (r.kind) {
    case kConstant: return Limit(r.a, r.limit);
    case kUniform: {
      if (r.integer) return r.low + floor(r.count * (static_cast<double>(word) * 0x1p-32));
      const double v =
          Limit(r.a + (r.b - r.a) * (static_cast<double>(static_cast<int>(word >> 8)) * 0x1p-24),
                r.limit);
      return Rounded(r.dtype, v) < r.b ? v : Limit(r.a, r.limit);
    }
    case kMixed:
      return Limit(static_cast<double>(StandardNormal(word)) * ((word & 1u) ? r.b : r.a), r.limit);
    default:
      if (r.kind == kTail && i % r.inner < r.inner - r.tail) return 0;
      return Limit(r.a + r.b * static_cast<double>(StandardNormal(word)), r.limit);
  }
}

// --- matrices -----------------------------------------------------------------------------------

__device__ double PowerOfTen(double x) {
  const double y = x * 3.321928094887362;
  const double k = floor(y + 0.5);
  const double f = (y - k) * 0.6931471805599453;
  double sum = 1;
  for (int i = 13; i >= 1; --i) sum = 1 + sum * f / i;
  return sum * __longlong_as_double((1023 + static_cast<i64>(k)) << 52);
}

__device__ double Decay(double orders, i64 i, i64 count) {
  if (count == 1 || orders == 0) return 1;
  return PowerOfTen(-(orders * static_cast<double>(i)) / static_cast<double>(count - 1));
}

struct Stream {
  u64 seed, tensor;
  __device__ u32 Word(i64 index) const {
    u32 w[4];
    const u64 counter = static_cast<u64>(index / 4);
    Philox(static_cast<u32>(counter), static_cast<u32>(counter >> 32), static_cast<u32>(tensor),
           static_cast<u32>(tensor >> 32), static_cast<u32>(seed), static_cast<u32>(seed >> 32), w);
    return w[index % 4];
  }
  __device__ double Normal(i64 index) const {
    return static_cast<double>(StandardNormal(Word(index)));
  }
};

__device__ double Boost(i64 r, i64 c, i64 rows, double last) {
  if (r != c) return 0;
  if (rows == 1) return 1;
  return 1 + (last - 1) * static_cast<double>(r) / static_cast<double>(rows - 1);
}

__device__ int StructureOf(const Recipe& r, const Stream& stream, i64 b, i64 count) {
  if (r.structure != kMixture) return static_cast<int>(r.structure);
  const int others[] = {kRankDeficient, kNearRank, kClustered, kBand, kRowScale, kNearCollinear};
  const u32 word = stream.Word(r.elements + b);
  if (count >= 2) {
    const i64 behind = r.elements + count + count * r.rows;
    const i64 dense = stream.Word(behind) % count;
    const i64 other = (dense + 1 + stream.Word(behind + 1) % (count - 1)) % count;
    if (b == dense) return kDense;
    if (b == other && word % 12 < 6) return others[word / 12 % 6];
  }
  return word % 12 < 6 ? kDense : others[word % 12 - 6];
}

__device__ double MatrixValue(const Recipe& recipe, const Stream& stream, u32 word, i64 i) {
  const i64 columns = recipe.inner;
  const i64 c = i % columns;
  const i64 r = i / columns % recipe.rows;
  const i64 b = i / (columns * recipe.rows);
  const i64 count = recipe.elements / (columns * recipe.rows);
  const double own = static_cast<double>(StandardNormal(word));
  const int structure = StructureOf(recipe, stream, b, count);
  if (structure == kRowScale) return own * Decay(recipe.a > 4 ? recipe.a : 4, r, recipe.rows);
  const double scale = Decay(recipe.a, c, columns);
  switch (structure) {
    case kUpper: return r > c ? 0 : (own + Boost(r, c, recipe.rows, 0.25)) * scale;
    case kRankDeficient: return c >= 3 * columns / 4 ? 0 : own * scale;
    case kNearRank:
      if (c < 3 * columns / 4) return own * scale;
      return (stream.Normal(i - 3 * columns / 4) + 1e-5 * own) * scale;
    case kClustered: {
      const i64 half = columns / 2;
      if (c >= half - 2 && c < half + 2) return own * 3.4526698300124393e-4 * scale;
      return c >= half ? own * (4 * 0x1p-23) * scale : own * scale;
    }
    case kBand: {
      i64 width = columns / 32;
      width = width > 32 ? 32 : width < 2 ? 2 : width;
      if (r - c > width || c - r > width) return 0;
      return (own + Boost(r, c, recipe.rows, 0.5)) * scale;
    }
    case kNearCollinear:
      return (stream.Normal(recipe.elements + count + b * recipe.rows + r) + 1e-4 * own) * scale;
    case kDiagonal: return r == c ? own * scale : 0;
    default: return own * scale;
  }
}

extern "C" __global__ void grove_generate(u8* data, Recipe r, u64 seed, u64 tensor) {
  const i64 blocks = (r.elements + 3) / 4;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 j = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; j < blocks; j += step) {
    u32 w[4];
    const u64 counter = static_cast<u64>(j);
    Philox(static_cast<u32>(counter), static_cast<u32>(counter >> 32), static_cast<u32>(tensor),
           static_cast<u32>(tensor >> 32), static_cast<u32>(seed), static_cast<u32>(seed >> 32), w);
    const i64 i = 4 * j;
    if (r.plain && i + 4 <= r.elements) {
      reinterpret_cast<float4*>(data)[j] = make_float4(StandardNormal(w[0]), StandardNormal(w[1]),
                                                       StandardNormal(w[2]), StandardNormal(w[3]));
      continue;
    }
    for (int k = 0; k < 4 && i + k < r.elements; ++k) {
      const double v = r.kind == kMatrix
                           ? Limit(MatrixValue(r, Stream{seed, tensor}, w[k], i + k), r.limit)
                           : Value(r, w[k], i + k);
      Store(r.dtype, data, i + k, v);
    }
  }
}
