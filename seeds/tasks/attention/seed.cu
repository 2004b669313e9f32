// Attention: one block per row of o, its scores in shared memory, everything else from global.
__device__ float Reduce(float* partial, float value, bool maximum) {
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int width = 64; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      const float other = partial[threadIdx.x + width];
      partial[threadIdx.x] = maximum ? fmaxf(partial[threadIdx.x], other)
                                     : partial[threadIdx.x] + other;
    }
  }
  __syncthreads();
  return partial[0];
}

extern "C" __global__ void attention(const tensor::q* q, const tensor::k* k, const tensor::v* v,
                              tensor::o* o) {
  __shared__ float partial[128];
  __shared__ float weights[dim::S];
  const long long query = blockIdx.x;  // over B * H * S
  const long long head = query / dim::S * dim::S * dim::D;

  float largest = -INFINITY;
  for (int j = threadIdx.x; j < dim::S; j += 128) {
    float score = 0.0f;
    for (int d = 0; d < dim::D; ++d) {
      score += static_cast<float>(q[query * dim::D + d]) *
               static_cast<float>(k[head + static_cast<long long>(j) * dim::D + d]);
    }
    weights[j] = score * rsqrtf(static_cast<float>(dim::D));
    largest = fmaxf(largest, weights[j]);
  }
  largest = Reduce(partial, largest, true);

  float sum = 0.0f;
  for (int j = threadIdx.x; j < dim::S; j += 128) {
    weights[j] = expf(weights[j] - largest);
    sum += weights[j];
  }
  sum = Reduce(partial, sum, false);

  for (int d = threadIdx.x; d < dim::D; d += 128) {
    float value = 0.0f;
    for (int j = 0; j < dim::S; ++j) {
      value += weights[j] * static_cast<float>(v[head + static_cast<long long>(j) * dim::D + d]);
    }
    o[query * dim::D + d] = static_cast<tensor::o>(value / sum);
  }
}
