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

extern "C" __global__ void layernorm(const tensor::x* x, const tensor::gamma* gamma,
                                     const tensor::beta* beta, tensor::y* y) {
  __shared__ float partial[256];
  constexpr int kRow = dim::C * dim::H * dim::W;
  const tensor::x* row = x + static_cast<long long>(blockIdx.x) * kRow;
  tensor::y* out = y + static_cast<long long>(blockIdx.x) * kRow;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 256) sum += static_cast<float>(row[i]);
  const float mean = BlockSum(partial, sum) / kRow;

  float squares = 0.0f;
  for (int i = threadIdx.x; i < kRow; i += 256) {
    const float deviation = static_cast<float>(row[i]) - mean;
    squares += deviation * deviation;
  }
  const float variance = BlockSum(partial, squares) / kRow;
  const float scale = 1.0f / sqrtf(variance + scalar::eps);

  for (int i = threadIdx.x; i < kRow; i += 256) {
    const float normalised = (static_cast<float>(row[i]) - mean) * scale;
    out[i] = static_cast<tensor::y>(normalised * static_cast<float>(gamma[i]) +
                                    static_cast<float>(beta[i]));
  }
}
