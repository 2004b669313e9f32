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

extern "C" __global__ void softmax(const float* x, float* y) {
  const float* row = x + 1LL * blockIdx.x * dim::N;
  float* out = y + 1LL * blockIdx.x * dim::N;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < dim::N; i += 256) top = fmaxf(top, row[i]);
  top = BlockReduce(top, true);
  float sum = 0;
  for (int i = threadIdx.x; i < dim::N; i += 256) sum += expf(row[i] - top);
  sum = BlockReduce(sum, false);
  const int head = (4 - static_cast<int>(reinterpret_cast<unsigned long long>(row) / 4 % 4)) % 4;
  const int begin = head < dim::N ? head : dim::N;
  const int vectors = (dim::N - begin) / 4;
  for (int i = threadIdx.x; i < begin; i += 256) out[i] = expf(row[i] - top) / sum;
  for (int v = threadIdx.x; v < vectors; v += 256) {
    float4 value = *reinterpret_cast<const float4*>(row + begin + 4 * v);
    value.x = expf(value.x - top) / sum;
    value.y = expf(value.y - top) / sum;
    value.z = expf(value.z - top) / sum;
    value.w = expf(value.w - top) / sum;
    *reinterpret_cast<float4*>(out + begin + 4 * v) = value;
  }
  for (int i = begin + 4 * vectors + threadIdx.x; i < dim::N; i += 256) out[i] = expf(row[i] - top) / sum;
}
