// Cross entropy in fp64: the loss of each row by one block, then their average by one block.
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
row_loss_reference(const tensor::logits* logits, const tensor::target* target, double* row_loss) {
  __shared__ double partial[256];
  const tensor::logits* row = logits + static_cast<long long>(blockIdx.x) * dim::V;

  double largest = Wide(row[0]);
  for (int j = threadIdx.x; j < dim::V; j += 256) largest = fmax(largest, Wide(row[j]));
  largest = Reduce(partial, largest, true);

  double sum = 0;
  for (int j = threadIdx.x; j < dim::V; j += 256) sum += exp(Wide(row[j]) - largest);
  sum = Reduce(partial, sum, false);

  if (threadIdx.x == 0) {
    row_loss[blockIdx.x] = log(sum) + (largest - Wide(row[target[blockIdx.x]]));
  }
}

extern "C" __global__ void __launch_bounds__(256)
mean_reference(const double* row_loss, tensor::loss* loss) {
  __shared__ double partial[256];
  double sum = 0;
  for (int i = threadIdx.x; i < dim::M; i += 256) sum += row_loss[i];
  sum = Reduce(partial, sum, false);
  if (threadIdx.x == 0) loss[0] = static_cast<tensor::loss>(sum / dim::M);
}
