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

constexpr int kParts = (dim::N + 2047) / 2048;
extern "C" __global__ void part(const tensor::x* x, float* parts) {
  float sum = 0;
  const int begin = blockIdx.x * 2048, end = min(begin + 2048, dim::N);
  for (int j = begin + threadIdx.x; j < end; j += 256) sum += static_cast<float>(x[1LL * blockIdx.y * dim::N + j]);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) parts[blockIdx.y * kParts + blockIdx.x] = sum;
}
extern "C" __global__ void add(const float* parts, tensor::y* y) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= dim::M) return;
  float sum = 0;
  for (int p = 0; p < kParts; ++p) sum += parts[i * kParts + p];
  y[i] = static_cast<tensor::y>(sum);
}
