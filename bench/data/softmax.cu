// Softmax of each row of an M x n row-major fp32 matrix in three passes, one block a row.
extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float partial[8];
  const long long offset = static_cast<long long>(blockIdx.x) * n;
  float high = -3.402823466e38f;
  for (int i = threadIdx.x; i < n; i += 256) high = fmaxf(high, x[offset + i]);
  for (int d = 16; d > 0; d /= 2) high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, d));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = high;
  __syncthreads();
  for (int w = 0; w < 8; ++w) high = fmaxf(high, partial[w]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += __expf(x[offset + i] - high);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < 8; ++w) total += partial[w];
  const float scale = 1 / total;
  for (int i = threadIdx.x; i < n; i += 256) y[offset + i] = __expf(x[offset + i] - high) * scale;
}
