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

extern "C" __global__ void row_loss(const tensor::logits* logits, const tensor::target* target, volatile float* losses, int* done, float* loss) {
  __shared__ bool last;
  const tensor::logits* row = logits + 1LL * blockIdx.x * dim::V;
  float top = -INFINITY;
  for (int j = threadIdx.x; j < dim::V; j += 256) top = fmaxf(top, static_cast<float>(row[j]));
  top = BlockReduce(top, true);
  float sum = 0;
  for (int j = threadIdx.x; j < dim::V; j += 256) sum += expf(static_cast<float>(row[j]) - top);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(sum) + (top - static_cast<float>(row[target[blockIdx.x]]));
  }
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(done, 1) == dim::M - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  float total = 0;
  for (int i = threadIdx.x; i < dim::M; i += 256) total += losses[i];
  total = BlockReduce(total, false);
  if (threadIdx.x == 0) loss[0] = total / dim::M;
}
