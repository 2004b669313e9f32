extern "C" __global__ void softmax(const float* x, float* y) {
  const int i = blockIdx.x * 4 + threadIdx.x / 32;
  if (i >= dim::M) return;
  const int lane = threadIdx.x % 32;
  const float* row = x + 1LL * i * dim::N;
  float top = -INFINITY, sum = 0;
  for (int j = lane; j < dim::N; j += 32) top = fmaxf(top, row[j]);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  for (int j = lane; j < dim::N; j += 32) sum += expf(row[j] - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int j = lane; j < dim::N; j += 32) y[1LL * i * dim::N + j] = expf(row[j] - top) / sum;
}
