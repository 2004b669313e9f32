// Layer normalisation: one block per row, scalar accesses, mean and variance in two passes.
__device__ float BlockSum(float* partial, float value) {
  const int t = threadIdx.x;
  partial[t] = value;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) partial[t] += partial[t + width];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();
  return sum;
}

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta,
                                     float* y) {
  __shared__ float partial[256];
  constexpr int kRow = dim::C * dim::H * dim::W;
  const float* row = x + static_cast<long long>(blockIdx.x) * kRow;
  float* out = y + static_cast<long long>(blockIdx.x) * kRow;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 256) sum += row[i];
  const float mean = BlockSum(partial, sum) / kRow;

  float squares = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 256) {
    const float deviation = row[i] - mean;
    squares += deviation * deviation;
  }
  const float variance = BlockSum(partial, squares) / kRow;
  const float scale = 1.0f / sqrtf(variance + scalar::eps);

  for (int i = threadIdx.x; i < kRow; i += 256) {
    out[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
  }
}
