// Matrix product: one thread per element of c, everything read from global memory.
extern "C" __global__ void matmul(const tensor::a* a, const tensor::b* b, tensor::c* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0.0f;
  for (int k = 0; k < dim::K; ++k) {
    sum += static_cast<float>(a[static_cast<long long>(row) * dim::K + k]) *
           static_cast<float>(b[static_cast<long long>(k) * dim::N + column]);
  }
  c[static_cast<long long>(row) * dim::N + column] = static_cast<tensor::c>(sum);
}
