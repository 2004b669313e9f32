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

constexpr int kRow = dim::C * dim::H * dim::W;
constexpr int kParts = (kRow + 1023) / 1024;
__device__ float Sum(const float* parts) {
  float sum = 0;
  for (int p = 0; p < kParts; ++p) sum += parts[p];
  return sum;
}
extern "C" __global__ void means(const float* x, float* parts) {
  const float* row = x + 1LL * blockIdx.y * kRow;
  float sum = 0;
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(kRow, static_cast<int>(blockIdx.x + 1) * 1024); i += 256) sum += row[i];
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) parts[blockIdx.y * 2 * kParts + blockIdx.x] = sum;
}
extern "C" __global__ void deviations(const float* x, float* parts) {
  const float* row = x + 1LL * blockIdx.y * kRow;
  const float mean = Sum(parts + blockIdx.y * 2 * kParts) / kRow;
  float sum = 0;
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(kRow, static_cast<int>(blockIdx.x + 1) * 1024); i += 256) sum += (row[i] - mean) * (row[i] - mean);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) parts[blockIdx.y * 2 * kParts + kParts + blockIdx.x] = sum;
}
extern "C" __global__ void values(const float* x, const float* gamma, const float* beta, const float* parts, float* y) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= kRow) return;
  const float mean = Sum(parts + blockIdx.y * 2 * kParts) / kRow;
  const float variance = Sum(parts + blockIdx.y * 2 * kParts + kParts) / kRow;
  y[1LL * blockIdx.y * kRow + i] = (x[1LL * blockIdx.y * kRow + i] - mean) / sqrtf(variance + scalar::eps) * gamma[i] + beta[i];
}
