// Reads what other threads write to shared memory with no barrier between.
extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ float shared[256];
  const float* row = x + static_cast<long long>(blockIdx.x) * dim::N;
  float* out = y + static_cast<long long>(blockIdx.x) * dim::N;
  float top = -INFINITY;
  for (int i = 0; i < dim::N; ++i) top = fmaxf(top, row[i]);
  float part = 0;
  for (int i = threadIdx.x; i < dim::N; i += blockDim.x) part += expf(row[i] - top);
  shared[threadIdx.x] = part;
  float sum = 0;
  for (int i = 0; i < 256; ++i) sum += shared[i];
  for (int i = threadIdx.x; i < dim::N; i += blockDim.x) out[i] = expf(row[i] - top) / sum;
}
