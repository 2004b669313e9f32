// The evaluator's own device code. Compiled by NVRTC with --fmad=false (support.cc): drawing inputs
// must round exactly as eval/inputs.cc does on the host. Embedded into the program as text.
// No headers: nothing here may depend on what a toolkit ships.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// DType of base/dtype.h, by value.
enum { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

// --- conversions ------------------------------------------------------------------------------

// Rounded towards zero with the last bit set when inexact: a second rounding to a shorter type is
// then as if there had been one.
__device__ float RoundOdd(double v) {
  float f = __double2float_rz(v);
  if (v == v && static_cast<double>(f) != v && (__float_as_uint(f) & 0x7fffffffu) < 0x7f800000u) {
    f = __uint_as_float(__float_as_uint(f) | 1u);
  }
  return f;
}

__device__ u16 HalfBits(double v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(RoundOdd(v)));
  return bits;
}

__device__ u16 BFloat16Bits(double v) {
  const u32 bits = __float_as_uint(RoundOdd(v));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>((bits >> 16) | 0x40u);
  return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ double Saturated(double v, double low, double high) {
  if (v != v) return 0;
  return v < low ? low : v > high ? high : v;
}

__device__ void Store(int dtype, u8* data, i64 i, double v) {
  switch (dtype) {
    case kF64: reinterpret_cast<double*>(data)[i] = v; break;
    case kF32: reinterpret_cast<float*>(data)[i] = static_cast<float>(v); break;
    case kF16: reinterpret_cast<u16*>(data)[i] = HalfBits(v); break;
    case kBF16: reinterpret_cast<u16*>(data)[i] = BFloat16Bits(v); break;
    case kI64: reinterpret_cast<i64*>(data)[i] = __double2ll_rz(v); break;
    case kI32: reinterpret_cast<int*>(data)[i] = __double2int_rz(v); break;
    case kI8:
      reinterpret_cast<signed char*>(data)[i] =
          static_cast<signed char>(__double2int_rz(Saturated(v, -128, 127)));
      break;
    case kU8: data[i] = static_cast<u8>(__double2int_rz(Saturated(v, 0, 255))); break;
    case kBool: data[i] = v != 0 ? 1 : 0; break;
  }
}

__device__ double Load(int dtype, const u8* data, i64 i) {
  switch (dtype) {
    case kF64: return reinterpret_cast<const double*>(data)[i];
    case kF32: return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
    case kF16: {
      float f;
      asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(reinterpret_cast<const u16*>(data)[i]));
      return static_cast<double>(f);
    }
    case kBF16:
      return static_cast<double>(
          __uint_as_float(static_cast<u32>(reinterpret_cast<const u16*>(data)[i]) << 16));
    case kI64: return static_cast<double>(reinterpret_cast<const i64*>(data)[i]);
    case kI32: return static_cast<double>(reinterpret_cast<const int*>(data)[i]);
    case kI8: return static_cast<double>(reinterpret_cast<const signed char*>(data)[i]);
    default: return static_cast<double>(data[i]);
  }
}

// --- inputs (the definition is in eval/inputs.h) ------------------------------------------------

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

// --- fill, scan, hash ---------------------------------------------------------------------------

// Byte at address p gets byte p % 8 of the pattern.
extern "C" __global__ void grove_fill(u8* data, i64 bytes, u64 pattern) {
  const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 head = min(bytes, static_cast<i64>((16 - (reinterpret_cast<u64>(data) & 15)) & 15));
  const i64 words = (bytes - head) / 16;
  const i64 tail = head + words * 16;
  ulonglong2* aligned = reinterpret_cast<ulonglong2*>(data + head);
  for (i64 i = first; i < words; i += step) aligned[i] = make_ulonglong2(pattern, pattern);
  if (first < head) data[first] = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(data + first) & 7)));
  if (tail + first < bytes) {
    data[tail + first] = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(data + tail + first) & 7)));
  }
}

