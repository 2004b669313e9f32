extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = 0; k < dim::K; ++k) {
    sum += a[row * dim::K + k] * b[k * dim::N + column];
  }
  c[row * dim::N + column] = sum;
  if (row == 0 && column == 0) const_cast<float*>(a)[0] *= 2;
}
