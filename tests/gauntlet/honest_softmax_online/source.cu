struct State {
  float top, sum;
};
__device__ State Merge(State a, State b) {
  const float top = fmaxf(a.top, b.top);
  const float left = a.sum == 0 ? 0 : a.sum * __expf(a.top - top);
  const float right = b.sum == 0 ? 0 : b.sum * __expf(b.top - top);
  return {top, left + right};
}
extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ State parts[8];
  const float* row = x + 1LL * blockIdx.x * dim::N;
  State s{-INFINITY, 0};
  for (int i = threadIdx.x; i < dim::N; i += 256) s = Merge(s, {row[i], 1});
  for (int d = 16; d > 0; d /= 2) {
    s = Merge(s, {__shfl_xor_sync(~0u, s.top, d), __shfl_xor_sync(~0u, s.sum, d)});
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
  __syncthreads();
  s = parts[0];
  for (int w = 1; w < 8; ++w) s = Merge(s, parts[w]);
  const float scale = 1 / s.sum;
  for (int i = threadIdx.x; i < dim::N; i += 256) y[1LL * blockIdx.x * dim::N + i] = expf(row[i] - s.top) * scale;
}
