#include <cooperative_groups.h>

constexpr int kRow = dim::C * dim::H * dim::W;

__device__ __forceinline__ float WarpSum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
template <int W>
__device__ __forceinline__ float BlockSum(float v, float* part) {
  const int lane = threadIdx.x & 31;
  v = WarpSum(v);
  if (lane == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = WarpSum(lane < W ? part[lane] : 0.0f);
  __syncthreads();
  return v;
}

// Any shape: a block per row, scalar accesses, two passes for the statistics.
extern "C" __global__ void __launch_bounds__(512)
layernorm_row(const tensor::x* x, const tensor::gamma* gamma, const tensor::beta* beta, tensor::y* y) {
  __shared__ float part[16];
  const tensor::x* row = x + static_cast<long long>(blockIdx.x) * kRow;
  tensor::y* out = y + static_cast<long long>(blockIdx.x) * kRow;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 512) sum += static_cast<float>(row[i]);
  const float mean = BlockSum<16>(sum, part) / kRow;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 512) {
    const float d = static_cast<float>(row[i]) - mean;
    squares += d * d;
  }
  const float scale = 1.0f / sqrtf(BlockSum<16>(squares, part) / kRow + scalar::eps);
  for (int i = threadIdx.x; i < kRow; i += 512) {
    out[i] = static_cast<tensor::y>((static_cast<float>(row[i]) - mean) * scale *
                                        static_cast<float>(gamma[i]) +
                                    static_cast<float>(beta[i]));
  }
}
__device__ __forceinline__ float Sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ __forceinline__ float Squares4(float4 v, float mean) {
  const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
  return (a * a + b * b) + (c * c + d * d);
}
__device__ __forceinline__ float4 Affine(float4 v, float mean, float scale, float4 g, float4 h) {
  return make_float4(fmaf((v.x - mean) * scale, g.x, h.x), fmaf((v.y - mean) * scale, g.y, h.y),
                     fmaf((v.z - mean) * scale, g.z, h.z), fmaf((v.w - mean) * scale, g.w, h.w));
}
// Merges the (mean, m2) of 32 lanes, n values each.
__device__ __forceinline__ float2 WarpStats(float mean, float m2, float n) {
  const float all = WarpSum(mean) * (1.0f / 32), d = mean - all;
  return make_float2(all, WarpSum(fmaf(n * d, d, m2)));
}

constexpr int kParts = kRow >= 16384 ? kRow / 16384 : 1;

