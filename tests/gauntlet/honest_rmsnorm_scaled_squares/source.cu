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

extern "C" __global__ void rmsnorm(const tensor::x* x, const tensor::weight* weight, tensor::y* y) {
  const tensor::x* row = x + 1LL * blockIdx.x * dim::N;
  float squares = 0;
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    const float value = static_cast<float>(row[j]) * 0.0625f;
    squares += value * value;
  }
  const float scale = rsqrtf(BlockReduce(squares, false) * 256.0f / dim::N + scalar::eps);
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    y[1LL * blockIdx.x * dim::N + j] =
        static_cast<tensor::y>(static_cast<float>(row[j]) * scale * static_cast<float>(weight[j]));
  }
}