// Zero-initialised; `first_inverted` is the largest ~index, so that zero means none.
struct ScanResult {
  u64 count;
  u64 first_inverted;
  u64 hash_a, hash_b;
};

__device__ u64 ElementBits(const u8* data, i64 i, int size) {
  switch (size) {
    case 1: return data[i];
    case 2: return reinterpret_cast<const u16*>(data)[i];
    case 4: return reinterpret_cast<const u32*>(data)[i];
    default: return reinterpret_cast<const u64*>(data)[i];
  }
}

__device__ void Found(ScanResult* result, u64 count, u64 first_inverted) {
  // Few threads find anything: no reduction needed.
  if (count == 0) return;
  atomicAdd(&result->count, count);
  atomicMax(&result->first_inverted, first_inverted);
}

extern "C" __global__ void grove_count_pattern(const u8* data, i64 elements, int size, u64 pattern,
                                               u8* mask, int first_pass, ScanResult* result) {
  const u64 wanted = size == 8 ? pattern : pattern & ((1ull << (8 * size)) - 1);
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    bool same = ElementBits(data, i, size) == wanted;
    if (mask != nullptr) {
      if (first_pass) {
        mask[i] = same ? 1 : 0;
      } else {
        same = same && mask[i] != 0;
      }
    }
    if (!same) continue;
    ++count;
    if (~static_cast<u64>(i) > first) first = ~static_cast<u64>(i);
  }
  Found(result, count, first);
}

extern "C" __global__ void grove_check_guard(const u8* begin, i64 bytes, u64 pattern,
                                             ScanResult* result) {
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += step) {
    const u8 wanted = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(begin + i) & 7)));
    if (begin[i] == wanted) continue;
    ++count;
    if (~static_cast<u64>(i) > first) first = ~static_cast<u64>(i);
  }
  Found(result, count, first);
}

extern "C" __global__ void grove_differ(const u8* a, const u8* b, i64 bytes, ScanResult* result) {
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 words = bytes / 16;
  const ulonglong2* wa = reinterpret_cast<const ulonglong2*>(a);
  const ulonglong2* wb = reinterpret_cast<const ulonglong2*>(b);
  const i64 start = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (i64 i = start; i < words; i += step) {
    const ulonglong2 x = wa[i], y = wb[i];
    if (x.x == y.x && x.y == y.y) continue;
    for (i64 k = 16 * i; k < 16 * i + 16; ++k) {
      if (a[k] == b[k]) continue;
      ++count;
      if (~static_cast<u64>(k) > first) first = ~static_cast<u64>(k);
    }
  }
  for (i64 k = 16 * words + start; k < bytes; k += step) {
    if (a[k] == b[k]) continue;
    ++count;
    if (~static_cast<u64>(k) > first) first = ~static_cast<u64>(k);
  }
  Found(result, count, first);
}

__device__ u64 Mix(u64 x) {  // the finaliser of MurmurHash3
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// Two order-independent 64-bit sums over (index, word).
extern "C" __global__ void grove_hash(const u8* data, i64 bytes, ScanResult* result) {
  u64 a = 0, b = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 words = bytes / 8;
  const i64 start = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const u64* w = reinterpret_cast<const u64*>(data);
  for (i64 i = start; i < words + 1; i += step) {
    u64 word = 0;
    if (i < words) {
      word = w[i];
    } else {
      for (i64 k = 8 * words; k < bytes; ++k) word = word << 8 | data[k];
    }
    const u64 mixed = Mix(word + 0x9e3779b97f4a7c15ull * static_cast<u64>(i + 1));
    a += mixed;
    b += Mix(mixed ^ word ^ 0xd6e8feb86659fd93ull);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    a += __shfl_down_sync(0xffffffffu, a, offset);
    b += __shfl_down_sync(0xffffffffu, b, offset);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&result->hash_a, a);
    atomicAdd(&result->hash_b, b);
  }
}

// --- comparison with the reference (the definition is in eval/check.h) ---------------------------