extern "C" __global__ void __launch_bounds__(512, 2)
chunk_stats(const tensor::x* x, float* stats, float* rows, int* counters) {
  asm volatile("griddepcontrol.launch_dependents;");
  __shared__ float2 part[16];
  const int lane = threadIdx.x & 31;
  const int p = blockIdx.x / dim::B, b = blockIdx.x % dim::B;
  const float4* in = reinterpret_cast<const float4*>(x + static_cast<long long>(b) * kRow) + p * 4096 + threadIdx.x;
  float4 v[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] = __ldg(in + k * 512);
  float sum = 0.0f, m2 = 0.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += Sum4(v[k]);
  const float own = WarpSum(sum) * (1.0f / 1024);
#pragma unroll
  for (int k = 0; k < 8; ++k) m2 += Squares4(v[k], own);
  m2 = WarpSum(m2);
  if (lane == 0) part[threadIdx.x >> 5] = make_float2(own, m2);
  __syncthreads();
  if (threadIdx.x >= 32) return;

  const float2 q = part[lane & 15];  // every warp twice
  const float2 all = WarpStats(q.x, q.y, 1024.0f);
  float2* pairs = reinterpret_cast<float2*>(stats) + b * kParts;
  int last = 0;
  if (lane == 0) {
    __stcg(pairs + p, make_float2(all.x, 0.5f * all.y));
    __threadfence();
    last = atomicAdd(counters + b, 1) == kParts - 1;
  }
  if (!__shfl_sync(0xffffffffu, last, 0)) return;
  __threadfence();
  float total = 0.0f, spread = 0.0f;
#pragma unroll 8
  for (int i = lane; i < kParts; i += 32) total += __ldcg(pairs + i).x;
  const float mean = WarpSum(total) / kParts;
#pragma unroll 8
  for (int i = lane; i < kParts; i += 32) {
    const float2 r = __ldcg(pairs + i);
    spread += fmaf(16384.0f * (r.x - mean), r.x - mean, r.y);
  }
  spread = WarpSum(spread);
  if (lane == 0) {
    reinterpret_cast<float2*>(rows)[b] = make_float2(mean, 1.0f / sqrtf(spread / kRow + scalar::eps));
    counters[b] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(256, 4)
normalise(const tensor::x* x, const tensor::gamma* gamma, const tensor::beta* beta, tensor::y* y,
          const float* rows) {
  __shared__ float2 row[dim::B];
  const int column = (gridDim.x - 1 - blockIdx.x) * 512 + threadIdx.x;
  const float4* in = reinterpret_cast<const float4*>(x) + column;
  float4* out = reinterpret_cast<float4*>(y) + column;
  float4 g[2], h[2], v[4][2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    g[k] = __ldcs(reinterpret_cast<const float4*>(gamma) + column + k * 256);
    h[k] = __ldcs(reinterpret_cast<const float4*>(beta) + column + k * 256);
  }
  auto load = [&](int b0) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (b0 - j >= 0) {
        const float4* from = in + static_cast<long long>(b0 - j) * (kRow / 4);
        v[j][0] = __ldcs(from);
        v[j][1] = __ldcs(from + 256);
      }
    }
  };
  load(dim::B - 1);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int b = threadIdx.x; b < dim::B; b += 256) row[b] = __ldcg(reinterpret_cast<const float2*>(rows) + b);
  __syncthreads();
#pragma unroll 1
  for (int b0 = dim::B - 1; b0 >= 0; b0 -= 4) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (b0 - j >= 0) {
        const float2 r = row[b0 - j];
        float4* to = out + static_cast<long long>(b0 - j) * (kRow / 4);
        __stcs(to, Affine(v[j][0], r.x, r.y, g[0], h[0]));
        __stcs(to + 256, Affine(v[j][1], r.x, r.y, g[1], h[1]));
      }
    }
    load(b0 - 4);
  }
}

__device__ __forceinline__ unsigned Shared(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ unsigned long long EvictFirst() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
__device__ __forceinline__ void BarInit(unsigned long long* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(bar)) : "memory");
}
__device__ __forceinline__ void BarFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void BulkLoad(void* to, const void* from, unsigned bytes, unsigned long long* bar,
                                         unsigned long long policy) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(bar)), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          Shared(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(Shared(bar)), "l"(policy)
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

__device__ __forceinline__ unsigned long long EvictLast() {
  unsigned long long p;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
  return p;
}
__device__ __forceinline__ float4 LoadKept(const float4* p, unsigned long long policy) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), "l"(policy));
  return v;
}
// Running sums of a thread's values of a row, shifted by the mean of its first eight.
struct Moments {
  float shift, sum, squares;
  __device__ __forceinline__ void Add(float4 a, float4 b, bool first) {
    if (first) {
      shift = (Sum4(a) + Sum4(b)) * 0.125f;
      sum = squares = 0.0f;
    }
    const float4 c = make_float4(a.x - shift, a.y - shift, a.z - shift, a.w - shift);
    const float4 d = make_float4(b.x - shift, b.y - shift, b.z - shift, b.w - shift);
    sum += Sum4(c) + Sum4(d);
    squares += ((c.x * c.x + c.y * c.y) + (c.z * c.z + c.w * c.w)) +
               ((d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w));
  }
  // (mean, m2) of the warp's 4096 values.
  __device__ __forceinline__ float2 Merge() const {
    return WarpStats(fmaf(sum, 1.0f / 128, shift), fmaxf(fmaf(-sum * (1.0f / 128), sum, squares), 0.0f), 128.0f);
  }
};
constexpr int kBlocks = 128;
constexpr int kSlice = 32768;  // values of a row per block; the variant is for rows of kBlocks * kSlice
// Merges the pairs of 8 warps and publishes them in one 8-byte word, never 0: m2 carries a set sign bit.
__device__ __forceinline__ void Publish(const volatile float2* part, unsigned long long* word) {
  const int lane = threadIdx.x & 31;
  const float2 all = WarpStats(part[lane & 7].x, part[lane & 7].y, 4096.0f);
  if (lane == 0) {
    const unsigned long long w = static_cast<unsigned long long>(__float_as_uint(0.25f * all.y) | 0x80000000u) << 32 |
                                 __float_as_uint(all.x);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(w) : "memory");
  }
}
// A warp waits for the words of all blocks: (mean, scale) of the row.
__device__ __forceinline__ float2 Collect(const unsigned long long* words) {
  unsigned long long w[4];
  bool missing;
  do {
    missing = false;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w[k]) : "l"(words + k * 32 + (threadIdx.x & 31)) : "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) missing |= w[k] == 0;
  } while (__any_sync(0xffffffffu, missing));
  float m[4], m2 = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) m[k] = __uint_as_float(static_cast<unsigned>(w[k]));
  const float mean = WarpSum((m[0] + m[1]) + (m[2] + m[3])) * (1.0f / kBlocks);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float d = m[k] - mean;
    m2 += fmaf(kSlice * d, d, __uint_as_float(static_cast<unsigned>(w[k] >> 32) & 0x7fffffffu));
  }
  m2 = WarpSum(m2);
  return make_float2(mean, 1.0f / sqrtf(m2 / (static_cast<float>(kBlocks) * kSlice) + scalar::eps));
}

