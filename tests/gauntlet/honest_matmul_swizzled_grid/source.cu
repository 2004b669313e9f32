extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  constexpr int kDown = (dim::M + 15) / 16;
  const int tile = gridDim.x - 1 - blockIdx.x;
  const int column = tile / kDown * 16 + threadIdx.x % 16, row = tile % kDown * 16 + threadIdx.x / 16;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = dim::K - 1; k >= 0; --k) sum += a[row * dim::K + k] * b[k * dim::N + column];
  c[row * dim::N + column] = sum;
}
