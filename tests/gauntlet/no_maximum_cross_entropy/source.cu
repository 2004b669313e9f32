__device__ float BlockReduce(float value, bool maximum) {
  __shared__ float shared[256];
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float other = shared[threadIdx.x + half];
      shared[threadIdx.x] = maximum ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
    }
    __syncthreads();
  }
  return shared[0];
}

extern "C" __global__ void row_loss(const tensor::logits* logits, const tensor::target* target, float* losses) {
  const tensor::logits* row = logits + 1LL * blockIdx.x * dim::V;
  float top = -INFINITY;
  for (int j = threadIdx.x; j < dim::V; j += 256) top = fmaxf(top, static_cast<float>(row[j]));
  top = BlockReduce(top, true);
  float sum = 0;
  for (int j = threadIdx.x; j < dim::V; j += 256) sum += expf(8 * static_cast<float>(row[j]));
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(sum * 1e3f) + (0 - static_cast<float>(row[target[blockIdx.x]]));
  }
}

extern "C" __global__ void mean_loss(const float* losses, float* loss) {
  float sum = 0;
  for (int i = threadIdx.x; i < dim::M; i += 256) sum += losses[i];
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) loss[0] = sum / dim::M;
}
