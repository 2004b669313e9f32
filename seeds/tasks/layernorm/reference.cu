// Layer normalisation in fp64, two passes: one block per row, so block b writes the contiguous
// elements of row b.
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
layernorm_reference(const tensor::x* x, const tensor::gamma* gamma, const tensor::beta* beta,
                    tensor::y* y) {
  __shared__ double partial[256];
  constexpr long long kRow = 1LL * dim::C * dim::H * dim::W;
  const long long start = blockIdx.x * kRow;

  double sum = 0;
  for (long long i = threadIdx.x; i < kRow; i += 256) sum += Wide(x[start + i]);
  const double mean = Sum(partial, sum) / kRow;

  double squares = 0;
  for (long long i = threadIdx.x; i < kRow; i += 256) {
    const double deviation = Wide(x[start + i]) - mean;
    squares += deviation * deviation;
  }
  const double variance = Sum(partial, squares) / kRow;
  const double scale = 1.0 / sqrt(variance + static_cast<double>(scalar::eps));

  for (long long i = threadIdx.x; i < kRow; i += 256) {
    const double normalised = (Wide(x[start + i]) - mean) * scale;
    y[start + i] = static_cast<tensor::y>(normalised * Wide(gamma[i]) +
                                          Wide(beta[i]));
  }
}
