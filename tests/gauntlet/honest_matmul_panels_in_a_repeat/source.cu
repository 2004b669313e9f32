extern "C" __global__ void panel(const float* a, const float* b, float* sums, int k0) {
  const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = sums[row * dim::N + column];
  for (int k = k0; k < min(k0 + 32, dim::K); ++k) sum += a[row * dim::K + k] * b[k * dim::N + column];
  sums[row * dim::N + column] = sum;
}
extern "C" __global__ void copy(const float* sums, float* c) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < dim::M * dim::N) c[i] = sums[i];
}
