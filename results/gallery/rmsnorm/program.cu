#include <cuda_bf16.h>
#include <cuda_fp16.h>

using T = tensor::x;
__device__ __forceinline__ float2 Wide(unsigned u, const __half*) {
  return __half22float2(*reinterpret_cast<const __half2*>(&u));
}
__device__ __forceinline__ float2 Wide(unsigned u, const __nv_bfloat16*) {
  return make_float2(__uint_as_float(u << 16), __uint_as_float(u & 0xffff0000u));
}
__device__ __forceinline__ unsigned Narrow(float a, float b, const __half*) {
  const __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&h);
}
__device__ __forceinline__ unsigned Narrow(float a, float b, const __nv_bfloat16*) {
  const __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&h);
}
__device__ __forceinline__ float2 Wide(unsigned u) { return Wide(u, static_cast<const T*>(nullptr)); }
__device__ __forceinline__ float Squares(unsigned u, float s) {
  const float2 f = Wide(u);
  return fmaf(f.y, f.y, fmaf(f.x, f.x, s));
}
__device__ __forceinline__ float Squares(uint4 v) {
  return (Squares(v.x, 0.0f) + Squares(v.y, 0.0f)) + (Squares(v.z, 0.0f) + Squares(v.w, 0.0f));
}
__device__ __forceinline__ unsigned Scaled(unsigned v, unsigned w, float scale) {
  const float2 f = Wide(v), g = Wide(w);
  return Narrow(f.x * scale * g.x, f.y * scale * g.y, static_cast<const T*>(nullptr));
}
__device__ __forceinline__ uint4 Scaled(uint4 v, uint4 w, float scale) {
  return make_uint4(Scaled(v.x, w.x, scale), Scaled(v.y, w.y, scale), Scaled(v.z, w.z, scale),
                    Scaled(v.w, w.w, scale));
}
__device__ __forceinline__ float WarpSum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
__device__ __forceinline__ float Scale(float squares) { return 1.0f / sqrtf(squares / dim::N + scalar::eps); }


// Policies of L2: x is read once, y is wanted in L2 rather than x.
__device__ __forceinline__ unsigned long long EvictFirst() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint4 LoadOnce(const uint4* p, unsigned long long policy) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p), "l"(policy));
  return v;
}

// A row of any length by a block of K threads, scalar accesses.
template <int K>
__device__ __forceinline__ void ScalarRow(const T* row, const T* weight, T* out, float* part) {
  const int t = threadIdx.x;
  float s = 0.0f;
  for (int j = t; j < dim::N; j += K) {
    const float f = static_cast<float>(row[j]);
    s = fmaf(f, f, s);
  }
  s = WarpSum(s);
  if ((t & 31) == 0) part[t >> 5] = s;
  __syncthreads();
  s = 0.0f;
#pragma unroll
  for (int k = 0; k < K / 32; ++k) s += part[k];
  const float scale = Scale(s);
  for (int j = t; j < dim::N; j += K) {
    out[j] = static_cast<T>(static_cast<float>(row[j]) * scale * static_cast<float>(weight[j]));
  }
}

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr bool kFast = dim::N % (kThreads * 8) == 0 && dim::N <= 8192;
constexpr int kV = kFast ? dim::N / (kThreads * 8) : 1;  // packs of 16 bytes per thread

extern "C" __global__ void __launch_bounds__(kThreads, 4) rmsnorm(const tensor::x* x, const tensor::weight* weight, tensor::y* y) {
  __shared__ float part[kWarps];
  const int t = threadIdx.x, lane = t & 31;
  const long long start = static_cast<long long>(blockIdx.x) * dim::N;
  if constexpr (kFast) {
    const uint4* in = reinterpret_cast<const uint4*>(x + start) + t;
    const uint4* w4 = reinterpret_cast<const uint4*>(weight) + t;
    uint4* out = reinterpret_cast<uint4*>(y + start) + t;
    const unsigned long long once = EvictFirst();
    uint4 v[kV], w[kV];
#pragma unroll
    for (int k = 0; k < kV; ++k) v[k] = LoadOnce(in + k * kThreads, once);
#pragma unroll
    for (int k = 0; k < kV; ++k) w[k] = __ldg(w4 + k * kThreads);
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < kV; ++k) s += Squares(v[k]);
    s = WarpSum(s);
    if (lane == 0) part[t >> 5] = s;
    __syncthreads();
    s = part[lane & (kWarps - 1)];
#pragma unroll
    for (int o = kWarps / 2; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    const float scale = Scale(s);
#pragma unroll
    for (int k = 0; k < kV; ++k) out[k * kThreads] = Scaled(v[k], w[k], scale);
  } else {
    ScalarRow<kThreads>(x + start, weight, y + start, part);
  }
}