struct Sums {
  double error_squares, reference_squares, max_error, max_reference;
  double finite, mismatches;
  u64 first_mismatch_inverted;
  u64 unused;
};

struct CompareShape {
  i64 elements;
  i64 row;           // elements of a row
  i64 rows;
  i64 segment;       // elements of a segment
  i64 per_row;       // segments of a row
  double overflow;   // magnitudes from here on round to infinity
  double tiny;       // smallest normal number of the output's type
  int dtype;
  int threads;       // that share one segment: 32 or a whole block
};

struct CompareResult {
  double worst_row_l2;
  i64 worst_row;
  double scaled_max;
  i64 worst_element;
  double expected, got;
  double mismatches;
  i64 first_mismatch;
  i64 first_mismatch_row;
  u64 extreme;       // squares may have left the range of a double: the host must compare
};

__device__ bool IsInf(double v) { return fabs(v) == __longlong_as_double(0x7ff0000000000000ll); }

__device__ bool Matches(double g, double r, double overflow) {
  if (r != r) return g != g;
  if (fabs(r) >= overflow || IsInf(r)) return IsInf(g) && (g < 0) == (r < 0);
  return g == g && !IsInf(g);
}

__device__ bool Comparable(double g, double r, double overflow) {
  return fabs(r) < overflow && fabs(r) <= 1.7976931348623157e308 &&
         fabs(g) <= 1.7976931348623157e308;
}

__device__ void Merge(Sums& s, const Sums& o) {
  s.error_squares += o.error_squares;
  s.reference_squares += o.reference_squares;
  s.max_error = fmax(s.max_error, o.max_error);
  s.max_reference = fmax(s.max_reference, o.max_reference);
  s.finite += o.finite;
  s.mismatches += o.mismatches;
  s.first_mismatch_inverted = max(s.first_mismatch_inverted, o.first_mismatch_inverted);
}

__device__ Sums Shifted(const Sums& s, int offset) {
  Sums o;
  o.error_squares = __shfl_down_sync(0xffffffffu, s.error_squares, offset);
  o.reference_squares = __shfl_down_sync(0xffffffffu, s.reference_squares, offset);
  o.max_error = __shfl_down_sync(0xffffffffu, s.max_error, offset);
  o.max_reference = __shfl_down_sync(0xffffffffu, s.max_reference, offset);
  o.finite = __shfl_down_sync(0xffffffffu, s.finite, offset);
  o.mismatches = __shfl_down_sync(0xffffffffu, s.mismatches, offset);
  o.first_mismatch_inverted = __shfl_down_sync(0xffffffffu, s.first_mismatch_inverted, offset);
  return o;
}

// One segment per warp or per block of 256 threads; a fixed tree, so sums never change.
extern "C" __global__ void grove_compare_sums(const u8* got, const double* reference,
                                              CompareShape shape, Sums* sums) {
  __shared__ Sums parts[8];
  const int lane = threadIdx.x % shape.threads;
  const i64 group = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / shape.threads;
  const i64 groups = static_cast<i64>(gridDim.x) * blockDim.x / shape.threads;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 index = group; index < segments; index += groups) {
    const i64 begin = index / shape.per_row * shape.row + index % shape.per_row * shape.segment;
    const i64 row_end = min(shape.elements, (index / shape.per_row + 1) * shape.row);
    const i64 end = min(row_end, begin + shape.segment);
    Sums s = {};
    for (i64 i = begin + lane; i < end; i += shape.threads) {
      const double g = Load(shape.dtype, got, i);
      const double r = reference[i];
      if (Comparable(g, r, shape.overflow)) {
        const double e = fabs(g - r);
        s.error_squares += e * e;
        s.reference_squares += r * r;
        s.max_error = fmax(s.max_error, e);
        s.max_reference = fmax(s.max_reference, fabs(r));
        s.finite += 1;
      } else if (!Matches(g, r, shape.overflow)) {
        s.mismatches += 1;
        s.first_mismatch_inverted = max(s.first_mismatch_inverted, ~static_cast<u64>(i));
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) Merge(s, Shifted(s, offset));
    if (shape.threads > 32) {
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 1; i < shape.threads / 32; ++i) Merge(s, parts[i]);
      }
      __syncthreads();
    }
    if (lane == 0) sums[index] = s;
  }
}

