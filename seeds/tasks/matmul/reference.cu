// Matrix product in fp64: one thread per element of c in row-major order, so block b writes
// elements 256 * b to 256 * b + 255.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

extern "C" __global__ void __launch_bounds__(256)
matmul_reference(const tensor::a* a, const tensor::b* b, tensor::c* c) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::M * dim::N) return;
  const tensor::a* row = a + element / dim::N * dim::K;
  const tensor::b* column = b + element % dim::N;
  double sum = 0;
  for (int k = 0; k < dim::K; ++k) {
    sum += Wide(row[k]) * Wide(column[1LL * k * dim::N]);
  }
  c[element] = static_cast<tensor::c>(sum);
}
