// Sum of each row of an M x n row-major fp32 matrix, one block of 256 threads a row.
extern "C" __global__ void reduce(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float partial[8];
  const float* row = x + static_cast<long long>(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += row[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (int w = 0; w < 8; ++w) total += partial[w];
    y[blockIdx.x] = total;
  }
}