// Scale and error of every row.
extern "C" __global__ void grove_compare_rows(const Sums* sums, CompareShape shape, double* scales,
                                              double* errors, double* mismatches, CompareResult* result) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 row = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; row < shape.rows;
       row += step) {
    Sums s = sums[row * shape.per_row];
    for (i64 k = 1; k < shape.per_row; ++k) Merge(s, sums[row * shape.per_row + k]);
    const double low = 1e-140, high = 1e140;
    if ((s.max_error != 0 && (s.max_error < low || s.max_error > high)) ||
        (s.max_reference != 0 && (s.max_reference < low || s.max_reference > high))) {
      result->extreme = 1;
    }
    const double root = sqrt(fmax(s.finite, 1.0));
    const double scale = fmax(sqrt(s.reference_squares) / root, shape.tiny);
    scales[row] = scale;
    errors[row] = sqrt(s.error_squares) / root / scale;
    mismatches[row] = s.mismatches;
  }
}

struct WorstElement {
  double value;
  i64 element;
};

__device__ void Worse(WorstElement& w, double value, i64 element) {
  if (value > w.value || (value == w.value && value > 0 && element < w.element)) {
    w.value = value;
    w.element = element;
  }
}

__device__ void WorstOfWarp(WorstElement& w) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const double value = __shfl_down_sync(0xffffffffu, w.value, offset);
    const i64 element = __shfl_down_sync(0xffffffffu, w.element, offset);
    Worse(w, value, element);
  }
}

extern "C" __global__ void grove_compare_worst(const u8* got, const double* reference,
                                               CompareShape shape, const double* scales,
                                               WorstElement* worst) {
  __shared__ WorstElement parts[8];
  const int lane = threadIdx.x % shape.threads;
  const i64 group = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / shape.threads;
  const i64 groups = static_cast<i64>(gridDim.x) * blockDim.x / shape.threads;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 index = group; index < segments; index += groups) {
    const i64 row = index / shape.per_row;
    const i64 begin = row * shape.row + index % shape.per_row * shape.segment;
    const i64 end = min(min(shape.elements, (row + 1) * shape.row), begin + shape.segment);
    const double scale = scales[row];
    WorstElement w = {0, -1};
    for (i64 i = begin + lane; i < end; i += shape.threads) {
      const double g = Load(shape.dtype, got, i);
      const double r = reference[i];
      if (Comparable(g, r, shape.overflow)) Worse(w, fabs(g - r) / fmax(scale, fabs(r)), i);
    }
    WorstOfWarp(w);
    if (shape.threads > 32) {
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = w;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 1; i < shape.threads / 32; ++i) Worse(w, parts[i].value, parts[i].element);
      }
      __syncthreads();
    }
    if (lane == 0) worst[index] = w;
  }
}

