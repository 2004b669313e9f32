// Softmax: one block per row, three scalar passes over the row, tree reductions in shared memory.
extern "C" __global__ void softmax(const float* x, float* y) {
  __shared__ float partial[128];
  const int t = threadIdx.x;
  const float* row = x + static_cast<long long>(blockIdx.x) * dim::N;
  float* out = y + static_cast<long long>(blockIdx.x) * dim::N;

  float largest = row[0];
  for (int j = t; j < dim::N; j += 128) largest = fmaxf(largest, row[j]);
  partial[t] = largest;
  __syncthreads();
  for (int width = 64; width > 0; width /= 2) {
    if (t < width) partial[t] = fmaxf(partial[t], partial[t + width]);
    __syncthreads();
  }
  largest = partial[0];
  __syncthreads();

  float sum = 0.0f;
  for (int j = t; j < dim::N; j += 128) sum += expf(row[j] - largest);
  partial[t] = sum;
  __syncthreads();
  for (int width = 64; width > 0; width /= 2) {
    if (t < width) partial[t] += partial[t + width];
    __syncthreads();
  }
  sum = partial[0];

  for (int j = t; j < dim::N; j += 128) out[j] = expf(row[j] - largest) / sum;
}
