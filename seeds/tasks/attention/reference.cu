// Attention in fp64: one block per row of o, so block b writes elements b * D to b * D + D - 1.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

__device__ double Reduce(double* partial, double value, bool maximum) {
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int width = 64; width > 0; width /= 2) {
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

extern "C" __global__ void __launch_bounds__(128)
attention_reference(const tensor::q* q, const tensor::k* k, const tensor::v* v, tensor::o* o) {
  __shared__ double partial[128];
  __shared__ double weights[dim::S];
  const long long query = blockIdx.x;  // over B * H * S
  const long long head = query / dim::S * dim::S * dim::D;

  double largest = -INFINITY;
  for (int j = threadIdx.x; j < dim::S; j += 128) {
    double score = 0;
    for (int d = 0; d < dim::D; ++d) {
      score += Wide(q[query * dim::D + d]) * Wide(k[head + static_cast<long long>(j) * dim::D + d]);
    }
    weights[j] = score / sqrt(static_cast<double>(dim::D));
    largest = fmax(largest, weights[j]);
  }
  largest = Reduce(partial, largest, true);

  double sum = 0;
  for (int j = threadIdx.x; j < dim::S; j += 128) {
    weights[j] = exp(weights[j] - largest);
    sum += weights[j];
  }
  sum = Reduce(partial, sum, false);

  for (int d = threadIdx.x; d < dim::D; d += 128) {
    double value = 0;
    for (int j = 0; j < dim::S; ++j) {
      value += weights[j] * Wide(v[head + static_cast<long long>(j) * dim::D + d]);
    }
    o[query * dim::D + d] = static_cast<tensor::o>(value / sum);
  }
}