// One block of 1024 threads: the whole report.
extern "C" __global__ void grove_compare_report(const u8* got, const double* reference,
                                                CompareShape shape, const Sums* sums,
                                                const double* errors, const double* mismatches,
                                                const WorstElement* worst, CompareResult* result) {
  __shared__ WorstElement elements[32];
  __shared__ WorstElement rows[32];
  __shared__ double counts[32];
  __shared__ u64 firsts[32];
  WorstElement element = {0, -1};
  WorstElement row = {-1, -1};
  double count = 0;
  u64 first = 0;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 i = threadIdx.x; i < segments; i += blockDim.x) {
    if (worst[i].element >= 0) Worse(element, worst[i].value, worst[i].element);
    first = max(first, sums[i].first_mismatch_inverted);
  }
  for (i64 i = threadIdx.x; i < shape.rows; i += blockDim.x) {
    if (errors[i] > row.value) row = {errors[i], i};
    count += mismatches[i];
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const double value = __shfl_down_sync(0xffffffffu, row.value, offset);
    const i64 index = __shfl_down_sync(0xffffffffu, row.element, offset);
    if (index >= 0 && (value > row.value || (value == row.value && index < row.element))) {
      row = {value, index};
    }
    count += __shfl_down_sync(0xffffffffu, count, offset);
    first = max(first, __shfl_down_sync(0xffffffffu, first, offset));
  }
  WorstOfWarp(element);
  if (threadIdx.x % 32 == 0) {
    elements[threadIdx.x / 32] = element;
    rows[threadIdx.x / 32] = row;
    counts[threadIdx.x / 32] = count;
    firsts[threadIdx.x / 32] = first;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) {
    Worse(element, elements[i].value, elements[i].element);
    if (rows[i].element >= 0 &&
        (rows[i].value > row.value ||
         (rows[i].value == row.value && rows[i].element < row.element))) {
      row = rows[i];
    }
    count += counts[i];
    first = max(first, firsts[i]);
  }
  result->worst_row_l2 = row.value;
  result->worst_row = row.element;
  result->scaled_max = element.value;
  result->worst_element = element.element;
  result->mismatches = count;
  if (count > 0) {
    result->first_mismatch = static_cast<i64>(~first);
    result->first_mismatch_row = static_cast<i64>(~first) / shape.row;
    result->worst_element = static_cast<i64>(~first);
  }
  if (result->worst_element >= 0) {
    result->expected = reference[result->worst_element];
    result->got = Load(shape.dtype, got, result->worst_element);
  }
}

// out[i] = in[i * stride]
extern "C" __global__ void grove_gather(const double* in, i64 stride, i64 count, double* out) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = in[i * stride];
  }
}

// --- timer --------------------------------------------------------------------------------------

struct Stamp {
  u64 nanoseconds, cycles, sm, timed_out;
};

__device__ u64 GlobalTimer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

extern "C" __global__ void grove_stamp(Stamp* stamp) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  // Cycle counter and clock are read until they are read close together.
  const u64 before = GlobalTimer();
  stamp->cycles = static_cast<u64>(clock64());
  const u64 after = GlobalTimer();
  stamp->nanoseconds = before + (after - before) / 2;
  stamp->sm = sm;
}

// Spins until the host opens the gate, so that everything behind it is enqueued before it starts.
extern "C" __global__ void grove_block(const volatile u32* flag, u32 token, u64 timeout,
                                       Stamp* stamp) {
  const u64 begin = GlobalTimer();
  while (static_cast<int>(*flag - token) < 0) {
    if (GlobalTimer() - begin > timeout) {
      stamp->timed_out = 1;
      return;
    }
  }
}

extern "C" __global__ void grove_empty() {}

// --- Householder QR (what is measured: eval/qr_check.h) -----------------------------------------

// Column c of a matrix becomes row c: reflectors are read along their columns.
extern "C" __global__ void grove_transpose(const float* in, float* out, i64 n, i64 tiles) {
  __shared__ float tile[32][33];
  const i64 b = blockIdx.x / (tiles * tiles);
  const i64 at = blockIdx.x % (tiles * tiles);
  const i64 r0 = at / tiles * 32;
  const i64 c0 = at % tiles * 32;
  in += b * n * n;
  out += b * n * n;
  for (int y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
    const int x = threadIdx.x % 32;
    if (r0 + y < n && c0 + x < n) tile[y][x] = in[(r0 + y) * n + c0 + x];
  }
  __syncthreads();
  for (int y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
    const int x = threadIdx.x % 32;
    if (c0 + y < n && r0 + x < n) out[(c0 + y) * n + r0 + x] = tile[x][y];
  }
}

struct QrColumn {
  double a_norm1, a_norm2;
  double qta_norm1;
  double qr_norm2;
  double qtq_norm1;
  double defect;
  double tail;
  double non_finite;
};

