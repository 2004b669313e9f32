// Only half of the block reaches the barrier; the other half waits at another one for ever.
extern "C" __global__ void softmax(const float* x, float* y) {
  const float* row = x + static_cast<long long>(blockIdx.x) * dim::N;
  float* out = y + static_cast<long long>(blockIdx.x) * dim::N;
  if (threadIdx.x < 128) {
    asm volatile("bar.sync 1, 256;");
  } else {
    asm volatile("bar.sync 2, 256;");
  }
  for (int i = threadIdx.x; i < dim::N; i += blockDim.x) out[i] = row[i];
}
