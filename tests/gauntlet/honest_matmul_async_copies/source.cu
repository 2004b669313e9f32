#include <cuda_pipeline.h>
extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  __shared__ float left[2][16][16], right[2][16][16];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  constexpr int kSteps = (dim::K + 15) / 16;
  const auto load = [&](int step) {
    const int k = step * 16, slot = step % 2;
    if (row < dim::M && k + tx < dim::K) {
      __pipeline_memcpy_async(&left[slot][ty][tx], &a[row * dim::K + k + tx], 4);
    } else {
      left[slot][ty][tx] = 0;
    }
    if (column < dim::N && k + ty < dim::K) {
      __pipeline_memcpy_async(&right[slot][ty][tx], &b[(k + ty) * dim::N + column], 4);
    } else {
      right[slot][ty][tx] = 0;
    }
    __pipeline_commit();
  };
  float sum = 0;
  load(0);
  for (int step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) load(step + 1);
    __pipeline_wait_prior(step + 1 < kSteps ? 1 : 0);
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += left[step % 2][ty][i] * right[step % 2][i][tx];
    __syncthreads();
  }
  if (row < dim::M && column < dim::N) c[row * dim::N + column] = sum;
}
