#include <cuda.h>
__device__ float BlockReduce(float value, bool maximum) {
  __shared__ float shared[256];
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float other = shared[threadIdx.x + half];
      shared[threadIdx.x] = maximum ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
    }
    __syncthreads();
  }
  return shared[0];
}

extern "C" __global__ void softmax_tma(const __grid_constant__ CUtensorMap map, float* y) {
  extern __shared__ __align__(128) float kept[];
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(dim::N * 4));
    for (int j = 0; j < dim::N; j += 128) {
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(kept + j));
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
          "l"(&map), "r"(j), "r"(static_cast<int>(blockIdx.x)), "r"(barrier)
          : "memory");
    }
  }
  __syncthreads();
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
  }
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < dim::N; i += 256) top = fmaxf(top, kept[i]);
  top = BlockReduce(top, true);
  for (int i = threadIdx.x; i < dim::N; i += 256) sum += expf(kept[i] - top);
  sum = BlockReduce(sum, false);
  for (int i = threadIdx.x; i < dim::N; i += 256) y[1LL * blockIdx.x * dim::N + i] = expf(kept[i] - top) / sum;
}

extern "C" __global__ void softmax(const float* x, float* y) {
  const float* row = x + 1LL * blockIdx.x * dim::N;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < dim::N; i += 256) top = fmaxf(top, row[i]);
  top = BlockReduce(top, true);
  for (int i = threadIdx.x; i < dim::N; i += 256) sum += expf(row[i] - top);
  sum = BlockReduce(sum, false);
  for (int i = threadIdx.x; i < dim::N; i += 256) y[1LL * blockIdx.x * dim::N + i] = expf(row[i] - top) / sum;
}
