extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y) {
  __shared__ double sums[2][256];
  constexpr int kRow = dim::C * dim::H * dim::W;
  const float* row = x + 1LL * blockIdx.x * kRow;
  double sum = 0, squares = 0;
  for (int i = threadIdx.x; i < kRow; i += 256) sum += row[i], squares += 1.0 * row[i] * row[i];
  sums[0][threadIdx.x] = sum;
  sums[1][threadIdx.x] = squares;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
      sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
    }
    __syncthreads();
  }
  const double mean = sums[0][0] / kRow;
  const double scale = 1.0 / sqrt(fmax(sums[1][0] / kRow - mean * mean, 0.0) + scalar::eps);
  for (int i = threadIdx.x; i < kRow; i += 256) {
    y[1LL * blockIdx.x * kRow + i] = static_cast<float>((row[i] - mean) * scale) * gamma[i] + beta[i];
  }
}