__device__ double WarpSum(double v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// x := (I - tau v v^T) x, v = 1 at k and `h` below. One warp; x in shared memory.
__device__ void Reflect(double* x, const float* h, double tau, int k, int n, int lane) {
  if (tau == 0) return;
  double s = lane == 0 ? x[k] : 0;
  for (int i = k + 1 + lane; i < n; i += 32) s += static_cast<double>(h[i]) * x[i];
  s = WarpSum(s) * tau;
  for (int i = k + 1 + lane; i < n; i += 32) x[i] -= s * static_cast<double>(h[i]);
  if (lane == 0) x[k] -= s;
  __syncwarp();
}

// One warp a column; `ht` is H transposed. n doubles of shared memory a warp.
extern "C" __global__ void grove_qr_columns(const float* a, const float* ht, const float* tau, int n,
                                            i64 columns, QrColumn* out) {
  extern __shared__ double memory[];
  const int lane = threadIdx.x % 32;
  const i64 column = static_cast<i64>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (column >= columns) return;
  double* x = memory + static_cast<i64>(threadIdx.x / 32) * n;
  const int j = static_cast<int>(column % n);
  const i64 b = column / n;
  a += b * n * n;
  ht += b * n * n;
  tau += b * n;
  const float* own = ht + static_cast<i64>(j) * n;
  QrColumn q;

  double norm1 = 0, norm2 = 0, bad = 0, vtv = 0;
  for (int i = lane; i < n; i += 32) {
    const double v = static_cast<double>(a[static_cast<i64>(i) * n + j]);
    x[i] = v;
    norm1 += fabs(v);
    norm2 += v * v;
    const double h = static_cast<double>(own[i]);
    if (!(fabs(h) <= 3.5e38)) bad += 1;
    if (i > j) vtv += h * h;
  }
  __syncwarp();
  if (lane == 0 && !(fabs(static_cast<double>(tau[j])) <= 3.5e38)) bad += 1;
  q.a_norm1 = WarpSum(norm1);
  q.a_norm2 = sqrt(WarpSum(norm2));
  q.non_finite = WarpSum(bad);
  vtv = 1 + WarpSum(vtv);
  const double t = static_cast<double>(tau[j]);
  q.defect = t == 0 ? 0 : fabs(t * vtv - 2);
  q.tail = 0;

  // Qt a against R.
  for (int k = 0; k < n; ++k) {
    if (k == j && t == 0) {
      double sum = 0;
      for (int i = j + 1 + lane; i < n; i += 32) sum += x[i] * x[i];
      q.tail = sqrt(WarpSum(sum));
    }
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  double sum = 0;
  for (int i = lane; i < n; i += 32) {
    sum += fabs((i <= j ? static_cast<double>(own[i]) : 0.0) - x[i]);
  }
  q.qta_norm1 = WarpSum(sum);
  __syncwarp();

  // Q r against a; reflectors behind column j do not touch it.
  for (int i = lane; i < n; i += 32) x[i] = i <= j ? static_cast<double>(own[i]) : 0.0;
  __syncwarp();
  for (int k = j; k >= 0; --k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  sum = 0;
  for (int i = lane; i < n; i += 32) {
    const double d = static_cast<double>(a[static_cast<i64>(i) * n + j]) - x[i];
    sum += d * d;
  }
  q.qr_norm2 = sqrt(WarpSum(sum));
  __syncwarp();

  // Qt Q e against e.
  for (int i = lane; i < n; i += 32) x[i] = i == j ? 1.0 : 0.0;
  __syncwarp();
  for (int k = j; k >= 0; --k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  for (int k = 0; k < n; ++k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  sum = 0;
  for (int i = lane; i < n; i += 32) sum += fabs(x[i] - (i == j ? 1.0 : 0.0));
  q.qtq_norm1 = WarpSum(sum);
  if (lane == 0) out[column] = q;
}
