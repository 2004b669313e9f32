extern "C" __global__ void reduce(const tensor::x* x, tensor::y* y) {
  const int i = blockIdx.x * 8 + threadIdx.y;
  if (i >= dim::M) return;
  float sum = 0;
  for (int j = threadIdx.x; j < dim::N; j += 32) sum += static_cast<float>(x[1LL * i * dim::N + j]);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[i] = static_cast<tensor::y>(sum);
}
