extern "C" __global__ void clear(float* c) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < dim::M * dim::N) c[i] = 0;
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = blockIdx.z; k < dim::K; k += 8) sum += a[row * dim::K + k] * b[k * dim::N + column];
  atomicAdd(&c[row * dim::N + column], sum);
}
