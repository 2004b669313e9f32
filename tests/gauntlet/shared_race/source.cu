extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ float shared[256];
  const float* row = x + 1LL * blockIdx.x * dim::N;
  float top = -INFINITY;
  for (int i = 0; i < dim::N; ++i) top = fmaxf(top, row[i]);
  float part = 0;
  for (int i = threadIdx.x; i < dim::N; i += 256) part += expf(row[i] - top);
  shared[threadIdx.x] = part;
  float sum = 0;
  for (int i = 0; i < 256; ++i) sum += shared[i];
  for (int i = threadIdx.x; i < dim::N; i += 256) y[1LL * blockIdx.x * dim::N + i] = expf(row[i] - top) / sum;
}