constexpr int kSlots = 28, kLag = 23, kChunk = 512, kChunks = 16 * dim::B;  // chunks of 512 float4, 16 per row
constexpr int kParams = 24;  // chunks of gamma (16) and beta (the odd 8) that pass through the ring before x
constexpr int kGroup = 16;                // blocks that share a piece of the row ...
constexpr int kDeal = kGroup * kChunk;    // ... and deal its chunks in turn: a block's next one is 128 KB away

extern "C" __global__ void __launch_bounds__(256, 1)
layernorm_ring(const tensor::x* x, const tensor::gamma* gamma, const tensor::beta* beta, tensor::y* y, float* stats) {
  extern __shared__ __align__(128) float4 ring[];
  __shared__ unsigned long long full[kSlots];
  __shared__ float2 part[8];
  __shared__ float2 result;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int column = (blockIdx.x / kGroup) * (kGroup * (kSlice / 4)) + (blockIdx.x % kGroup) * kChunk;
  const float4* in = reinterpret_cast<const float4*>(x) + column;
  const float4* gs = reinterpret_cast<const float4*>(gamma) + column;
  const float4* hs = reinterpret_cast<const float4*>(beta) + column + tid;
  float4* out = reinterpret_cast<float4*>(y) + column + tid;
  unsigned long long* words = reinterpret_cast<unsigned long long*>(stats);
  const auto grid = cooperative_groups::this_grid();
  const unsigned long long stream = EvictFirst(), keep = EvictLast();
  auto issue = [&](int c, int slot) {
    BulkLoad(ring + slot * kChunk, in + static_cast<long long>(c >> 4) * (kRow / 4) + (c & 15) * kDeal, kChunk * 16,
             full + slot, stream);
  };
  // The parameters come in threes: gamma of chunks 2m and 2m + 1, beta of chunk 2m + 1, in slots 3m to 3m + 2.
  if (tid == 0) {
    for (int i = 0; i < kSlots; ++i) BarInit(full + i);
    BarFence();
#pragma unroll 1
    for (int m = 0; m < 8; ++m) {
      BulkLoad(ring + 3 * m * kChunk, gs + 2 * m * kDeal, kChunk * 16, full + 3 * m, stream);
      BulkLoad(ring + (3 * m + 1) * kChunk, gs + (2 * m + 1) * kDeal, kChunk * 16, full + 3 * m + 1, stream);
      BulkLoad(ring + (3 * m + 2) * kChunk, hs - tid + (2 * m + 1) * kDeal, kChunk * 16, full + 3 * m + 2, stream);
    }
#pragma unroll 1
    for (int c = 0; c < kSlots - kParams && c < kChunks; ++c) issue(c, kParams + c);
  }
  // The block's own words of the rows from 1 on are cleared; all are when the grid's barrier has passed.
  for (int b = tid + 1; b < dim::B; b += 256)
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(words + b * kBlocks + blockIdx.x), "l"(0ull) : "memory");
  float4 g[16][2], held[8][2], h[2][2];  // gamma; beta of the odd chunks; beta of the next two even ones
