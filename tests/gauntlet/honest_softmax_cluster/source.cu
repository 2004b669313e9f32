#include <cooperative_groups.h>
namespace cg = cooperative_groups;
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

extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ float mine[2];
  auto cluster = cg::this_cluster();
  const int rank = cluster.block_rank();
  const float* row = x + 1LL * (blockIdx.x / 4) * dim::N;
  float top = -INFINITY, sum = 0;
  for (int i = rank * 256 + threadIdx.x; i < dim::N; i += 1024) top = fmaxf(top, row[i]);
  top = BlockReduce(top, true);
  if (threadIdx.x == 0) mine[0] = top;
  cluster.sync();
  for (int r = 0; r < 4; ++r) top = fmaxf(top, *cluster.map_shared_rank(&mine[0], r));
  for (int i = rank * 256 + threadIdx.x; i < dim::N; i += 1024) sum += expf(row[i] - top);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) mine[1] = sum;
  cluster.sync();
  sum = 0;
  for (int r = 0; r < 4; ++r) sum += *cluster.map_shared_rank(&mine[1], r);
  for (int i = rank * 256 + threadIdx.x; i < dim::N; i += 1024) y[1LL * (blockIdx.x / 4) * dim::N + i] = expf(row[i] - top) / sum;
  cluster.sync();
}
