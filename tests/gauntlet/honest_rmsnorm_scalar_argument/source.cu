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

extern "C" __global__ void rmsnorm(const tensor::x* x, const tensor::weight* weight, tensor::y* y, int n, float eps,
                                   long long stride, double one) {
  const tensor::x* row = x + blockIdx.x * stride;
  float squares = 0;
  for (int j = threadIdx.x; j < n; j += blockDim.x) squares += static_cast<float>(row[j]) * static_cast<float>(row[j]);
  const float scale = static_cast<float>(one) / sqrtf(BlockReduce(squares, false) / n + eps);
  for (int j = threadIdx.x; j < n; j += blockDim.x) {
    y[blockIdx.x * stride + j] =
        static_cast<tensor::y>(static_cast<float>(row[j]) * scale * static_cast<float>(weight[j]));
  }
}
