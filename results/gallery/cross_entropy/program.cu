#include <cuda_bf16.h>
#include <cuda_fp16.h>

using T = tensor::logits;
constexpr bool kFast = sizeof(T) == 2 && dim::V % 8 == 0;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLowest = -2e38f;  // its product with log2(e) is still finite

__device__ __forceinline__ float2 Wide(unsigned u, const float*) { return make_float2(0.0f, 0.0f); }
__device__ __forceinline__ float2 Wide(unsigned u, const __half*) {
  return __half22float2(*reinterpret_cast<const __half2*>(&u));
}
__device__ __forceinline__ float2 Wide(unsigned u, const __nv_bfloat16*) {
  return make_float2(__uint_as_float(u << 16), __uint_as_float(u & 0xffff0000u));
}
__device__ __forceinline__ unsigned Max2(unsigned a, unsigned b, const float*) { return a; }
__device__ __forceinline__ unsigned Max2(unsigned a, unsigned b, const __half*) {
  const __half2 m = __hmax2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const unsigned*>(&m);
}
__device__ __forceinline__ unsigned Max2(unsigned a, unsigned b, const __nv_bfloat16*) {
  const __nv_bfloat162 m = __hmax2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                   *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const unsigned*>(&m);
}
__device__ __forceinline__ unsigned Nothing(const float*) { return 0; }
__device__ __forceinline__ unsigned Nothing(const __half*) { return 0xfc00fc00u; }  // minus infinities
__device__ __forceinline__ unsigned Nothing(const __nv_bfloat16*) { return 0xff80ff80u; }
__device__ __forceinline__ float2 Wide(unsigned u) { return Wide(u, static_cast<const T*>(nullptr)); }
__device__ __forceinline__ unsigned Max2(unsigned a, unsigned b) { return Max2(a, b, static_cast<const T*>(nullptr)); }
__device__ __forceinline__ unsigned Max2(uint4 v) { return Max2(Max2(v.x, v.y), Max2(v.z, v.w)); }
__device__ __forceinline__ uint4 Empty() {
  const unsigned n = Nothing(static_cast<const T*>(nullptr));
  return make_uint4(n, n, n, n);
}

__device__ __forceinline__ float Ex2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ float WarpMax(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}
template <typename S>
__device__ __forceinline__ S WarpSum(S v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
// A pair (m, s) stands for the sum s of 2^(x log2e - c), where c is m log2e rounded to fp32. The rounding
// of c is common to all terms and is taken out in RowLoss.
__device__ __forceinline__ float Shift(float m) { return __fmul_rn(m, kLog2e); }
__device__ __forceinline__ float Terms(unsigned u, float c) {
  const float2 f = Wide(u);
  return Ex2(fmaf(f.x, kLog2e, -c)) + Ex2(fmaf(f.y, kLog2e, -c));
}
__device__ __forceinline__ float Terms(uint4 v, float c) {
  return (Terms(v.x, c) + Terms(v.y, c)) + (Terms(v.z, c) + Terms(v.w, c));
}
__device__ __forceinline__ void WarpPair(float& m, float& s) {
  const float all = WarpMax(m);
  s = WarpSum(s * Ex2(Shift(m) - Shift(all)));
  m = all;
}
__device__ __forceinline__ float RowLoss(float m, float s, float hit) {
  return (m - hit) + 0.6931471805599453f * (log2f(s) - fmaf(m, kLog2e, -Shift(m)));
}
// Adds K x 8 logits, of which at least one is no filling.
template <int K>
__device__ __forceinline__ void AddBatch(const uint4* v, float& m, float& s) {
  unsigned h = Max2(v[0]);
#pragma unroll
  for (int k = 1; k < K; ++k) h = Max2(h, Max2(v[k]));
  const float2 f = Wide(h);
  const float larger = fmaxf(f.x, f.y);
  if (larger > m) {
    s *= Ex2(Shift(m) - Shift(larger));
    m = larger;
  }
  const float c = Shift(m);
#pragma unroll
  for (int k = 0; k < K; ++k) s += Terms(v[k], c);
}
// Any shape and type: a row by a block of W warps, scalar accesses, sums in fp64.
template <int W>
__device__ __forceinline__ float ScalarLoss(const T* row, long long target, float* maxima, double* sums) {
  const int lane = threadIdx.x & 31;
  float m = kLowest;
  double s = 0.0;
  for (int j = threadIdx.x; j < dim::V; j += W * 32) {
    const float v = static_cast<float>(row[j]);
    if (v > m) {
      s *= expf(m - v);
      m = v;
    }
    s += expf(v - m);
  }
  const float wm = WarpMax(m);
  s = WarpSum(s * expf(m - wm));
  if (lane == 0) {
    maxima[threadIdx.x >> 5] = wm;
    sums[threadIdx.x >> 5] = s;
  }
  __syncthreads();
  const float own = lane < W ? maxima[lane] : kLowest;
  m = WarpMax(own);
  s = WarpSum((lane < W ? sums[lane] : 0.0) * expf(own - m));
  return static_cast<float>(log(s) + static_cast<double>(m - static_cast<float>(row[target])));
}
// Adds 8 logits relative to a reference m that may lie up to 11 below the maximum (terms up to e^11).
__device__ __forceinline__ void AddLazy(uint4 v, float& m, float& s) {
  const float2 f = Wide(Max2(v));
  const float larger = fmaxf(f.x, f.y);
  if (larger > m + 11.0f) {
    s *= Ex2(Shift(m) - Shift(larger));
    m = larger;
  }
  s += Terms(v, Shift(m));
}

extern "C" __global__ void __launch_bounds__(512, 2)
row_loss(const tensor::logits* logits, const tensor::target* target, float* losses) {
  __shared__ float maxima[16];
  __shared__ double sums[16];
  const int t = threadIdx.x, lane = t & 31;
  const T* row = logits + static_cast<long long>(blockIdx.x) * dim::V;
  const long long hit = target[blockIdx.x];
  if constexpr (kFast) {
    constexpr int kN = dim::V / 8;
    const uint4* in = reinterpret_cast<const uint4*>(row);
    float m = kLowest, s = 0.0f;
#pragma unroll 1
    for (int i = t; i < kN; i += 4096) {
      uint4 v[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        v[k] = Empty();
        if (i + k * 512 < kN) v[k] = __ldcs(in + i + k * 512);
      }

#pragma unroll
      for (int k = 0; k < 8; ++k) AddLazy(v[k], m, s);
    }
    WarpPair(m, s);
    if (lane == 0) {
      maxima[t >> 5] = m;
      sums[t >> 5] = s;
    }
    __syncthreads();
    if (t < 32) {
      m = maxima[lane & (16 - 1)];
      s = lane < 16 ? static_cast<float>(sums[lane]) : 0.0f;
      WarpPair(m, s);
      if (t == 0) losses[blockIdx.x] = RowLoss(m, s, static_cast<float>(row[hit]));
    }
  } else {
    const float loss = ScalarLoss<16>(row, hit, maxima, sums);
    if (t == 0) losses[blockIdx.x] = loss;
  }
}

extern "C" __global__ void __launch_bounds__(1024) mean_loss(const float* losses, tensor::loss* loss) {
  __shared__ float part[32];
  const int t = threadIdx.x;
  float sum = 0.0f;
#pragma unroll 4
  for (int i = t; i < dim::M; i += 1024) sum += losses[i];
  sum = WarpSum(sum);
  if ((t & 31) == 0) part[t >> 5] = sum;
  __syncthreads();
  if (t < 32) {
    sum = WarpSum(part[t]);
    if (t == 0) loss[0] = sum / dim::M;
  }
}
