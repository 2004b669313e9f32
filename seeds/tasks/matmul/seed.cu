// Matrix product: one thread per element of c, everything read from global memory.
extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0.0f;
  for (int k = 0; k < dim::K; ++k) {
    sum += a[static_cast<long long>(row) * dim::K + k] *
           b[static_cast<long long>(k) * dim::N + column];
  }
  c[static_cast<long long>(row) * dim::N + column] = sum;
}
