// Cross entropy: one block per row, two passes over it, then one block for the average.
__device__ float BlockSum(float* partial, float value) {
  const int t = threadIdx.x;
  partial[t] = value;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) partial[t] += partial[t + width];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();
  return sum;
}

__device__ float BlockMax(float* partial, float value) {
  const int t = threadIdx.x;
  partial[t] = value;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) partial[t] = fmaxf(partial[t], partial[t + width]);
    __syncthreads();
  }
  const float largest = partial[0];
  __syncthreads();
  return largest;
}

extern "C" __global__ void row_loss(const tensor::logits* logits, const tensor::target* target,
                                    float* losses) {
  __shared__ float partial[256];
  const tensor::logits* row = logits + static_cast<long long>(blockIdx.x) * dim::V;

  float largest = static_cast<float>(row[0]);
  for (int j = threadIdx.x; j < dim::V; j += 256) {
    largest = fmaxf(largest, static_cast<float>(row[j]));
  }
  largest = BlockMax(partial, largest);

  float sum = 0.0f;
  for (int j = threadIdx.x; j < dim::V; j += 256) {
    sum += expf(static_cast<float>(row[j]) - largest);
  }
  sum = BlockSum(partial, sum);

  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(sum) + (largest - static_cast<float>(row[target[blockIdx.x]]));
  }
}

extern "C" __global__ void mean_loss(const float* losses, tensor::loss* loss) {
  __shared__ float partial[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < dim::M; i += 256) sum += losses[i];
  sum = BlockSum(partial, sum);
  if (threadIdx.x == 0) loss[0] = static_cast<tensor::loss>(sum / dim::M);
}
