#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLowest = -3.402823466e38f;

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
__device__ __forceinline__ float WarpSum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
// Merges (maximum, sum of exponentials) over a block of W warps with one barrier.
template <int W>
__device__ __forceinline__ float2 BlockPair(float m, float s, float2* pairs) {
  const int lane = threadIdx.x & 31;
  const float wm = WarpMax(m);
  const float ws = WarpSum(s * Ex2((m - wm) * kLog2e));
  if (lane == 0) pairs[threadIdx.x >> 5] = make_float2(wm, ws);
  __syncthreads();
  const float2 p = lane < W ? pairs[lane] : make_float2(kLowest, 0.0f);
  const float largest = WarpMax(p.x);
  return make_float2(largest, WarpSum(p.y * Ex2((p.x - largest) * kLog2e)));
}

// Any shape: a block per row, scalar accesses.
extern "C" __global__ void __launch_bounds__(256) softmax_row(const tensor::x* x, tensor::y* y) {
  __shared__ float2 pairs[8];
  const tensor::x* row = x + static_cast<long long>(blockIdx.x) * dim::N;
  tensor::y* out = y + static_cast<long long>(blockIdx.x) * dim::N;
  float m = kLowest, s = 0.0f;
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    const float v = static_cast<float>(row[j]);
    if (v > m) {
      s *= Ex2((m - v) * kLog2e);
      m = v;
    }
    s += Ex2((v - m) * kLog2e);
  }
  const float2 r = BlockPair<8>(m, s, pairs);
  const float inverse = 1.0f / r.y;
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    out[j] = static_cast<tensor::y>(Ex2((static_cast<float>(row[j]) - r.x) * kLog2e) * inverse);
  }
}
__device__ __forceinline__ float Max4(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
__device__ __forceinline__ float4 Exp4(float4 v, float m) {
  return make_float4(Ex2((v.x - m) * kLog2e), Ex2((v.y - m) * kLog2e), Ex2((v.z - m) * kLog2e),
                     Ex2((v.w - m) * kLog2e));
}
__device__ __forceinline__ float Sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ __forceinline__ float4 Times(float4 v, float f) {
  return make_float4(v.x * f, v.y * f, v.z * f, v.w * f);
}
__device__ __forceinline__ void ClusterArrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void ClusterWait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ unsigned Shared(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void BarInit(unsigned long long* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(bar)) : "memory");
}
__device__ __forceinline__ void BarFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void BulkLoad(void* to, const void* from, unsigned bytes, unsigned long long* bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(bar)), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          Shared(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(Shared(bar))
      : "memory");
}
__device__ __forceinline__ void BarWait(unsigned long long* bar, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(Shared(bar)), "r"(parity)
        : "memory");
  } while (!done);
}
__device__ __forceinline__ void BulkStore(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(Shared(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

constexpr int kC = dim::N >= 8192 ? dim::N / 8192 : 1;  // float4 per lane and piece; two pieces per row
constexpr int kPiece = kC * 32;

extern "C" __global__ void __launch_bounds__(512, 1) softmax_ring(const tensor::x* x, tensor::y* y, int* counter) {
  extern __shared__ __align__(128) float4 slots[];
  __shared__ unsigned long long full[16][2];
  __shared__ float2 pairs[2][32];
  __shared__ int claimed[2];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const int rank = blockIdx.x & 1, first = blockIdx.x >> 1, stride = gridDim.x >> 1;
  const long long slice = (rank * 16 + warp) * (2 * kPiece);
  const float4* in = reinterpret_cast<const float4*>(x) + slice;
  float4* out = reinterpret_cast<float4*>(y) + slice;
  float4* own = slots + warp * 3 * kPiece;
  float4* staging = own + 2 * kPiece;

  auto fetch = [&](int row, int p) {
    if (row < dim::M) {
      BulkLoad(own + p * kPiece, in + static_cast<long long>(row) * (dim::N / 4) + p * kPiece,
               kPiece * 16, &full[warp][p]);
    }
  };
  if (lane == 0) {
    BarInit(&full[warp][0]);
    BarInit(&full[warp][1]);
    BarFence();
    fetch(first, 0);
    fetch(first, 1);
  }
  __syncwarp();
  ClusterArrive();
  ClusterWait();

  float4 v[2 * kC];
  float m = kLowest, factor = 0.0f;
  // Step r writes the row before (from r = 1 on), takes `row`, fetches `following`, and learns at its cluster
  // barrier which row comes after that. The rows of a cluster grow; the first one from M on ends the loop.
  int before = 0, row = first, following = first + stride;
  for (int r = 0;; ++r) {
    float4* to = out + static_cast<long long>(before) * (dim::N / 4);
    int claim = 0;
    if (rank == 0 && t == 0 && row < dim::M) claim = 2 * stride + atomicAdd(counter, 1);
    m = kLowest;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      if (r > 0) {
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
#pragma unroll
        for (int k = 0; k < kC; ++k) staging[k * 32 + lane] = Times(v[p * kC + k], factor);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0) BulkStore(to + p * kPiece, staging, kPiece * 16);
      }
      if (row < dim::M) {
        BarWait(&full[warp][p], r & 1);
#pragma unroll
        for (int k = 0; k < kC; ++k) {
          v[p * kC + k] = own[p * kPiece + k * 32 + lane];
          m = fmaxf(m, Max4(v[p * kC + k]));
        }
        __syncwarp();  // the slot has been read by all lanes
        if (lane == 0) fetch(following, p);
      }
    }
    if (row >= dim::M) break;
    m = WarpMax(m);
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < 2 * kC; ++k) {
      v[k] = Exp4(v[k], m);
      s += Sum4(v[k]);
    }
    s = WarpSum(s);
    if (lane < 2) {
      cg::this_cluster().map_shared_rank(&pairs[0][0], lane)[(r & 1) * 32 + rank * 16 + warp] =
          make_float2(m, s);
    }
    if (rank == 0 && warp == 0) {
      claim = __shfl_sync(0xffffffffu, claim, 0);
      if (lane < 2) cg::this_cluster().map_shared_rank(&claimed[0], lane)[r & 1] = claim;
    }
    __syncwarp();
    ClusterArrive();
    ClusterWait();
    before = row;
    row = following;
    following = claimed[r & 1];
    const float2 q = pairs[r & 1][lane];
    const float largest = WarpMax(q.x);
    const float sum = WarpSum(q.y * Ex2((q.x - largest) * kLog2e));
    factor = Ex2((m - largest) * kLog2e) / sum;
  }
  if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
