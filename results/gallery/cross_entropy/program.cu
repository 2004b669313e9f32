#include <cuda_bf16.h>
#include <cuda_fp16.h>

using T = tensor::logits;
constexpr bool kFast = sizeof(T) == 2 && dim::V % 8 == 0;
constexpr int kN = dim::V / 8;
constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr int kSteps = (kN + 2 * kThreads - 1) / (2 * kThreads) * 2;  // even, the last may be empty
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
// Volatile, and with a __syncwarp behind it, or the compiler sinks the load to the end of the kernel.
__device__ __forceinline__ int Target(const long long* p) {
  long long v;
  asm volatile("ld.volatile.global.s64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return static_cast<int>(v);
}
__device__ __forceinline__ unsigned Pick(const T* p) {
  unsigned short v;
  asm volatile("ld.volatile.global.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
  return v;
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
// of c is common to all terms and is taken out in RowLoss. m is a
// reference near the maximum, at most 8 below it, and need not be the maximum itself.
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
// Adds 8 logits; filling (minus infinity) adds nothing. The reference moves only if it is exceeded by 8.
__device__ __forceinline__ void AddLazy(uint4 v, float& m, float& s) {
  const float2 f = Wide(Max2(v));
  const float larger = fmaxf(f.x, f.y);
  if (larger > m + 8.0f) {
    s *= Ex2(Shift(m) - Shift(larger));
    m = larger;
  }
  s += Terms(v, Shift(m));
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

// Lines of the stream are the first to be given up by their sets in L2 (.cs alone is a priority of L1):
// what the sets hold otherwise, dirty lines of others, need not be written back for them.
__device__ __forceinline__ unsigned long long Policy() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
// The thread's pack of a step, or filling. in points at its pack of step 0.
__device__ __forceinline__ uint4 Load(const uint4* in, int step, unsigned long long policy) {
  uint4 v = Empty();
  if ((step + 1) * kThreads <= kN || step * kThreads + static_cast<int>(threadIdx.x) < kN) {
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(in + step * kThreads), "l"(policy)
                 : "memory");
  }
  return v;
}

// Asks for one sector of a row that is read later: its page's translation is then at hand in this GPC.
// Volatile, so that the load is made; nothing waits for its value.
__device__ __forceinline__ void Touch(const T* p) {
  asm volatile("{ .reg .u16 unused; ld.volatile.global.u16 unused, [%0]; }" ::"l"(p) : "memory");
}

constexpr int kAhead = 4 * 132 + 112;  // rows: those resident and 7 MB

extern "C" __global__ void __launch_bounds__(kThreads, 4)
row_loss(const tensor::logits* logits, const tensor::target* target, float* losses) {
  __shared__ float2 part[kWarps];
  __shared__ float maxima[kWarps];
  __shared__ double sums[kWarps];
  const int t = threadIdx.x, lane = t & 31;
  const T* row = logits + static_cast<long long>(blockIdx.x) * dim::V;
  if constexpr (kFast) {
    const unsigned long long policy = Policy();
    const uint4* in = reinterpret_cast<const uint4*>(row) + t;
    float m = kLowest, s = 0.0f;
    uint4 a = Load(in, 0, policy), b = Load(in, 1, policy);
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (t == kThreads - 32 && static_cast<int>(blockIdx.x) + kAhead < dim::M) {
      Touch(row + static_cast<long long>(kAhead) * dim::V);
    }
    unsigned pick = 0;
    if (t < 32) pick = Pick(row + Target(target + blockIdx.x));
    __syncwarp();  // keeps the loads in front of the exponentials
#pragma unroll 4
    for (int step = 0; step < kSteps; step += 2) {
      AddLazy(a, m, s);
      if (step + 2 < kSteps) a = Load(in, step + 2, policy);
      AddLazy(b, m, s);
      if (step + 2 < kSteps) b = Load(in, step + 3, policy);
    }
    WarpPair(m, s);
    if (lane == 0) part[t >> 5] = make_float2(m, s);
    __syncthreads();
    if (t < 32) {
      const float2 q = lane < kWarps ? part[lane] : make_float2(kLowest, 0.0f);
      m = q.x;
      s = q.y;
      WarpPair(m, s);
      if (t == 0) losses[blockIdx.x] = RowLoss(m, s, Wide(pick).x);
    }
  } else {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const float loss = ScalarLoss<kWarps>(row, target[blockIdx.x], maxima, sums);
    if (t == 0) losses[blockIdx.x] = loss;
  }
}

// The first round is a rehearsal on zeros, while the rows are still on their way: it brings this code and its
// constants into the SM. The second waits for the rows and counts.
extern "C" __global__ void __launch_bounds__(256) mean_loss(const float* losses, tensor::loss* loss) {
  __shared__ float part[2][8];
  const int t = threadIdx.x, lane = t & 31;
  constexpr bool kQuads = dim::M % 4 == 0;
  constexpr int kItems = kQuads ? dim::M / 4 : dim::M;
  int round;
  asm volatile("mov.u32 %0, 0;" : "=r"(round));
#pragma unroll 1
  for (; round < 2; ++round) {
    if (round != 0) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int end = round != 0 ? kItems : 0;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = t; i < kItems; i += 1024) {
      float4 q[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        q[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i + k * 256 < end) {
          if constexpr (kQuads) q[k] = __ldcg(reinterpret_cast<const float4*>(losses) + i + k * 256);
          else q[k].x = __ldcg(losses + i + k * 256);
        }
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += (q[k].x + q[k].y) + (q[k].z + q[k].w);
    }
    sum = WarpSum(sum);
    if (lane == 0) part[round][t >> 5] = sum;
    __syncthreads();
    if (t < 32) {
      sum = WarpSum(lane < 8 ? part[round][lane] : 0.0f);
      if (t == 0 && round != 0) loss[0] = sum / dim::M;
    }
  }
}
