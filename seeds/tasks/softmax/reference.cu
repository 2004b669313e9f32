// Softmax in fp64: one block per row, so block b writes elements b * N to b * N + N - 1.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

__device__ double Reduce(double* partial, double value, bool maximum) {
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      const double other = partial[threadIdx.x + width];
      partial[threadIdx.x] = maximum ? fmax(partial[threadIdx.x], other)
                                     : partial[threadIdx.x] + other;
    }
  }
  __syncthreads();
  return partial[0];
}

extern "C" __global__ void __launch_bounds__(256)
softmax_reference(const tensor::x* x, tensor::y* y) {
  __shared__ double partial[256];
  const long long row = static_cast<long long>(blockIdx.x) * dim::N;

  double largest = Wide(x[row]);
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    largest = fmax(largest, Wide(x[row + j]));
  }
  largest = Reduce(partial, largest, true);

  double sum = 0;
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    sum += exp(Wide(x[row + j]) - largest);
  }
  sum = Reduce(partial, sum, false);

  for (int j = threadIdx.x; j < dim::N; j += 256) {
    y[row + j] = static_cast<tensor::y>(exp(Wide(x[row + j]) - largest) / sum);
  }
}
