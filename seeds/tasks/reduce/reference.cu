// Row sums in fp64: one block per row, so block b writes element b.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

__device__ double Sum(double* partial, double value) {
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
  }
  __syncthreads();
  return partial[0];
}

extern "C" __global__ void __launch_bounds__(256)
reduce_reference(const tensor::x* x, tensor::y* y) {
  __shared__ double partial[256];
  const long long row = static_cast<long long>(blockIdx.x) * dim::N;
  double sum = 0;
  for (int j = threadIdx.x; j < dim::N; j += 256) sum += Wide(x[row + j]);
  sum = Sum(partial, sum);
  if (threadIdx.x == 0) y[blockIdx.x] = static_cast<tensor::y>(sum);
}