#pragma unroll
  for (int i = 0; i < 4; ++i) h[i / 2][i % 2] = LoadKept(hs + (i / 2) * 2 * kDeal + (i % 2) * 256, keep);
  __syncthreads();
#pragma unroll
  for (int m = 0; m < 8; ++m) {
#pragma unroll
    for (int n = 0; n < 3; ++n) BarWait(full + 3 * m + n, 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      g[2 * m][i] = ring[3 * m * kChunk + tid + i * 256];
      g[2 * m + 1][i] = ring[(3 * m + 1) * kChunk + tid + i * 256];
      held[m][i] = ring[(3 * m + 2) * kChunk + tid + i * 256];
    }
    __syncthreads();
    if (tid == 0) {
#pragma unroll 1
      for (int n = 3 * m; n < 3 * m + 3; ++n) {
        const int c = n + kSlots - kParams;
        if (c < kChunks) issue(c, n);
      }
    }
  }

  Moments moments;
  int slot = kParams, old = kParams;  // of the chunk that is added, of the chunk that is normalised
  unsigned parity = 0;
  auto add = [&](int k) {
    BarWait(full + slot, parity);
    moments.Add(ring[slot * kChunk + tid], ring[slot * kChunk + tid + 256], k == 0);
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
    if (k == 15) {
      const float2 r = moments.Merge();
      if (lane == 0) part[warp] = r;
    }
  };
#pragma unroll 1
  for (int t = 0; t < 16; ++t) add(t);
  __syncthreads();
  if (warp == 0) Publish(part, words + blockIdx.x);
  auto arrived = grid.barrier_arrive();  // contains a barrier of the block
#pragma unroll 1
  for (int t = 16; t < kLag; ++t) {
    if (t < kChunks) add(t & 15);
  }
  grid.barrier_wait(static_cast<unsigned&&>(arrived));  // row 0 is published by all, and the other rows are cleared
  if (warp == 4) {
    const float2 r = Collect(words);
    if (lane == 0) result = r;
  }
  __syncthreads();

#pragma unroll 1
  for (int b = 0; b < dim::B; ++b) {
    const float2 r = result;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      constexpr int kAhead = kLag - 16;
      const int row = j + kAhead < 16 ? b + 1 : b + 2, k = (j + kAhead) & 15;
      if (row < dim::B) add(k);
      float4 v[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) v[i] = ring[old * kChunk + tid + i * 256];
#pragma unroll
      for (int i = 0; i < 2; ++i) v[i] = Affine(v[i], r.x, r.y, g[j][i], j & 1 ? held[j / 2][i] : h[j / 2 & 1][i]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (j % 2 == 0 && (j < 12 || b + 1 < dim::B)) h[j / 2 & 1][i] = LoadKept(hs + ((j + 4) & 15) * kDeal + i * 256, keep);
        __stcs(out + j * kDeal + i * 256, v[i]);
      }
      if (j == 15 && warp == 4 && b + 1 < dim::B) {
        const float2 next = Collect(words + (b + 1) * kBlocks);
        if (lane == 0) result = next;
      }
      __syncthreads();
      const int refill = b * 16 + j + kSlots;
      if (tid == 0 && refill < kChunks) issue(refill, old);
      if (++old == kSlots) old = 0;
      if (k == 15 && row < dim::B && warp == 0) Publish(part, words + row * kBlocks + blockIdx.x);
    }
    out += kRow / 4;
  }
}
