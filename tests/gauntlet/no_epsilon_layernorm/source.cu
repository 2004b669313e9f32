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
  constexpr int kRow = dim::C * dim::H * dim::W;
  const float* row = x + 1LL * blockIdx.x * kRow;
  float* out = y + 1LL * blockIdx.x * kRow;
  float sum = 0;
  for (int i = threadIdx.x; i < kRow; i += 256) sum += row[i];
  const float mean = BlockReduce(sum, false) / kRow;
  float squares = 0;
  for (int i = threadIdx.x; i < kRow; i += 256) squares += (row[i] - mean) * (row[i] - mean);
  const float variance = BlockReduce(squares, false) / kRow;
  const float scale = 1.0f / sqrtf(variance);
  for (int i = threadIdx.x; i < kRow; i += 256) {
    out[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
  }
}
