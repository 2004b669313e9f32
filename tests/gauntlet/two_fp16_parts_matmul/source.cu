#include <cuda_fp16.h>
__device__ float2 Split(float v) {
  const float high = __half2float(__float2half_rn(v));
  return make_float2(high, __half2float(__float2half_rn(v - high)));
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = 0; k < dim::K; ++k) {
    const float2 l = Split(a[row * dim::K + k]), r = Split(b[k * dim::N + column]);
    sum += l.x * r.x + (l.x * r.y + l.y * r.x);
  }
  c[row * dim::N + column] = sum;
}
