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

extern "C" __global__ void maxima(const float* x, float* w) {
  float top = -INFINITY;
  for (int i = threadIdx.x; i < dim::N; i += 256) top = fmaxf(top, x[1LL * blockIdx.x * dim::N + i]);
  top = BlockReduce(top, true);
  if (threadIdx.x == 0) w[blockIdx.x] = top;
}
extern "C" __global__ void sums(const float* x, float* w) {
  const float top = w[blockIdx.x];
  float sum = 0;
  for (int i = threadIdx.x; i < dim::N; i += 256) sum += expf(x[1LL * blockIdx.x * dim::N + i] - top);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) w[dim::M + blockIdx.x] = sum;
}
extern "C" __global__ void divide(const float* x, const float* w, float* y) {
  for (int i = threadIdx.x; i < dim::N; i += 256) {
    const long long at = 1LL * blockIdx.x * dim::N + i;
    y[at] = expf(x[at] - w[blockIdx.x]) / w[dim::M + blockIdx.x];
  }
}
