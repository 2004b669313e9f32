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

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y) {
  __shared__ float stage[2][224];
  constexpr int kRow = dim::C * dim::H * dim::W;
  constexpr int kSteps = (kRow + 223) / 224;
  const float* row = x + 1LL * blockIdx.x * kRow;
  float sum = 0;
  if (threadIdx.x < 32) {
    for (int s = 0; s < kSteps; ++s) {
      if (s >= 2) asm volatile("bar.sync %0, 256;" ::"r"(3 + s % 2) : "memory");
      for (int i = threadIdx.x; i < 224; i += 32) stage[s % 2][i] = s * 224 + i < kRow ? row[s * 224 + i] : 0;
      asm volatile("bar.arrive %0, 256;" ::"r"(1 + s % 2) : "memory");
    }
  } else {
    for (int s = 0; s < kSteps; ++s) {
      asm volatile("bar.sync %0, 256;" ::"r"(1 + s % 2) : "memory");
      sum += stage[s % 2][threadIdx.x - 32];
      if (s + 2 < kSteps) asm volatile("bar.arrive %0, 256;" ::"r"(3 + s % 2) : "memory");
    }
  }
  const float mean = BlockReduce(sum, false) / kRow;
  float squares = 0;
  for (int i = threadIdx.x; i < kRow; i += 256) squares += (row[i] - mean) * (row[i] - mean);
  const float scale = 1.0f / sqrtf(BlockReduce(squares, false) / kRow + scalar::eps);
  for (int i = threadIdx.x; i < kRow; i += 256) y[1LL * blockIdx.x * kRow + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
}
